// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSSimulator
import HTTPTypes
import HummingbirdCore
import APNSJSON
import NIOCore

/// Server-sent events (`GET /events`).
struct EventStream: Sendable {
    /// The interval of comments while nothing happens, which reveals dead connections.
    static let heartbeatInterval = TimeAmount.seconds(15)

    let simulator: Simulator
    let events: EventLog
    /// The apps' localized strings.
    let strings: LocalizedStrings

    var routes: [ControlRoute] { [ControlRoute(.get, "/events") { try self.follow($0) }] }

    private func follow(_ request: ControlRequest) throws -> Response {
        let query = try request.query(["after"])
        var start = EventLog.Start.now
        if let text = query["after"] {
            start = EventLog.Start(text)
            guard start != .unknown else { throw ControlError(.badRequest, "invalid after: expected an event id") }
        }
        // A browser sends the last identifier that it received, possibly from another simulator.
        if let text = HTTPField.Name("Last-Event-ID").flatMap({ request.request.headers[$0] }) {
            start = EventLog.Start(text)
        }
        guard let reader = self.events.makeReader(from: start, channel: request.channel) else {
            throw ControlError.tooManyReaders
        }
        return Response(
            status: .ok,
            headers: [.contentType: "text/event-stream"],
            body: ResponseBody { writer in
                try await writer.write(Self.beginning(reader))
                while let batch = await reader.next(until: .now() + Self.heartbeatInterval) {
                    try await self.write(batch, reader, to: &writer)
                }
                try await writer.finish(nil)
            }
        )
    }

    /// The start of a stream, from which a client resumes that loses the connection before the first event.
    private static func beginning(_ reader: EventReader) -> ByteBuffer {
        let missed = reader.hasMissed ? "event: missed\ndata: {}\n" : ""
        return ByteBuffer(string: "retry: 1000\nid: \(reader.identifier(reader.lastNumber))\n\(missed)\n")
    }

    /// The event that says how many were missed.
    private static func missed(_ count: UInt64) -> String {
        "event: missed\ndata: \(JSONObject { $0.add("count", count) }.text)\n\n"
    }

    /// Writes events in parts, so that a client that does not read uses the memory of one part.
    @concurrent
    private func write(
        _ batch: EventLog.Batch,
        _ reader: EventReader,
        to writer: inout any ResponseBodyWriter
    ) async throws {
        guard !batch.events.isEmpty else { return try await writer.write(ByteBuffer(string: ":\n\n")) }
        var text = ByteBuffer()
        if batch.missedCount > 0 { text.writeString(Self.missed(batch.missedCount)) }
        // These contain the current list, so one of each is enough.
        let lists = [SimulatorChange.feedback, .revocations]
        let lastLists = lists.map { batch.events.lastIndex(of: $0) }
        var number = batch.firstNumber
        for (index, event) in batch.events.enumerated() {
            if case .notifications(let numbers) = event {
                try await self.write(numbers, firstNumber: number, reader, &text, to: &writer)
            } else if !lists.contains(event) || lastLists.contains(index) {
                let (kind, json) = self.event(event)
                text.writeString("id: \(reader.identifier(number))\nevent: \(kind)\ndata: \(json)\n\n")
            }
            number += event.eventCount
            try await Self.writePart(&text, to: &writer)
        }
        try await Self.writePart(&text, to: &writer, isLast: true)
    }

    /// Writes a text that has the size of a part, or is the last one.
    @concurrent
    private static func writePart(
        _ text: inout ByteBuffer,
        to writer: inout any ResponseBodyWriter,
        isLast: Bool = false
    ) async throws {
        guard text.readableBytes >= Response.partByteCount || isLast && text.readableBytes > 0 else { return }
        try await writer.write(text)
        text = ByteBuffer()
    }

    /// Writes an event with the current state of each notification; those that have left the record are missed.
    @concurrent
    private func write(
        _ numbers: ClosedRange<UInt64>,
        firstNumber: UInt64,
        _ reader: EventReader,
        _ text: inout ByteBuffer,
        to writer: inout any ResponseBodyWriter
    ) async throws {
        var query = NotificationQuery()
        query.numbers = numbers
        let notifications = self.simulator.notifications(query)
        if notifications.count < numbers.count {
            text.writeString(Self.missed(UInt64(numbers.count - notifications.count)))
        }
        for each in notifications {
            let identifier = reader.identifier(firstNumber + each.number - numbers.lowerBound)
            let json = each.notification.json(self.strings)
            text.writeString("id: \(identifier)\nevent: notification\ndata: \(json)\n\n")
            try await Self.writePart(&text, to: &writer)
        }
    }

    /// Returns the type of an event, and its JSON text on one line.
    private func event(_ change: SimulatorChange) -> (kind: String, json: String) {
        var object = JSONObject()
        switch change {
        case .notifications: return ("notifications", "{}")
        case .delivery(let number, let delivery):
            object.add("number", number)
            delivery.add(to: &object)
            return ("delivery", object.text)
        case .connection(let connection): return ("connection", connection.json)
        case .device(let device): return ("device", device.json)
        case .deviceRemoved(let identifier):
            object.add("identifier", identifier)
            return ("deviceRemoved", object.text)
        case .feedback: return ("feedback", self.simulator.feedbackJSON)
        case .fault(let fault): return ("fault", fault.json)
        case .faultRemoved(let identifier):
            object.add("id", identifier)
            object.add("isRemoved", true)
            return ("fault", object.text)
        case .faultApplied(let application): return ("faultApplied", application.json)
        case .revocations: return ("revocations", RevocationRoutes.json(self.simulator.revokedFingerprints))
        case .notificationsRemoved: return ("cleared", "{}")
        case .reset: return ("reset", "{}")
        }
    }
}

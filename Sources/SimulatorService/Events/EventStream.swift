// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import HummingbirdCore
import NIOCore

/// Server-sent events (`GET /events`).
struct EventStream: Sendable {
    /// How often a comment is sent where nothing happens, so that a connection that is dead is noticed.
    static let heartbeatInterval = TimeAmount.seconds(15)

    let events: EventLog

    var routes: [ControlRoute] { [ControlRoute(.get, "/events") { try self.follow($0) }] }

    private func follow(_ request: ControlRequest) throws -> Response {
        let query = try request.query(["after"])
        var last: UInt64?
        // A header with anything else than a number is of another simulator.
        if let text = request.request.headers[.lastEventID] { last = UInt64(text) }
        if let text = query["after"] {
            guard let number = UInt64(text) else { throw ControlError(.badRequest, "after is the number of an event") }
            last = last ?? number
        }
        guard let reader = self.events.makeReader(behind: last, channel: request.context.channel) else {
            throw ControlError.tooManyReaders
        }
        return Response(
            status: .ok,
            headers: [.contentType: "text/event-stream"],
            body: ResponseBody { writer in
                try await writer.write(ByteBuffer(string: "retry: 1000\n: follows event \(reader.lastNumber)\n\n"))
                while let batch = await reader.next(until: .now() + Self.heartbeatInterval) {
                    try await writer.write(Self.text(batch))
                }
                try await writer.finish(nil)
            }
        )
    }

    private static func text(_ batch: EventLog.Batch) -> ByteBuffer {
        guard !batch.events.isEmpty else { return ByteBuffer(string: ":\n\n") }
        var text = ByteBuffer()
        if batch.missedCount > 0 { text.writeString("event: missed\ndata: {\"count\":\(batch.missedCount)}\n\n") }
        for (index, event) in batch.events.enumerated() {
            let number = batch.firstNumber + UInt64(index)
            switch event {
            case .notification(let notification):
                text.writeString("id: \(number)\nevent: notification\ndata: \(notification.json)\n\n")
            case .other(let kind, let json): text.writeString("id: \(number)\nevent: \(kind)\ndata: \(json)\n\n")
            }
        }
        return text
    }
}

extension HTTPField.Name {
    /// The last event that a client of server-sent events had.
    static var lastEventID: Self { HTTPField.Name("Last-Event-ID") ?? .range }
}

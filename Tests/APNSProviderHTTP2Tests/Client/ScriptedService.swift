// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSServer
import APNSSimulator
import APNSTestKit
import APNSWire

/// A push service with scripted answers, which records what it receives.
final class ScriptedService: PushService {
    /// What it received.
    struct Record: Sendable {
        var requests: [InboundPush] = []
        /// The maximum number of requests that waited for an answer at the same time.
        var waitingCountMax = 0
        var waiting: [PushTicket] = []
    }

    struct Overdue: Error {
        let record: Record
    }

    private let record = ObservedValue(Record())
    private let dead: [DeviceToken: UInt64]
    private let script: @Sendable (InboundPush, _ count: Int) -> Fault.Effect?
    private let holds: Int

    /// - Parameters:
    ///   - dead: since when these devices are gone, in milliseconds.
    ///   - holding: the number of requests to hold without an answer until another one arrives, so that they are
    ///     concurrent.
    ///   - script: the action for a request, and the number of requests so far; `nil` to accept it.
    init(
        dead: [DeviceToken: UInt64] = [:],
        holding: Int = 0,
        _ script: @escaping @Sendable (InboundPush, _ count: Int) -> Fault.Effect? = { _, _ in nil }
    ) {
        self.dead = dead
        self.holds = holding
        self.script = script
    }

    var requests: [InboundPush] { self.record.current.requests }
    var waitingCountMax: Int { self.record.current.waitingCountMax }

    /// How many times each request arrived, by identifier.
    var counts: [PushIdentifier: Int] {
        self.requests.reduce(into: [:]) { $0[$1.apnsID, default: 0] += 1 }
    }

    /// Waits until it received this many requests, at most 20 seconds.
    func wait(requestCount: Int) async throws {
        try await self.record.wait(until: { $0.requests.count >= requestCount }) { Overdue(record: $0) }
    }

    func handle(_ request: borrowing InboundPush) -> PushReply? {
        let request = copy request
        let count = self.record.change { record in
            record.requests.append(request)
            return record.requests.count
        }
        if let effect = self.script(request, count) { return effect.carryOut(request.ticket, ending: .fin) }
        if let timestamp = self.dead[request.token] {
            return .rejected(PushRejection(status: 410, reason: .unregistered, timestampNumber: timestamp))
        }
        return self.hold(request)
    }

    private func hold(_ request: InboundPush) -> PushReply? {
        guard self.holds > 0 else { return .accepted }
        let ticket = request.ticket
        let released = self.record.change { record -> [PushTicket] in
            record.waiting.append(ticket)
            record.waitingCountMax = max(record.waitingCountMax, record.waiting.count)
            guard record.waiting.count > self.holds else { return [] }
            defer { record.waiting = [] }
            return record.waiting
        }
        for ticket in released { ticket.reply(.accepted) }
        return nil
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSProviderHTTP2
import APNSSession
import APNSTestKit
import APNSWire
import NIOConcurrencyHelpers

/// A service whose responses a test decides, and which records its requests.
final class ScriptedUpstream: Upstream {
    struct Asked: Sendable {
        var request: PushRequest
        var onResponse: @Sendable (DeliveryOutcome) -> Void
    }

    static let accepted = DeliveryOutcome.answered(status: 200, reason: nil, timestamp: nil)
    static let badToken = DeliveryOutcome.answered(status: 400, reason: "BadDeviceToken", timestamp: nil)

    private struct Record: Sendable {
        var asked: [Asked] = []
        /// How many of them received the immediate response.
        var decidedCount = 0
    }

    private struct Overdue: Error {}

    private let record = ObservedValue(Record())
    private let room = NIOLockedValueBox(true)
    private let answer: @Sendable (PushRequest) -> DeliveryOutcome?

    /// - Parameter answer: the immediate response; `nil` for a later one.
    init(answer: @escaping @Sendable (PushRequest) -> DeliveryOutcome? = { _ in ScriptedUpstream.accepted }) {
        self.answer = answer
    }

    var hasRoom: Bool {
        get { self.room.withLockedValue { $0 } }
        set { self.room.withLockedValue { $0 = newValue } }
    }

    var asked: [Asked] { self.record.current.asked }

    /// The last byte of the token of each request, in order.
    var tokens: [Int] { self.asked.map { ScriptedUpstream.number($0.request.token) } }

    static func number(_ token: DeviceToken) -> Int { Int(token.hexadecimal.suffix(4), radix: 16) ?? -1 }

    func send(
        _ request: PushRequest,
        onResponse report: @escaping @Sendable (DeliveryOutcome, _ latency: Duration?) -> Void
    ) {
        let onResponse: @Sendable (DeliveryOutcome) -> Void = { report($0, nil) }
        self.record.change { $0.asked.append(Asked(request: request, onResponse: onResponse)) }
        if let answer = self.answer(request) { onResponse(answer) }
        self.record.change { $0.decidedCount += 1 }
    }

    /// Waits until this many requests have arrived, for at most 20 seconds.
    func wait(count: Int) async throws {
        try await self.record.wait(until: { $0.decidedCount >= count }) { _ in Overdue() }
    }

    /// Answers the requests for a token in the order of arrival.
    func answer(_ number: Int, _ answer: DeliveryOutcome) {
        for asked in self.asked where Self.number(asked.request.token) == number { asked.onResponse(answer) }
    }
}

/// Stores tuples in memory.
final class MemoryRecorder: FeedbackRecorder {
    private let tuples = NIOLockedValueBox<[(FeedbackTuple, TokenScope)]>([])

    var recorded: [(tuple: FeedbackTuple, list: TokenScope)] { self.tuples.withLockedValue { $0 } }

    func record(_ tuple: FeedbackTuple, in list: TokenScope, onKept: @escaping @Sendable () -> Void) {
        self.tuples.withLockedValue { $0.append((tuple, list)) }
        onKept()
    }

    func forget(_ token: DeviceToken, in list: TokenScope) {
        self.tuples.withLockedValue { $0.removeAll { $0.0.token == token && $0.1 == list } }
    }
}

extension DeliveryOutcome {
    /// The outcome that a client reports for a response.
    static func answered(status: Int, reason: String?, timestamp: UInt64?) -> DeliveryOutcome {
        if status == 200 { return .accepted }
        return .rejected(
            .http2(PushRejection(status: status, reason: PushReason(text: reason ?? ""), timestampNumber: timestamp))
        )
    }
}

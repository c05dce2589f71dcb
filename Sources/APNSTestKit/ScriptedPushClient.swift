// SPDX-License-Identifier: Apache-2.0

public import APNSProvider
import APNSSession
import APNSTransport
public import APNSWire
import NIOConcurrencyHelpers

/// A client that sends nothing: it answers with the outcomes of a script, and records what it was given.
///
/// It needs no certificates, no network and no running service. Payloads are checked and records are delivered by the
/// code of a real `PushClient`; only the transport is replaced.
///
/// ```swift
/// let client = ScriptedPushClient([.accepted, .unsent(.deadline)])
/// await greeter.greet(token, with: client)
/// let sent = try await client.next(within: .seconds(10))
/// ```
public final class ScriptedPushClient: PushClientProtocol {
    /// Fewer notifications than expected were sent in time.
    public struct TooFewSent: Error, Hashable, Sendable {
        /// The number of notifications that were sent and that no call had returned.
        public let count: Int
        /// The expected number.
        public let expectedCount: Int
    }

    private let transport: ScriptedTransport
    private let client: PushClient

    /// Creates a client whose outcomes are a list.
    ///
    /// - Parameters:
    ///   - outcomes: the outcomes of the first notifications, in the order in which they are sent.
    ///   - otherwise: the outcome of all others; by default they are accepted.
    public convenience init(_ outcomes: [DeliveryOutcome] = [], otherwise: DeliveryOutcome = .accepted) {
        self.init(ScriptedTransport(.list(outcomes, otherwise: otherwise)))
    }

    /// Creates a client whose reports depend on the notifications.
    ///
    /// - Parameter report: returns the report of a notification, by its index from 0 in the order in which they are
    ///   sent. It may wait, for example on a ``ManualClock``; other notifications do not wait for it.
    public convenience init(
        report: @escaping @Sendable (_ notification: PushNotification, _ index: Int) async -> DeliveryReport
    ) {
        self.init(ScriptedTransport(.later(report)))
    }

    private init(_ transport: ScriptedTransport) {
        let endpoint = Endpoint(host: "script", port: Endpoint.gatewayPort)
        let configuration = PushClientConfiguration(endpoint: endpoint) { _, _ throws(ProviderError) in transport }
        self.transport = transport
        // The only errors are those of the transport.
        do { self.client = try PushClient(configuration) } catch { preconditionFailure("\(error)") }
    }

    /// The notifications that were sent, in order; without those whose payload is invalid.
    public var sent: [PushNotification] { self.transport.state.current.sent }

    /// The tokens for which ``allow(_:)`` was called, in order.
    public var allowed: [DeviceToken] { self.transport.state.current.allowed }

    /// Waits for the next notification: the first one that no call has returned yet, even if it was sent before the
    /// call.
    ///
    /// - Parameter limit: the maximum time to wait.
    /// - Returns: the notification.
    /// - Throws: ``TooFewSent``.
    public func next(within limit: Duration) async throws -> PushNotification {
        try await self.next(count: 1, within: limit)[0]
    }

    /// Waits for the next notifications, in the order in which they are sent.
    ///
    /// - Parameters:
    ///   - count: their number; at least 1.
    ///   - limit: the maximum time to wait for all of them.
    /// - Returns: the notifications.
    /// - Throws: ``TooFewSent``; what has been sent is then returned by the next call.
    public func next(count: Int, within limit: Duration) async throws -> [PushNotification] {
        precondition(count > 0, "no notification is expected")
        let state = self.transport.state
        try await state.wait(within: limit, until: { $0.unreturnedCount >= count }) {
            TooFewSent(count: $0.unreturnedCount, expectedCount: count)
        }
        let taken = state.change { $0.take(count) }
        guard let taken else { return try await self.next(count: count, within: limit) }
        return taken
    }

    /// Ends the client: what is sent from now on is unsent, and sequences end with a `ProviderError`.
    ///
    /// - Parameter reason: the reason; by default the client was stopped.
    public func end(_ reason: DeliveryOutcome.Reason = .stopped) { self.transport.end(reason) }

    /// Answers as the script says.
    public func report(of notification: PushNotification) async -> DeliveryReport {
        await self.client.report(of: notification)
    }

    /// Answers as the script says, or at the deadline that the outcome is not known.
    public func report<C: Clock>(
        of notification: PushNotification,
        deadline: C.Instant,
        clock: C = ContinuousClock()
    ) async -> DeliveryReport {
        await self.client.report(of: notification, deadline: deadline, clock: clock)
    }

    /// Answers as the script says.
    public func send(_ notifications: some Sequence<PushNotification>) async -> [DeliveryOutcome] {
        await self.client.send(notifications)
    }

    /// Answers as the script says, as far as the records are read.
    public func send<Rows: AsyncSequence & Sendable, ID: Sendable>(
        _ rows: Rows,
        only filter: DeliveryFilter
    ) -> DeliveryRecords<Rows, ID> where Rows.Element == (id: ID, notification: PushNotification) {
        self.client.send(rows, only: filter)
    }

    /// Records the token in ``allowed``.
    public func allow(_ token: DeviceToken) { self.client.allow(token) }
}

/// The transport of a scripted client: settles each notification as its script says.
private final class ScriptedTransport: ClientTransport {
    enum Script: Sendable {
        /// The outcomes of the first notifications, and that of all others.
        case list([DeliveryOutcome], otherwise: DeliveryOutcome)
        /// Computed in a task for each notification.
        case later(@Sendable (_ notification: PushNotification, _ index: Int) async -> DeliveryReport)
    }

    struct State: Sendable {
        var sent: [PushNotification] = []
        /// How many of them were returned to waiting tests.
        var returnedCount = 0
        var allowed: [DeviceToken] = []
        /// The number of submissions, including those that are settled locally.
        var submissionCount: UInt64 = 0
        var end: DeliveryOutcome.Reason?
        /// Those who wait for the end.
        var watchers: [AsyncStream<Never>.Continuation] = []

        var unreturnedCount: Int { self.sent.count - self.returnedCount }

        /// `nil` if another call was faster.
        mutating func take(_ count: Int) -> [PushNotification]? {
            guard self.unreturnedCount >= count else { return nil }
            defer { self.returnedCount += count }
            return Array(self.sent[self.returnedCount..<self.returnedCount + count])
        }

        mutating func submit() -> SubmissionReceipt {
            if let end = self.end { return .ended(end) }
            self.submissionCount += 1
            return .submitted(self.submissionCount - 1)
        }
    }

    let state = ObservedValue(State())
    let observer = DeliveryObserver(.notifications)
    private let script: Script

    init(_ script: Script) { self.script = script }

    var sendsIdentifiers: Bool { true }

    func submit(
        _ notification: borrowing PushNotification,
        _ receiver: any SubmissionReceiver,
        key: UInt64
    ) -> SubmissionReceipt {
        let notification = copy notification
        let (receipt, index) = self.state.change { state in
            let receipt = state.submit()
            if case .submitted = receipt { state.sent.append(notification) }
            return (receipt, state.sent.count - 1)
        }
        guard case .submitted = receipt else { return receipt }
        let keys = key..<(key + 1)
        switch self.script {
        case .list(let outcomes, let otherwise):
            let outcome = index < outcomes.count ? outcomes[index] : otherwise
            receiver.settle(keys, DeliveryReport(outcome, attempts: outcome.attemptCount))
        case .later(let report): Task { receiver.settle(keys, await report(notification, index)) }
        }
        return receipt
    }

    func settleLocally(
        _ outcome: DeliveryOutcome,
        _ receiver: any SubmissionReceiver,
        key: UInt64
    ) -> SubmissionReceipt {
        let receipt = self.state.change { $0.submit() }
        if case .submitted = receipt { receiver.settle(key..<(key + 1), DeliveryReport(outcome)) }
        return receipt
    }

    /// Nothing waits in a queue: what was submitted is sent.
    func withdraw(_ receiver: any SubmissionReceiver, in numbers: Range<UInt64>, _ reason: DeliveryOutcome.Reason) {}

    /// Nothing is connected.
    var outage: ConnectionFailure? { nil }

    /// There is always room.
    func waitForRoom() async {}

    func waitForEnd() async -> DeliveryOutcome.Reason? {
        let (stream, continuation) = AsyncStream<Never>.makeStream()
        let end = self.state.change { state in
            if state.end == nil { state.watchers.append(continuation) }
            return state.end
        }
        if let end { return end }
        // It ends with the client, or when the task is cancelled.
        for await _ in stream {}
        return self.state.current.end
    }

    func checkpoint() {}

    func endSequence() {}

    func allow(_ token: DeviceToken) { self.state.change { $0.allowed.append(token) } }

    func run() async throws(ProviderError) { _ = await self.waitForEnd() }

    func finish() { self.end(.stopped) }

    func stop() { self.end(.stopped) }

    func end(_ reason: DeliveryOutcome.Reason) {
        let watchers = self.state.change { state in
            guard state.end == nil else { return [AsyncStream<Never>.Continuation]() }
            state.end = reason
            return state.watchers
        }
        for watcher in watchers { watcher.finish() }
    }
}

extension DeliveryOutcome {
    /// The number of attempts in a scripted report.
    fileprivate var attemptCount: Int {
        switch self {
        case .accepted, .rejected, .indeterminate: 1
        case .unsent, .invalid, .suppressed: 0
        }
    }
}

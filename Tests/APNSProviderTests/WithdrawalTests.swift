// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSTestKit
import APNSWire
import Logging
import NIOConcurrencyHelpers
import NIOPosix
import Testing

@testable import APNSProvider

/// What a cancellation withdraws, and the room that it makes.
@Suite(.timeLimit(.minutes(1))) struct WithdrawalTests {
    private final class Receiver: SubmissionReceiver {
        func settle(_ keys: Range<UInt64>, _ report: DeliveryReport) {}
    }

    private static func records(
        _ transport: LimitedTransport
    ) -> DeliveryRecords<AsyncStream<(id: Int, notification: PushNotification)>, Int> {
        let rows = AsyncStream<(id: Int, notification: PushNotification)> { continuation in
            for id in 0..<10 {
                if let notification = try? Sending.notification(id) { continuation.yield((id, notification)) }
            }
        }
        return DeliveryRecords(rows, .all, transport, nil)
    }

    @Test func `a row that waits for room in the queue is not sent after a cancellation, and unsent`() async throws {
        let transport = LimitedTransport(countMax: 2)
        let outcomes = NIOLockedValueBox<[Int: DeliveryOutcome]>([:])
        let task = Task {
            for try await record in Self.records(transport) {
                outcomes.withLockedValue { $0[record.id] = record.outcome }
            }
        }
        try await transport.state.wait(until: { $0.waitCount == 1 }, orThrow: { _ in CancellationError() })
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(
            outcomes.withLockedValue { $0 } == [0: .unsent(.cancelled), 1: .unsent(.cancelled), 2: .unsent(.cancelled)]
        )
        try await transport.state.wait(until: \.hasEnded, orThrow: { _ in CancellationError() })
        #expect(transport.state.current.submittedCount == 2)
    }

    @Test func `a notification that is submitted after a cancellation is withdrawn`() async throws {
        let transport = LimitedTransport(countMax: 10)
        let outcomes = NIOLockedValueBox<[Int: DeliveryOutcome]>([:])
        let loop = NIOLockedValueBox<Task<Void, any Error>?>(nil)
        // The cancellation comes after the row was read, and before it is submitted.
        transport.state.change { $0.beforeSubmission = { loop.withLockedValue { $0 }?.cancel() } }
        let (start, continuation) = AsyncStream<Void>.makeStream()
        let task = Task {
            for await _ in start {}
            for try await record in Self.records(transport) {
                outcomes.withLockedValue { $0[record.id] = record.outcome }
            }
        }
        loop.withLockedValue { $0 = task }
        continuation.finish()
        await #expect(throws: CancellationError.self) { try await task.value }
        try await transport.state.wait(until: \.hasEnded, orThrow: { _ in CancellationError() })
        #expect(outcomes.withLockedValue { $0 } == [0: .indeterminate(.cancelled)])
        #expect(transport.state.current.submittedCount == 1 && transport.state.current.waiting.isEmpty)
    }

    @Test func `a second loop over the same records sends nothing again`() async throws {
        let client = ScriptedPushClient()
        let records = client.send([(id: 1, notification: try Sending.notification(1))], only: .all)
        var iterators = (records.makeAsyncIterator(), records.makeAsyncIterator())
        #expect(try await iterators.0.next()?.id == 1)
        await #expect(throws: ProviderError.self) { try await iterators.1.next() }
        await #expect(throws: ProviderError.self) { for try await _ in records {} }
        #expect(try await iterators.0.next() == nil)
        #expect(client.sent.count == 1)
    }

    @Test func `withdrawals from a full queue make room in blocks, and wake those who wait for it`() async throws {
        let configuration = try Sending.configuration(port: 1) { $0.queueTimeout = nil }
        let queue = SubmissionQueue(
            configuration,
            observer: DeliveryObserver(.notifications),
            logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }),
            eventLoop: MultiThreadedEventLoopGroup.singleton.any()
        )
        let receivers = [Receiver(), Receiver()]
        func fill() throws -> Int {
            var count = 0
            while true {
                let notification = try Sending.notification(count)
                guard case .submitted = queue.enqueue(notification, receivers[count % 2], key: 0) else { return count }
                count += 1
            }
        }
        let count = try fill()
        let waiting = Task.immediate { await queue.waitForRoom() }
        queue.withdraw(receivers[0], in: 0 ..< .max, .cancelled)
        await waiting.value
        #expect(try fill() > count / 3)
        queue.stop()
    }
}

/// A transport with room for some notifications, none of which are sent.
private final class LimitedTransport: ClientTransport {
    let sendsIdentifiers = false

    struct State: Sendable {
        var submittedCount = 0
        var waiting: [UInt64: (receiver: any SubmissionReceiver, key: UInt64)] = [:]
        var waitCount = 0
        var waiters: [AsyncStream<Never>.Continuation] = []
        var hasEnded = false
        var beforeSubmission: (@Sendable () -> Void)?
    }

    let state = ObservedValue(State())
    let observer = DeliveryObserver(.notifications)
    private let countMax: Int

    init(countMax: Int) { self.countMax = countMax }

    func submit(
        _ notification: borrowing PushNotification,
        _ receiver: any SubmissionReceiver,
        key: UInt64
    ) -> SubmissionReceipt {
        self.state.current.beforeSubmission?()
        return self.state.change { state in
            guard state.waiting.count < self.countMax else { return .full }
            let number = UInt64(state.submittedCount)
            state.submittedCount += 1
            state.waiting[number] = (receiver, key)
            return .submitted(number)
        }
    }

    func settleLocally(
        _ outcome: DeliveryOutcome,
        _ receiver: any SubmissionReceiver,
        key: UInt64
    ) -> SubmissionReceipt { .full }

    func withdraw(_ receiver: any SubmissionReceiver, in numbers: Range<UInt64>, _ reason: DeliveryOutcome.Reason) {
        let (withdrawn, waiters) = self.state.change { state in
            defer { (state.waiting, state.waiters) = ([:], []) }
            return (state.waiting, state.waiters)
        }
        for waiter in waiters { waiter.finish() }
        for (receiver, key) in withdrawn.values {
            receiver.settle(key..<(key + 1), DeliveryReport(.unsent(reason)))
        }
    }

    var outage: ConnectionFailure? { nil }

    func waitForRoom() async {
        let (stream, continuation) = AsyncStream<Never>.makeStream()
        self.state.change { state in
            state.waitCount += 1
            state.waiters.append(continuation)
        }
        for await _ in stream {}
    }

    func waitForEnd() async -> DeliveryOutcome.Reason? {
        for await _ in AsyncStream<Never>.makeStream().stream {}
        return nil
    }

    func checkpoint() {}
    func endSequence() { self.state.change { $0.hasEnded = true } }
    func allow(_ token: DeviceToken) {}
    func run() async throws(ProviderError) {}
    func finish() {}
    func stop() {}
}

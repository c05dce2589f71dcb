// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSWire
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import Testing

@testable import APNSProviderHTTP2

/// Goal: all notifications of a source are requested and sent, whatever the outcomes of earlier ones and of other
/// connections.
@Suite("A queue that a source fills", .timeLimit(.minutes(1)))
struct PushQueueTests {
    /// Provides some notifications, and reports how each was refused.
    private final class Source: NotificationSource {
        struct State: Sendable {
            var payloads: [String]
            var supply = ProviderSupply.available
            var outcomes: [DeliveryOutcome.Kind] = []
            var fillCount = 0
            var wake: (@Sendable () -> Void)?
        }

        let state: NIOLockedValueBox<State>

        init(_ payloads: [String]) { self.state = NIOLockedValueBox(State(payloads: payloads)) }

        /// Ends the source.
        func end() {
            let wake = self.state.withLockedValue { state in
                state.supply = .ended
                return state.wake
            }
            wake?()
        }

        func fill(_ batch: inout NotificationBatch) -> ProviderSupply {
            self.state.withLockedValue { state in
                state.fillCount += 1
                while let payload = state.payloads.first, let token = try? PushFixture.token(1) {
                    let isAppended = Array(payload.utf8).withUnsafeBytes {
                        batch.append(token: token, payload: $0, expiry: .immediately, priority: 10, tag: 0)
                    }
                    guard isAppended else { return .available }
                    state.payloads.removeFirst()
                }
                return state.supply
            }
        }

        func settle(_ settled: borrowing SettledNotifications) {
            let (kind, count) = (settled.outcome.kind, settled.count)
            self.state.withLockedValue { $0.outcomes += Array(repeating: kind, count: count) }
        }

        func start(wake: @escaping @Sendable () -> Void) {
            let hasEnded = self.state.withLockedValue { state in
                state.wake = wake
                return state.supply == .ended
            }
            if hasEnded { wake() }
        }

        var isEnded: Bool { self.state.withLockedValue { $0.supply == .ended } }
    }

    private static let options = HTTP2BatchOptions(requests: RequestRules(topic: PushFixture.topic))
    private static let tooLong = String(repeating: "x", count: 11)

    private func queue(_ source: Source) throws -> PushQueue {
        var configuration = try PushFixture.clientConfiguration(port: 1)
        configuration.payloadByteCountMax = 10
        return PushQueue(
            countMax: 1000,
            workerCount: 1,
            source: RequestSource(source, configuration, Self.options),
            observer: DeliveryObserver(.requests)
        )
    }

    @Test(arguments: [1, 63, 64, 65, 300])
    func `a source is asked again if all its notifications were invalid`(invalidCount: Int) throws {
        let source = Source(Array(repeating: Self.tooLong, count: invalidCount) + ["{}"])
        let queue = try self.queue(source)
        let wakeCount = NIOLockedValueBox(0)
        let looks = queue.enter(0) { wakeCount.withLockedValue { $0 += 1 } }
        #expect(looks)
        var taken = queue.dequeue(10, worker: 0, at: .now())
        var lookCount = 1
        while taken.isEmpty, wakeCount.withLockedValue(\.self) == lookCount {
            taken = queue.dequeue(10, worker: 0, at: .now())
            lookCount += 1
        }
        #expect(taken.count == 1)
        let outcomes = source.state.withLockedValue(\.outcomes)
        #expect(outcomes.count == invalidCount && outcomes.allSatisfy { $0 == .invalid })
    }

    @Test(arguments: [1, 63, 64, 65, 300])
    func `a worker without a connection finds valid notifications after invalid ones`(invalidCount: Int) throws {
        let source = Source(Array(repeating: Self.tooLong, count: invalidCount) + ["{}"])
        let queue = try self.queue(source)
        let wakeCount = NIOLockedValueBox(0)
        _ = queue.enter(0) { wakeCount.withLockedValue { $0 += 1 } }
        var hasWork = queue.hasWork(0, at: .now())
        var lookCount = 1
        while !hasWork, wakeCount.withLockedValue(\.self) == lookCount {
            hasWork = queue.hasWork(0, at: .now())
            lookCount += 1
        }
        #expect(hasWork)
    }

    @Test(arguments: [1, 64, 65, 300])
    func `the end of a source is found after invalid ones without a connection`(invalidCount: Int) throws {
        let source = Source(Array(repeating: Self.tooLong, count: invalidCount))
        source.end()
        let queue = try self.queue(source)
        _ = queue.enter(0) {}
        queue.pause(0)
        var lookCount = 1
        while queue.checkForEnd(at: .now()), lookCount < 100 { lookCount += 1 }
        #expect(lookCount < 100 && queue.isOver)
        #expect(source.state.withLockedValue(\.outcomes).count == invalidCount)
    }

    @Test func `a source that has nothing now is not asked repeatedly`() throws {
        let source = Source([])
        let queue = try self.queue(source)
        let wakeCount = NIOLockedValueBox(0)
        _ = queue.enter(0) { wakeCount.withLockedValue { $0 += 1 } }
        #expect(queue.dequeue(10, worker: 0, at: .now()).isEmpty && !queue.hasWork(0, at: .now()))
        #expect(wakeCount.withLockedValue(\.self) == 0)
        #expect(source.state.withLockedValue(\.fillCount) == 2)
    }

    /// Connections are refused; the first worker waits an hour, and is woken meanwhile.
    @Test func `a worker that waits to reconnect does not prevent the others from connecting`() async throws {
        let source = Source(["{}"])
        source.state.withLockedValue { $0.supply = .waiting }
        let failures = AsyncStream<Void>.makeStream()
        var configuration = try PushFixture.clientConfiguration(port: try await PushFixture.unusedPort())
        configuration.connectionCount = 2
        configuration.backoff = Backoff(first: .seconds(3600), max: .seconds(3600))
        configuration.onConnectFailure = { _ in
            failures.continuation.yield()
            source.end()
        }
        // On one thread, so that each worker is woken while the first one waits.
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let sender = try BatchSender(
            http2: configuration,
            Self.options,
            eventLoopGroup: group,
            logger: PushFixture.quiet
        )
        let sending = Task { try await sender.run(source) }
        var failureCount = 0
        for await _ in failures.stream {
            failureCount += 1
            if failureCount == 2 { break }
        }
        #expect(failureCount == 2)
        sending.cancel()
        _ = await sending.result
        #expect(source.state.withLockedValue(\.outcomes) == [.unsent])
        try await group.shutdownGracefully()
    }
}

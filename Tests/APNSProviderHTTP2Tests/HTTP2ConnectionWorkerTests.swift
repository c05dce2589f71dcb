// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSWire
import MetricsTestKit
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import Testing

@testable import APNSProviderHTTP2

@Suite struct HTTP2ConnectionWorkerTests {
    @Test func `an answer ends an outage, even if it is not the first one of its connection`() async throws {
        let calls = NIOLockedValueBox(0)
        var configuration = try PushFixture.clientConfiguration(port: 1)
        configuration.onFirstAnswer = { calls.withLockedValue { $0 += 1 } }
        let observer = DeliveryObserver(.requests, factory: TestMetrics())
        let shared = HTTP2ConnectionWorker.Shared(
            configuration,
            try configuration.makeOpener(),
            observer: observer,
            logger: PushFixture.quiet
        )
        for _ in 0..<4 { _ = shared.queue.enqueue(Submission(try PushFixture.request(), from: .caller { _ in })) }
        _ = shared.queue.enter(0) {}
        let pushes = shared.queue.dequeue(4, worker: 0, at: .now())
        let (loop, used) = (MultiThreadedEventLoopGroup.singleton.next(), configuration)
        let counts = try await loop.submit {
            let finished = loop.makePromise(of: WorkerEnding.self)
            let worker = HTTP2ConnectionWorker(index: 0, shared: shared, eventLoop: loop, finished: finished)
            let connection = PushConnection(configuration: used, worker: worker, observer: observer)
            // Each answer in a read of its own; before the third one, another connection fails.
            let counts = pushes.enumerated().map { index, push in
                if index == 2 { shared.queue.outage = ConnectionFailure(.closed(nil), "closed") }
                worker.readBegins()
                worker.answered(push, .accepted, on: connection)
                return calls.withLockedValue(\.self)
            }
            finished.fail(CancellationError())
            return counts
        }
        .get()
        #expect(counts == [0, 0, 1, 1])
        #expect(shared.queue.outage == nil)
    }

    @Test(arguments: [1, 2]) func `a request that is given up does not count as sent again`(attempts: Int) async throws
    {
        let metrics = TestMetrics()
        var configuration = try PushFixture.clientConfiguration(port: 1)
        configuration.attemptCountMax = 2
        let shared = HTTP2ConnectionWorker.Shared(
            configuration,
            try configuration.makeOpener(),
            observer: DeliveryObserver(.requests, factory: metrics),
            logger: PushFixture.quiet
        )
        _ = shared.queue.enqueue(Submission(try PushFixture.request(), from: .caller { _ in }))
        _ = shared.queue.enter(0) {}
        var pushes = shared.queue.dequeue(1, worker: 0, at: .now())
        for _ in 0..<attempts { pushes[0].retries.begin() }
        let (loop, written) = (MultiThreadedEventLoopGroup.singleton.next(), pushes)
        try await loop.submit {
            let finished = loop.makePromise(of: WorkerEnding.self)
            let worker = HTTP2ConnectionWorker(index: 0, shared: shared, eventLoop: loop, finished: finished)
            worker.unprocessed(written)
            finished.fail(CancellationError())
        }
        .get()
        #expect(try metrics.expectCounter("apns.legacy.http2.requests.repeated").totalValue == 2 - Int64(attempts))
        let unsent = try metrics.expectCounter("apns.legacy.http2.requests", [("outcome", "unsent")])
        #expect(unsent.totalValue == Int64(attempts) - 1)
    }

    /// One notification, and then the end.
    private final class Source: NotificationSource {
        func fill(_ batch: inout NotificationBatch) -> ProviderSupply {
            if batch.countFree > 0, let token = try? PushFixture.token(1) {
                _ = Array("{}".utf8).withUnsafeBytes { batch.append(token: token, payload: $0, tag: 0) }
            }
            return .ended
        }

        func settle(_ settled: borrowing SettledNotifications) {}
    }

    @Test func `a request that the service postpones is counted once, with its last outcome`() async throws {
        let metrics = TestMetrics()
        let configuration = try PushFixture.clientConfiguration(port: 1)
        let observer = DeliveryObserver(.requests, factory: metrics)
        let options = HTTP2BatchOptions(requests: RequestRules(topic: PushFixture.topic))
        let shared = HTTP2ConnectionWorker.Shared(
            configuration,
            try configuration.makeOpener(),
            RequestSource(Source(), configuration, options),
            observer: observer,
            logger: PushFixture.quiet
        )
        _ = shared.queue.enter(0) {}
        let pushes = shared.queue.dequeue(1, worker: 0, at: .now())
        #expect(pushes.count == 1)
        let trouble = PushRejection(status: 503, reason: .serviceUnavailable)
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        try await loop.submit {
            let finished = loop.makePromise(of: WorkerEnding.self)
            let worker = HTTP2ConnectionWorker(index: 0, shared: shared, eventLoop: loop, finished: finished)
            let connection = PushConnection(configuration: configuration, worker: worker, observer: observer)
            for push in pushes {
                worker.answered(push, .rejected(.http2(trouble)), on: connection)
                worker.answered(push, .accepted, on: connection)
            }
            finished.fail(CancellationError())
        }
        .get()
        #expect(try metrics.expectCounter("apns.legacy.http2.requests", [("outcome", "rejected")]).totalValue == 0)
        #expect(try metrics.expectCounter("apns.legacy.http2.requests", [("outcome", "accepted")]).totalValue == 1)
    }
}

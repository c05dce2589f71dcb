// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSTestKit
import APNSWire
import Foundation
import MetricsTestKit
import NIOConcurrencyHelpers
import NIOPosix
import Testing

@testable import APNSProvider

/// Goal: the queue, the open connections and the time to each outcome are measured if there is a metrics system.
@Suite(.serialized, .timeLimit(.minutes(1)))
struct DeliveryMetricsTests {
    private final class Receiver: SubmissionReceiver {
        func settle(_ keys: Range<UInt64>, _ report: DeliveryReport) {}
    }

    private static func client(_ port: Int, _ factory: TestMetrics) throws -> PushClientConfiguration {
        let configuration = try Sending.configuration(port: port) { $0.limits = .service }
        return PushClientConfiguration(endpoint: configuration.endpoint) { group, logger throws(ProviderError) in
            let observer = DeliveryObserver(.notifications, factory: factory)
            return try BinaryClient(configuration, eventLoopGroup: group, logger: logger, observer: observer)
        }
    }

    @Test func `the time from send to the outcome is measured, and open connections are counted`() async throws {
        let metrics = TestMetrics()
        try await Sending.withGateway(script: { _ in
            GatewayScript { $0.action = { frame, _ in Sending.number(frame) == 2 ? .refuse(.invalidToken) : .accept } }
        }) { gateway in
            let clock = ContinuousClock()
            let start = clock.now
            try await PushClient.withClient(Self.client(gateway.port, metrics)) { client in
                #expect(await client.send(try Sending.notification(0)) == .accepted)
                let open = try metrics.expectMeter("apns.legacy.binary.connections.open")
                #expect(open.values.contains(1))
                for try await _ in client.send(Sending.Rows(3), only: .exceptions) {}
            }
            let limit = start.duration(to: clock.now) / .nanoseconds(1)
            let timer = {
                try metrics.expectTimer("apns.legacy.binary.notification.duration", [("outcome", $0)]).values
            }
            let counter = {
                try metrics.expectCounter("apns.legacy.binary.notifications", [("outcome", $0)]).totalValue
            }
            for outcome in ["accepted", "rejected"] {
                let (times, count) = (try timer(outcome), try counter(outcome))
                #expect(times.count == count)
                #expect(times.allSatisfy { $0 > 0 && Double($0) <= limit })
            }
            #expect(try timer("accepted").count == 3)
            #expect(try timer("rejected").count == 1)
            #expect(try metrics.expectMeter("apns.legacy.binary.connections.open").lastValue == 0)
            #expect(try metrics.expectMeter("apns.legacy.binary.queue").lastValue == 0)
        }
    }

    @Test func `waiting notifications are in the gauge until they are taken or given up`() async throws {
        let metrics = TestMetrics()
        let configuration = try Sending.configuration(port: 1) { $0.limits = .service }
        let observer = DeliveryObserver(.notifications, factory: metrics)
        let client = try BinaryClient(
            configuration,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: PushClientLifeTests.quiet,
            observer: observer
        )
        let queue = try metrics.expectMeter("apns.legacy.binary.queue")
        for number in 0..<5 { _ = client.submit(try Sending.notification(number), Receiver(), key: UInt64(number)) }
        #expect(queue.lastValue == 5)
        // An empty payload never waits.
        _ = client.submit(try Sending.notification(5, payload: ""), Receiver(), key: 5)
        #expect(queue.values == [1, 2, 3, 4, 5])
        let running = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await client.run()
        }
        await #expect(throws: ProviderError.self) { try await running.value }
        #expect(queue.lastValue == 0)
        #expect(try metrics.expectCounter("apns.legacy.binary.notifications", [("outcome", "unsent")]).totalValue == 5)
        #expect(try metrics.expectMeter("apns.legacy.binary.connections.open").values.isEmpty)
    }

    @Test func `without a metrics system no time is measured`() {
        #expect(DeliveryObserver(.notifications).startTime == nil)
        #expect(DeliveryObserver(.notifications, factory: TestMetrics()).startTime != nil)
    }

    /// A metric as the article lists it.
    private struct Listed: Hashable {
        var name: String
        var kind: String
        var dimension: String

        init(_ name: String, _ kind: String, _ dimension: String) {
            self.name = name
            self.kind = kind
            self.dimension = dimension
        }
    }

    @Test(arguments: [DeliveryObserver.Subject.notifications, .requests])
    func `the article lists every metric, and no other`(subject: DeliveryObserver.Subject) throws {
        let metrics = TestMetrics()
        _ = DeliveryObserver(subject, factory: metrics)
        let made = Mirror(reflecting: metrics).children.flatMap { child -> [Listed] in
            switch child.value {
            case let all as [TestMetrics.FullKey: TestCounter]:
                all.values.map { Listed($0.label, "counter", $0.dimensions.map(\.0).joined()) }
            case let all as [TestMetrics.FullKey: TestMeter]:
                all.values.map { Listed($0.label, "gauge", $0.dimensions.map(\.0).joined()) }
            case let all as [TestMetrics.FullKey: TestTimer]:
                all.values.map { Listed($0.label, "timer", $0.dimensions.map(\.0).joined()) }
            default: []
            }
        }
        let article = try String(
            contentsOf: URL(filePath: #filePath).deletingLastPathComponent()
                .appending(path: "../../Sources/APNSProvider/APNSProvider.docc/Metrics.md"),
            encoding: .utf8
        )
        let listed = article.split(separator: "\n").compactMap { line -> Listed? in
            let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: CharacterSet(charactersIn: " `")) }
            guard cells.count >= 5, cells[0].hasPrefix("apns.legacy."),
                cells[0].hasPrefix("apns.legacy.http2.") == (subject == .requests)
            else { return nil }
            return Listed(cells[0], cells[1], cells[3])
        }
        #expect(Set(listed) == Set(made))
        #expect(Set(listed).count == listed.count && listed.count >= 7)
    }
}

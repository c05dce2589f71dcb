// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSServer
import APNSSimulator
import APNSWire
import MetricsTestKit
import NIOCore
import NIOPosix
import TestSupport
import Testing

@testable import APNSProviderHTTP2

@Suite(.timeLimit(.minutes(1)))
struct HTTP2MetricsTests {
    private static func client(_ port: Int, _ metrics: TestMetrics) throws -> RequestClient {
        try RequestClient(
            try PushFixture.clientConfiguration(port: port),
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: PushFixture.quiet,
            observer: DeliveryObserver(.requests, factory: metrics)
        )
    }

    @Test func `times, open connections and the queue are measured`() async throws {
        let metrics = TestMetrics()
        let service = ScriptedService { _, count in
            count == 1 ? .reject(.http2(PushRejection(status: 400, reason: .badDeviceToken))) : nil
        }
        let server = try Listener(PushFixture.serverConfiguration(), service: service, logger: PushFixture.quiet)
        try await server.withRunning { server in
            let client = try Self.client(try await server.boundAddress.port, metrics)
            async let running: Void = client.run()
            // One of the HTTP/2 client, and two of the client for both protocols.
            #expect(await client.send(try PushFixture.request()).kind == .rejected)
            let transport = HTTP2Client(
                client,
                try PushFixture.clientConfiguration(port: 1),
                RequestRules(topic: PushFixture.topic)
            )
            let configuration = PushClientConfiguration(endpoint: .production) { _, _ in transport }
            let pushClient = try PushClient(configuration)
            let notification = PushNotification(token: try PushFixture.token(2), payload: #"{"aps":{}}"#)
            #expect(await pushClient.send(notification) == .accepted)
            #expect(await pushClient.send(notification) == .accepted)
            #expect(try metrics.expectMeter("apns.legacy.http2.connections.open").lastValue == 1)
            client.finish()
            try await running
        }
        let times = try ["rejected", "accepted"].map {
            try metrics.expectTimer("apns.legacy.http2.request.duration", [("outcome", $0)]).values
        }
        #expect(times.map(\.count) == [1, 2] && times.joined().allSatisfy { $0 > 0 })
        #expect(try metrics.expectMeter("apns.legacy.http2.connections.open").values == [1, 0])
        let queue = try metrics.expectMeter("apns.legacy.http2.queue")
        #expect(queue.lastValue == 0 && queue.values.count == 6)
    }

    @Test func `waiting requests are in the gauge until they are given up`() async throws {
        let metrics = TestMetrics()
        let client = try Self.client(1, metrics)
        let queue = try metrics.expectMeter("apns.legacy.http2.queue")
        for number in 0..<3 { _ = client.submit(try PushFixture.request(number)) { _ in } }
        #expect(queue.lastValue == 3)
        client.stop()
        #expect(queue.lastValue == 0)
        try await client.run()
    }
}

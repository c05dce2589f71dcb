// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import MetricsTestKit
import NIOCore
import NIOPosix
import Testing

@testable import APNSProvider

@Suite struct DeliveryObserverTests {
    /// Carries nothing.
    private struct Transport: ProviderTransport {
        let observer: DeliveryObserver
        var workerCount: Int { 0 }
        func begin(_ source: any NotificationSource) -> WorkerFactory { { _, _ in preconditionFailure("no worker") } }
        func failure(of endings: [WorkerEnding]) -> (any Error)? { nil }
    }

    /// What never leaves the process is counted by the one who puts notifications in, and all else by the transport.
    @Test(arguments: [
        (DeliveryObserver.Subject.notifications, "push.notifications"), (.requests, "push.http2.requests"),
    ])
    func `what is refused here counts as what the transport carries`(
        subject: DeliveryObserver.Subject,
        label: String
    ) throws {
        let metrics = TestMetrics()
        let transport = Transport(observer: DeliveryObserver(subject, factory: metrics))
        let provider = Provider(
            BatchSender(over: transport, eventLoopGroup: MultiThreadedEventLoopGroup.singleton),
            command: .items,
            payloadByteCountMax: 256,
            suppressesRejectedTokens: true
        )
        let token = try DeviceToken(String(repeating: "ab", count: 32))
        #expect(try provider.trySend(PushNotification(token: token, payload: "")) == 0)
        #expect(try metrics.expectCounter(label, [("outcome", "invalid")]).totalValue == 1)
    }
}

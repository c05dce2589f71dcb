// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Logging
import MetricsTestKit
import NIOPosix
import Testing

@testable import APNSProvider

@Suite struct DeliveryObserverTests {
    /// Ignores outcomes.
    private final class Receiver: SubmissionReceiver {
        func settle(_ keys: Range<UInt64>, _ report: DeliveryReport) {}
    }

    /// Notifications that are not sent are counted by the queue, and all others by the transport.
    @Test func `locally rejected notifications are counted like sent ones`() throws {
        let metrics = TestMetrics()
        let queue = SubmissionQueue(
            try Sending.configuration(port: 1),
            observer: DeliveryObserver(.notifications, factory: metrics),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            eventLoop: MultiThreadedEventLoopGroup.singleton.next()
        )
        let token = try DeviceToken(String(repeating: "ab", count: 32))
        #expect(queue.enqueue(PushNotification(token: token, payload: ""), Receiver(), key: 0) == .submitted(0))
        #expect(try metrics.expectCounter("apns.legacy.binary.notifications", [("outcome", "invalid")]).totalValue == 1)
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOConcurrencyHelpers
import TestSupport
import Testing

@testable import APNSSimulator

/// Reported changes, and counters.
@Suite(.timeLimit(.minutes(1))) struct DeviceRegistryTests {
    private static let topic = "com.example.app"

    private func notification(_ token: DeviceToken, connection: UInt64) -> ReceivedNotification {
        ReceivedNotification(
            listener: .binary,
            token: token,
            payload: [],
            connectionNumber: connection,
            notificationNumber: 1
        )
    }

    /// Goal: the reported changes lead to the state of the record.
    ///
    /// Method: several threads send to one offline device, each notification replacing the previous one. The changes of
    /// each notification are compared with the record, and none is reported before its notification.
    @Test func `changes are reported in the order in which they happen, from any thread`() async throws {
        let seen = NIOLockedValueBox<(told: Set<UInt64>, last: [UInt64: ReceivedNotification.Delivery], early: Int)>(
            ([], [:], 0)
        )
        var configuration = try SimulatorFixture.configuration()
        configuration.onChange = { change in
            seen.withLockedValue { seen in
                switch change {
                case .notifications(let numbers): seen.told.formUnion(numbers)
                case .delivery(let number, let delivery):
                    if !seen.told.contains(number) { seen.early += 1 }
                    seen.last[number] = delivery
                default: break
                }
            }
        }
        let registry = try DeviceRegistry(configuration)
        let token = try registry.register(topic: Self.topic, token: nil, on: "phone").token
        _ = registry.setOnline("phone", false)
        await withTaskGroup { group in
            for connection in 1...4 as ClosedRange<UInt64> {
                group.addTask {
                    for _ in 0..<2000 { registry.accept(self.notification(token, connection: connection)) }
                }
            }
        }
        let (told, last, early) = seen.withLockedValue { $0 }
        #expect(early == 0)
        let record = registry.recorder.notifications(NotificationQuery(), countMax: .max).map(\.notification)
        #expect(record.count == 8000 && told.count == 8000 && last.count == 7999)
        for notification in record {
            #expect((last[notification.number] ?? .stored) == notification.delivery, "\(notification.number)")
        }
    }

    @Test func `each rejection counts once, and 410 is not an acceptance`() async throws {
        let registry = try DeviceRegistry(try SimulatorFixture.configuration())
        let token = try registry.register(topic: Self.topic, token: nil, on: nil).token
        var refused = self.notification(token, connection: 1)
        refused.rejection = .binary(.invalidToken)
        registry.refuse(refused)
        #expect(registry.statistics.rejectedCount == 1 && registry.statistics.processedCount == 0)
        registry.accept(self.notification(token, connection: 1))
        #expect(registry.statistics.rejectedCount == 1 && registry.statistics.processedCount == 1)
    }

    @Test func `a reset gives new devices other identifiers than before`() throws {
        let registry = try DeviceRegistry(try SimulatorFixture.configuration())
        let before = try registry.register(topic: Self.topic, token: nil, on: nil).token
        registry.reset()
        let after = try registry.register(topic: Self.topic, token: nil, on: nil).token
        #expect(before != after)
        #expect(registry.status(of: before, topic: Self.topic) == .alive)
        #expect(registry.device(of: before) != registry.device(of: after))
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import NIOConcurrencyHelpers
import NIOCore
import Testing

@testable import APNSProvider

@Suite struct NotificationChunkTests {
    /// A source of notifications whose tags are not consecutive, each with a note.
    private final class Source: NotificationSource {
        struct Settled: Equatable {
            var tag: UInt64
            var token: [UInt8]
            var note: [UInt8]
        }

        private let notifications: [PushNotification]
        private let nextIndex = NIOLockedValueBox(0)
        let settled = NIOLockedValueBox<[Settled]>([])

        init(_ notifications: [PushNotification]) { self.notifications = notifications }

        static func tag(_ index: Int) -> UInt64 { UInt64(index * 3) }

        static func note(_ index: Int) -> [UInt8] { Array("n\(index)".utf8) }

        func fill(_ batch: inout NotificationBatch) -> ProviderSupply {
            self.nextIndex.withLockedValue { next in
                while next < self.notifications.count {
                    let notification = self.notifications[next]
                    let isAppended = notification.payload.withUnsafeReadableBytes { payload in
                        Self.note(next).withUnsafeBytes { note in
                            batch.append(
                                token: notification.token,
                                payload: payload,
                                expiry: notification.expiry,
                                priority: notification.priority?.rawValue,
                                tag: Self.tag(next),
                                note: note
                            )
                        }
                    }
                    guard isAppended else { return .available }
                    next += 1
                }
                return .ended
            }
        }

        func settle(_ settled: borrowing SettledNotifications) {
            settled.forEach { tag, token, note in
                let found = Settled(tag: tag, token: Array(token), note: Array(note))
                self.settled.withLockedValue { $0.append(found) }
            }
        }
    }

    private static func notification(_ index: Int, payloadByteCount: Int) throws -> PushNotification {
        let token = try DeviceToken(bytes: Array(repeating: UInt8(index + 1), count: index == 1 ? 100 : 32))
        return PushNotification(
            token: token,
            payload: ByteBuffer(repeating: UInt8(ascii: "a"), count: payloadByteCount),
            expiry: [.none, .immediately, .at(secondsSince1970: 1_800_000_000)][index % 3],
            priority: [nil, .conservingPower, .immediate][index % 3]
        )
    }

    @Test func `notifications that are sent individually are those of the source, and so are their outcomes`() throws {
        let expected = try (0..<6).map { try Self.notification($0, payloadByteCount: 10 + $0) }
        let source = Source(expected)
        let (first, firstChunk, firstSupply) = NotificationChunk.fetch(from: source, countMax: 4)
        let (second, secondChunk, secondSupply) = NotificationChunk.fetch(from: source, countMax: 4)
        #expect(first + second == expected)
        #expect(firstSupply == .available)
        #expect(secondSupply == .ended)
        for index in second.indices.reversed() {
            secondChunk.settle(index, second[index].token, DeliveryReport(.accepted))
        }
        firstChunk.settle(1, first[1].token, DeliveryReport(.accepted))
        let settled = source.settled.withLockedValue { $0 }
        #expect(settled.map(\.tag) == [5, 4, 1].map(Source.tag))
        #expect(settled.map(\.note) == [5, 4, 1].map(Source.note))
        #expect(settled.map(\.token) == [5, 4, 1].map { expected[$0].token.withUnsafeBytes { Array($0) } })
    }

    @Test func `as many notifications fit as were requested, with payloads of the maximum length`() throws {
        let count = NotificationBatch.payloadByteCountMax
        let source = Source(try (0..<4).map { try Self.notification($0, payloadByteCount: count) })
        for (countMax, supply) in [(0, ProviderSupply.available), (3, .available), (3, .ended)] {
            let taken = NotificationChunk.fetch(from: source, countMax: countMax)
            let expectedCount = supply == .ended ? 1 : countMax
            #expect(taken.notifications.map(\.payload.readableBytes) == Array(repeating: count, count: expectedCount))
            #expect(taken.supply == supply)
        }
    }
}

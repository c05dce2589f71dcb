// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import NIOCore
import TestSupport
import Testing

@testable import APNSGateway

@Suite struct ResendDeduplicatorTests {
    private static func key(_ payload: String = "{}", expiry: UInt32? = 0, priority: UInt8? = nil) throws -> ResendKey {
        ResendContent(
            token: try DeviceToken(bytes: [1, 2, 3]),
            payload: ByteBuffer(string: payload),
            expiry: expiry,
            priority: priority
        ).key
    }

    /// A resend with only a key, and the operations on it.
    private struct Keys {
        private var deduplicator: ResendDeduplicator
        private var lastDelivery: UInt64 = 0

        init(countMax: Int) { self.deduplicator = ResendDeduplicator(countMax: countMax, duration: .seconds(120)) }

        var count: Int { self.deduplicator.count }
        var isEmpty: Bool { self.count == 0 }
        var expiredCount: UInt64 { self.deduplicator.expiredCount }

        mutating func insert(_ keys: [ResendKey], now: Duration) -> Bool {
            self.deduplicator.insert(keys.map { ExpectedResend(key: $0) }, of: nil, now: now)
        }

        /// Takes a message with a key; whether it is a resend.
        mutating func remove(_ key: ResendKey, now: Duration) -> Bool {
            self.lastDelivery += 1
            let message = ResendDeduplicator.Message(
                key: key,
                delivery: DeliveryNumber(rawValue: self.lastDelivery),
                origin: DeliveryOrigin(connection: 1, number: self.lastDelivery)
            )
            return self.deduplicator.classify(message, now: now).match
                == .resend(ExpectedResend(key: key), hasNewExpiry: false)
        }
    }

    private static func deduplicator(countMax: Int = 100) -> Keys { Keys(countMax: countMax) }

    @Test func `token, payload, expiry and priority distinguish notifications`() throws {
        let key = try Self.key()
        let others = [
            try Self.key("{ }"), try Self.key(expiry: nil), try Self.key(expiry: 1), try Self.key(priority: 5),
            ResendContent(
                token: try DeviceToken(bytes: [1, 2]),
                payload: ByteBuffer(string: "\u{3}{}"),
                expiry: 0,
                priority: nil
            ).key,
        ]
        for other in others { #expect(other != key) }
        #expect(try Self.key(priority: 10) == key)
    }

    @Test func `a key is stable across runs of the program`() throws {
        // printf '\003\001\002\003\012\001\000\000\000\000{}' | sha256sum
        #expect(try Self.key().bytes == Self.expected)
        #expect(try ResendKey(bytes: Self.key().bytes) == Self.key())
        #expect(try ResendKey(bytes: Self.key().bytes.dropLast()) == nil)
    }

    private static let expected: [UInt8] = [
        238, 41, 57, 77, 110, 189, 222, 213, 224, 211, 110, 61, 180, 40, 241, 163,
        79, 83, 111, 248, 64, 46, 214, 157, 49, 40, 123, 115, 68, 43, 15, 250,
    ]

    @Test func `each key matches one resend`() throws {
        var deduplicator = Self.deduplicator()
        let found1 = try deduplicator.insert([Self.key(), Self.key("{ }"), Self.key()], now: .zero)
        #expect(found1)
        let found2 = try deduplicator.remove(Self.key(), now: .zero)
        #expect(found2)
        let found3 = try deduplicator.remove(Self.key(), now: .zero)
        #expect(found3)
        let found4 = try deduplicator.remove(Self.key(), now: .zero)
        #expect(!found4)
        #expect(deduplicator.count == 1)
        let found5 = try deduplicator.remove(Self.key("{ }"), now: .zero)
        #expect(found5)
        #expect(deduplicator.isEmpty)
    }

    @Test func `expired keys are removed`() throws {
        var deduplicator = Self.deduplicator()
        let found6 = try deduplicator.insert([Self.key()], now: .zero)
        #expect(found6)
        let found7 = try deduplicator.insert([Self.key()], now: .seconds(60))
        #expect(found7)
        let found8 = try deduplicator.remove(Self.key(), now: .seconds(120))
        #expect(found8)
        let found9 = try deduplicator.remove(Self.key(), now: .seconds(120))
        #expect(!found9)
        #expect(deduplicator.expiredCount == 1)
    }

    @Test func `beyond the limit none of a batch is remembered`() throws {
        var deduplicator = Self.deduplicator(countMax: 2)
        let found10 = try deduplicator.insert([Self.key("1")], now: .zero)
        #expect(found10)
        let found11 = try deduplicator.insert([Self.key("2"), Self.key("3")], now: .zero)
        #expect(!found11)
        let found12 = try deduplicator.remove(Self.key("2"), now: .zero)
        #expect(!found12)
        let found13 = try deduplicator.insert([Self.key("2")], now: .zero)
        #expect(found13)
        let found14 = deduplicator.insert([], now: .zero)
        #expect(found14)
        // When the others have expired, there is room again.
        let found15 = try deduplicator.insert([Self.key("4"), Self.key("5")], now: .seconds(120))
        #expect(found15)
    }

    @Test func `it agrees with a linear search`() throws {
        let keys = try (0..<5).map { try Self.key("\($0)") }
        for seed in 0..<300 as Range<UInt64> {
            var random = SplitMix64(seed: seed)
            var deduplicator = Self.deduplicator(countMax: 20)
            var model: [(key: ResendKey, since: Duration)] = []
            var now = Duration.zero
            for _ in 0..<200 {
                now += .seconds(random.below(20))
                model.removeAll { $0.since + .seconds(120) <= now }
                let key = keys[random.below(keys.count)]
                if random.chance(50) {
                    let count = 1 + random.below(4)
                    let hasRoom = model.count + count <= 20
                    let found16 = deduplicator.insert(Array(repeating: key, count: count), now: now)
                    #expect(found16 == hasRoom)
                    if hasRoom { for _ in 0..<count { model.append((key, now)) } }
                } else {
                    let index = model.firstIndex { $0.key == key }
                    let found17 = deduplicator.remove(key, now: now) == (index != nil)
                    #expect(found17, "seed \(seed)")
                    if let index { model.remove(at: index) }
                }
                #expect(deduplicator.count == model.count, "seed \(seed)")
            }
        }
    }
}

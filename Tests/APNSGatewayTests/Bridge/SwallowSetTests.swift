// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import TestSupport
import Testing

@testable import APNSGateway

@Suite struct SwallowSetTests {
    private static func key(_ payload: String = "{}", expiry: UInt32? = 0, priority: UInt8? = nil) throws -> ResendKey {
        let token = try DeviceToken(octets: [1, 2, 3])
        return Array(payload.utf8).withUnsafeBytes {
            ResendKey(token: token, payload: $0, expiry: expiry, priority: priority)
        }
    }

    private static func flight(_ number: UInt64) -> FlightNumber { FlightNumber(rawValue: number) }

    @Test func `one that is remembered swallows exactly one`() throws {
        var set = SwallowSet()
        set.insert(try Self.key(), .delivered(.dead), now: .zero)
        let others = [
            try Self.key("{ }"), try Self.key(expiry: nil), try Self.key(expiry: 1), try Self.key(priority: 5),
        ]
        for other in others { #expect(set.remove(other, now: .zero) == nil) }
        let (alike, same) = (try Self.key(priority: 10), try Self.key())
        #expect(set.remove(alike, now: .zero) == .delivered(.dead))
        #expect(set.remove(same, now: .zero) == nil)
        #expect(set.count == 0)
    }

    @Test func `as many as are remembered are swallowed, and those that arrived go first`() throws {
        var set = SwallowSet()
        let key = try Self.key()
        set.insert(key, .flying(Self.flight(1)), now: .zero)
        set.insert(key, .delivered(.accepted), now: .zero)
        set.insert(key, .flying(Self.flight(2)), now: .zero)
        #expect(set.remove(key, now: .zero) == .delivered(.accepted))
        #expect(set.remove(key, now: .zero) == .flying(Self.flight(1)))
        #expect(set.remove(key, now: .zero) == .flying(Self.flight(2)))
        #expect(set.remove(key, now: .zero) == nil)
    }

    @Test func `what arrives becomes delivered, and what fails is forgotten`() throws {
        var set = SwallowSet()
        let key = try Self.key()
        set.insert(key, .flying(Self.flight(1)), now: .zero)
        set.insert(key, .flying(Self.flight(2)), now: .zero)
        let ends = [
            set.end(Self.flight(1), .dead), set.end(Self.flight(2), .rejected(.invalidToken)),
            set.end(Self.flight(2), .accepted), set.end(Self.flight(3), .accepted),
        ]
        #expect(ends == [true, true, false, false])
        #expect(set.remove(key, now: .zero) == .delivered(.dead))
        #expect(set.count == 0)
    }

    @Test func `what is too old is forgotten`() throws {
        var set = SwallowSet(duration: .seconds(120))
        let key = try Self.key()
        set.insert(key, .delivered(.accepted), now: .zero)
        #expect(set.remove(key, now: .seconds(120)) == nil)
        #expect(set.count == 0)
        #expect(set.forgottenCount == 1)
    }

    @Test func `beyond the bound the oldest is forgotten`() throws {
        var set = SwallowSet(countMax: 2)
        let keys = try ["1", "2", "3"].map { try Self.key($0) }
        for key in keys { set.insert(key, .delivered(.accepted), now: .zero) }
        #expect(set.count == 2)
        let found = keys.map { set.remove($0, now: .zero) != nil }
        #expect(found == [false, true, true])
    }

    @Test func `other bounds hold for what is remembered, too`() throws {
        var set = SwallowSet(countMax: 3, duration: .seconds(120))
        let keys = try ["1", "2", "3"].map { try Self.key($0) }
        for key in keys { set.insert(key, .delivered(.accepted), now: .zero) }
        set.bound(countMax: 2, duration: .seconds(240))
        #expect(set.count == 2)
        let found = keys.prefix(2).map { set.remove($0, now: .seconds(239)) != nil }
        #expect(found == [false, true])
        set.bound(countMax: 2, duration: .seconds(60))
        #expect(set.remove(keys[2], now: .seconds(60)) == nil)
        set.bound(countMax: 0, duration: .seconds(60))
        set.insert(keys[0], .delivered(.accepted), now: .zero)
        #expect(set.count == 0)
    }

    /// Goal: the set forgets nothing before its time and beyond its bounds, and remembers nothing else.
    ///
    /// Method: a walk from a seed beside a plain list.
    @Test(arguments: 0..<200 as Range<UInt64>) func `a walk agrees with a plain list`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let countMax = 1 + random.below(20)
        var set = SwallowSet(countMax: countMax, duration: .seconds(30))
        var list: [(key: ResendKey, fate: SwallowSet.Fate, until: Duration)] = []
        var now = Duration.zero
        for step in 0..<400 {
            now += .seconds(random.below(4))
            list.removeAll { $0.until <= now }
            let key = try Self.key("\(random.below(6))")
            if random.chance(60) {
                let fate: SwallowSet.Fate =
                    random.chance(50) ? .delivered(.accepted) : .flying(Self.flight(UInt64(step)))
                set.insert(key, fate, now: now)
                if list.count == countMax { list.removeFirst() }
                list.append((key, fate, now + .seconds(30)))
            } else if random.chance(50) {
                let index =
                    list.firstIndex { $0.key == key && $0.fate == .delivered(.accepted) }
                    ?? list.firstIndex { $0.key == key }
                let expected = index.map { list.remove(at: $0).fate }
                #expect(set.remove(key, now: now) == expected, "seed \(seed), step \(step)")
            } else if let index = list.indices.randomElement(using: &random),
                case .flying(let flight) = list[index].fate
            {
                let isDelivered = random.chance(50)
                let isKnown = set.end(flight, isDelivered ? .accepted : .serviceFault)
                #expect(isKnown, "seed \(seed), step \(step)")
                if isDelivered { list[index].fate = .delivered(.accepted) } else { list.remove(at: index) }
            }
            #expect(set.count >= list.count && set.count <= countMax, "seed \(seed), step \(step)")
        }
    }
}

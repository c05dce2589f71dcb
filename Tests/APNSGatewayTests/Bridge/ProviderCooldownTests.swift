// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import APNSGateway

@Suite struct ProviderCooldownTests {
    private static let key = ProviderCooldown.Key(fingerprint: "aa", topic: "com.example.app")

    @Test func `a fault delays the provider, each further one for longer`() {
        var cooldown = ProviderCooldown()
        #expect(cooldown.delay(of: Self.key, now: .zero) == nil)
        cooldown.fault(of: Self.key, now: .zero, jitter: 1)
        #expect(cooldown.delay(of: Self.key, now: .zero) == .seconds(1))
        #expect(cooldown.delay(of: Self.key, now: .seconds(1)) == nil)
        cooldown.fault(of: Self.key, now: .seconds(1), jitter: 1)
        #expect(cooldown.delay(of: Self.key, now: .seconds(1)) == .seconds(2))
        cooldown.fault(of: Self.key, now: .seconds(3), jitter: 0)
        #expect(cooldown.delay(of: Self.key, now: .seconds(3)) == .seconds(2))
    }

    @Test func `simultaneous faults count as one`() {
        var cooldown = ProviderCooldown()
        for _ in 0..<1000 { cooldown.fault(of: Self.key, now: .zero, jitter: 1) }
        #expect(cooldown.delay(of: Self.key, now: .zero) == .seconds(1))
    }

    @Test func `no fault delays the provider for longer than five minutes`() {
        var cooldown = ProviderCooldown()
        for hour in 1...200 { cooldown.fault(of: Self.key, now: .seconds(3600 * hour), jitter: 1) }
        #expect(cooldown.delay(of: Self.key, now: .seconds(3600 * 200)) == .seconds(300))
    }

    @Test func `a successful response resets the delay`() {
        var cooldown = ProviderCooldown()
        cooldown.fault(of: Self.key, now: .zero, jitter: 1)
        cooldown.fault(of: Self.key, now: .seconds(5), jitter: 1)
        cooldown.success(of: Self.key)
        #expect(cooldown.delay(of: Self.key, now: .seconds(5)) == nil)
        cooldown.fault(of: Self.key, now: .seconds(6), jitter: 1)
        #expect(cooldown.delay(of: Self.key, now: .seconds(6)) == .seconds(1))
    }

    @Test func `another certificate and another topic are not delayed`() {
        var cooldown = ProviderCooldown()
        cooldown.fault(of: Self.key, now: .zero, jitter: 1)
        let others = [("bb", "com.example.app"), ("aa", "com.example.other")]
        for (fingerprint, topic) in others {
            let other = ProviderCooldown.Key(fingerprint: fingerprint, topic: topic)
            #expect(cooldown.delay(of: other, now: .zero) == nil)
        }
    }

    @Test func `the number of remembered certificates is limited`() {
        var cooldown = ProviderCooldown()
        for number in 0..<ProviderCooldown.countMax + 100 {
            let key = ProviderCooldown.Key(fingerprint: "\(number)", topic: "a")
            cooldown.fault(of: key, now: .zero, jitter: 1)
            #expect(cooldown.delay(of: key, now: .zero) == .seconds(1))
        }
        let waiting = (0..<ProviderCooldown.countMax + 100).filter { number in
            let key = ProviderCooldown.Key(fingerprint: "\(number)", topic: "a")
            return cooldown.delay(of: key, now: .zero) != nil
        }
        #expect(waiting.count == ProviderCooldown.countMax)
    }
}

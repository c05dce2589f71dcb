// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import APNSGateway

@Suite struct IdentityGateTests {
    @Test func `a fault keeps the provider out for a while, each further one longer`() {
        var gate = IdentityGate()
        #expect(gate.closedFor(now: .zero) == nil)
        gate.fault(now: .zero, jitter: 1)
        #expect(gate.closedFor(now: .zero) == .seconds(1))
        #expect(gate.closedFor(now: .seconds(1)) == nil)
        gate.fault(now: .seconds(1), jitter: 1)
        #expect(gate.closedFor(now: .seconds(1)) == .seconds(2))
        gate.fault(now: .seconds(3), jitter: 0)
        #expect(gate.closedFor(now: .seconds(3)) == .seconds(2))
    }

    @Test func `faults at the same time count as one`() {
        var gate = IdentityGate()
        for _ in 0..<1000 { gate.fault(now: .zero, jitter: 1) }
        #expect(gate.closedFor(now: .zero) == .seconds(1))
    }

    @Test func `no fault keeps the provider out for longer than five minutes`() {
        var gate = IdentityGate()
        for hour in 1...200 { gate.fault(now: .seconds(3600 * hour), jitter: 1) }
        #expect(gate.closedFor(now: .seconds(3600 * 200)) == .seconds(300))
    }

    @Test func `an answer as it should be forgives all`() {
        var gate = IdentityGate()
        gate.fault(now: .zero, jitter: 1)
        gate.fault(now: .seconds(5), jitter: 1)
        gate.success()
        #expect(gate.closedFor(now: .seconds(5)) == nil)
        gate.fault(now: .seconds(6), jitter: 1)
        #expect(gate.closedFor(now: .seconds(6)) == .seconds(1))
    }
}

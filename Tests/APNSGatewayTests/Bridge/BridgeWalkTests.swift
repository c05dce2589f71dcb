// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import APNSGateway

/// Goal: no order of events between provider, gateway and service loses a notification, delivers one twice that was
/// known to be delivered, or lets the provider's account differ from the service's.
///
/// Method: the machines of provider and gateway walk beside a model of the service, whose books tell the truth, from a
/// seed that a failure names.
@Suite(.timeLimit(.minutes(10))) struct BridgeWalkTests {
    @Test(arguments: 0..<100 as Range<UInt64>)
    func `what the provider is told is what the service did`(hundred: UInt64) throws {
        for seed in hundred * 120..<hundred * 120 + 120 {
            var walk = try BridgeWalk(seed: seed)
            let violation = walk.run()
            #expect(violation == nil, "seed \(seed)")
        }
    }

    @Test func `the walks come by resends that are swallowed, and by all ends of a flight`() throws {
        var swallowedCount: UInt64 = 0
        var causes: Set<FlightEnding.Cause> = []
        for seed in 0..<1000 as Range<UInt64> {
            var walk = try BridgeWalk(seed: seed)
            _ = walk.run()
            swallowedCount += walk.swallowedCount
            causes.formUnion(walk.causes)
        }
        #expect(swallowedCount > 1000)
        #expect(causes.isSuperset(of: [.accepted, .dead, .rejected, .throttled, .credentialFault]))
    }

    @Test(arguments: BridgeMutant.allCases) func `a rule that looks right and is wrong is found out`(
        mutant: BridgeMutant
    ) throws {
        let seed = try (0..<4000 as Range<UInt64>).first { seed in
            var walk = try BridgeWalk(seed: seed, mutant: mutant)
            return walk.run() != nil
        }
        #expect(seed != nil)
    }
}

// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import APNSGateway

/// Goal: no order of events between provider, gateway, disk and service loses a notification, delivers one twice that
/// was known to be delivered, or makes the provider's account differ from the service's; also across ends, deaths and
/// reloads of the gateway.
///
/// Method: a provider and the gateway's own handlers, backend and bridges run a random walk against a model of the
/// service, whose record is the truth. A failure reports its seed.
@Suite(.timeLimit(.minutes(10))) struct BridgeWalkTests {
    @Test(arguments: 0..<20 as Range<UInt64>)
    func `the provider's outcomes match the service's record`(part: UInt64) throws {
        for seed in part * Self.seedCount..<(part + 1) * Self.seedCount {
            let walk = try BridgeWalk(seed: seed)
            let violation = try walk.run()
            #expect(violation == nil, "seed \(seed)")
        }
    }

    private static let seedCount: UInt64 = TestEffort.count(5, long: 100)

    @Test func `the walks include resends, ends, deaths and reloads`() throws {
        var (resendCount, terminationCount, killCount, reloadCount) = (0, 0, 0, 0)
        let seedCount = TestEffort.count(100, long: 300)
        for seed in 0..<UInt64(seedCount) {
            let walk = try BridgeWalk(seed: seed)
            _ = try walk.run()
            resendCount += walk.resendCount
            terminationCount += walk.terminationCount
            killCount += walk.killCount
            reloadCount += walk.reloadCount
        }
        #expect(resendCount > seedCount)
        let countMin = seedCount / 6
        #expect(terminationCount > countMin && killCount > countMin && reloadCount > countMin)
    }

    @Test(arguments: TestEffort.cases(BridgeMutant.allCases, each: 3))
    func `a plausible but wrong rule is detected`(
        mutant: BridgeMutant
    ) throws {
        let seed = try (0..<4000 as Range<UInt64>).first { seed in
            try BridgeWalk(seed: seed, mutant: mutant).run() != nil
        }
        #expect(seed != nil)
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import TestSupport
import Testing

@testable import APNSGateway

/// Goal: no order of arrivals, transactions, failures of the disk, answers, outages, kills and restarts makes a spool
/// lose a notification, send one before the disk knows, double one without a flag, or change the order of a device.
///
/// Method: random walks against models of disk and service. A failure reports its seed.
@Suite(.timeLimit(.minutes(5))) struct SpoolWalkTests {
    @Test func `each stored notification is delivered, or has an outcome`() {
        var (killCount, repeatCount, expiredCount, holdCount) = (0, 0, 0, 0)
        for seed in TestEffort.seeds(500, long: 20_000) {
            var walk = SpoolWalk(seed: seed)
            walk.run()
            #expect(walk.violation == nil, "seed \(seed)")
            killCount += walk.killCount
            repeatCount += walk.repeatCount
            expiredCount += walk.expiredCount
            holdCount += walk.holdCount
        }
        guard TestEffort.seeds(500, long: 20_000).count > 1 else { return }
        #expect(killCount > 100 && repeatCount > 100 && expiredCount > 100 && holdCount > 100)
    }

    @Test(arguments: SpoolMutant.allCases)
    func `a plausible but wrong rule is detected`(mutant: SpoolMutant) {
        let seed = (1...2000 as ClosedRange<UInt64>).first { seed in
            var walk = SpoolWalk(seed: seed, mutant: mutant)
            walk.run()
            return walk.violation != nil
        }
        #expect(seed != nil)
    }
}

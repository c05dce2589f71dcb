// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing
import TokenStore

/// Goal: whatever happens to workers, each notification has exactly one outcome, and what was sent twice is flagged.
///
/// Method: random histories, in which workers pause, lose connections and die; and the same with single wrong rules,
/// each of which must be detected.
@Suite(.timeLimit(.minutes(2))) struct QueueWalkTests {
    @Test(arguments: QueueRules.Takeover.allCases)
    func `each notification has one outcome, and doubles are flagged`(takeover: QueueRules.Takeover) {
        for seed in 0..<UInt64(TestEffort.count(300, long: 20_000)) {
            var walk = QueueWalk(seed: seed, takeover: takeover)
            if let problem = walk.run() { Issue.record("\(takeover), \(problem)") }
        }
    }

    @Test(arguments: QueueMutant.allCases)
    func `a plausible but wrong rule is detected`(mutant: QueueMutant) {
        let isDetected = (0..<UInt64(3000)).contains { seed in
            var walk = QueueWalk(seed: seed, takeover: .resend, mutant: mutant)
            return walk.run() != nil
        }
        #expect(isDetected, "\(mutant)")
    }
}

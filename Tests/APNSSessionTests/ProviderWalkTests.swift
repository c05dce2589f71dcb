// SPDX-License-Identifier: Apache-2.0

import APNSWire
import TestSupport
import Testing

@testable import APNSSession

/// Goal: no order of events loses a notification, duplicates one without a flag, or reports a wrong outcome.
///
/// Method: the session runs together with a model of the gateway from a seed that a failure contains.
@Suite(.timeLimit(.minutes(10))) struct ProviderWalkTests {
    private static let seedCount: UInt64 = TestEffort.count(15, long: 120)

    @Test(arguments: 0..<100 as Range<UInt64>)
    func `every notification has its correct outcome`(part: UInt64) {
        for seed in (part * Self.seedCount)..<((part + 1) * Self.seedCount) {
            var walk = ProviderWalk(seed: seed)
            let violation = walk.run()
            #expect(violation == nil, "seed \(seed)")
        }
    }

    @Test(arguments: 0..<100 as Range<UInt64>)
    func `every notification of a service has its correct outcome, and only its owner ends it`(part: UInt64) {
        for seed in (part * Self.seedCount)..<((part + 1) * Self.seedCount) {
            var walk = ProviderWalk(seed: seed, life: .service)
            let violation = walk.run()
            #expect(violation == nil, "seed \(seed)")
        }
    }

    @Test func `the walks reach every event, more than once`() {
        var counts: [WalkMark: Int] = [:]
        for seed in 0..<TestEffort.count(1000, long: 3000) as Range<UInt64> {
            for life in [ProviderLife.batch, .service] {
                var walk = ProviderWalk(seed: seed, life: life)
                _ = walk.run()
                for mark in walk.reached { counts[mark, default: 0] += 1 }
            }
        }
        for mark in WalkMark.allCases {
            #expect(counts[mark, default: 0] >= TestEffort.count(2, long: 5), "\(mark): \(counts[mark, default: 0])")
        }
    }

    @Test(arguments: WrongRule.all)
    func `a rule that looks right but is wrong is detected`(rule: WrongRule) {
        let seed = (0..<6000 as Range<UInt64>).first { seed in
            var walk = ProviderWalk(seed: seed, rules: rule.rules)
            return walk.run() != nil
        }
        #expect(seed != nil)
    }
}

/// Plausible but wrong rules, each in place of the right one.
struct WrongRule: CustomTestStringConvertible, Sendable {
    var testDescription: String
    var rules: VerificationRules

    private init(
        _ name: String,
        end: VerificationResult = .unknown,
        interpret: @escaping @Sendable (ErrorResponse, UInt64, Bool) -> VerificationResult? = { _, _, _ in nil }
    ) {
        self.testDescription = name
        self.rules = VerificationRules(
            interpret: { interpret($0, $1, $2) ?? VerificationRules.standard.interpret($0, $1, $2) },
            end: end
        )
    }

    static let all = [
        WrongRule("EOF means accepted", end: .allAccepted),
        WrongRule("the identifier of status 10 is the failed one") { response, count, _ in
            guard response.status == .shutdown, (1...max(1, count)).contains(UInt64(response.identifier)) else {
                return nil
            }
            return count == 0 ? nil : .rejected(index: UInt64(response.identifier) - 1)
        },
        WrongRule("any identifier 0 answers the probe") { response, _, isProbed in
            isProbed && response.identifier == 0 ? .allAccepted : nil
        },
        WrongRule("status 10 with identifier 0 means send all again") { response, _, _ in
            response.status == .shutdown && response.identifier == 0 ? .accepted(count: 0) : nil
        },
        WrongRule("identifier 0 means the first one failed") { response, count, isProbed in
            let isProof = isProbed && response.status == .missingDeviceToken
            return response.identifier == 0 && !isProof && count > 0 ? .rejected(index: 0) : nil
        },
    ]
}

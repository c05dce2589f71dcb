// SPDX-License-Identifier: Apache-2.0

import APNSWire
import TestSupport
import Testing

@testable import APNSSession

/// Goal: no order of events loses a notification, doubles one unflagged, or claims what is not true.
///
/// Method: the session walks beside a model of the gateway from a seed that a failure names.
@Suite(.timeLimit(.minutes(10))) struct ProviderWalkTests {
    private static let seedCount: UInt64 = TestEffort.count(15, long: 120)

    @Test(arguments: 0..<100 as Range<UInt64>)
    func `every notification is accounted for, and truly`(part: UInt64) {
        for seed in (part * Self.seedCount)..<((part + 1) * Self.seedCount) {
            var walk = ProviderWalk(seed: seed)
            let violation = walk.run()
            #expect(violation == nil, "seed \(seed)")
        }
    }

    @Test(arguments: 0..<100 as Range<UInt64>)
    func `every notification of a service is accounted for, and truly, and only its owner ends it`(part: UInt64) {
        for seed in (part * Self.seedCount)..<((part + 1) * Self.seedCount) {
            var walk = ProviderWalk(seed: seed, life: .service)
            let violation = walk.run()
            #expect(violation == nil, "seed \(seed)")
        }
    }

    @Test func `the walks come by everything that can happen, not only once`() {
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
    func `a rule that looks right and is wrong is found out`(rule: WrongRule) {
        let seed = (0..<6000 as Range<UInt64>).first { seed in
            var walk = ProviderWalk(seed: seed, rules: rule.rules)
            return walk.run() != nil
        }
        #expect(seed != nil)
    }
}

/// The rules that looked right to others, each in place of the one that is.
struct WrongRule: CustomTestStringConvertible, Sendable {
    var testDescription: String
    var rules: ProofRules

    private init(
        _ name: String,
        end: ConnectionProof = .silence,
        interpret: @escaping @Sendable (ErrorResponse, UInt64, Bool) -> ConnectionProof? = { _, _, _ in nil }
    ) {
        self.testDescription = name
        self.rules = ProofRules(
            interpret: { interpret($0, $1, $2) ?? ProofRules.proved.interpret($0, $1, $2) },
            end: end
        )
    }

    static let all = [
        WrongRule("EOF means accepted", end: .provesAll),
        WrongRule("the identifier of status 10 is the failed one") { response, count, _ in
            guard response.status == .shutdown, (1...max(1, count)).contains(UInt64(response.identifier)) else {
                return nil
            }
            return count == 0 ? nil : .names(index: UInt64(response.identifier) - 1)
        },
        WrongRule("any identifier 0 answers the probe") { response, _, isProbed in
            isProbed && response.identifier == 0 ? .provesAll : nil
        },
        WrongRule("status 10 with identifier 0 means send all again") { response, _, _ in
            response.status == .shutdown && response.identifier == 0 ? .proves(count: 0) : nil
        },
        WrongRule("identifier 0 means the first one failed") { response, count, isProbed in
            let isProof = isProbed && response.status == .missingDeviceToken
            return response.identifier == 0 && !isProof && count > 0 ? .names(index: 0) : nil
        },
    ]
}

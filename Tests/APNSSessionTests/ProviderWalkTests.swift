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
            var walk = ProviderWalk(seed: seed, wrongRule: rule)
            return walk.run() != nil
        }
        #expect(seed != nil)
    }

    @Test func `one notification too few that has left the system is detected`() {
        let seed = (0..<6000 as Range<UInt64>).first { seed in
            var walk = ProviderWalk(seed: seed, isSentEndTooLow: true)
            return walk.run() != nil
        }
        #expect(seed != nil)
    }
}

/// A plausible but wrong rule for what an answer shows.
///
/// The session receives an event from which it concludes what the rule does, so that it needs no replaceable rules.
struct WrongRule: CustomTestStringConvertible, Sendable {
    /// What the rule concludes.
    enum Conclusion {
        /// What the session concludes from another answer.
        case sameAs(ErrorResponse)
        /// Nothing was processed, and all is sent again.
        case nothingProcessed
    }

    var testDescription: String

    /// Concludes from an answer or, with `nil`, from an end without one, on a connection to which a number of
    /// notifications was written, and possibly a probe; `nil` for what the right rules conclude.
    var conclude: @Sendable (_ answer: ErrorResponse?, _ count: UInt64, _ isProbed: Bool) -> Conclusion?

    private init(
        _ name: String,
        conclude: @escaping @Sendable (_ answer: ErrorResponse?, _ count: UInt64, _ isProbed: Bool) -> Conclusion?
    ) {
        self.testDescription = name
        self.conclude = conclude
    }

    static let all = [
        WrongRule("EOF means accepted") { answer, count, _ in
            guard answer == nil, count > 0 else { return nil }
            return .sameAs(ErrorResponse(status: .shutdown, identifier: UInt32(truncatingIfNeeded: count)))
        },
        WrongRule("the identifier of status 10 is the failed one") { answer, count, _ in
            guard let answer, answer.status == .shutdown, 1...max(1, count) ~= UInt64(answer.identifier) else {
                return nil
            }
            return .sameAs(ErrorResponse(status: .invalidToken, identifier: answer.identifier))
        },
        WrongRule("any identifier 0 answers the probe") { answer, _, isProbed in
            guard isProbed, answer?.identifier == 0 else { return nil }
            return .sameAs(ErrorResponse(status: .missingDeviceToken, identifier: 0))
        },
        WrongRule("status 10 with identifier 0 means send all again") { answer, _, _ in
            answer?.status == .shutdown && answer?.identifier == 0 ? .nothingProcessed : nil
        },
        WrongRule("identifier 0 means the first one failed") { answer, count, isProbed in
            guard let answer, answer.identifier == 0, count > 0 else { return nil }
            let isProof = isProbed && answer.status == .missingDeviceToken
            let status = answer.status == .shutdown ? .invalidToken : answer.status
            return isProof ? nil : .sameAs(ErrorResponse(status: status, identifier: 1))
        },
    ]
}

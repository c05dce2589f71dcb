// SPDX-License-Identifier: Apache-2.0

import Foundation
import NIOConcurrencyHelpers
import TestSupport
import Testing

/// Goal: notifications that a gateway asked its provider to resend are delivered once, even if another process of the
/// gateway receives the resends.
@Suite(.serialized, .timeLimit(.minutes(2))) struct ChainTests {
    private static let lineCount = TestEffort.count(600, long: 1000)
    private static let kills = (TestEffort.isLong ? [50, 350, 600] : [50, 250, 400]).map {
        ChainRun.Strike(takenCount: $0, signal: SIGKILL)
    }

    /// A service that accepts all but some tokens.
    private static func service(bad: Set<Int>) -> ChainRecord {
        ChainRecord { bad.contains($0.number) ? .badToken : ChainRecord.Answer() }
    }

    /// Expects each line to be accepted once, except for rejected ones, and none to be in doubt: a gateway that shuts
    /// down in order reports what it accepted.
    private static func expectAll(_ outcome: ChainRun.Outcome, _ record: ChainRecord, rejected: [Int] = []) {
        let (isConsistent, report) = (outcome.isConsistent, outcome.report)
        #expect(isConsistent, "\(report)")
        let told = outcome.results.filter { $0.outcome == "rejected" }.map(\.line).sorted()
        #expect(told == rejected)
        let acceptedCount = outcome.counts["accepted"]
        #expect(acceptedCount == outcome.results.count - rejected.count, "\(report)")
        let flagged = outcome.flagged
        #expect(flagged == [])
        let taken = record.takenCounts
        #expect(taken.count == acceptedCount)
        let twice = taken.count { $0.value > 1 }
        #expect(twice == 0, "lines that were delivered more than once")
        let code = outcome.provider.ending.code
        #expect(code == (rejected.isEmpty ? 0 : 1), "\(report)")
        let codes = outcome.gateways.map(\.code)
        #expect(codes == codes.map { _ in 0 }, "\(report)")
    }

    @Test(arguments: TestEffort.isLong ? [100, 188, 276, 364] : [276], TestEffort.isLong ? [false, true] : [true])
    func `1,000 lines with line 301 rejected and SIGTERM meanwhile: each of the others is delivered once`(
        takenCount: Int,
        isAtMostOnce: Bool
    ) async throws {
        let record = Self.service(bad: [301])
        let strikes = [ChainRun.Strike(takenCount: takenCount, signal: SIGTERM)]
        let outcome = try await ChainRun(lineCount: 1000, strikes: strikes, isAtMostOnce: isAtMostOnce)(record)
        Self.expectAll(outcome, record, rejected: [301])
        let strikeCount = outcome.strikeCount
        #expect(strikeCount == 1)
    }

    @Test(arguments: TestEffort.isLong ? [false, true] : [true])
    func `SIGTERM while line 101 waits for a retry, with later ones delivered: each is delivered once`(
        isAtMostOnce: Bool
    ) async throws {
        let isWell = NIOLockedValueBox(false)
        let record = ChainRecord { occasion in
            occasion.number == 101 && !isWell.withLockedValue { $0 } ? .unavailable : ChainRecord.Answer()
        }
        let strikes = [ChainRun.Strike(takenCount: 299, signal: SIGTERM)]
        // A fifth of it remains for the end, which a busy machine may need.
        let run = ChainRun(lineCount: 300, strikes: strikes, isAtMostOnce: isAtMostOnce, limits: "{shutdown: 5s}")
        let outcome = try await run(record) { gateway in
            // Status 10 names the previous one.
            try await gateway.lines("error response sent", "\"apns.legacy.error.status\":\"10 (shutdown)\"")
            isWell.withLockedValue { $0 = true }
        }
        Self.expectAll(outcome, record)
    }

    @Test(arguments: TestEffort.isLong ? [false, true] : [false])
    func `notifications in flight at SIGTERM, and answered while the gateway ends, are delivered once`(
        isAtMostOnce: Bool
    ) async throws {
        let record = ChainRecord { occasion in
            switch occasion.number {
            case 150: .badToken
            case 101...: ChainRecord.Answer(moment: .held)
            default: ChainRecord.Answer()
            }
        }
        let strikes = [ChainRun.Strike(takenCount: 299, signal: SIGTERM)]
        let run = ChainRun(lineCount: 300, strikes: strikes, isAtMostOnce: isAtMostOnce, limits: "{shutdown: 10s}")
        let outcome = try await run(record) { gateway in
            try await gateway.lines("stopping: delivering")
            record.release()
        }
        Self.expectAll(outcome, record, rejected: [150])
    }

    @Test func `with at least once, SIGKILL loses nothing, and duplicates are flagged`() async throws {
        let record = Self.service(bad: [301])
        let outcome = try await ChainRun(lineCount: Self.lineCount, strikes: Self.kills)(record)
        let isConsistent = outcome.isConsistent
        #expect(isConsistent, "\(outcome.report)")
        let counts = outcome.counts
        #expect(counts == ["accepted": Self.lineCount - 1, "rejected": 1], "\(outcome.report)")
    }

    @Test func `with at most once, SIGKILL duplicates nothing, and possible losses are reported`() async throws {
        let record = Self.service(bad: [301])
        // Only these are in doubt at each signal.
        let options = ["--window", "100"]
        let run = ChainRun(lineCount: Self.lineCount, strikes: Self.kills, isAtMostOnce: true, options: options)
        let outcome = try await run(record)
        let strikeCount = outcome.strikeCount
        #expect(strikeCount == Self.kills.count)
        let isConsistent = outcome.isConsistent
        #expect(isConsistent, "\(outcome.report)")
        let code = outcome.provider.ending.code
        #expect(code == 75, "\(outcome.report)")
    }

    @Test func `repeated SIGHUP does not affect delivery`() async throws {
        let record = Self.service(bad: [301])
        let strikes = stride(from: 50, to: Self.lineCount - 50, by: 100).map {
            ChainRun.Strike(takenCount: $0, signal: SIGHUP)
        }
        let outcome = try await ChainRun(lineCount: Self.lineCount, strikes: strikes)(record)
        Self.expectAll(outcome, record, rejected: [301])
        let strikeCount = outcome.strikeCount
        #expect(strikeCount == strikes.count)
    }
}

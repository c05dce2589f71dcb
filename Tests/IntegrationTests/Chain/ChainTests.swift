// SPDX-License-Identifier: Apache-2.0

import Foundation
import NIOConcurrencyHelpers
import TestSupport
import Testing

/// Goal: what a gateway told its provider to send again is delivered once, also where another process of that gateway
/// gets the resends.
@Suite(.serialized, .timeLimit(.minutes(2))) struct ChainTests {
    private static let lineCount = TestEffort.count(600, long: 1000)
    private static let kills = (TestEffort.isLong ? [50, 350, 600] : [50, 250, 400]).map {
        ChainRun.Strike(takenCount: $0, signal: SIGKILL)
    }

    /// A service that accepts all but some tokens.
    private static func service(bad: Set<Int>) -> ChainRecord {
        ChainRecord { bad.contains($0.number) ? .badToken : ChainRecord.Answer() }
    }

    /// Expects each line to be accepted and taken once, apart from those that are rejected, and nobody to be in doubt:
    /// a gateway that ends in order tells what it took.
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
    func `SIGTERM while line 101 waits for another try, with those behind it delivered: each is delivered once`(
        isAtMostOnce: Bool
    ) async throws {
        let isWell = NIOLockedValueBox(false)
        let record = ChainRecord { occasion in
            occasion.number == 101 && !isWell.withLockedValue { $0 } ? .unavailable : ChainRecord.Answer()
        }
        let strikes = [ChainRun.Strike(takenCount: 299, signal: SIGTERM)]
        let run = ChainRun(lineCount: 300, strikes: strikes, isAtMostOnce: isAtMostOnce, limits: "{shutdown: 1s}")
        let outcome = try await run(record) { gateway in
            // Status 10 names the last one before it.
            try await gateway.lines("error response sent", "\"push.error.status\":\"10 (shutdown)\"")
            isWell.withLockedValue { $0 = true }
        }
        Self.expectAll(outcome, record)
    }

    @Test(arguments: TestEffort.isLong ? [false, true] : [false])
    func `what is under way at SIGTERM, and answered while the gateway ends, is delivered once`(
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

    @Test func `SIGKILL loses nothing at least once, and what is delivered twice is flagged`() async throws {
        let record = Self.service(bad: [301])
        let outcome = try await ChainRun(lineCount: Self.lineCount, strikes: Self.kills)(record)
        let isConsistent = outcome.isConsistent
        #expect(isConsistent, "\(outcome.report)")
        let counts = outcome.counts
        #expect(counts == ["accepted": Self.lineCount - 1, "rejected": 1], "\(outcome.report)")
    }

    @Test func `SIGKILL delivers nothing twice at most once, and what may be lost is reported`() async throws {
        let record = Self.service(bad: [301])
        // So that no more than these are in doubt with each signal.
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

    @Test func `SIGHUP again and again changes nothing about what is delivered`() async throws {
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

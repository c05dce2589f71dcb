// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

/// Goal: for any responses of the service and any end of the gateway, the provider's results match the service's
/// record.
@Suite(.serialized, .timeLimit(.minutes(2))) struct ChainRandomTests {
    static let seeds: ClosedRange<UInt64> = 1...TestEffort.count(3, long: 50)

    /// The events of a chain, determined by its seed.
    struct Plan: CustomStringConvertible {
        let run: ChainRun
        private let bad: Set<Int>
        private let dead: Set<Int>
        /// How often these lines receive 503 before they are accepted.
        private let troubled: [Int: Int]
        /// Between these numbers of requests, all responses are 503.
        private let outage: Range<Int>
        private let slowPercent: UInt64
        private let millisecondsMax: UInt64
        private let seed: UInt64

        init(seed: UInt64) {
            var random = SplitMix64(seed: seed)
            let count = 200 + random.below(301)
            func lines(_ below: Int) -> Set<Int> { Set((0..<random.below(below)).map { _ in 1 + random.below(count) }) }
            let strikes = (0..<1 + random.below(3)).map { _ in
                ChainRun.Strike(
                    takenCount: random.below(count),
                    signal: [SIGTERM, SIGTERM, SIGTERM, SIGKILL, SIGHUP][random.below(5)]
                )
            }
            // Most signals arrive while the consequences of a rejection or retry are pending.
            func near(_ percent: Int) -> Set<Int> {
                let places = strikes.filter { _ in random.chance(percent) }.map {
                    $0.takenCount + random.below(60) - 20
                }
                return Set(places.map { min(max(1, $0), count) })
            }
            self.seed = seed
            self.bad = lines(3).union(near(60))
            self.dead = lines(5).subtracting(self.bad)
            let troubled = lines(3).union(near(40)).sorted()
            self.troubled = Dictionary(uniqueKeysWithValues: troubled.map { ($0, 1 + random.below(8)) })
            let outageStart = random.below(2 * count)
            self.outage = outageStart..<outageStart + (random.chance(30) ? random.below(60) : 0)
            self.slowPercent = [0, 10, 50, 100][random.below(4)]
            let inFlight = [10, 100, 1000][random.below(3)]
            // With few in flight, long waits would add up.
            self.millisecondsMax = [3, 30, inFlight == 10 ? 30 : 300][random.below(3)]
            let window = [20, 100, 1000][random.below(3)]
            self.run = ChainRun(
                lineCount: count,
                strikes: strikes.sorted { $0.takenCount < $1.takenCount },
                isAtMostOnce: random.chance(50),
                options: ["--connections", "\(1 + random.below(3))", "--window", "\(window)"],
                limits: "{shutdown: 3s, inFlightPerConnection: \(inFlight)}"
            )
        }

        var description: String {
            """
            seed \(self.seed): \(self.run.lineCount) lines, \(self.run.isAtMostOnce ? "at most" : "at least") once, \
            \(self.run.options.joined(separator: " ")), \(self.run.limits), \(self.run.strikes), 400 for \
            \(self.bad.sorted()), 410 for \(self.dead.sorted()), 503 for \(self.troubled), and for requests \
            \(self.outage); \(self.slowPercent) % are answered after up to \(self.millisecondsMax) ms
            """
        }

        /// The service, whose responses overtake each other.
        func record() -> ChainRecord {
            ChainRecord { [self] occasion in
                var answer = ChainRecord.Answer()
                if self.bad.contains(occasion.number) { answer = .badToken }
                if self.dead.contains(occasion.number) { answer = .dead }
                if occasion.attempt <= self.troubled[occasion.number] ?? 0 { answer = .unavailable }
                if self.outage.contains(occasion.requestCount) { answer = .unavailable }
                var random = SplitMix64(
                    seed: self.seed &* 1_000_003 &+ UInt64(occasion.number * 101 + occasion.attempt)
                )
                guard random.next() % 100 < self.slowPercent else { return answer }
                answer.moment = .after(milliseconds: Int64(1 + random.next() % self.millisecondsMax))
                return answer
            }
        }
    }

    @Test(arguments: Self.seeds)
    func `with random signals, responses and limits, the results match what the service did`(seed: UInt64) async throws
    {
        let plan = Plan(seed: seed)
        let record = plan.record()
        let outcome = try await plan.run(record)
        let isConsistent = outcome.isConsistent
        #expect(isConsistent, "\(plan)\n\(outcome.report)")
        // 75 if something is indeterminate, which happens only at most once.
        let codes: [Int32] = plan.run.isAtMostOnce ? [0, 1, 75] : [0, 1]
        let code = outcome.provider.ending.code ?? -1
        #expect(codes.contains(code), "\(plan)\n\(outcome.report)")
        let isInOrder = outcome.gateways.allSatisfy { $0.code == 0 || $0.signal == SIGKILL }
        #expect(isInOrder, "\(plan)\n\(outcome.report)")
        if TestEffort.isLong {
            print("\(plan): \(outcome.counts), \(outcome.flagged.count) flagged, \(outcome.seconds) s")
        }
    }
}

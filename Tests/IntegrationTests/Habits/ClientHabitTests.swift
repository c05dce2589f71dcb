// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

/// Goal: whatever the habits of an old client, and whatever happens to the gateway, nothing is lost that an error
/// response says is accepted, and nothing is delivered twice that the client did not send twice by itself.
@Suite(.serialized, .timeLimit(.minutes(10))) struct ClientHabitTests {
    private static let seeds = TestEffort.seeds(1, long: 20)
    private static let faults: [HabitRun.Fault] =
        TestEffort.isLong ? HabitRun.Fault.allCases : [.kill, .lostService, .badToken, .lostAnswer]

    /// A client and a fault, over all seeds.
    private struct Cell {
        var counts = HabitOracle.Counts()
        var violations: [HabitOracle.Violation: (seedCount: Int, count: Int)] = [:]

        mutating func add(_ oracle: HabitOracle) {
            self.counts += oracle.counts
            for (violation, numbers) in oracle.violations {
                let before = self.violations[violation] ?? (0, 0)
                self.violations[violation] = (before.seedCount + 1, before.count + numbers.count)
            }
        }

        func row(_ fault: HabitRun.Fault, _ habits: ClientHabits) -> String {
            let counts = self.counts
            let broken = HabitOracle.Violation.allCases.compactMap { violation in
                self.violations[violation].map { "\(violation.rawValue): \($0.count) in \($0.seedCount) seeds" }
            }
            return """
                | \(fault.rawValue) | \(habits.name) | \(counts.written) | \(counts.toldAccepted) | \
                \(counts.toldFailed) | \(counts.resentAsTold) | \(counts.resentUnproved) | \(counts.lost) | \
                \(counts.doubled) | \(counts.repeatedRequests) | \(counts.shutdownCount) | \
                \(broken.joined(separator: "; ")) |
                """
        }
    }

    @Test(arguments: Self.faults)
    func `the records of clients and service agree, for each habit`(fault: HabitRun.Fault) async throws {
        var cells = ClientHabits.all.map { _ in Cell() }
        for seed in Self.seeds {
            let run = HabitRun(fault, ClientHabits.all, seed: seed)
            let outcome = try await run()
            let lines = outcome.log.split(separator: "\n")
            for (index, habits) in run.habits.enumerated() {
                let oracle = HabitOracle(index, of: run, outcome, lines)
                cells[index].add(oracle)
                let violations = oracle.violations.sorted { $0.key.rawValue < $1.key.rawValue }
                    .map { "\($0.key.rawValue): \($0.value.count), first \($0.value.min().map { "\($0)" } ?? "-")" }
                #expect(violations.isEmpty, "\(fault.rawValue), \(habits.name), seed \(seed)")
            }
            let endings = outcome.endings
            let isInOrder = endings.allSatisfy { $0.code == 0 || fault == .kill && $0.signal == SIGKILL }
            #expect(isInOrder, "\(fault.rawValue), seed \(seed): \(endings)")
            if TestEffort.isLong { print("\(fault.rawValue), seed \(seed): \(outcome.seconds) s") }
        }
        guard TestEffort.isLong else { return }
        print(
            "| fault | client | written | told accepted | told failed | resent, told | resent, no proof | lost",
            "| delivered twice | requests repeated | status 10 | broken promises |"
        )
        for (habits, cell) in zip(ClientHabits.all, cells) { print(cell.row(fault, habits)) }
    }
}

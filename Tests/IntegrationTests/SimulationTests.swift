// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

/// Goal: with any order of events, faults of a network and a disk, and deaths, the programs keep their promises.
///
/// Method: `Tests/Simulation` runs them in one process from a seed. In the long run, an hour of random seeds.
@Suite(.timeLimit(.minutes(TestEffort.isLong ? 75 : 3))) struct SimulationTests {
    private static func run(_ arguments: [String], deadline: Int64) async throws -> (code: Int32?, lines: [String]) {
        let folder = try TemporaryFolder()
        let output = folder.path + "/output"
        let program = URL(filePath: try Child.program).deletingLastPathComponent().appending(path: "Simulation").path
        let child = try Child(arguments, Child.Streams(output: output), program: program, deadline: deadline)
        let ending = try await child.end()
        let text = try String(contentsOfFile: output, encoding: .utf8)
        return (ending.code, text.split(separator: "\n").map(String.init))
    }

    @Test func `no seed breaks a promise`() async throws {
        let (count, seconds) = TestEffort.isLong ? (Int(UInt32.max), 3600) : (40, 60)
        let first = TestEffort.isLong ? Int.random(in: 1...Int(UInt32.max)) : 1
        let run = try await Self.run(
            ["--first", "\(first)", "--count", "\(count)", "--seconds", "\(seconds)"],
            deadline: Int64(seconds + 150)
        )
        #expect(run.code == 0 && run.lines.last?.contains(" seeds, 0 failed, ") == true, "\(run.lines)")
    }

    /// A seed of each scenario.
    @Test(arguments: [1, 3, 4, 14]) func `a seed is replayed exactly`(seed: Int) async throws {
        let first = try await Self.run(["--seed", "\(seed)"], deadline: 60)
        let second = try await Self.run(["--seed", "\(seed)"], deadline: 60)
        #expect(first.code == 0 && first.lines.count > 10 && first.lines == second.lines)
    }
}

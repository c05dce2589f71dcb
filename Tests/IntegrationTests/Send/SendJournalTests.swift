// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import APNSWire
import Batch
import Foundation
import TestSupport
import Testing

/// Tests that kill the program repeatedly, or damage its journal.
@Suite(.timeLimit(.minutes(4))) struct SendJournalTests {
    static let count = TestEffort.count(600, long: 3000)

    /// Lines that no gateway accepts.
    static let bad = Set([1, 2, 700, 1500, 1501, 2400, 3000].filter { $0 <= count })

    static func device(_ line: Int) -> Int { Self.bad.contains(line) ? 1_000_000 + line : line }

    static func batch() -> String { (1...Self.count).map { SendScene.line(Self.device($0), id: "\($0)") }.joined() }

    /// Connections are slow and sometimes fail without a response, and responses are late.
    static let faults =
        (1...300).map {
            Fault(at: .notificationOverall(UInt64($0 * 1117)), .closeAfter, report: FaultReport(ending: .reset))
        } + [
            Fault(at: .always, .slowReading(TransferPace(byteCount: 8192, interval: .milliseconds(10)))),
            Fault(at: .always, .errorResponse, report: FaultReport(delay: .milliseconds(60))),
        ]

    /// Runs a command repeatedly, and kills it at random times, until it finishes.
    ///
    /// - Returns: the number of kills, and the last run.
    static func runKilling(
        _ scene: SendScene,
        _ arguments: [String],
        at simulator: Simulator,
        port: Int,
        killCountMax: Int,
        random: inout SplitMix64
    ) async throws -> (killCount: Int, last: SendScene.Run) {
        var killCount = 0
        while true {
            let streams = Child.Streams(output: scene.path("out"), error: scene.path("err"))
            let child = try Child(["send"] + scene.endpoint(port) + arguments, streams)
            if killCount < killCountMax {
                try await Self.killAtRandom(child, simulator, &random)
            }
            let ending = try await child.end()
            #expect(!ending.isOverdue)
            if ending.signal == SIGKILL {
                killCount += 1
                continue
            }
            return (killCount, SendScene.Run(ending: ending, output: scene.read("out"), error: scene.read("err")))
        }
    }

    /// One time in four, kills the program within a few milliseconds, before or while it reads; otherwise after the
    /// gateway has accepted some more notifications.
    static func killAtRandom(_ child: Child, _ simulator: Simulator, _ random: inout SplitMix64) async throws {
        guard random.next() % 4 != 0 else {
            return child.send(SIGKILL, after: .milliseconds(Int64(random.next() % 200)))
        }
        let count = simulator.statistics.processedCount + Int(random.next() % 400)
        try await eventually("some more are taken", within: .seconds(60)) {
            simulator.statistics.processedCount > count || child.hasEnded
        }
        child.send(SIGKILL)
    }

    @Test(arguments: ["binary", "http2"])
    func `what an earlier run may have delivered is never reported as unsent`(_ transport: String) async throws {
        let scene = try SendScene()
        let path = try scene.write("a.jsonl", (1...20).map { SendScene.line($0) }.joined())
        let journal = ["--journal", scene.path("journal"), "--results", scene.path("results.jsonl")]
        let arguments = [path, "--transport", transport] + journal
        // The service receives all, and answers nothing.
        try await SendScene.withGateway(faults: [Fault(at: .always, .ignore)]) { simulator in
            let port = transport == "http2" ? simulator.http2Port : simulator.gatewayPort
            let child = try Child(["send"] + scene.endpoint(port) + arguments, Child.Streams())
            // All lines are written at once.
            try await eventually("the lines are received") { simulator.statistics.messageCount > 0 }
            child.send(SIGKILL)
            _ = try await child.end()
        }
        let run = try await scene.send(arguments + ["--give-up-after", "2"], port: try ReservedPort().number)
        let results = try scene.results()
        #expect(results.map(\.line).sorted() == Array(1...20), "\(run)")
        #expect(results.allSatisfy { $0.outcome == "indeterminate" }, "\(run)")
        #expect(run.error.contains("20 indeterminate") && !run.error.contains("unsent"), "\(run.error)")
        #expect(run.warned(naming: "--journal \(scene.path("journal"))"), "\(run.error)")
    }

    @Test(arguments: [["at-least-once", "1"], ["at-least-once", "3"], ["at-most-once", "1"]])
    func `despite kills at random times, nothing is lost and no duplicate is unflagged`(
        _ options: [String]
    ) async throws {
        let isOnce = options[0] == "at-most-once"
        let killCountMin = TestEffort.count(3, long: 20)
        var random = SplitMix64(seed: UInt64(options[1].utf8.first ?? 0) + (isOnce ? 10 : 0))
        var killCount = 0
        var round = 0
        while killCount < killCountMin {
            round += 1
            let scene = try SendScene()
            try scene.write("batch.jsonl", Self.batch())
            let seed = random.next()
            let count = try await SendScene.withGateway(deviceCount: Self.count, faults: Self.faults) { simulator in
                var random = SplitMix64(seed: seed)
                let (count, last) = try await Self.runKilling(
                    scene,
                    [
                        scene.path("batch.jsonl"), "--results", scene.path("results.jsonl"), "--journal",
                        scene.path("journal"), "--delivery", options[0], "--connections", options[1], "--window", "200",
                        "--summary", "json",
                    ],
                    at: simulator,
                    port: simulator.gatewayPort,
                    killCountMax: killCountMin,
                    random: &random
                )
                try Self.check(scene, simulator, last, isOnce: isOnce)
                let doubled = try (1...Self.count).count { try simulator.count($0) > 1 }
                #expect(isOnce || count < 3 || doubled > Self.count / 15, "The kills must double something.")
                print("\(doubled) lines went twice, \(try scene.results().count(where: \.isFlagged)) are flagged")
                return count
            }
            killCount += count
            try #require(round <= 20, "\(killCount) kills in \(round) rounds")
        }
        print("\(killCount) kills in \(round) batches, \(options)")
    }

    static func check(_ scene: SendScene, _ simulator: Simulator, _ last: SendScene.Run, isOnce: Bool) throws {
        #expect(last.ending.code == 1 || (isOnce && last.ending.code == 75), "\(last.ending) \(last.error)")
        let summary = try SummaryObject.last(of: last.output)
        let results = try scene.results()
        #expect(results.map(\.line).sorted() == Array(1...Self.count))
        #expect(summary.addsUp && summary.total == Self.count)
        #expect(summary.accepted == results.count { $0.outcome == "accepted" })
        #expect(summary.indeterminate == results.count { $0.outcome == "indeterminate" })
        #expect(summary.possibleDuplicates == results.count { $0.isFlagged })
        #expect(summary.unsent == 0)
        for result in results {
            let count = try simulator.count(Self.device(result.line))
            if isOnce {
                #expect(count <= 1, "line \(result.line) went \(count) times")
                #expect(result.outcome != "accepted" || count == 1)
                #expect(result.outcome != "rejected" || count == 0)
            } else if Self.bad.contains(result.line) {
                #expect(result.outcome == "rejected" && count == 0)
            } else {
                #expect(result.outcome == "accepted" && count >= 1, "line \(result.line) is lost")
                #expect(count == 1 || result.isFlagged, "line \(result.line) went \(count) times, and is not flagged")
            }
        }
    }

    @Test func `a journal truncated at any byte continues, or is rejected if it no longer is a journal`() async throws {
        let scene = try SendScene()
        let count = 3
        try scene.write("batch.jsonl", (1...count).map { SendScene.line($0 == 2 ? 1_000_000 : $0) }.joined())
        try await SendScene.withGateway(deviceCount: 10) { simulator in
            let arguments = [
                scene.path("batch.jsonl"), "--results", scene.path("results.jsonl"), "--journal", scene.path("journal"),
            ]
            let first = try await scene.send(arguments, port: simulator.gatewayPort)
            #expect(first.ending.code == 1, "\(first.error)")
            let (journal, results) = (scene.read("journal"), scene.read("results.jsonl"))
            let intent = try #require(journal.range(of: "intent [0-9]+ [0-9a-f]+\n", options: .regularExpression))
            let intendedCount = journal.utf8.distance(from: journal.startIndex, to: intent.upperBound)
            try scene.write("journal", [])
            let emptied = try await scene.send(arguments, port: simulator.gatewayPort)
            #expect(emptied.failed(65, .recordsLost, of: scene.path("journal")), "\(emptied.error)")
            #expect(scene.read("results.jsonl") == results)
            for length in stride(from: 1, to: journal.utf8.count, by: TestEffort.isLong ? 1 : 47) {
                try scene.write("journal", Array(journal.utf8.prefix(length)))
                try scene.write("results.jsonl", results)
                let before = try [1, 3].map { try simulator.count($0) }
                let run = try await scene.send(arguments, port: simulator.gatewayPort)
                guard length >= intendedCount else {
                    // The results prove that the intent was there.
                    #expect(
                        run.failed(65, .recordsLost, of: scene.path("results.jsonl")),
                        "cut at \(length): \(run.ending) \(run.error)"
                    )
                    #expect(scene.read("results.jsonl") == results)
                    continue
                }
                #expect(run.ending.code == 1, "cut at \(length): \(run.ending) \(run.error)")
                let lines = try scene.results().sorted { $0.line < $1.line }
                #expect(lines.map(\.line) == [1, 2, 3], "cut at \(length)")
                #expect(lines.map(\.outcome) == ["accepted", "rejected", "accepted"], "cut at \(length)")
                for (line, count) in zip([1, 3], before) where try simulator.count(line) > count {
                    #expect(lines[line - 1].isFlagged, "cut at \(length), line \(line)")
                }
            }
        }
    }

    @Test func `a batch that is complete is not sent again`() async throws {
        let scene = try SendScene()
        try scene.write("batch.jsonl", (1...5).map { SendScene.line($0) }.joined())
        try await SendScene.withGateway { simulator in
            let arguments = [
                scene.path("batch.jsonl"), "--results", scene.path("results.jsonl"), "--journal", scene.path("journal"),
            ]
            for _ in 0..<2 {
                let run = try await scene.send(arguments, port: simulator.gatewayPort)
                #expect(run.ending.code == 0, "\(run.error)")
                #expect(try scene.results().map(\.line) == Array(1...5))
            }
            #expect(simulator.statistics.processedCount == 5)
            try scene.write("batch.jsonl", (1...5).map { SendScene.line($0 + 1) }.joined())
            let other = try await scene.send(arguments, port: simulator.gatewayPort)
            #expect(other.failed(65, .otherBatch, of: scene.path("journal")), "\(other)")
            #expect(simulator.statistics.processedCount == 5)
        }
    }

    @Test func `a complete journal with truncated results is reported, and nothing is sent`() async throws {
        let scene = try SendScene()
        try scene.write("batch.jsonl", (1...5).map { SendScene.line($0) }.joined())
        try await SendScene.withGateway { simulator in
            let arguments = [
                scene.path("batch.jsonl"), "--results", scene.path("results.jsonl"), "--journal", scene.path("journal"),
            ]
            let first = try await scene.send(arguments, port: simulator.gatewayPort)
            #expect(first.ending.code == 0, "\(first.error)")
            let results = scene.read("results.jsonl")
            for count in [results.utf8.count - 1, 1, 0] {
                try scene.write("results.jsonl", Array(results.utf8.prefix(count)))
                let run = try await scene.send(arguments, port: simulator.gatewayPort)
                #expect(run.failed(65, .resultsChanged, of: scene.path("results.jsonl")), "\(run.ending) \(run.error)")
                #expect(scene.read("results.jsonl").utf8.count == count)
            }
            try FileManager.default.removeItem(atPath: scene.path("results.jsonl"))
            let gone = try await scene.send(arguments, port: simulator.gatewayPort)
            #expect(gone.ending.code == 65 && !FileManager.default.fileExists(atPath: scene.path("results.jsonl")))
            try scene.write("results.jsonl", results)
            let whole = try await scene.send(arguments, port: simulator.gatewayPort)
            #expect(whole.ending.code == 0, "\(whole.error)")
            #expect(simulator.statistics.processedCount == 5)
        }
    }

    @Test func `a flipped bit in a journal is reported with the line number, and nothing is sent`() async throws {
        let scene = try SendScene()
        let arguments = [
            scene.path("batch.jsonl"), "--results", scene.path("results.jsonl"), "--journal", scene.path("journal"),
            "--delivery", "at-most-once",
        ]
        try scene.write("batch.jsonl", (1...300).map { SendScene.line($0) }.joined())
        let faults = [Fault(at: .notificationOverall(151), .closeAfter, report: FaultReport(ending: .reset))]
        try await SendScene.withGateway(deviceCount: 300, faults: faults) { simulator in
            _ = try await scene.send(arguments, port: simulator.gatewayPort)
            let count = simulator.statistics.processedCount
            let journal = Array(scene.read("journal").utf8)
            let results = scene.read("results.jsonl")
            var random = SplitMix64(seed: 7)
            for _ in 0..<TestEffort.count(3, long: 8) {
                var bytes = journal
                let index = Int(random.next() % UInt64(bytes.count))
                bytes[index] ^= 1 << UInt8(random.next() % 8)
                try scene.write("journal", bytes)
                let line = journal.prefix(index).count { $0 == 0x0A } + 1
                let run = try await scene.send(arguments, port: simulator.gatewayPort)
                #expect(run.ending.code == 65, "byte \(index): \(run.ending) \(run.error)")
                #expect(run.failed(65, at: scene.path("journal"), line: line) || line == 1, "\(run.error)")
                #expect(scene.read("results.jsonl") == results)
            }
            #expect(simulator.statistics.processedCount == count)
        }
    }

    @Test func `an indeterminate notification exits with 75, even if the batch is complete`() async throws {
        let scene = try SendScene()
        let arguments = [
            scene.path("batch.jsonl"), "--results", scene.path("results.jsonl"), "--journal", scene.path("journal"),
            "--delivery", "at-most-once", "--summary", "json",
        ]
        try scene.write("batch.jsonl", (1...300).map { SendScene.line($0) }.joined())
        let faults = [Fault(at: .notificationOverall(151), .closeAfter, report: FaultReport(ending: .reset))]
        try await SendScene.withGateway(deviceCount: 300, faults: faults) { simulator in
            for number in 1...3 {
                let count = simulator.statistics.connectionCount
                let run = try await scene.send(arguments, port: simulator.gatewayPort)
                #expect(run.ending.code == 75, "run \(number): \(run.ending) \(run.error)")
                let summary = try SummaryObject.last(of: run.output)
                #expect(summary.addsUp && summary.total == 300 && summary.indeterminate > 0)
                #expect(summary.accepted + summary.indeterminate == 300)
                // The batch is complete.
                #expect(number == 1 || simulator.statistics.connectionCount == count, "\(run.error)")
            }
        }
    }

    @Test func `lines that a stopped run did not send are sent by the next run, also with at most once`() async throws {
        let scene = try SendScene()
        let count = 500
        try scene.write("batch.jsonl", (1...count).map { SendScene.line($0) }.joined())
        let arguments = [
            scene.path("batch.jsonl"), "--results", scene.path("results.jsonl"), "--journal", scene.path("journal"),
            "--delivery", "at-most-once", "--give-up-after", "1",
        ]
        // The port is closed.
        let first = try await scene.send(arguments, port: 1)
        #expect(first.ending.code == 69, "\(first.error)")
        #expect(try scene.results().allSatisfy { $0.outcome == "unsent" && !$0.isFlagged })
        try await SendScene.withGateway(deviceCount: count) { simulator in
            let second = try await scene.send(arguments, port: simulator.gatewayPort)
            #expect(second.ending.code == 0, "\(second.error)")
            let results = try scene.results()
            #expect(results.map(\.line).sorted() == Array(1...count))
            #expect(results.allSatisfy { $0.outcome == "accepted" && !$0.isFlagged })
            #expect(simulator.statistics.processedCount == count)
        }
    }
}

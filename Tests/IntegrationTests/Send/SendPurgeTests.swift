// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSimulator
import APNSWire
import Foundation
import GRDB
import TestSupport
import TokenStore
import Testing

/// `send` with a purge list.
@Suite(.timeLimit(.minutes(TestEffort.count(2, long: 5)))) struct SendPurgeTests {
    let scene: SendScene

    init() throws {
        self.scene = try SendScene()
    }

    private var options: [String] { ["--purge-list", self.scene.purgeList, "--purge-environment", "production"] }

    @Test func `tokens on the list are not sent, which results, summary and exit code show`() async throws {
        try self.scene.addDead([2, 4])
        try self.scene.addDead([1], environment: .sandbox)
        try self.scene.addDead([3], topic: "org.example")
        let path = try self.scene.write("batch.jsonl", (1...5).map { SendScene.line($0) }.joined())
        let scene = self.scene
        let arguments = [path, "--results", "-", "--summary", "json"] + self.options
        try await SendScene.withGateway { simulator in
            let run = try await scene.send(arguments, port: simulator.gatewayPort)
            #expect(run.ending.code == 1)
            #expect(run.error.contains("2 suppressed"), "\(run.error)")
            let results = run.output.split(separator: "\n").filter { $0.contains("\"suppressed\",") }
            #expect(results.count == 2 && results.allSatisfy { $0.contains("it is on the purge list") })
            #expect(run.output.contains("\"suppressed\":2"))
            for device in 1...5 { #expect(try simulator.count(device) == (device.isMultiple(of: 2) ? 0 : 1)) }
        }
    }

    @Test func `the topic may differ from the certificate's, and a dry run counts dead tokens`() async throws {
        try self.scene.addDead([2], topic: "org.example")
        let path = try self.scene.write("batch.jsonl", (1...3).map { SendScene.line($0) }.joined())
        let arguments = ["send", path, "--dry-run", "--topic", "org.example", "--summary", "json"] + self.options
        let run = try await self.scene.run(arguments)
        #expect(run.ending.code == 1)
        #expect(try ["ready", "invalid", "suppressed"].map { try run.counts[$0] } == [2, 0, 1], "\(run)")
    }

    /// What a run was killed before it wrote to the journal.
    enum Kill: String, CaseIterable {
        /// The last accepted lines and all that follows.
        case outcome = " accepted "
        /// The record that every line has an outcome, and the next one.
        case completion = "complete "
        /// The record that the rejected tokens are on the list.
        case listing = "listed "
    }

    @Test(arguments: Kill.allCases) func `the run after a killed one adds the rejected tokens of both to the list once`(
        _ kill: Kill
    ) async throws {
        let devices = [1, 1_000_000, 1_000_001, 2, 3]
        let batch = try self.scene.write("batch.jsonl", devices.map { SendScene.line($0) }.joined())
        let scene = self.scene
        let arguments = [
            batch, "--purge-rejected", "--journal", scene.path("journal"), "--results", scene.path("results.jsonl"),
        ]
        let options = self.options
        let tokens = [1_000_000, 1_000_001].map { SendScene.token($0) }
        try await SendScene.withGateway { simulator in
            try scene.addDead([])
            let begin = Int64(time(nil))
            _ = try await scene.send(arguments + options, port: simulator.gatewayPort)
            let end = Int64(time(nil))
            try scene.cutJournal(before: kill.rawValue)
            _ = try await scene.purge("forget", tokens.flatMap { ["--token", $0] })
            #expect(try scene.purged().isEmpty)
            try await eventually("a later time") { Int64(time(nil)) > end }
            let next = try await scene.send(arguments + options, port: simulator.gatewayPort)
            #expect(next.ending.code == 1 && next.error.contains("2 rejected tokens"), "\(next)")
            #expect(!next.error.contains("purge import"), "\(next)")
            #expect(try scene.results().map(\.line).sorted() == [1, 2, 3, 4, 5])
            var times: [Int64] = []
            try PurgeList(path: scene.purgeList).entries { times.append($0.failedAtSeconds) }
            // Devices that registered after the start of the first run are alive.
            #expect(times.count == 2 && times.allSatisfy { (begin...end).contains($0) }, "\(times)")
            // A single file, as all commands leave it.
            #expect(!FileManager.default.fileExists(atPath: scene.purgeList + "-wal"))
            _ = try await scene.purge("forget", tokens.flatMap { ["--token", $0] })
            let last = try await scene.send(arguments + options, port: simulator.gatewayPort)
            #expect(last.ending.code == 1 && !last.error.contains("purge list"), "\(last)")
            #expect(try scene.purged().isEmpty)
            for device in [1, 2, 3] where kill != .outcome { #expect(try simulator.count(device) == 1) }
        }
    }

    @Test func `if a killed run had nothing accepted, no import is advised`() async throws {
        let lines = [1_000_000, 1_000_001].map { SendScene.line($0) }
        let batch = try self.scene.write("batch.jsonl", lines.joined())
        let scene = self.scene
        let arguments = [
            batch, "--purge-rejected", "--journal", scene.path("journal"), "--results", scene.path("results.jsonl"),
        ]
        let options = self.options
        try await SendScene.withGateway { simulator in
            _ = try await scene.send(arguments + options, port: simulator.gatewayPort)
            try scene.cutJournal(before: "listed ")
            let run = try await scene.send(arguments + options, port: simulator.gatewayPort)
            #expect(run.error.contains("2 notifications rejected"), "\(run.error)")
            #expect(!run.error.contains("purge import"), "\(run.error)")
        }
    }

    @Test func `a list that is locked at the end causes exit code 75, with the remedy`() async throws {
        let ends = try SendExitTests.pipe()
        let scene = self.scene
        try scene.addDead([])
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let other = try DatabaseQueue(path: scene.purgeList, configuration: configuration)
        try await SendScene.withGateway { simulator in
            let streams = Child.Streams(input: ends.reading, output: scene.path("out"), error: scene.path("err"))
            let arguments = ["send", "-", "--purge-rejected", "--results", scene.path("results.jsonl")] + self.options
            let child = try Child(arguments + scene.endpoint(simulator.gatewayPort), streams, deadline: 60)
            close(ends.reading)
            let lines = Array("{}\n\(SendScene.line(1))\(SendScene.line(1_000_000))".utf8)
            #expect(lines.withUnsafeBytes { write(ends.writing, $0.baseAddress, $0.count) } == lines.count)
            // The list is open at this point.
            try await eventually("the bad line") { scene.read("results.jsonl").contains("invalid") || child.hasEnded }
            try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
            close(ends.writing)
            let ending = try await child.end()
            let error = scene.read("err")
            #expect(ending.code == 75 && error.contains("  apns-legacy purge import '"), "\(ending) \(error)")
            #expect(error.contains("1 accepted") && error.contains("1 rejected"), "\(error)")
        }
        try await other.writeWithoutTransaction { try $0.execute(sql: "COMMIT") }
    }

    @Test func `rejected tokens are added to the list only if requested`() async throws {
        let lines = [1, 1_000_000, 2, 1_000_001].map { SendScene.line($0) }
        let path = try self.scene.write("batch.jsonl", lines.joined())
        let scene = self.scene
        try scene.addDead([])
        let options = self.options
        try await SendScene.withGateway { simulator in
            let plain = try await scene.send([path] + options, port: simulator.gatewayPort)
            #expect(plain.ending.code == 1)
            #expect(try await scene.purge("list", ["--count"]).output == "0\n")
            let purging = try await scene.send([path, "--purge-rejected"] + options, port: simulator.gatewayPort)
            #expect(purging.ending.code == 1 && purging.error.contains("2 rejected tokens"), "\(purging)")
            let query = ["--source", "send", "--topic", SendScene.topic, "--environment", "production"]
            let listed = try await scene.purge("export", query)
            #expect(listed.output == SendScene.token(1_000_000) + "\n" + SendScene.token(1_000_001) + "\n")
            let again = try await scene.send([path] + options, port: simulator.gatewayPort)
            #expect(again.error.contains("2 suppressed") && !again.error.contains("rejected ("))
        }
    }

    @Test(arguments: [3, 100]) func `if all tokens are rejected, none is added to the list`(breaker: Int) async throws {
        let path = try self.scene.write("batch.jsonl", (0..<5).map { SendScene.line(1_000_000 + $0) }.joined())
        let scene = self.scene
        let arguments =
            [path, "--purge-rejected", "--stop-after-invalid-tokens", "\(breaker)"] + self.options
        try await SendScene.withGateway { simulator in
            let run = try await scene.send(arguments, port: simulator.gatewayPort)
            #expect(run.ending.code == (breaker == 3 ? 65 : 1))
            #expect(run.error.contains("purge list"), "\(run)")
            #expect(try await scene.purge("list", ["--count"]).output == "0\n")
        }
    }

    @Test func `the circuit breaker leaves the list unchanged, even if some were accepted`() async throws {
        let lines = [SendScene.line(1)] + (0..<5).map { SendScene.line(1_000_000 + $0) }
        let path = try self.scene.write("batch.jsonl", lines.joined())
        let scene = self.scene
        let arguments = [path, "--purge-rejected", "--stop-after-invalid-tokens", "3"] + self.options
        try await SendScene.withGateway { simulator in
            let run = try await scene.send(arguments, port: simulator.gatewayPort)
            #expect(run.failed(65, .tooManyInvalidTokens), "\(run)")
            #expect(try await scene.purge("list", ["--count"]).output == "0\n")
        }
    }

    @Test func `invalid options or an invalid list exit with 64, 65 or 66 before anything is sent`() async throws {
        let path = try self.scene.write("batch.jsonl", SendScene.line(1))
        for (arguments, code, text) in [
            (["--topic", "a"], 64, "--topic needs --purge-list"), (["--purge-rejected"], 64, "needs --purge-list"),
            (["--purge-list", self.scene.purgeList], 64, "--purge-environment"), (self.options, 66, "does not exist"),
        ] as [([String], Int32, String)] {
            let run = try await self.scene.send([path] + arguments, port: 1)
            #expect(run.ending.code == code && run.error.contains(text), "\(arguments) \(run)")
        }
        try self.scene.write("purge.db", String(repeating: "no list\n", count: 100))
        #expect(try await self.scene.send([path] + self.options, port: 1).ending.code == 65)
    }

    @Test(.enabled(if: !SendMemoryTests.isSanitized)) func `a long list uses little memory`() async throws {
        try self.scene.addDead([])
        let list = try PurgeList(path: self.scene.purgeList)
        let count = TestEffort.count(20_000, long: 300_000)
        try list.record(
            (0..<count).lazy.map { number in
                PurgeEntry(
                    topic: SendScene.topic,
                    environment: .production,
                    token: [UInt8](repeating: 0xAB, count: 28) + withUnsafeBytes(of: UInt32(number), Array.init),
                    failedAt: 1_700_000_000,
                    firstSeen: 1_700_000_000,
                    source: "feedback"
                )
            }
        )
        let line = Array((SendScene.token(1) + "\n").utf8)
        var bytes: [UInt8] = []
        for _ in 0..<count { bytes += line }
        let path = try self.scene.write("tokens.txt", bytes)
        let scene = self.scene
        let options = self.options
        try await SendScene.withGateway { simulator in
            let arguments = ["--tokens", path, "--alert", "hello"] + options
            let streams = Child.Streams(output: scene.path("out"), error: scene.path("err"))
            let child = try Child(["send"] + scene.endpoint(simulator.gatewayPort) + arguments, streams, deadline: 100)
            var residentKiBMax = 0
            try await eventually("it ends", within: .seconds(120)) {
                residentKiBMax = max(residentKiBMax, child.residentKiBMax ?? 0)
                return child.hasEnded
            }
            let ending = try await child.end()
            #expect(ending.code == 0, "\(ending) \(scene.read("err"))")
            // 59 MiB, and up to 64 on a busy machine. With `--long`, a list in memory would need another 30.
            #expect(residentKiBMax > 0 && residentKiBMax <= 72 << 10)
            print("\(count) lines with a list of as many: \(residentKiBMax >> 10) MiB, \(ending.seconds) s")
        }
    }
}

extension SendScene {
    /// Removes the last records of the journal, from the last one with this text, as after a kill.
    func cutJournal(before text: String) throws {
        let records = self.read("journal").split(separator: "\n")
        let index = try #require(records.lastIndex { $0.contains(text) })
        try self.write("journal", records[..<index].map { $0 + "\n" }.joined())
    }
}

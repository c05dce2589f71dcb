// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import Batch
import Foundation
import TestSupport
import Testing

/// Goal: results and journals that were changed, lost records or vanish are an error, and no other file is written.
@Suite(.timeLimit(.minutes(2))) struct SendFilesTests {
    private static let count = 300
    let scene: SendScene

    init() throws {
        self.scene = try SendScene()
        try self.scene.write("batch.jsonl", (1...Self.count).map { SendScene.line($0) }.joined())
    }

    private var arguments: [String] {
        [self.scene.path("batch.jsonl"), "--results", self.scene.path("results.jsonl")]
    }

    private var journal: [String] { ["--journal", self.scene.path("journal"), "--delivery", "at-most-once"] }

    @Test func `a batch whose results changed, or whose journal lost its end, is refused`() async throws {
        let (scene, arguments) = (self.scene, self.arguments + self.journal)
        // Some lines are indeterminate or unsent, so the batch is not complete.
        let faults = [Fault(at: .notificationOverall(151), .closeAfter, report: FaultReport(ending: .reset))]
        try await SendScene.withGateway(deviceCount: Self.count, faults: faults) { simulator in
            let first = try await scene.send(arguments + ["--window", "20"], port: simulator.gatewayPort)
            let count = simulator.statistics.processedCount
            let (results, journal) = (scene.read("results.jsonl"), scene.read("journal"))
            #expect(count > 150, "\(first)")
            let damages = [
                "{\"line\":0}\n" + results, String(repeating: "x", count: results.utf8.count),
                results.replacing("\"accepted\"", with: "\"rejected\"", maxReplacements: 1),
            ]
            for damaged in damages {
                try scene.write("results.jsonl", damaged)
                let run = try await scene.send(arguments, port: simulator.gatewayPort)
                #expect(run.failed(65, .resultsChanged, of: scene.path("results.jsonl")), "\(run)")
                #expect(scene.read("results.jsonl") == damaged && scene.read("journal") == journal)
            }
            try scene.write("results.jsonl", results)
            let lines = journal.split(separator: "\n").map { $0 + "\n" }
            let intents = lines.indices.filter { lines[$0].hasPrefix("intent ") }
            for index in [1, intents[0], intents[intents.count / 2]] {
                try scene.write("journal", lines[..<index].joined())
                let run = try await scene.send(arguments, port: simulator.gatewayPort)
                #expect(run.failed(65, .recordsLost, of: scene.path("results.jsonl")), "\(index): \(run)")
                #expect(scene.read("results.jsonl") == results)
            }
            #expect(simulator.statistics.processedCount == count)
        }
    }

    @Test(arguments: ["results.jsonl", "journal"]) func `a file that vanishes while the batch is sent is an error`(
        _ name: String
    ) async throws {
        let (scene, arguments) = (self.scene, self.arguments + self.journal + SendScene.json + ["--window", "20"])
        let pace = TransferPace(byteCount: 4096, interval: .milliseconds(20))
        try await SendScene.withGateway(deviceCount: Self.count, faults: [Fault(at: .always, .slowReading(pace))]) {
            simulator in
            let streams = Child.Streams(output: scene.path("out"), error: scene.path("err"))
            let child = try Child(["send"] + scene.endpoint(simulator.gatewayPort) + arguments, streams)
            try await eventually("some arrive") { simulator.statistics.processedCount > 0 }
            try FileManager.default.removeItem(atPath: scene.path(name))
            let ending = try await child.end()
            let said = scene.read("err")
            let error = try #require(try LogObject.parse(said).last { $0.level == "error" }, "\(ending) \(said)")
            #expect(ending.code == 65 && error.exitCode == 65 && said.contains(scene.path(name)), "\(ending) \(said)")
            let summary = scene.read("out")
            #expect(summary.contains("\"accepted\":"), "\(summary)")
            #expect(!summary.contains("\"continue"), "The same command would send notifications twice: \(summary)")
        }
    }

    @Test func `an input that was rewritten with its old time is not continued`() async throws {
        let (scene, arguments) = (self.scene, self.arguments + self.journal + ["--give-up-after", "1"])
        let text = (1...4000).map { SendScene.line($0) }.joined()
        let path = try scene.write("batch.jsonl", text)
        let time = try #require(try FileManager.default.attributesOfItem(atPath: path)[.modificationDate] as? Date)
        // Connections to port 1 are refused.
        #expect(try await scene.send(arguments, port: 1).ending.code == 69)
        try scene.write("batch.jsonl", text.replacing(SendScene.token(2000), with: SendScene.token(9999)))
        try FileManager.default.setAttributes([.modificationDate: time], ofItemAtPath: path)
        let run = try await scene.send(arguments, port: 1)
        #expect(run.failed(65, .otherBatch, of: scene.path("journal")), "\(run)")
        try scene.write("batch.jsonl", text)
        #expect(try await scene.send(arguments, port: 1).ending.code == 69)
    }

    @Test(arguments: [true, false]) func `a journal that is a pipe is refused before it is opened`(
        _ isDryRun: Bool
    ) async throws {
        try #require(mkfifo(self.scene.path("journal"), 0o600) == 0)
        let run = try await self.scene.send(self.arguments + self.journal + (isDryRun ? ["--dry-run"] : []), port: 1)
        #expect(run.failed(64, naming: "--journal \(self.scene.path("journal"))"), "\(run)")
        #expect(!FileManager.default.fileExists(atPath: self.scene.path("results.jsonl")))
    }

    @Test func `results do not go to the file that a link leads to, and only their owner may read them`() async throws {
        let (scene, arguments) = (self.scene, self.arguments)
        try await SendScene.withGateway(deviceCount: Self.count) { simulator in
            let path = scene.path("results.jsonl")
            let victim = try scene.write("victim", "precious")
            try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: victim)
            for options in [[], self.journal] {
                let run = try await scene.send(arguments + options, port: simulator.gatewayPort)
                #expect(run.failed(73, .linked, of: path), "\(run)")
            }
            try FileManager.default.removeItem(atPath: path)
            try FileManager.default.linkItem(atPath: victim, toPath: path)
            let run = try await scene.send(arguments, port: simulator.gatewayPort)
            #expect(run.failed(73, .linked, of: path), "\(run)")
            #expect(scene.read("victim") == "precious" && simulator.statistics.messageCount == 0)
            try FileManager.default.removeItem(atPath: path)
            try scene.write("results.jsonl", "old")
            try #require(chmod(path, 0o666) == 0)
            #expect(try await scene.send(arguments, port: simulator.gatewayPort).ending.code == 0)
            let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
            #expect(try mode == 0o600 && scene.results().count == Self.count)
        }
    }

    @Test func `results go to standard output by its path`() async throws {
        let (scene, arguments) = (self.scene, [self.scene.path("batch.jsonl"), "--results", "/dev/stdout"])
        try await SendScene.withGateway(deviceCount: Self.count) { simulator in
            let run = try await scene.start(["send"] + scene.endpoint(simulator.gatewayPort) + arguments)
            #expect(try run.ending.code == 0 && run.lines.count == Self.count, "\(run)")
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing
import TokenStore

/// Goal: a signal that comes before a command has begun ends it with a line and a summary.
@Suite(.timeLimit(.minutes(1))) struct EarlySignalTests {
    let scene: SendScene

    init() throws {
        self.scene = try SendScene()
        // A command that opens it waits.
        try #require(mkfifo(self.scene.path("fifo"), 0o600) == 0)
    }

    /// Starts a command, stops it, and returns what it left.
    private func stop(_ arguments: [String], _ signal: CInt = SIGTERM) async throws -> SendScene.Run {
        let scene = self.scene
        let streams = Child.Streams(output: scene.path("out"), error: scene.path("err"))
        let child = try Child(arguments + ["--summary", "json"], streams)
        try await eventually("it is ready for a signal") { child.catches(signal) || child.hasEnded }
        child.send(signal)
        let ending = try await child.end()
        return SendScene.Run(ending: ending, output: scene.read("out"), error: scene.read("err"))
    }

    /// The summary and the message give the same reason, and say what to do.
    private func expectStopped(_ run: SendScene.Run, _ command: String) throws {
        struct Summary: Decodable {
            var command: String
            var exitCode: Int32
            var error: String
        }
        let summary = try JSONDecoder().decode(Summary.self, from: Data(run.output.utf8))
        #expect(summary.command == command && summary.exitCode == 75 && run.ending.code == 75, "\(run)")
        #expect(run.error == "apns-legacy \(command): \(summary.error)\n", "\(run)")
        #expect(summary.error.contains("signal") && summary.error.contains("run the same command again"), "\(run)")
    }

    private var purge: [String] { ["--purge-list", self.scene.path("list.sqlite")] }

    @Test func `feedback`() async throws {
        let run = try await self.stop(
            ["feedback", "--host", "localhost", "--certificate", self.scene.path("fifo")] + self.purge
        )
        try self.expectStopped(run, "feedback")
    }

    @Test func `purge import`() async throws {
        let run = try await self.stop(["purge", "import", self.scene.path("fifo")] + self.purge)
        try self.expectStopped(run, "purge import")
        #expect(!FileManager.default.fileExists(atPath: self.scene.path("list.sqlite")))
    }

    @Test func `purge apply --sql stops after a whole batch, and reports that`() async throws {
        let scene = try ApplyScene()
        // More than a pipe holds.
        try scene.record(1...4000)
        let ends = try SendExitTests.pipe()
        defer { close(ends.reading) }
        var streams = Child.Streams(error: scene.path("err"))
        streams.outputDescriptor = ends.writing
        let options = ["--purge-list", scene.list.path, "--sql", "mysql", "--batch", "100"]
        let child = try Child(["purge", "apply"] + options + ApplyElsewhereTests.columns, streams)
        close(ends.writing)
        var byteCount: CInt = 0
        try await eventually("the pipe is full") {
            ioctl(ends.reading, UInt(FIONREAD), &byteCount) == 0 && byteCount > 40_000
        }
        child.send(SIGTERM)
        try await eventually("the signal is reported") { scene.read("err").contains("Stopping after this batch") }
        let output = FileHandle(fileDescriptor: ends.reading, closeOnDealloc: false).readDataToEndOfFile()
        let ending = try await child.end()
        let lines = String(decoding: output, as: UTF8.self).split(separator: "\n")
        let batchCount = lines.count { $0 == "COMMIT;" }
        #expect(batchCount > 0 && batchCount < 40 && lines.last == "COMMIT;", "\(batchCount)")
        let last = scene.read("err").split(separator: "\n").last ?? ""
        #expect(ending.code == 75 && last.contains(" \(batchCount) batches"), "\(ending): \(last)")
    }

    @Test(arguments: [["gateway", "run", "--config"], ["simulator", "--faults"]])
    func `servers end as at a later signal`(_ words: [String]) async throws {
        let run = try await self.stop(words + [self.scene.path("fifo")])
        let name = words.dropLast().joined(separator: " ")
        #expect(run.ending.code == 0, "\(run)")
        #expect(run.error.hasPrefix("apns-legacy \(name): ") && run.error.contains("signal"), "\(run)")
        #expect(run.output == #"{"command":"\#(name)","exitCode":0}"# + "\n", "\(run)")
    }

    @Test func `a command without an order of its own ends by the signal`() async throws {
        let streams = Child.Streams(output: self.scene.path("out"), error: self.scene.path("err"))
        let child = try Child(["payload", "check", self.scene.path("fifo")], streams)
        child.sendAnother(SIGINT)
        let ending = try await child.end()
        #expect(ending.signal == SIGINT && self.scene.read("err").isEmpty, "\(ending)")
    }
}

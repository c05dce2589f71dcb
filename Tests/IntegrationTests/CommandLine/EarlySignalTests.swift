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

    private var purge: [String] { ["--purge-list", self.scene.path("list.sqlite")] }

    @Test func `feedback`() async throws {
        let run = try await self.stop(
            ["feedback", "--host", "localhost", "--certificate", self.scene.path("fifo")] + self.purge
        )
        let text = "stopped by a signal before the service was asked; run the same command again"
        #expect(run.ending.code == 75 && run.error == "apns-legacy feedback: \(text)\n", "\(run)")
        #expect(run.output.contains(#""command":"feedback","exitCode":75,"#) && run.output.contains(text), "\(run)")
    }

    @Test func `purge import`() async throws {
        let run = try await self.stop(["purge", "import", self.scene.path("fifo")] + self.purge)
        let text = "stopped by a signal before anything was imported; run the same command again"
        #expect(run.ending.code == 75 && run.error == "apns-legacy purge import: \(text)\n", "\(run)")
        #expect(run.output == #"{"command":"purge import","exitCode":75,"error":"\#(text)"}"# + "\n", "\(run)")
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
        let text = "stopped by a signal after \(batchCount) batches written; run the same command again"
        #expect(ending.code == 75 && scene.read("err").hasSuffix("apns-legacy purge apply: \(text)\n"), "\(ending)")
    }

    @Test(arguments: [["gateway", "run", "--config"], ["simulator", "--faults"]])
    func `servers end as at a later signal`(_ words: [String]) async throws {
        let run = try await self.stop(words + [self.scene.path("fifo")])
        let name = words.dropLast().joined(separator: " ")
        #expect(run.ending.code == 0, "\(run)")
        #expect(run.error == "apns-legacy \(name): stopped by a signal before it was ready\n", "\(run)")
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

// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import Foundation
import TestSupport
import Testing

/// Goal: whatever moment a signal comes at, one line and the summary say where the batch stopped and how to continue.
@Suite(.timeLimit(.minutes(2))) struct SendStopTests {
    let scene: SendScene

    init() throws { self.scene = try SendScene() }

    static let count = 20_000

    /// The end of the summary in JSON, as far as it is about stopping.
    private struct Continuation: Decodable {
        var exitCode: Int32
        var error: String?
        var continueFromLine: Int?
        var continueCommand: String?
        var ready: Int?
        var total: Int?
        var interrupted: Bool?

        init(lastOf output: String) throws {
            let lines = output.split(separator: "\n").filter { $0.contains("\"exitCode\"") }
            try #require(lines.count == 1, "\(output)")
            self = try JSONDecoder().decode(Self.self, from: Data(lines[0].utf8))
        }
    }

    private func writeBatch(_ count: Int = Self.count) throws -> String {
        try self.scene.write("a.jsonl", (1...count).map { SendScene.line($0 % 100 + 1) }.joined())
    }

    /// Runs until the gateway has taken some, and then does something with the program.
    private func interrupt(
        pace: TransferPace = TransferPace(byteCount: 16_384, interval: .milliseconds(10)),
        _ arguments: [String],
        _ act: @escaping @Sendable (Child) async throws -> Void
    ) async throws -> SendScene.Run {
        let scene = self.scene
        return try await SendScene.withGateway(faults: [Fault(at: .always, .slowReading(pace))]) { simulator in
            let streams = Child.Streams(output: scene.path("out"), error: scene.path("err"))
            let child = try Child(["send"] + scene.endpoint(simulator.gatewayPort) + arguments, streams)
            try await eventually("some arrive") { simulator.statistics.processedCount > 0 || child.hasEnded }
            try await act(child)
            let ending = try await child.end()
            return SendScene.Run(ending: ending, output: scene.read("out"), error: scene.read("err"))
        }
    }

    // MARK: One request

    @Test func `two signals at once are one request, and what was sent has its outcome`() async throws {
        let path = try self.writeBatch()
        let run = try await self.interrupt([path, "--window", "500", "--summary", "json"]) { child in
            // Two kinds, since two signals of one kind may arrive as one.
            child.send(SIGTERM)
            child.send(SIGINT)
        }
        let summary = try SummaryObject.last(of: run.output)
        #expect(run.ending.code == 75 && summary.accepted == summary.total && summary.interrupted, "\(run)")
        #expect(!run.error.contains("Stopped at once"), "\(run.error)")
    }

    @Test func `timeout, which signals the process and its group, is one request`() async throws {
        let path = try self.writeBatch()
        let scene = self.scene
        let pace = TransferPace(byteCount: 2048, interval: .milliseconds(50))
        try await SendScene.withGateway(faults: [Fault(at: .always, .slowReading(pace))]) { simulator in
            let streams = Child.Streams(output: scene.path("out"), error: scene.path("err"))
            let words = ["send"] + scene.endpoint(simulator.gatewayPort)
            let arguments = ["2", try Child.program] + words + [path, "--window", "100", "--summary", "json"]
            let ending = try await Child(arguments, streams, program: "/usr/bin/timeout").end()
            let summary = try SummaryObject.last(of: scene.read("out"))
            #expect(
                ending.code == 124 && summary.accepted == summary.total && summary.interrupted,
                "\(ending) \(summary)"
            )
            #expect(simulator.statistics.processedCount == summary.accepted)
            #expect(!scene.read("err").contains("Stopped at once"), "\(scene.read("err"))")
        }
    }

    // MARK: Where to continue

    @Test func `with --quiet, the one line says how to continue`() async throws {
        let path = try self.writeBatch()
        let run = try await self.interrupt([path, "--window", "500", "--quiet"]) { $0.send(SIGTERM) }
        let lines = run.error.split(separator: "\n")
        #expect(run.ending.code == 75 && lines.count == 1, "\(run)")
        #expect(lines[0].contains(/--from-line [0-9]+/), "\(run.error)")
    }

    @Test func `the summary in JSON has the line and the command, and the command sends the rest`() async throws {
        let path = try self.writeBatch()
        let run = try await self.interrupt([path, "--window", "500", "--quiet", "--summary", "json"]) {
            $0.send(SIGTERM)
        }
        let continuation = try Continuation(lastOf: run.output)
        let line = try #require(continuation.continueFromLine)
        let command = try #require(continuation.continueCommand)
        #expect(line > 1 && line <= Self.count && command.contains("--from-line \(line) "), "\(command)")
        let total = try #require(continuation.total)
        #expect(total == line - 1)
    }

    @Test func `with a journal, the command in the summary is the same command`() async throws {
        let path = try self.writeBatch()
        let more = ["--journal", self.scene.path("journal"), "--window", "500", "--summary", "json"]
        let run = try await self.interrupt([path] + more) { $0.send(SIGTERM) }
        let continuation = try Continuation(lastOf: run.output)
        let command = try #require(continuation.continueCommand)
        #expect(command.hasSuffix("--journal \(self.scene.path("journal")) --window 500 --summary json"), "\(command)")
        #expect(try #require(continuation.continueFromLine) > 1)
    }

    @Test func `a run to the end of the batch has nothing to continue`() async throws {
        let path = try self.writeBatch(10)
        let scene = self.scene
        let run = try await SendScene.withGateway {
            try await scene.send([path, "--summary", "json"], port: $0.gatewayPort)
        }
        let continuation = try Continuation(lastOf: run.output)
        #expect(continuation.exitCode == 0 && continuation.continueFromLine == nil, "\(run)")
        #expect(continuation.continueCommand == nil)
    }

    // MARK: Before anything is sent

    @Test func `a signal before the first line ends with a line and a summary`() async throws {
        let scene = self.scene
        let ends = try SendExitTests.pipe()
        defer { close(ends.writing) }
        var streams = Child.Streams(output: scene.path("out"), error: scene.path("err"))
        streams.input = ends.reading
        let child = try Child(["send", "-", "--summary", "json"] + scene.endpoint(1), streams)
        close(ends.reading)
        try await eventually("it is ready for a signal") { child.catches(SIGTERM) }
        child.send(SIGTERM)
        let ending = try await child.end()
        let text = "stopped by a signal before anything was sent; run the same command again"
        #expect(ending.code == 75 && scene.read("err") == "apns-legacy send: \(text)\n", "\(ending)")
        let continuation = try Continuation(lastOf: scene.read("out"))
        #expect(continuation.exitCode == 75 && continuation.error == text)
    }

    @Test func `a signal at any moment of the start ends with a line and a summary`() async throws {
        let path = try self.writeBatch()
        let scene = self.scene
        let seed = UInt64.random(in: 0 ... .max)
        var random = SplitMix64(seed: seed)
        let delays = (0..<TestEffort.count(10, long: 20)).map { _ in
            Duration.microseconds(Int64(random.next() % 200_000))
        }
        try await SendScene.withGateway(faults: SendProgressTests.slow) { simulator in
            for delay in delays {
                let results = scene.path("results.jsonl")
                let more = [path, "--results", results, "--window", "100", "--summary", "json"]
                let streams = Child.Streams(output: scene.path("out"), error: scene.path("err"))
                let child = try Child(["send"] + scene.endpoint(simulator.gatewayPort) + more, streams)
                try await eventually("it is ready for a signal") { child.catches(SIGTERM) || child.hasEnded }
                child.send(SIGTERM, after: delay)
                let ending = try await child.end()
                let error = scene.read("err")
                #expect(ending.code == 75 && !error.isEmpty, "\(ending) \(error) \(delay), seed \(seed)")
                let isEarly = error.hasPrefix("apns-legacy send: stopped")
                let continuation = try Continuation(lastOf: scene.read("out"))
                #expect(continuation.exitCode == 75)
                #expect(isEarly == (continuation.continueCommand == nil), "\(error) \(delay), seed \(seed)")
            }
        }
    }

    // MARK: Dry run

    @Test func `a signal stops a dry run in order`() async throws {
        let scene = self.scene
        let ends = try SendExitTests.pipe()
        defer { close(ends.writing) }
        let terminal = try Terminal()
        var streams = terminal.streams(output: scene.path("out"))
        streams.input = ends.reading
        let child = try Child(
            ["send", "-", "--dry-run", "--summary", "json", "--host", "localhost", "--port", "1"],
            streams
        )
        close(ends.reading)
        let bytes = Array((1...30).map { SendScene.line($0) }.joined().utf8)
        #expect(bytes.withUnsafeBytes { write(ends.writing, $0.baseAddress, $0.count) } == bytes.count)
        try await eventually("the lines are shown") { terminal.textSoFar.contains("\r\u{1B}[K30  ") || child.hasEnded }
        child.send(SIGTERM)
        child.send(SIGINT)
        let ending = try await child.end()
        let screen = try TerminalScreen(await terminal.text(), columnCount: 1000).text
        #expect(ending.code == 75, "\(ending) \(screen)")
        let expected = "Stopped early, after line 30 of standard input; to check all of it, run the same command again."
        #expect(screen.contains(expected), "\(screen)")
        let continuation = try Continuation(lastOf: scene.read("out"))
        #expect(continuation.ready == 30 && continuation.total == 30 && continuation.interrupted == true)
    }

    @Test func `the total of a dry run is the sum`() async throws {
        let path = try self.scene.write("a.jsonl", SendScene.line(1) + "{}\n" + SendScene.line(2))
        let run = try await self.scene.send([path, "--dry-run", "--summary", "json"], port: 1)
        let continuation = try Continuation(lastOf: run.output)
        #expect(run.ending.code == 1 && continuation.ready == 2 && continuation.total == 3, "\(run)")
    }
}

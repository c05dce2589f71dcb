// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSimulator
import Foundation
import NIOConcurrencyHelpers
import TestSupport
import Testing

/// The effects of signals on `send`.
@Suite(.timeLimit(.minutes(2))) struct SendSignalTests {
    let scene: SendScene

    init() throws { self.scene = try SendScene() }

    static let count = 20_000

    /// Writes a batch that would take much longer than any of these tests with a gateway that reads slowly.
    func writeBatch() throws -> String {
        try self.scene.write("a.jsonl", (1...Self.count).map { SendScene.line($0 % 100 + 1) }.joined())
    }

    /// Runs until the gateway has accepted some notifications, and then acts on the program.
    func interrupt(
        pace: TransferPace?,
        faults: [Fault] = [],
        _ arguments: [String],
        _ act: @escaping @Sendable (Child) async throws -> Void
    ) async throws -> SendScene.Run {
        let scene = self.scene
        let arrivals = AsyncStream<Void>.makeStream()
        let faults = faults + (pace.map { [Fault(at: .always, .slowReading($0))] } ?? [])
        return try await SendScene.withGateway(
            faults: faults,
            change: {
                $0.onReceive = { _ in arrivals.continuation.yield() }
                // A connection without outcomes is not waited for.
                $0.listener.shutdownTimeout = .zero
            }
        ) { simulator in
            let streams = Child.Streams(output: scene.path("out"), error: scene.path("err"))
            let child = try Child(["send"] + scene.endpoint(simulator.gatewayPort) + arguments, streams)
            var arrived = arrivals.stream.makeAsyncIterator()
            _ = await arrived.next()
            try await act(child)
            let ending = try await child.end()
            return SendScene.Run(ending: ending, output: scene.read("out"), error: scene.read("err"))
        }
    }

    @Test(arguments: [SIGINT, SIGTERM])
    func `the first signal verifies what was read, and reports that input was left`(_ signal: CInt) async throws {
        let path = try self.writeBatch()
        let pace = TransferPace(byteCount: 16_384, interval: .milliseconds(10))
        let start = NIOLockedValueBox(ContinuousClock.now)
        let run = try await self.interrupt(
            pace: pace,
            [path, "--results", self.scene.path("results.jsonl"), "--window", "500", "--summary", "json"]
        ) { child in
            start.withLockedValue { $0 = .now }
            child.send(signal)
        }
        #expect(ContinuousClock.now - start.withLockedValue { $0 } < .seconds(10))
        #expect(run.ending.code == 75, "\(run.ending) \(run.error)")
        #expect(try run.counts["continueFromLine"] ?? 0 > 1, "\(run)")
        let summary = try SummaryObject.last(of: run.output)
        #expect(summary.interrupted && summary.addsUp && summary.accepted > 0 && summary.accepted < Self.count)
        #expect(summary.accepted == summary.total, "All that was read is verified.")
        #expect(try self.scene.results().map(\.line).sorted() == Array(1...summary.total))
    }

    @Test func `the second signal stops at once and still reports`() async throws {
        let path = try self.writeBatch()
        // From this one on, nothing has an outcome.
        let silent = Fault(at: .token(prefix: SendScene.token(50)), .ignore)
        let scene = self.scene
        let start = NIOLockedValueBox(ContinuousClock.now)
        let run = try await self.interrupt(
            pace: nil,
            faults: [silent],
            [path, "--results", scene.path("results.jsonl"), "--summary", "json"]
        ) { child in
            start.withLockedValue { $0 = .now }
            child.send(SIGINT)
            try await eventually("the signal is reported") { scene.read("err").contains("Stopping") }
            #expect(!child.hasEnded)
            child.sendAnother(SIGINT)
        }
        #expect(ContinuousClock.now - start.withLockedValue { $0 } < .seconds(8))
        #expect(run.ending.code == 75, "\(run.ending) \(run.error)")
        let summary = try SummaryObject.last(of: run.output)
        #expect(summary.addsUp && summary.indeterminate > 0)
        #expect(try scene.results().map(\.line).sorted() == Array(1...summary.total))
    }

    @Test(arguments: [false, true])
    func `the second signal ends a run whose messages are not read`(_ hasBadLine: Bool) async throws {
        let scene = self.scene
        let lines = (1...Self.count).map { SendScene.line($0 % 100 + 1) }
        let path = try scene.write("a.jsonl", (lines[..<600] + (hasBadLine ? ["{}\n"] : []) + lines[600...]).joined())
        try #require(mkfifo(scene.path("fifo"), 0o600) == 0)
        let reading = open(scene.path("fifo"), O_RDONLY | O_NONBLOCK)
        let writing = open(scene.path("fifo"), O_WRONLY | O_NONBLOCK)
        defer { for end in [reading, writing] { close(end) } }
        while write(writing, "x", 1) == 1 {}
        let arrivals = AsyncStream<Void>.makeStream()
        let pace = TransferPace(byteCount: 2048, interval: .milliseconds(200))
        try await SendScene.withGateway(
            faults: [Fault(at: .always, .slowReading(pace))],
            change: { $0.onReceive = { _ in arrivals.continuation.yield() } }
        ) { simulator in
            let streams = Child.Streams(output: scene.path("out"), error: scene.path("fifo"))
            let arguments = [path, "--results", scene.path("results.jsonl"), "--window", "500"]
            let child = try Child(["send"] + scene.endpoint(simulator.gatewayPort) + arguments, streams, deadline: 30)
            var arrived = arrivals.stream.makeAsyncIterator()
            _ = await arrived.next()
            child.send(SIGINT)
            let start = ContinuousClock.now
            child.send(SIGTERM, after: .milliseconds(1500))
            let ending = try await child.end()
            #expect(ending.code == 75 && !ending.isOverdue, "\(ending)")
            // About a second after the second signal, and more where tests run side by side.
            #expect(ContinuousClock.now - start < .seconds(6))
        }
    }

    @Test func `a stopped batch resumes with its journal and sends nothing twice`() async throws {
        let path = try self.writeBatch()
        let arguments = [
            path, "--results", self.scene.path("results.jsonl"), "--journal", self.scene.path("journal"), "--window",
            "500", "--delivery", "at-most-once",
        ]
        let pace = TransferPace(byteCount: 16_384, interval: .milliseconds(10))
        let first = try await self.interrupt(pace: pace, arguments) { $0.send(SIGTERM) }
        #expect(first.ending.code == 75, "\(first.ending) \(first.error)")
        let scene = self.scene
        try await SendScene.withGateway { simulator in
            let second = try await scene.send(arguments, port: simulator.gatewayPort)
            #expect(second.ending.code == 0, "\(second.ending) \(second.error)")
            let results = try scene.results()
            #expect(results.map(\.line).sorted() == Array(1...Self.count))
            #expect(results.allSatisfy { $0.outcome == "accepted" && !$0.isFlagged })
            #expect(simulator.statistics.processedCount < Self.count)
        }
    }

    @Test func `a signal ends the wait for standard input`() async throws {
        let ends = try SendExitTests.pipe()
        let scene = self.scene
        let arrivals = AsyncStream<Void>.makeStream()
        try await SendScene.withGateway(change: { $0.onReceive = { _ in arrivals.continuation.yield() } }) {
            simulator in
            let streams = Child.Streams(input: ends.reading, output: scene.path("out"), error: scene.path("err"))
            let child = try Child(["send", "-"] + scene.endpoint(simulator.gatewayPort), streams, deadline: 30)
            close(ends.reading)
            let line = Array(SendScene.line(1).utf8)
            #expect(line.withUnsafeBytes { write(ends.writing, $0.baseAddress, $0.count) } == line.count)
            var arrived = arrivals.stream.makeAsyncIterator()
            _ = await arrived.next()
            child.send(SIGTERM)
            let ending = try await child.end()
            #expect(ending.code == 75 && ending.seconds < 15, "\(ending) \(scene.read("err"))")
            #expect(scene.read("err").contains("1 accepted"), "\(scene.read("err"))")
            #expect(scene.read("err").contains("--from-line 2"), "\(scene.read("err"))")
            close(ends.writing)
        }
    }

    @Test func `a signal ends the wait for a gateway that is not running`() async throws {
        let path = try self.writeBatch()
        let streams = Child.Streams(output: self.scene.path("out"), error: self.scene.path("err"))
        // Connections to port 1 are refused.
        let arguments = ["send", path] + self.scene.endpoint(1) + ["--give-up-after", "1000", "--summary", "json"]
        let child = try Child(arguments, streams, deadline: 30)
        try await eventually("the failure is reported") { self.scene.read("err").contains("Retrying: ") }
        child.send(SIGINT)
        let ending = try await child.end()
        #expect(ending.code == 75 && !ending.isOverdue, "\(ending) \(self.scene.read("err"))")
        #expect(try LogObject.counts(self.scene.read("out"))["continueFromLine"] == 1)
    }
}

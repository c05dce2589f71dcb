// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSimulator
import APNSWire
import Foundation
import TestSupport
import Testing

/// The effects of signals on `send --transport http2`.
@Suite(.timeLimit(.minutes(2))) struct SendHTTP2SignalTests {
    let scene: SendScene

    init() throws { self.scene = try SendScene() }

    private func child(_ input: String, _ port: Int, _ more: [String] = [], _ streams: Child.Streams) throws -> Child {
        let arguments = ["send", input, "--transport", "http2"] + self.scene.endpoint(port) + more
        return try Child(arguments, streams, deadline: 30)
    }

    private var streams: Child.Streams {
        Child.Streams(output: self.scene.path("out"), error: self.scene.path("err"))
    }

    @Test(arguments: [SIGINT, SIGTERM])
    func `the first signal ends the wait for input, and every line read has its outcome`(_ signal: CInt) async throws {
        let ends = try SendExitTests.pipe()
        let arrivals = AsyncStream<Void>.makeStream()
        try await SendScene.withGateway(change: { $0.onReceive = { _ in arrivals.continuation.yield() } }) {
            simulator in
            var streams = self.streams
            streams.input = ends.reading
            let child = try self.child("-", simulator.http2Port, ["--summary", "json"], streams)
            close(ends.reading)
            let bytes = Array((1...3).map { SendScene.line($0) }.joined().utf8)
            #expect(bytes.withUnsafeBytes { write(ends.writing, $0.baseAddress, $0.count) } == bytes.count)
            var arrived = arrivals.stream.makeAsyncIterator()
            for _ in 0..<3 { _ = await arrived.next() }
            child.send(signal)
            let ending = try await child.end()
            #expect(ending.code == 75 && ending.seconds < 15, "\(ending) \(self.scene.read("err"))")
            let summary = try SummaryObject.last(of: self.scene.read("out"))
            #expect(summary.accepted == 3 && summary.total == 3 && summary.interrupted)
            close(ends.writing)
        }
    }

    @Test func `the second signal stops at once and still reports`() async throws {
        let path = try self.scene.write("a.jsonl", (1...100).map { SendScene.line($0) }.joined())
        let silent = Fault(at: .token(prefix: SendScene.token(40)), .ignore)
        let arrivals = AsyncStream<Void>.makeStream()
        try await SendScene.withGateway(
            change: { configuration in
                configuration.faults = [silent]
                configuration.onReceive = { _ in arrivals.continuation.yield() }
            },
            { simulator in
                let more = ["--results", self.scene.path("results.jsonl"), "--summary", "json"]
                let child = try self.child(path, simulator.http2Port, more, self.streams)
                var arrived = arrivals.stream.makeAsyncIterator()
                for _ in 0..<99 { _ = await arrived.next() }
                child.send(SIGINT)
                try await eventually("the signal is reported") { self.scene.read("err").contains("Stopping") }
                #expect(!child.hasEnded, "One answer is still to come.")
                let start = ContinuousClock.now
                child.sendAnother(SIGINT)
                let ending = try await child.end()
                #expect(ContinuousClock.now - start < .seconds(8))
                #expect(ending.code == 75, "\(ending) \(self.scene.read("err"))")
                let summary = try SummaryObject.last(of: self.scene.read("out"))
                #expect(summary.addsUp && summary.indeterminate == 1 && summary.accepted == 99)
                let line = try #require(try self.scene.results().first { $0.outcome == "indeterminate" })
                #expect(line.line == 40 && line.attempts == 1)
            }
        )
    }

    @Test func `a signal ends the wait for a service that is not running, after that was reported`() async throws {
        // More than can wait in the queue at a time.
        let path = try self.scene.write("a.jsonl", (1...5000).map { SendScene.line($0) }.joined())
        // Connections to port 1 are refused.
        let child = try self.child(path, 1, ["--give-up-after", "1000", "--summary", "json"], self.streams)
        try await eventually("the failure is reported") { self.scene.read("err").contains("Retrying: ") }
        child.send(SIGINT)
        let ending = try await child.end()
        #expect(ending.code == 75 && !ending.isOverdue, "\(ending) \(self.scene.read("err"))")
        #expect(try LogObject.counts(self.scene.read("out"))["continueFromLine"] == 1)
    }
}

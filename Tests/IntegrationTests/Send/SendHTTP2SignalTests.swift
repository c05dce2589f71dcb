// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSimulator
import APNSWire
import Foundation
import TestSupport
import Testing

/// What signals do to `send --transport http2`, and its progress bar.
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
    func `the first signal ends waiting for input, and what was read has its outcome`(_ signal: CInt) async throws {
        let ends = try SendExitTests.pipe()
        let arrivals = AsyncStream<Void>.makeStream()
        try await SendScene.withGateway(change: { $0.onReceive = { _ in arrivals.continuation.yield() } }) {
            simulator in
            var streams = self.streams
            streams.input = ends.reading
            let child = try self.child("-", simulator.pushPort, ["--summary", "json"], streams)
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
                let child = try self.child(path, simulator.pushPort, more, self.streams)
                var arrived = arrivals.stream.makeAsyncIterator()
                for _ in 0..<99 { _ = await arrived.next() }
                child.send(SIGINT)
                try await eventually("the signal is told") { self.scene.read("err").contains("Stopping") }
                #expect(!child.hasEnded, "One answer is still to come.")
                let start = ContinuousClock.now
                child.send(SIGINT)
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

    @Test func `a signal ends waiting for a service that nobody runs, which is told of before`() async throws {
        // More than wait for their turn at a time.
        let path = try self.scene.write("a.jsonl", (1...5000).map { SendScene.line($0) }.joined())
        // No port 1 on any machine of ours.
        let child = try self.child(path, 1, ["--give-up-after", "1000"], self.streams)
        try await eventually("the failure is told") { self.scene.read("err").contains("A connection failed") }
        child.send(SIGINT)
        let ending = try await child.end()
        #expect(ending.code == 75 && !ending.isOverdue, "\(ending) \(self.scene.read("err"))")
        #expect(self.scene.read("err").contains("Stopped before the input was read to its end."))
    }

    @Test func `a progress bar is shown on a terminal and wiped out`() async throws {
        let path = try self.scene.write("a.jsonl", (1...100).map { SendScene.line($0) }.joined())
        var (main, other) = (CInt(0), CInt(0))
        try #require(openpty(&main, &other, nil, nil, nil) == 0)
        defer { close(main) }
        var name = [CChar](repeating: 0, count: 128)
        try #require(ttyname_r(other, &name, name.count) == 0)
        let terminal = String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let reader = TerminalReader(main)
        // Its pauses last longer than the bar takes to be shown.
        let fault = Fault(
            at: .token(prefix: SendScene.token(40)),
            .reject(reason: .serviceUnavailable),
            occurrenceCountMax: 5
        )
        try await SendScene.withGateway(faults: [fault]) { simulator in
            var streams = self.streams
            streams.error = terminal
            let ending = try await self.child(path, simulator.pushPort, [], streams).end()
            #expect(ending.code == 0, "\(ending)")
        }
        close(other)
        let text = await reader.text()
        #expect(text.contains("% read  100 taken, 99 settled"), "\(text)")
        let last = try #require(text.range(of: "\r\u{1B}[K", options: .backwards))
        #expect(text[last.upperBound...].hasPrefix("100 notifications"), "The summary takes the bar's place.")
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSLegacyCommands
import APNSSimulator
import APNSWire
import Foundation
import NIOConcurrencyHelpers
import TestSupport
import Testing

/// Goal: progress is shown to users, and nothing of it remains on the terminal.
@Suite(.timeLimit(.minutes(2))) struct SendProgressTests {
    let scene: SendScene

    init() throws { self.scene = try SendScene() }

    /// Writes a batch that contains tokens that no gateway accepts.
    private func writeBatch(_ count: Int) throws -> String {
        let lines = (1...count).map { SendScene.line($0.isMultiple(of: 50) ? 1_000_000 + $0 : $0 % 100 + 1) }
        return try self.scene.write("a.jsonl", lines.joined())
    }

    /// About a second for 2,000 notifications of ``writeBatch(_:)``, of which one in 50 ends its connection.
    static let slow = [Fault(at: .always, .slowReading(TransferPace(byteCount: 2048, interval: .milliseconds(10))))]

    @Test(arguments: [80, 40])
    func `a terminal shows progress in one line, which is cleared`(_ columnCount: Int) async throws {
        let path = try self.writeBatch(3000)
        let scene = self.scene
        let terminal = try Terminal(columnCount: columnCount)
        try await SendScene.withGateway(faults: Self.slow) { simulator in
            // Results go to the same terminal, between progress lines.
            let streams = terminal.streams(output: terminal.path)
            let ending = try await Child(["send", path] + scene.endpoint(simulator.gatewayPort), streams).end()
            #expect(ending.code == 1)
        }
        let text = await terminal.text()
        let bars = text.split(separator: "\r\u{1B}[K").dropFirst().map { $0.prefix { $0 != "\n" } }
            .filter { $0.contains("/s") }
        #expect(bars.contains { $0.contains("%  ") && $0.contains(" rejected") }, "\(text.suffix(2000))")
        #expect(bars.allSatisfy { $0.utf8.count < columnCount }, "\(bars)")
        let screen = try TerminalScreen(text, columnCount: 100_000).text.split(separator: "\n")
        let results = try ResultLine.parse(screen.filter { $0.hasPrefix("{") }.joined(separator: "\n"))
        #expect(results.count == 60, "Each result has a line of its own.")
        let others = screen.filter { !$0.hasPrefix("{") }
        #expect(others.first?.hasPrefix("3,000 notifications in ") == true && others.count == 3, "\(others)")
    }

    @Test func `a terminal shows progress over HTTP 2`() async throws {
        let path = try self.scene.write("a.jsonl", (1...100).map { SendScene.line($0) }.joined())
        let scene = self.scene
        let terminal = try Terminal()
        // The pauses are longer than the delay of the progress line.
        let fault = Fault(
            at: .token(prefix: SendScene.token(40)),
            .reject(reason: .serviceUnavailable),
            occurrenceCountMax: 5
        )
        try await SendScene.withGateway(faults: [fault]) { simulator in
            let arguments = ["send", path, "--transport", "http2"] + scene.endpoint(simulator.http2Port)
            let ending = try await Child(arguments, terminal.streams()).end()
            #expect(ending.code == 0)
        }
        let text = await terminal.text()
        #expect(text.contains("] 99%  99 of 100  ") || text.contains("] 99%  99 of ~100  "), "\(text)")
        let screen = try TerminalScreen(text, columnCount: 80)
        #expect(screen.wrapCount == 0 && screen.text.hasPrefix("100 notifications in "), "\(screen.text)")
    }

    @Test func `a dry run that takes longer than a second shows progress, too`() async throws {
        let terminal = try Terminal()
        let ends = try SendExitTests.pipe()
        var streams = terminal.streams()
        streams.input = ends.reading
        let child = try Child(["send", "-", "--dry-run", "--port", "2195", "--host", "localhost"], streams)
        close(ends.reading)
        let bytes = Array((1...30).map { SendScene.line($0) }.joined().utf8)
        #expect(bytes.withUnsafeBytes { write(ends.writing, $0.baseAddress, $0.count) } == bytes.count)
        try await eventually("the lines are shown") { terminal.textSoFar.contains("\r\u{1B}[K30  ") || child.hasEnded }
        close(ends.writing)
        let ending = try await child.end()
        let screen = try TerminalScreen(await terminal.text(), columnCount: 80).text
        #expect(ending.code == 0, "\(ending)")
        #expect(screen.hasPrefix("30 notifications ready to send, 0 ") && !screen.contains("/s"), "\(screen)")
    }

    @Test(arguments: ["binary", "http2"])
    func `a terminal shows when the next connection attempt follows`(_ transport: String) async throws {
        let path = try self.writeBatch(10)
        let terminal = try Terminal()
        // Connections to port 1 are refused.
        let arguments = ["send", path, "--transport", transport, "--give-up-after", "6"] + self.scene.endpoint(1)
        let ending = try await Child(arguments, terminal.streams()).end()
        #expect(ending.code == 69)
        let text = await terminal.text()
        #expect(text.contains("connecting, retry ") && text.contains(" of 5 in 1 s"), "\(text)")
        let screen = try TerminalScreen(text, columnCount: 1000).text
        #expect(screen.contains("apns-legacy send: gave up after 6 failed connections in a row (--give-up-after 6)"))
        #expect(!screen.contains("connecting, retry"), "\(screen)")
    }

    @Test(arguments: [SIGHUP, SIGKILL])
    func `a signal that ends the program clears the line if possible`(_ signal: CInt) async throws {
        let path = try self.writeBatch(20_000)
        let scene = self.scene
        let terminal = try Terminal()
        let pace = TransferPace(byteCount: 2048, interval: .milliseconds(200))
        try await SendScene.withGateway(faults: [Fault(at: .always, .slowReading(pace))]) { simulator in
            let child = try Child(["send", path] + scene.endpoint(simulator.gatewayPort), terminal.streams())
            try await eventually("the bar is shown") { terminal.textSoFar.contains("%  ") }
            child.send(signal)
            let ending = try await child.end()
            #expect(ending.signal == signal)
        }
        let screen = try TerminalScreen(await terminal.text(), columnCount: 80).text
        #expect(screen.contains("%") == (signal == SIGKILL), "\(screen)")
    }

    @Test func `a signal that stops the batch clears the line before each message`() async throws {
        let path = try self.writeBatch(20_000)
        let scene = self.scene
        let terminal = try Terminal()
        let pace = TransferPace(byteCount: 16_384, interval: .milliseconds(10))
        try await SendScene.withGateway(faults: [Fault(at: .always, .slowReading(pace))]) { simulator in
            let arguments = ["send", path, "--window", "500"] + scene.endpoint(simulator.gatewayPort)
            let child = try Child(arguments, terminal.streams())
            try await eventually("the bar is shown") { terminal.textSoFar.contains("%  ") }
            child.send(SIGINT)
            let ending = try await child.end()
            #expect(ending.code == 75)
        }
        let screen = try TerminalScreen(await terminal.text(), columnCount: 10_000).text
        #expect(screen.hasPrefix("Stopping: ") && !screen.contains("%  "), "\(screen)")
    }

    @Test(arguments: [["TERM": "dumb"], ["CI": "true"]])
    func `nothing is drawn if the environment excludes it`(_ variables: [String: String]) async throws {
        let path = try self.writeBatch(2000)
        let scene = self.scene
        let terminal = try Terminal()
        try await SendScene.withGateway(faults: Self.slow) { simulator in
            var streams = terminal.streams()
            streams.variables.merge(variables) { $1 }
            let ending = try await Child(["send", path] + scene.endpoint(simulator.gatewayPort), streams).end()
            #expect(ending.code == 1)
        }
        let text = await terminal.text()
        #expect(!text.contains("\u{1B}") && !text.contains("\r") && text.hasPrefix("2,000 notifications"), "\(text)")
    }

    /// Runs the program without a terminal, with frequent progress in the log.
    private func runLogging(_ more: [String], every interval: Duration?) async throws -> CommandRun {
        let path = try self.writeBatch(1000)
        let scene = self.scene
        return try await SendScene.withGateway(faults: Self.slow) { simulator in
            try await CommandRun(["send", path] + scene.endpoint(simulator.gatewayPort) + more) { environment in
                if let interval { environment.progressTiming.logInterval = interval }
            }
        }
    }

    @Test func `without a terminal, a plain line is logged periodically, and none with --quiet or in a short run`()
        async throws
    {
        let logged = try await self.runLogging([], every: .milliseconds(20))
        let lines = logged.error.split(separator: "\n").filter { $0.hasPrefix("Progress: ") }
        #expect(lines.contains { $0.contains("%, ") && $0.contains(" of ") && $0.contains("/s") }, "\(logged.error)")
        #expect(!logged.error.contains("\u{1B}") && !logged.error.contains("\r"))
        let quiet = try await self.runLogging(["--quiet"], every: .milliseconds(20))
        #expect(quiet.error.isEmpty)
        let short = try await self.runLogging([], every: nil)
        #expect(short.error.hasPrefix("1,000 notifications"), "\(short.error)")
    }

    @Test func `a resumed run shows earlier progress, and its own rate`() async throws {
        let scene = self.scene
        let count = 10_000
        let path = try scene.write("a.jsonl", (1...count).map { SendScene.line($0) }.joined())
        let arguments = ["send", path, "--journal", scene.path("journal"), "--window", "200"]
        let pace = TransferPace(byteCount: 4096, interval: .milliseconds(10))
        try await SendScene.withGateway(deviceCount: count, faults: [Fault(at: .always, .slowReading(pace))]) {
            simulator in
            let endpoint = scene.endpoint(simulator.gatewayPort)
            let child = try Child(arguments + endpoint, Child.Streams(error: scene.path("err")))
            try await eventually("half is taken") { simulator.statistics.processedCount > count / 2 }
            child.send(SIGTERM)
            let ending = try await child.end()
            #expect(ending.code == 75)
            let terminal = try Terminal()
            let second = try await Child(arguments + endpoint, terminal.streams()).end()
            #expect(second.code == 0)
            let text = await terminal.text()
            let first = try #require(text.split(separator: "\r\u{1B}[K").first { $0.contains("%  ") }, "\(text)")
            let percent = try #require(first.split { " %]".contains($0) }.compactMap { Int($0) }.first, "\(first)")
            #expect(percent >= 40, "\(first)")
            // The slow gateway reads 4 KiB in 10 ms, which is a few thousand lines a second.
            let rates = text.matches(of: /([0-9,]+)\/s/).compactMap { Int($0.1.filter { $0 != "," }) }
            #expect(rates.allSatisfy { $0 < 15_000 }, "\(rates)")
        }
    }
}

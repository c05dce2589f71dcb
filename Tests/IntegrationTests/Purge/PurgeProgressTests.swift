// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

/// Goal: commands that take longer than a second show their progress, and stop in order.
@Suite(.timeLimit(.minutes(1))) struct PurgeProgressTests {
    @Test(arguments: [1, 2, 4])
    func `an import shows its lines, and stops after a complete line at a signal`(_ lineCount: Int) async throws {
        let scene = try SendScene()
        let terminal = try Terminal()
        let ends = try SendExitTests.pipe()
        var streams = terminal.streams(output: scene.path("out"))
        streams.input = ends.reading
        let options = [
            "--purge-list", scene.path("list.sqlite"), "--topic", "a", "--environment", "production", "--failed-at",
            "1d",
        ]
        let child = try Child(["purge", "import", "-"] + options, streams)
        close(ends.reading)
        // All lines except the first contain no token: they are blank or comments.
        let rest = ["\n", "\n\n", "\n# a\n\n \n"][lineCount.trailingZeroBitCount]
        func write(_ numbers: ClosedRange<Int>) {
            let bytes = Array(numbers.map { SendScene.token($0) + rest }.joined().utf8)
            #expect(bytes.withUnsafeBytes { Glibc.write(ends.writing, $0.baseAddress, $0.count) } == bytes.count)
        }
        write(1...(512 / lineCount))
        try await eventually("the lines are shown") { terminal.textSoFar.contains("\r\u{1B}[K512 lines") }
        child.send(SIGINT)
        try await eventually("the signal is reported") { terminal.textSoFar.contains("Stopping: ") }
        // It does not wait for what another program may never write.
        let ending = try await child.end()
        close(ends.writing)
        let screen = try TerminalScreen(await terminal.text(), columnCount: 1000).text
        let addedCount = 512 / lineCount
        #expect(ending.code == 75 && scene.read("out").hasPrefix("\(addedCount) tokens added, "), "\(ending) \(screen)")
        let expected = "Stopped early, after line 512 of standard input; to continue, run the same command again: "
        #expect(screen.contains(expected) && !screen.contains("512 lines"), "\(screen)")
    }

    @Test(arguments: ["token,failedAt\n", "# dead tokens\n"])
    func `a signal ends the wait for the first row of an idle stream`(_ start: String) async throws {
        let scene = try SendScene()
        let ends = try SendExitTests.pipe()
        defer { close(ends.writing) }
        let terminal = try Terminal()
        var streams = terminal.streams(output: scene.path("out"))
        streams.input = ends.reading
        let options = ["--purge-list", scene.path("list.sqlite"), "--topic", "a", "--environment", "production"]
        let child = try Child(["purge", "import", "-", "--failed-at", "1d"] + options, streams)
        close(ends.reading)
        let bytes = Array(start.utf8)
        #expect(bytes.withUnsafeBytes { Glibc.write(ends.writing, $0.baseAddress, $0.count) } == bytes.count)
        try await eventually("the line is read") {
            var count: CInt = 0
            return ioctl(ends.writing, UInt(FIONREAD), &count) == 0 && count == 0
        }
        child.send(SIGTERM)
        let ending = try await child.end()
        #expect(ending.code == 75, "\(ending) \(terminal.textSoFar)")
    }

    /// The format, whole lines, their number, the number of tokens in them, and the beginning of another line.
    private static let cutInputs: [(format: String, lines: String, lineCount: Int, tokenCount: Int, rest: String)] = [
        ("tokens", "\(SendScene.token(1))\n\(SendScene.token(2))\n", 2, 2, String(repeating: "ab", count: 20)),
        ("csv", "token,note\n\(SendScene.token(1)),\"a\nb\nc\"\n", 4, 1, "\(SendScene.token(2)),\"a\nb\n"),
    ]

    @Test(arguments: Self.cutInputs)
    func `a line that the end of the stream cuts off at a signal is not imported`(
        _ format: String,
        _ lines: String,
        _ lineCount: Int,
        _ tokenCount: Int,
        _ rest: String
    ) async throws {
        let scene = try SendScene()
        let ends = try SendExitTests.pipe()
        let terminal = try Terminal()
        var streams = terminal.streams(output: scene.path("out"))
        streams.input = ends.reading
        let options = [
            "--purge-list", scene.path("list.sqlite"), "--topic", "a", "--environment", "production", "--failed-at",
            "1d", "--format", format,
        ]
        let child = try Child(["purge", "import", "-"] + options, streams)
        close(ends.reading)
        let bytes = Array((lines + rest).utf8)
        #expect(bytes.withUnsafeBytes { Glibc.write(ends.writing, $0.baseAddress, $0.count) } == bytes.count)
        try await eventually("the lines are shown") { terminal.textSoFar.contains("\u{1B}[K\(lineCount) lines") }
        // Like Ctrl-C, which also ends the program that writes.
        child.send(SIGTERM)
        try await eventually("the signal is reported") { terminal.textSoFar.contains("Stopping: ") }
        close(ends.writing)
        let ending = try await child.end()
        let screen = try TerminalScreen(await terminal.text(), columnCount: 1000).text
        let expected = tokenCount == 1 ? "1 token added, 0 updated, 0 already listed\n" : "\(tokenCount) tokens added, "
        #expect(ending.code == 75 && scene.read("out").hasPrefix(expected), "\(ending) \(scene.read("out")) \(screen)")
        #expect(screen.contains("Stopped early, after line \(lineCount) of standard input; "), "\(screen)")
    }
}

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
        write((512 / lineCount + 1)...1000)
        let ending = try await child.end()
        close(ends.writing)
        let screen = try TerminalScreen(await terminal.text(), columnCount: 1000).text
        let addedCount = 768 / lineCount
        #expect(ending.code == 75 && scene.read("out").hasPrefix("\(addedCount) tokens added, "), "\(ending) \(screen)")
        let expected = "Stopped early, after line 768 of standard input; to continue, run the same command again: "
        #expect(screen.contains(expected) && !screen.contains("512 lines"), "\(screen)")
    }
}

// SPDX-License-Identifier: Apache-2.0

import Foundation
import NIOConcurrencyHelpers
import Testing

/// A pseudo-terminal that a process can write its messages to.
final class Terminal: Sendable {
    /// The device that a process opens.
    let path: String
    private let main: CInt
    private let other: CInt
    private let reader: TerminalReader

    /// - Parameter columnCount: the width.
    /// - Throws: an error if the system has no pseudo-terminal.
    init(columnCount: Int = 80) throws {
        var (main, other) = (CInt(0), CInt(0))
        var size = winsize(ws_row: 24, ws_col: UInt16(columnCount), ws_xpixel: 0, ws_ypixel: 0)
        try #require(openpty(&main, &other, nil, nil, &size) == 0)
        for descriptor in [main, other] { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
        var name = [CChar](repeating: 0, count: 128)
        try #require(ttyname_r(other, &name, name.count) == 0)
        self.path = String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        (self.main, self.other) = (main, other)
        self.reader = TerminalReader(main)
    }

    deinit { close(self.main) }

    /// The environment of a process that may draw on the terminal.
    static let variables = ["CI": "", "TERM": "xterm"]

    /// The streams of a process that writes its messages to the terminal.
    func streams(output: String? = nil) -> Child.Streams {
        Child.Streams(output: output, error: self.path, variables: Self.variables)
    }

    /// The text written so far.
    var textSoFar: String { self.reader.textSoFar }

    /// All of the text; call it once, after every process has ended.
    func text() async -> String {
        close(self.other)
        return await self.reader.text()
    }
}

/// Reads the text written to a terminal, on its own thread.
final class TerminalReader: Sendable {
    private let stream: AsyncStream<Void>
    private let bytes = NIOLockedValueBox<[UInt8]>([])

    init(_ descriptor: CInt) {
        let (stream, continuation) = AsyncStream<Void>.makeStream()
        self.stream = stream
        Thread.detachNewThread { [bytes] in
            var portion = [UInt8](repeating: 0, count: 4096)
            while true {
                // Fails when no process has the other side open.
                let count = read(descriptor, &portion, portion.count)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { break }
                bytes.withLockedValue { $0 += portion[..<count] }
            }
            continuation.finish()
        }
    }

    /// The text written so far.
    var textSoFar: String {
        self.bytes.withLockedValue { String(decoding: $0, as: UTF8.self) }.replacing("\r\n", with: "\n")
    }

    /// All of the text, after the other side is closed.
    func text() async -> String {
        for await _ in self.stream {}
        return self.textSoFar
    }
}

/// The screen of a terminal, computed from the text written to it: line breaks, carriage returns, and clearing to the
/// end of a line.
struct TerminalScreen {
    private(set) var lines: [[Character]] = [[]]
    /// How often a line exceeded the width, so that the terminal began another line.
    private(set) var wrapCount = 0
    private var column = 0

    /// - Parameters:
    ///   - text: the text written, with LF line breaks.
    ///   - columnCount: the width.
    /// - Throws: an error if the text has another escape sequence.
    init(_ text: String, columnCount: Int) throws {
        var rest = text[...]
        while let character = rest.popFirst() {
            switch character {
            case "\n":
                self.lines.append([])
                self.column = 0
            case "\r": self.column = 0
            case "\u{1B}":
                try #require(rest.hasPrefix("[K"), "The only escape sequence is that which clears: \(rest.prefix(9))")
                rest = rest.dropFirst(2)
                self.lines[self.lines.count - 1].removeSubrange(min(self.column, self.line.count)...)
            default:
                if self.column == columnCount {
                    self.wrapCount += 1
                    self.lines.append([])
                    self.column = 0
                }
                self.put(character)
            }
        }
    }

    private var line: [Character] { self.lines[self.lines.count - 1] }

    private mutating func put(_ character: Character) {
        var line = self.line
        while line.count < self.column { line.append(" ") }
        if self.column < line.count { line[self.column] = character } else { line.append(character) }
        self.lines[self.lines.count - 1] = line
        self.column += 1
    }

    /// The text on the screen at the end.
    var text: String { self.lines.map { String($0) }.joined(separator: "\n") }
}

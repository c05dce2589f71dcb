// SPDX-License-Identifier: Apache-2.0

package import BatchFiles
import Glibc

/// What a command reads from, prints its results to, and says its messages on.
///
/// The descriptors belong to whoever made the console: a process has its own three, a test has files or pipes.
package struct Console: Sendable {
    private let input: CInt
    private let output: CInt
    private let error: CInt
    /// How messages are written.
    var messageForm = ReportForm.text
    /// The words of the command that runs, which each message in JSON names.
    var command = ""
    /// Whether errors stand out by their color.
    var hasColors = false

    /// Makes a console; without arguments, that of this process.
    package init(input: CInt = 0, output: CInt = 1, error: CInt = 2) {
        self.input = input
        self.output = output
        self.error = error
    }

    /// Opens a file to be read; `-` is the input of the console.
    package func open(_ path: String) throws -> SendInput { try SendInput(path: path, standardInput: self.input) }

    /// Opens a file to be written from its beginning on; `-` is the output of the console.
    package func create(_ path: String) throws -> OutputFile {
        try OutputFile(path: path, standardOutput: self.output)
    }

    /// The descriptor of the results.
    var outputDescriptor: CInt { self.output }

    /// Writes results.
    package func write(_ text: String) throws {
        try self.create("-").append(text)
    }

    /// Writes results that may be no text.
    func write(_ bytes: [UInt8]) throws {
        try self.create("-").append(bytes.span)
    }

    /// Prints a line of results; where nobody reads them, that is no failure.
    package func print(_ line: String) { try? self.write(line + "\n") }

    // MARK: Questions

    /// Whether somebody can be asked.
    var isInteractive: Bool { isatty(self.input) == 1 }

    /// The longest answer, in bytes.
    private static let answerByteCountMax = 4096

    /// Asks a question.
    ///
    /// - Parameter question: what is asked.
    /// - Returns: the answer without white space around it; `nil` at the end of the input.
    func ask(_ question: String) -> String? {
        self.put(question + " ")
        guard let line = self.readLine(willRead: {}) else { return nil }
        let isSpace = { (byte: UInt8) in
            byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") || byte == UInt8(ascii: "\r")
        }
        let text = line.drop(while: isSpace).reversed().drop(while: isSpace).reversed()
        return String(decoding: text, as: UTF8.self)
    }

    /// Asks a question whose answer the terminal does not show.
    ///
    /// - Parameter question: what is asked.
    /// - Returns: the line of the answer as it is; `nil` at the end of the input.
    func askSecret(_ question: String) -> [UInt8]? {
        self.put(question + " ")
        guard let terminal = HiddenInput(self.input) else { return self.readLine {} }
        defer {
            terminal.end()
            self.put("\n")
        }
        return self.readLine { terminal.wait { self.put("\n" + question + " ") } }
    }

    private func readLine(willRead: () -> Void) -> [UInt8]? {
        var bytes: [UInt8] = []
        while bytes.count < Self.answerByteCountMax {
            var byte: UInt8 = 0
            willRead()
            let count = unsafe Glibc.read(self.input, &byte, 1)
            if count < 0, errno == EINTR { continue }
            guard count == 1 else { return bytes.isEmpty ? nil : bytes }
            if byte == UInt8(ascii: "\n") { break }
            bytes.append(byte)
        }
        return bytes
    }

    // MARK: Messages

    /// Whether messages go to a terminal.
    var isTerminal: Bool { self.messageForm == .text && isatty(self.error) == 1 }

    /// Begins a line anew, over a progress bar.
    private static let wipe = "\r\u{1B}[K"

    /// Says a line; over a progress bar it wipes that out first.
    package func say(_ line: String) {
        guard self.messageForm == .text else {
            return self.say(ConsoleMessage(line: line, command: self.command))
        }
        self.put((self.isTerminal ? Self.wipe : "") + self.colored(line) + "\n")
    }

    /// Says a message with its level and place.
    package func say(_ message: ConsoleMessage) {
        switch self.messageForm {
        case .text: self.say(message.level == .warning ? "Warning: \(message.text)" : message.text)
        case .json: self.put(message.json(command: self.command) + "\n")
        }
    }

    /// Makes the name of the program red where a line reports an error on a terminal.
    private func colored(_ line: String) -> String {
        let name = "apns-legacy" + (self.command.isEmpty ? "" : " \(self.command)") + ":"
        guard self.hasColors, self.isTerminal, line.hasPrefix(name) else { return line }
        return "\u{1B}[1;31m\(name)\u{1B}[0m" + line.dropFirst(name.count)
    }

    /// Shows a progress bar, which the next line wipes out.
    func show(_ bar: String) { self.put(Self.wipe + bar) }

    /// Says a text as it is, in one piece.
    func put(_ text: String) {
        var text = text
        // Nobody can be told that messages are not taken.
        text.withUTF8 { bytes in _ = unsafe Glibc.write(self.error, bytes.baseAddress, bytes.count) }
    }
}

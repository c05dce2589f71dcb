// SPDX-License-Identifier: Apache-2.0

package import Batch
import Dispatch
import Glibc
import NIOConcurrencyHelpers

/// The input, output and messages of a command.
///
/// The descriptors belong to the process, or to a test that uses files or pipes instead.
///
/// Any output clears a progress bar first, so that no remains of it stay on the terminal.
package struct Console: Sendable {
    private let input: CInt
    private let output: CInt
    private let error: CInt
    /// The format of messages.
    var messageForm = ReportForm.text
    /// The name of the running command, which each message in JSON contains.
    var command = ""
    /// Whether errors are colored.
    var hasColors = false
    /// Called with each message before it is written, so that a test need not parse text.
    package var onDiagnostic: (@Sendable (Diagnostic) -> Void)?
    private let bar = NIOLockedValueBox(Bar())
    private let record = NIOLockedValueBox(Record())

    /// What a command reports when it ends.
    private struct Record: Sendable {
        /// Why lines of results are missing.
        var printFailure: (any Error)?
        /// The last message about an error.
        var lastError: String?
    }

    /// The state of the progress line.
    private struct Bar: Sendable {
        /// Whether the line may be drawn.
        var isBegun = false
        var isDrawn = false
    }

    /// Creates a console; by default that of this process.
    package init(input: CInt = 0, output: CInt = 1, error: CInt = 2) {
        self.input = input
        self.output = output
        self.error = error
    }

    /// Opens a file for reading; `-` is standard input.
    package func open(_ path: String) throws -> SendInput { try SendInput(path: path, standardInput: self.input) }

    /// Creates or empties a file for writing; `-` is standard output.
    package func create(_ path: String) throws -> OutputFile {
        try OutputFile(path: path, onOperation: self.onOutput, standardOutput: self.output)
    }

    /// Called before each operation on an output: writing to the terminal clears the progress bar.
    var onOutput: OnFileOperation {
        guard self.isTerminal, isatty(self.output) == 1 else { return { _, _ in } }
        return { file, operation in
            if file.isStandardOutput, case .write = operation { self.clear() }
        }
    }

    /// The descriptor for results.
    var outputDescriptor: CInt { self.output }

    /// Writes results.
    package func write(_ text: String) throws {
        try self.create("-").append(text)
    }

    /// Writes results that may be binary.
    func write(_ bytes: [UInt8]) throws {
        try self.create("-").append(bytes.span)
    }

    /// Prints a line of results; after a failure, ``takePrintFailure()`` returns the first one.
    package func print(_ line: String) {
        do {
            try self.write(line + "\n")
        } catch {
            self.record.withLockedValue { if $0.printFailure == nil { $0.printFailure = error } }
        }
    }

    /// Returns why lines of results are missing, and forgets it; `nil` if all were written.
    func takePrintFailure() -> (any Error)? {
        self.record.withLockedValue { record in
            defer { record.printFailure = nil }
            return record.printFailure
        }
    }

    /// The last message about an error; `nil` if there was none.
    var lastError: String? { self.record.withLockedValue { $0.lastError } }

    // MARK: Questions

    /// Whether a user can answer questions.
    var isInteractive: Bool { isatty(self.input) == 1 }

    /// The maximum length of an answer, in bytes.
    private static let answerByteCountMax = 4096

    /// Asks a question.
    ///
    /// Returns the answer without white space around it; `nil` at the end of the input.
    func ask(_ question: String) -> String? {
        self.writeMessage(question + " ")
        guard let line = self.readLine() else { return nil }
        let isSpace = { (byte: UInt8) in
            byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") || byte == UInt8(ascii: "\r")
        }
        let text = line.drop(while: isSpace).reversed().drop(while: isSpace).reversed()
        return String(decoding: text, as: UTF8.self)
    }

    /// Asks a question whose answer the terminal does not show.
    ///
    /// Returns the unchanged line of the answer; `nil` at the end of the input.
    func askSecret(_ question: String) -> [UInt8]? {
        self.writeMessage(question + " ")
        guard TerminalSignals.hideInput(self.input, question: "\n\(question) ", on: self.error) else {
            return self.readLine()
        }
        defer {
            TerminalSignals.showInput()
            self.writeMessage("\n")
        }
        return self.readLine()
    }

    private func readLine() -> [UInt8]? {
        var bytes: [UInt8] = []
        while bytes.count < Self.answerByteCountMax {
            var byte: UInt8 = 0
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

    /// Writes information.
    package func emit(_ sentence: String) { self.emit(Diagnostic(.info, sentence)) }

    /// Writes a message on its own line.
    ///
    /// Names of files may contain control characters, which are shown as numbers.
    package func emit(_ diagnostic: Diagnostic) {
        self.onDiagnostic?(diagnostic)
        if diagnostic.level == .error { self.record.withLockedValue { $0.lastError = diagnostic.text } }
        switch self.messageForm {
        case .json: self.writeMessage(diagnostic.json(command: self.command) + "\n")
        case .text:
            let text = diagnostic.text.printable(lineBreak: "\n")
            guard let label = diagnostic.label(command: self.command) else { return self.writeMessage(text + "\n") }
            let isColored = self.hasColors && self.isTerminal && diagnostic.level == .error
            self.writeMessage((isColored ? "\u{1B}[1;31m\(label)\u{1B}[0m " : "\(label) ") + text + "\n")
        }
    }

    /// Writes messages, and waits only briefly if nothing reads them.
    func briefly(_ body: @escaping @Sendable (Console) -> Void) {
        let written = DispatchSemaphore(value: 0)
        // A separate queue has its own thread, even if all others are blocked.
        DispatchQueue(label: "apns-legacy.message").async {
            body(self)
            written.signal()
        }
        _ = written.wait(timeout: .now() + Self.briefDuration)
    }

    private static let briefDuration = DispatchTimeInterval.seconds(1)

    /// Whether a message would wait, because nobody reads the ones before it.
    var isUnread: Bool {
        var descriptor = pollfd(fd: self.error, events: Int16(POLLOUT), revents: 0)
        return unsafe poll(&descriptor, 1, 0) == 0
    }

    /// Writes a message unchanged, in one piece.
    func writeMessage(_ text: String) {
        self.bar.withLockedValue { bar in
            let clearing = bar.isDrawn ? Self.clearing : ""
            bar.isDrawn = false
            self.writeError(clearing + text)
        }
    }

    /// An error that occurs while writing a message cannot be reported.
    private func writeError(_ text: String) {
        var text = text
        text.withUTF8 { bytes in _ = unsafe Glibc.write(self.error, bytes.baseAddress, bytes.count) }
    }

    // MARK: Progress

    /// Moves to the start of the line, and clears it.
    private static let clearing = "\r\u{1B}[K"

    /// The width of the terminal that messages go to, in columns.
    var columnCount: Int {
        var size = winsize()
        guard unsafe ioctl(self.error, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else {
            return ProgressLine.columnCountMax + 1
        }
        return Int(size.ws_col)
    }

    /// Allows a progress bar, which is cleared if a signal ends the process.
    func beginBar() {
        self.bar.withLockedValue { $0.isBegun = true }
        TerminalSignals.beginBar(self.error)
    }

    /// Shows a progress bar in place of the last one.
    func show(_ text: String) {
        self.bar.withLockedValue { bar in
            guard bar.isBegun else { return }
            bar.isDrawn = true
            self.writeError(Self.clearing + text)
        }
    }

    /// Clears the progress bar until it is shown again.
    private func clear() { self.writeMessage("") }

    /// Clears the progress bar for good.
    func endBar() {
        self.clear()
        guard
            self.bar.withLockedValue({ bar in
                defer { bar.isBegun = false }
                return bar.isBegun
            })
        else { return }
        TerminalSignals.endBar()
    }
}

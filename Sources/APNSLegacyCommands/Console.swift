// SPDX-License-Identifier: Apache-2.0

import BatchFiles
import Glibc

/// What a command says to people, on standard error, and its results, on standard output.
package struct Console: Sendable {
    private let putOutput: @Sendable (UnsafeRawBufferPointer) throws -> Void
    private let putError: @Sendable (String) -> Void

    /// The standard output and error of this process.
    package init() {
        self.putOutput = { try OutputFile(path: "-").append($0) }
        self.putError = { Console.put($0) }
    }

    /// Another output and error, as in a test.
    package init(
        output: @escaping @Sendable (UnsafeRawBufferPointer) throws -> Void,
        error: @escaping @Sendable (String) -> Void
    ) {
        self.putOutput = output
        self.putError = error
    }

    /// Says a line.
    package func say(_ line: String) { self.putError((Console.isTerminal ? Console.wipe : "") + line + "\n") }

    /// Prints a line of results; where nobody reads them, that is no failure.
    package func print(_ line: String) { try? self.write(line + "\n") }

    /// Writes results.
    package func write(_ text: String) throws {
        var text = text
        try text.withUTF8 { try self.putOutput(UnsafeRawBufferPointer($0)) }
    }

    // MARK: The process's own

    /// Whether standard error is a terminal.
    static var isTerminal: Bool { isatty(2) == 1 }

    /// Begins a line anew, over a progress bar.
    private static let wipe = "\r\u{1B}[K"

    /// Says a line; over a progress bar it wipes that out first.
    static func say(_ line: String) {
        self.put((self.isTerminal ? self.wipe : "") + line + "\n")
    }

    /// Shows a progress bar, which the next line wipes out.
    static func show(_ bar: String) {
        self.put(self.wipe + bar)
    }

    private static func put(_ text: String) {
        var text = text
        text.withUTF8 { bytes in
            // Nobody can be told that standard error does not work.
            _ = Glibc.write(2, bytes.baseAddress, bytes.count)
        }
    }
}

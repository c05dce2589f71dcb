// SPDX-License-Identifier: Apache-2.0

import Glibc

/// What a command says to people, on standard error.
enum Console {
    /// Whether standard error is a terminal.
    static var isTerminal: Bool { isatty(2) == 1 }

    /// Says a line; over a progress bar it wipes that out first.
    static func say(_ line: String) {
        self.put((self.isTerminal ? "\r\u{1B}[K" : "") + line + "\n")
    }

    /// Shows a progress bar, which the next line wipes out.
    static func show(_ bar: String) {
        self.put("\r\u{1B}[K" + bar)
    }

    private static func put(_ text: String) {
        var text = text
        text.withUTF8 { bytes in
            // Nobody can be told that standard error does not work.
            _ = write(2, bytes.baseAddress, bytes.count)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import Glibc

/// The formats of batch input.
package enum BatchFormat: String, Hashable, Sendable, CaseIterable {
    /// One JSON object a line: `{"token": …, "payload": {…}, "expiry": …, "priority": …, "id": …}`.
    case jsonLines = "jsonl"
    /// Comma-separated values as in RFC 4180, with the names of the columns in the first line; instead of commas, the
    /// header may have semicolons or tabs.
    case csv
    /// One token per line; blank lines and lines that begin with `#` are skipped.
    case tokens

    /// The lines of the format, for an error.
    var noun: String {
        switch self {
        case .jsonLines: "JSON lines"
        case .csv: "CSV"
        case .tokens: "a list of device tokens"
        }
    }

    /// Finds the format by the extension of a file name.
    package init?(fileName: String) {
        var parts = fileName.lowercased().split(separator: ".", omittingEmptySubsequences: false)
        if parts.last == "gz" { parts.removeLast() }
        guard parts.count > 1, let suffix = parts.last else { return nil }
        switch suffix {
        case "jsonl", "ndjson", "json": self = .jsonLines
        case "csv", "tsv": self = .csv
        case "tokens": self = .tokens
        default: return nil
        }
    }

    /// Finds the format by the first line that is not blank.
    ///
    /// A brace or bracket begins JSON. A separator, or the name of a column, is a CSV header. Anything else is a token.
    init(firstLine line: UnsafeRawBufferPointer, isColumn: (UnsafeRawBufferPointer) -> Bool) {
        let text = unsafe line.trimmed
        let isSeparated = unsafe text.contains(UInt8(ascii: ",")) || text.contains(UInt8(ascii: ";"))
        switch unsafe text.first {
        case UInt8(ascii: "{"), UInt8(ascii: "["): self = .jsonLines
        case UInt8(ascii: "#"): self = .tokens
        // A token in angle brackets may have white space in it.
        case UInt8(ascii: "<") where !isSeparated: self = .tokens
        case _ where unsafe isSeparated || text.isTabbed || isColumn(text.withoutQuotes): self = .csv
        default: self = .tokens
        }
    }
}

extension UnsafeRawBufferPointer {
    /// The bytes without the white space at both ends.
    package var trimmed: UnsafeRawBufferPointer { unsafe self.trimmed { _ in true } }

    /// The bytes without the white space at both ends, as far as `isTrimmed` allows.
    func trimmed(where isTrimmed: (UInt8) -> Bool) -> UnsafeRawBufferPointer {
        func isSpace(_ byte: UInt8) -> Bool { (byte == 0x20 || 0x09...0x0D ~= byte) && isTrimmed(byte) }
        var first = 0
        var last = self.count
        while first < last, unsafe isSpace(self[first]) { first += 1 }
        while first < last, unsafe isSpace(self[last - 1]) { last -= 1 }
        return unsafe UnsafeRawBufferPointer(rebasing: self[first..<last])
    }

    /// Whether there are tabs between what is not the digits of a token.
    fileprivate var isTabbed: Bool {
        let isDigitOrSpace = { (byte: UInt8) in
            (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte | 0x20) || byte == 0x20 || byte == 0x09
        }
        return unsafe self.contains(0x09) && !self.allSatisfy(isDigitOrSpace)
    }

    /// The bytes without double quotes around them, and the white space inside those.
    var withoutQuotes: UnsafeRawBufferPointer {
        let quote = UInt8(ascii: "\"")
        guard self.count >= 2, unsafe self[0] == quote, unsafe self[self.count - 1] == quote else { return unsafe self }
        return unsafe UnsafeRawBufferPointer(rebasing: self[1..<(self.count - 1)]).trimmed
    }

    /// The number of line feeds.
    var lineEndCount: Int {
        guard var start = self.baseAddress else { return 0 }
        let end = unsafe start + self.count
        var count = 0
        while let found = unsafe memchr(start, 0x0A, end - start) {
            unsafe start = unsafe UnsafeRawPointer(found) + 1
            count += 1
        }
        return count
    }
}

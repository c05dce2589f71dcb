// SPDX-License-Identifier: Apache-2.0

/// The formats of batch input.
package enum BatchFormat: String, Hashable, Sendable, CaseIterable {
    /// One JSON object a line: `{"token": …, "payload": {…}, "expiry": …, "priority": …, "id": …}`.
    case jsonLines = "jsonl"
    /// Comma-separated values as in RFC 4180, with the names of the columns in the first line.
    case csv
    /// One token a line; blank lines and lines that begin with `#` count for nothing.
    case tokens

    /// Finds the format by the end of a file's name.
    ///
    /// - Parameter fileName: a name or path; `.jsonl`, `.ndjson` and `.json` are JSON lines, `.csv` is CSV, `.tokens`
    ///   is tokens, in upper or lower case; any other end tells nothing.
    package init?(fileName: String) {
        guard let dot = fileName.lastIndex(of: ".") else { return nil }
        switch fileName[fileName.index(after: dot)...].lowercased() {
        case "jsonl", "ndjson", "json": self = .jsonLines
        case "csv": self = .csv
        case "tokens": self = .tokens
        default: return nil
        }
    }

    /// Finds the format by the first line that is not blank.
    ///
    /// A brace or bracket begins JSON. A comma, or the bare name of a column, is the header of CSV. Else it is a token.
    ///
    /// - Parameter line: the line, with or without its end.
    package init(firstLine line: UnsafeRawBufferPointer) {
        let text = unsafe line.trimmed
        if unsafe text.first == UInt8(ascii: "{") || text.first == UInt8(ascii: "[") {
            self = .jsonLines
        } else if unsafe text.first == UInt8(ascii: "#") {
            self = .tokens
        } else if unsafe text.contains(UInt8(ascii: ",")) || BatchColumn(text) != nil {
            self = .csv
        } else {
            self = .tokens
        }
    }
}

extension UnsafeRawBufferPointer {
    /// The bytes without the white space at both ends.
    package var trimmed: UnsafeRawBufferPointer {
        var first = 0
        var last = self.count
        while first < last, unsafe self[first] == 0x20 || 0x09...0x0D ~= self[first] { first += 1 }
        while first < last, unsafe self[last - 1] == 0x20 || 0x09...0x0D ~= self[last - 1] { last -= 1 }
        return unsafe UnsafeRawBufferPointer(rebasing: self[first..<last])
    }
}

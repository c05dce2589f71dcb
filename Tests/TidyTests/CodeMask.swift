// SPDX-License-Identifier: Apache-2.0

/// Swift or C source with comments and the contents of string literals made blank.
///
/// Lines and columns stay where they were, so that braces can be counted. Expressions interpolated in strings are
/// made blank too, which takes nothing away that a brace count needs: their braces are in pairs.
struct CodeMask {
    private(set) var bytes: [UInt8]
    private var at = 0

    init(_ text: String) {
        self.bytes = Array(text.utf8)
        while self.at < self.bytes.count { self.step() }
    }

    var lines: [String] {
        String(decoding: self.bytes, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
            .map(String.init)
    }

    private mutating func step() {
        if self.matches("//") {
            while self.at < self.bytes.count, self.bytes[self.at] != UInt8(ascii: "\n") { self.blank() }
        } else if self.matches("/*") {
            self.blankComment()
        } else if self.bytes[self.at] == UInt8(ascii: "'"), self.at + 2 < self.bytes.count {
            self.blankCharacter()
        } else if let pounds = self.poundsBeforeQuote() {
            self.at += pounds
            self.blankString(pounds: pounds)
        } else {
            self.at += 1
        }
    }

    private func matches(_ text: StaticString, after offset: Int = 0) -> Bool {
        let from = self.at + offset
        guard from >= 0, from + text.utf8CodeUnitCount <= self.bytes.count else { return false }
        return self.bytes[from..<from + text.utf8CodeUnitCount].elementsEqual(text.description.utf8)
    }

    private mutating func blank(_ count: Int = 1) {
        for _ in 0..<count where self.at < self.bytes.count {
            if self.bytes[self.at] != UInt8(ascii: "\n") { self.bytes[self.at] = UInt8(ascii: " ") }
            self.at += 1
        }
    }

    private mutating func blankComment() {
        var depth = 0
        repeat {
            if self.matches("/*") {
                depth += 1
                self.blank(2)
            } else if self.matches("*/") {
                depth -= 1
                self.blank(2)
            } else {
                self.blank()
            }
        } while depth > 0 && self.at < self.bytes.count
    }

    /// A character literal of C; Swift has no use for the quote.
    private mutating func blankCharacter() {
        let length = self.bytes[self.at + 1] == UInt8(ascii: "\\") ? 4 : 3
        let end = self.at + length - 1
        if end < self.bytes.count, self.bytes[end] == UInt8(ascii: "'") {
            self.blank(length)
        } else {
            self.at += 1
        }
    }

    private func poundsBeforeQuote() -> Int? {
        var end = self.at
        while end < self.bytes.count, self.bytes[end] == UInt8(ascii: "#") { end += 1 }
        return end < self.bytes.count && self.bytes[end] == UInt8(ascii: "\"") ? end - self.at : nil
    }

    private mutating func blankString(pounds: Int) {
        let multiline = self.matches("\"\"\"")
        let quotes = multiline ? 3 : 1
        let end =
            Array(repeating: UInt8(ascii: "\""), count: quotes) + Array(repeating: UInt8(ascii: "#"), count: pounds)
        let escape = [UInt8(ascii: "\\")] + Array(repeating: UInt8(ascii: "#"), count: pounds)
        self.at += quotes
        while self.at < self.bytes.count, !self.bytes[self.at...].starts(with: end) {
            if !multiline, self.bytes[self.at] == UInt8(ascii: "\n") { return }
            guard self.bytes[self.at...].starts(with: escape) else {
                self.blank()
                continue
            }
            self.blank(escape.count)
            if self.matches("(") { self.blankInterpolation() } else { self.blank() }
        }
        self.at = min(self.at + end.count, self.bytes.count)
    }

    private mutating func blankInterpolation() {
        var depth = 0
        repeat {
            if let pounds = self.poundsBeforeQuote() {
                let start = self.at
                self.at += pounds
                self.blankString(pounds: pounds)
                let end = self.at
                self.at = start
                self.blank(end - start)
            } else {
                if self.matches("(") { depth += 1 }
                if self.matches(")") { depth -= 1 }
                self.blank()
            }
        } while depth > 0 && self.at < self.bytes.count
    }
}

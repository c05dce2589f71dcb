// SPDX-License-Identifier: Apache-2.0

import Foundation

/// Makes lines of output comparable: a word replaces everything that differs between runs.
struct OutputMask {
    /// Digits in the document's own commands are not random, and are not replaced.
    private let source: String
    /// The numbers and hexadecimal words in the commands.
    private let words: Set<Substring>

    private struct Pattern {
        let expression: NSRegularExpression
        let word: String

        init(_ pattern: String, _ word: String) throws {
            self.expression = try NSRegularExpression(pattern: pattern)
            self.word = word
        }

        func replace(in line: String) -> String {
            let range = NSRange(line.startIndex..., in: line)
            return self.expression.stringByReplacingMatches(in: line, range: range, withTemplate: self.word)
        }
    }

    private static let uuid = Result {
        try Pattern(#"\b[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}\b"#, "UUID")
    }

    /// Tokens, digests and keys, before another pattern finds a duration in `1234567d`.
    private static let hexadecimal = Result {
        try NSRegularExpression(pattern: #"\b(?=\d*[a-fA-F])[0-9a-fA-F]{8,}\b"#)
    }

    /// Applied in this order.
    private static let patterns = Result {
        try [
            Pattern(#"\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?)?"#, "TIME"),
            Pattern(#"\b[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d( [A-Z]+)? \d{4}\b"#, "TIME"),
            Pattern(#"\b\d\d:\d\d:\d\d\b"#, "TIME"),
            // A time since 1970, in seconds or milliseconds, from 2020 on.
            Pattern(#"\b(1[6-9]|[2-4]\d)\d{8}(\d{3})?(\.\d+)?\b"#, "TIME"),
            Pattern(#"\b[\d,.]*\d ?/ ?s\b"#, "RATE"),
            Pattern(
                #"\b[\d,.]*\d ?(ms|us|s|min|h|d|milliseconds?|seconds?|minutes?|hours?|days?)\b"#,
                "DURATION"
            ),
            Pattern(#"("\w*([Ss]econds|[Dd]uration|[Ll]atency\w*)":) ?\d[\d.e-]*"#, "$1DURATION"),
            Pattern(#"\b[\d,.]*\d ?[kKMG]i?B\b"#, "SIZE"),
            Pattern(#"(?<![\d.])\d+\.\d+\.\d+([-+~]\w[\w.+~-]*)?(?!\.?\d)"#, "VERSION"),
            Pattern(#"\b(process|pid|PID) \d+\b"#, "$1 PID"),
            Pattern(#"/tmp/[\w.-]*[A-Za-z0-9]{6,}\b"#, "FOLDER"),
        ]
    }

    /// Ports that the system chooses, and other digits of tokens, digests and keys.
    private static let digits = Result { try NSRegularExpression(pattern: #"\b[0-9a-fA-F]{5,}\b"#) }

    /// - Parameter source: the commands and files of the document.
    init(source: String) {
        self.source = source
        self.words = Set(source.split { !$0.isHexDigit })
    }

    func callAsFunction(_ line: String) throws -> String {
        var masked = try Self.uuid.get().replace(in: line)
        let whole = NSRange(masked.startIndex..., in: masked)
        for match in try Self.hexadecimal.get().matches(in: masked, range: whole).reversed() {
            guard let place = Range(match.range, in: masked), !self.source.contains(masked[place]) else { continue }
            masked.replaceSubrange(place, with: "HEX\(match.range.length)")
        }
        for pattern in try Self.patterns.get() { masked = pattern.replace(in: masked) }
        let range = NSRange(masked.startIndex..., in: masked)
        for match in try Self.digits.get().matches(in: masked, range: range).reversed() {
            guard let place = Range(match.range, in: masked) else { continue }
            let text = String(masked[place])
            if text.count == 5, let number = Int(text), (1_024...65_535).contains(number) {
                // Only as a word: a token may contain these five digits.
                guard !self.words.contains(text[...]), Self.isPort(masked[..<place.lowerBound]) else { continue }
                masked.replaceSubrange(place, with: "PORT")
                continue
            }
            guard !self.source.contains(text) else { continue }
            if text.count > 6, text.contains(where: \.isNumber) {
                masked.replaceSubrange(place, with: "HEX\(text.count)")
            }
        }
        while masked.last?.isWhitespace == true { masked.removeLast() }
        return masked
    }

    /// Whether a number after this text is a port, and not a count.
    private static func isPort(_ start: Substring) -> Bool {
        start.last == ":" || ["port ", "gateway ", "feedback ", "admin "].contains { start.hasSuffix($0) }
    }

    /// Whether output matches that of a document.
    ///
    /// A line of three periods stands for any lines. After a beginning, more lines may follow.
    func matches(_ shown: [String], _ printed: [String], isBeginning: Bool = false) throws -> Bool {
        let (shown, printed) = try (shown.map(self.callAsFunction), printed.map(self.callAsFunction))
        guard let gap = shown.firstIndex(of: "...") else {
            return isBeginning ? printed.starts(with: shown) : shown == printed
        }
        guard printed.starts(with: shown[..<gap]) else { return false }
        let (rest, tail) = (Array(shown[(gap + 1)...]), printed[gap...])
        if rest.isEmpty { return true }
        return try (tail.startIndex...tail.endIndex).contains {
            try self.matches(rest, Array(tail[$0...]), isBeginning: isBeginning)
        }
    }

    /// The new text of a document: lines that differ only in random parts are unchanged, and so is one gap.
    func updated(_ shown: [String], _ printed: [String]) throws -> [String] {
        var old = try shown.map { (line: $0, masked: try self($0)) }
        let lines = try printed.map { line in
            let masked = try self(line)
            guard let same = old.firstIndex(where: { $0.masked == masked }) else { return line }
            return old.remove(at: same).line
        }
        guard let gap = shown.firstIndex(of: "..."), lines.count >= shown.count else { return lines }
        return lines.prefix(gap) + ["..."] + lines.suffix(shown.count - gap - 1)
    }
}

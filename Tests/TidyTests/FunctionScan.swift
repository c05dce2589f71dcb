// SPDX-License-Identifier: Apache-2.0

/// Where the functions of a file begin and how many lines each has, found by counting braces.
struct FunctionScan {
    struct Function: Equatable {
        /// Counted from 1.
        let line: Int
        /// From its first line to its closing brace.
        let lineCount: Int
    }

    private(set) var functions: [Function] = []
    private let bytes: [UInt8]
    /// The line of each byte, counted from 1.
    private let lineNumbers: [Int]

    init(_ file: SourceFile) {
        self.bytes = CodeMask(file.text).bytes
        var line = 1
        self.lineNumbers = self.bytes.map { byte in
            defer { if byte == UInt8(ascii: "\n") { line += 1 } }
            return line
        }
        switch file.language {
        case .swift: self.scanSwift()
        case .c: self.scanC()
        case .script, .other: break
        }
    }

    private mutating func scanSwift() {
        for word in self.words() {
            switch word.text {
            case "func", "init", "deinit", "subscript":
                if let open = self.bodyOfSwift(after: word.end) { self.add(from: word.start, open: open) }
            default: break
            }
        }
    }

    /// The brace that opens the body of a declaration; `nil` when it has none, as in a protocol.
    private func bodyOfSwift(after start: Int) -> Int? {
        // `self.init(…)` and `.init(…)` are calls.
        var depth = 0
        for at in start..<self.bytes.count {
            switch self.bytes[at] {
            case UInt8(ascii: "("), UInt8(ascii: "["): depth += 1
            case UInt8(ascii: ")"), UInt8(ascii: "]"):
                depth -= 1
                if depth < 0 { return nil }
            case UInt8(ascii: "{") where depth == 0: return at
            case UInt8(ascii: "}") where depth == 0: return nil
            case UInt8(ascii: "\n") where depth == 0:
                if !self.signatureGoesOn(after: at) { return nil }
            default: break
            }
        }
        return nil
    }

    /// Whether a declaration goes on in the line behind `newline`: with its result, its effects, a clause or its body.
    private func signatureGoesOn(after newline: Int) -> Bool {
        let rest = self.bytes[(newline + 1)...].drop { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\n") }
        return ["{", "->", "where", "async", "throws", "rethrows"].contains { rest.starts(with: $0.utf8) }
    }

    /// A function of C begins in the first column and so does its closing brace.
    private mutating func scanC() {
        var depth = 0
        for at in self.bytes.indices {
            switch self.bytes[at] {
            case UInt8(ascii: "{"):
                if depth == 0, self.signatureOfC(before: at) { self.add(from: at, open: at) }
                depth += 1
            case UInt8(ascii: "}"): depth -= 1
            default: break
            }
        }
    }

    private func signatureOfC(before open: Int) -> Bool {
        self.bytes[..<open].last { $0 != UInt8(ascii: " ") && $0 != UInt8(ascii: "\n") } == UInt8(ascii: ")")
    }

    private mutating func add(from start: Int, open: Int) {
        var depth = 0
        for at in open..<self.bytes.count {
            if self.bytes[at] == UInt8(ascii: "{") { depth += 1 }
            if self.bytes[at] == UInt8(ascii: "}") { depth -= 1 }
            if depth == 0 {
                let first = self.lineNumbers[start]
                self.functions.append(Function(line: first, lineCount: self.lineNumbers[at] - first + 1))
                return
            }
        }
    }

    private struct Word {
        let text: String
        let start: Int
        let end: Int
    }

    /// The words that no dot stands before.
    private func words() -> [Word] {
        var words: [Word] = []
        var start: Int?
        for at in self.bytes.indices {
            let isPart =
                switch self.bytes[at] {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), 0x80...:
                    true
                default: false
                }
            if isPart, start == nil { start = at }
            if !isPart, let from = start {
                start = nil
                let isMember = from > 0 && self.bytes[from - 1] == UInt8(ascii: ".")
                let isQuoted = from > 0 && self.bytes[from - 1] == UInt8(ascii: "`")
                if !isMember, !isQuoted {
                    words.append(
                        Word(text: String(decoding: self.bytes[from..<at], as: UTF8.self), start: from, end: at)
                    )
                }
            }
        }
        return words
    }
}

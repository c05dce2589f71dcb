// SPDX-License-Identifier: Apache-2.0

public import APNSJSON

/// The texts of an app in one language, by key, as in its `Localizable.strings`.
///
/// They are used to preview a localized alert, see ``Payload/alertPreview(_:)``.
public struct LocalizedStrings: Hashable, Sendable {
    /// The texts by key.
    public var texts: [String: String]

    /// Makes localized strings from texts.
    ///
    /// - Parameter texts: the texts by key.
    public init(_ texts: [String: String]) { self.texts = texts }

    /// Parses a `.strings` file, or a JSON object whose values are the texts.
    ///
    /// - Parameter bytes: the whole file, in UTF-8, or in UTF-16 with a byte order mark. If a key is repeated, the last
    ///   text counts.
    /// - Throws: ``LocalizedStringsProblem`` for the first line at fault.
    public init(parsing bytes: [UInt8]) throws(LocalizedStringsProblem) {
        let text = try Self.text(bytes)
        if text.unicodeScalars.first(where: { !$0.properties.isWhitespace }) == "{" {
            self.texts = try Self.texts(json: Array(text.utf8))
        } else {
            var parser = LocalizedStringsParser(text)
            self.texts = try parser.parse()
        }
    }

    private static func texts(json bytes: [UInt8]) throws(LocalizedStringsProblem) -> [String: String] {
        try unsafe bytes.span.withUnsafeBytes { bytes throws(LocalizedStringsProblem) -> [String: String] in
            var scanner = unsafe JSONScanner(bytes)
            do throws(ScanFailure) {
                if let texts = try self.texts(&scanner) { return texts }
            } catch {
                throw LocalizedStringsProblem(.json(error.problem), line: unsafe bytes.place(of: error.byteOffset).line)
            }
            throw LocalizedStringsProblem(.missingString, line: unsafe bytes.place(of: scanner.byteOffset).line)
        }
    }

    /// The texts of an object; `nil` if the next value is not a text.
    private static func texts(_ scanner: inout JSONScanner) throws(ScanFailure) -> [String: String]? {
        try scanner.begin()
        scanner.enter()
        var texts: [String: String] = [:]
        var isFirst = true
        while let name = try scanner.nextKey(isFirst: &isFirst) {
            guard try scanner.kind() == .string else { return nil }
            texts[scanner.text(of: name)] = scanner.text(of: try scanner.string())
        }
        try scanner.finish()
        return texts
    }

    /// The maximum length of the result of ``filled(_:with:)``, in bytes: more than any screen shows.
    ///
    /// A format may use an argument any number of times.
    public static let filledByteCountMax = 65_536

    /// The text for a key, with arguments inserted.
    ///
    /// - Parameters:
    ///   - key: the key.
    ///   - arguments: the arguments, see ``filled(_:with:)``.
    /// - Returns: the text; `nil` if the app has none for this key.
    public func text(of key: String, arguments: [String] = []) -> String? {
        self.texts[key].map { Self.filled($0, with: arguments) }
    }

    /// Inserts arguments into a text.
    ///
    /// `%@` is replaced by the next argument, `%2$@` by the second one, and `%%` by a percent sign. A placeholder
    /// without an argument is kept; arguments without a placeholder are ignored. Apple documents neither. The result is
    /// truncated at ``filledByteCountMax``, with ``Payload/truncationMark`` at the end.
    ///
    /// - Parameters:
    ///   - format: the text.
    ///   - arguments: the arguments.
    /// - Returns: the text to show.
    public static func filled(_ format: String, with arguments: [String]) -> String {
        var result = ""
        var rest = Substring(format)
        var nextIndex = 0
        while let percent = rest.firstIndex(of: "%") {
            result += rest[..<percent]
            rest = rest[percent...]
            if rest.hasPrefix("%%") {
                result += "%"
                rest = rest.dropFirst(2)
                continue
            }
            let digits = rest.dropFirst().prefix { $0.isASCII && $0.isNumber }
            var index: Int?
            var length = 2
            if digits.isEmpty, rest.hasPrefix("%@") {
                index = nextIndex
                nextIndex += 1
            } else if rest.dropFirst(1 + digits.count).hasPrefix("$@") {
                index = Int(digits).map { $0 - 1 }
                length = 1 + digits.count + 2
            }
            if let index, arguments.indices.contains(index) {
                guard result.utf8.count + arguments[index].utf8.count <= Self.filledByteCountMax else {
                    return result + Payload.truncationMark
                }
                result += arguments[index]
                rest = rest.dropFirst(length)
            } else {
                result += "%"
                rest = rest.dropFirst()
            }
        }
        return result + rest
    }

    private static func text(_ bytes: [UInt8]) throws(LocalizedStringsProblem) -> String {
        let text: String? =
            switch bytes.prefix(2) {
            case [0xFF, 0xFE]: self.text(utf16: bytes.dropFirst(2)) { UInt16($0) | UInt16($1) << 8 }
            case [0xFE, 0xFF]: self.text(utf16: bytes.dropFirst(2)) { UInt16($0) << 8 | UInt16($1) }
            default:
                String(
                    validating: bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes.dropFirst(3) : bytes[...],
                    as: UTF8.self
                )
            }
        guard let text else { throw LocalizedStringsProblem(.notUnicode, line: 1) }
        return text
    }

    private static func text(utf16 bytes: ArraySlice<UInt8>, _ unit: (UInt8, UInt8) -> UInt16) -> String? {
        guard bytes.count.isMultiple(of: 2) else { return nil }
        let units = stride(from: bytes.startIndex, to: bytes.endIndex, by: 2).map { unit(bytes[$0], bytes[$0 + 1]) }
        return String(validating: units, as: UTF16.self)
    }
}

extension LocalizedStrings: ExpressibleByDictionaryLiteral {
    /// Makes localized strings from texts.
    ///
    /// - Parameter elements: the texts by key; if a key is repeated, the last text counts.
    public init(dictionaryLiteral elements: (String, String)...) {
        self.init(Dictionary(elements) { _, last in last })
    }
}

/// Why a file of localized strings cannot be read, and where.
public struct LocalizedStringsProblem: Error, Hashable, Sendable, CustomStringConvertible {
    /// What is wrong.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Kind: Hashable, Sendable {
        /// The file is neither UTF-8 nor UTF-16 with a byte order mark.
        case notUnicode
        /// A key or a text is missing.
        case missingString
        /// A character is missing: `=` after a key, `;` after a text.
        case missing(Character)
        /// A string or a comment is not terminated.
        case unterminated
        /// The file begins like JSON, but is invalid.
        case json(JSONProblem)
    }

    /// What is wrong.
    public let kind: Kind
    /// The line, counted from 1.
    public let line: Int

    init(_ kind: Kind, line: Int) {
        self.kind = kind
        self.line = line
    }

    /// The line and the reason, as in `line 3: expected ";"`.
    public var description: String {
        let text =
            switch self.kind {
            case .notUnicode: "the file is neither UTF-8 nor UTF-16 with a byte order mark"
            case .missingString: "expected a key or a text"
            case .missing(let sign): "expected \"\(sign)\""
            case .unterminated: "unterminated string or comment"
            case .json(let fault): fault.description
            }
        return "line \(self.line): \(text)"
    }
}

/// Parses the lines `"key" = "text";` of a `.strings` file, and skips comments.
private struct LocalizedStringsParser {
    private let scalars: [Unicode.Scalar]
    private var index = 0
    private var line = 1

    init(_ text: String) { self.scalars = Array(text.unicodeScalars) }

    mutating func parse() throws(LocalizedStringsProblem) -> [String: String] {
        var texts: [String: String] = [:]
        while try self.skipSpace() {
            let key = try self.string()
            var text = key
            // A key without a text is its own text.
            if try self.skipSpace(), self.next == "=" {
                self.advance()
                guard try self.skipSpace() else { throw self.problem(.missingString) }
                text = try self.string()
            }
            guard try self.skipSpace(), self.next == ";" else { throw self.problem(.missing(";")) }
            self.advance()
            texts[key] = text
        }
        return texts
    }

    private var next: Unicode.Scalar? { self.index < self.scalars.count ? self.scalars[self.index] : nil }

    private func problem(_ kind: LocalizedStringsProblem.Kind) -> LocalizedStringsProblem {
        LocalizedStringsProblem(kind, line: self.line)
    }

    private mutating func advance() {
        if self.next == "\n" { self.line += 1 }
        self.index += 1
    }

    private func isNext(_ text: String) -> Bool {
        self.scalars[self.index...].starts(with: text.unicodeScalars)
    }

    /// Skips white space and comments.
    ///
    /// Returns whether anything follows.
    private mutating func skipSpace() throws(LocalizedStringsProblem) -> Bool {
        while let scalar = self.next {
            if scalar.properties.isWhitespace {
                self.advance()
            } else if self.isNext("//") {
                while let scalar = self.next, scalar != "\n" { self.advance() }
            } else if self.isNext("/*") {
                let problem = self.problem(.unterminated)
                while self.next != nil, !self.isNext("*/") { self.advance() }
                guard self.next != nil else { throw problem }
                self.index += 2
            } else {
                return true
            }
        }
        return false
    }

    /// Parses a quoted string, or an unquoted word.
    private mutating func string() throws(LocalizedStringsProblem) -> String {
        guard self.next == "\"" else { return try self.word() }
        let problem = self.problem(.unterminated)
        self.advance()
        var units: [UInt16] = []
        while let scalar = self.next {
            self.advance()
            switch scalar {
            case "\"": return String(decoding: units, as: UTF16.self)
            case "\\": units.append(contentsOf: self.escape())
            default: units.append(contentsOf: String(scalar).utf16)
            }
        }
        throw problem
    }

    private mutating func word() throws(LocalizedStringsProblem) -> String {
        let start = self.index
        while let scalar = self.next,
            scalar.properties.isAlphabetic || "0123456789_.-$:/".unicodeScalars.contains(scalar)
        { self.advance() }
        guard self.index > start else { throw self.problem(.missingString) }
        return String(String.UnicodeScalarView(self.scalars[start..<self.index]))
    }

    /// Decodes an escape after its backslash, as UTF-16, since two escapes can form one character.
    private mutating func escape() -> [UInt16] {
        guard let scalar = self.next else { return [] }
        self.advance()
        switch scalar {
        case "n": return [0x0A]
        case "r": return [0x0D]
        case "t": return [0x09]
        case "U", "u":
            let digits = self.scalars[self.index...].prefix(4).prefix { $0.properties.isASCIIHexDigit }
            guard let unit = UInt16(String(String.UnicodeScalarView(digits)), radix: 16) else { fallthrough }
            self.index += digits.count
            return [unit]
        default: return Array(String(scalar).utf16)
        }
    }
}

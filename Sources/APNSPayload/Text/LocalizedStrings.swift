// SPDX-License-Identifier: Apache-2.0

/// The texts that an app has in one language, as its `Localizable.strings` lists them by their keys.
///
/// With them, a localized alert can be shown as its reader will see it, see ``Payload/alertPreview(_:)``.
public struct LocalizedStrings: Hashable, Sendable {
    /// The texts by their keys.
    public var texts: [String: String]

    /// Takes texts.
    ///
    /// - Parameter texts: the texts by their keys.
    public init(_ texts: [String: String]) { self.texts = texts }

    /// Reads a `.strings` file, or a JSON object whose values are the texts.
    ///
    /// - Parameter bytes: the whole file, in UTF-8, or in UTF-16 with a byte order mark. Of several texts with the same
    ///   key, the last one counts.
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
            do throws(ScanFailure) {
                return try unsafe self.texts(scanning: bytes)
            } catch {
                let problem = unsafe PayloadProblem(error, in: bytes)
                guard case .syntax(let fault) = problem.kind else {
                    throw LocalizedStringsProblem(.missingString, line: problem.line)
                }
                throw LocalizedStringsProblem(.json(fault), line: problem.line)
            }
        }
    }

    private static func texts(scanning bytes: UnsafeRawBufferPointer) throws(ScanFailure) -> [String: String] {
        var scanner = unsafe JSONScanner(bytes)
        try scanner.begin()
        scanner.enter()
        var texts: [String: String] = [:]
        var isFirst = true
        while let name = try scanner.nextKey(isFirst: &isFirst) {
            let kind = try scanner.kind()
            guard kind == .string else {
                // Any kind but one of syntax: the caller wants the place alone.
                throw ScanFailure(kind: .notAnObject(kind), byteOffset: scanner.byteOffset)
            }
            texts[scanner.text(of: name)] = scanner.text(of: try scanner.string())
        }
        try scanner.finish()
        return texts
    }

    /// The longest text that ``filled(_:with:)`` makes, in bytes: more than any screen shows.
    ///
    /// A format may name an argument any number of times.
    public static let filledByteCountMax = 65_536

    /// The text of a key, with the arguments filled in.
    ///
    /// - Parameters:
    ///   - key: the key.
    ///   - arguments: what is filled in, see ``filled(_:with:)``.
    /// - Returns: the text; `nil` where the app has none under this key.
    public func text(of key: String, arguments: [String] = []) -> String? {
        self.texts[key].map { Self.filled($0, with: arguments) }
    }

    /// Fills arguments into a text.
    ///
    /// `%@` stands for the next argument, `%2$@` for the second one, and `%%` for a percent sign. Where an argument is
    /// missing its place stays as it is written; arguments without a place are left out. Apple documents neither.
    /// What is longer than ``filledByteCountMax`` ends there, in ``Payload/truncationMark``.
    ///
    /// - Parameters:
    ///   - format: the text.
    ///   - arguments: what is filled in.
    /// - Returns: the text to be shown.
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
    /// Takes texts.
    ///
    /// - Parameter elements: the texts by their keys; of several with the same key, the last one counts.
    public init(dictionaryLiteral elements: (String, String)...) {
        self.init(Dictionary(elements) { _, last in last })
    }
}

/// Why a file of localized strings cannot be read, and where.
public struct LocalizedStringsProblem: Error, Hashable, Sendable, CustomStringConvertible {
    /// What is wrong.
    ///
    /// There may be more in later versions.
    @nonexhaustive
    public enum Kind: Hashable, Sendable {
        /// The file is neither UTF-8 nor UTF-16 with a byte order mark.
        case notUnicode
        /// A key or a text is expected.
        case missingString
        /// A sign is expected: `=` behind a key, `;` behind a text.
        case missing(Character)
        /// A string or a comment does not end.
        case unterminated
        /// The file begins as JSON does, and is none.
        case json(JSONFault)
    }

    /// What is wrong.
    public let kind: Kind
    /// The line, counted from 1.
    public let line: Int

    init(_ kind: Kind, line: Int) {
        self.kind = kind
        self.line = line
    }

    /// The line and the reason, as in `line 3: ";" is expected`.
    public var description: String {
        let text =
            switch self.kind {
            case .notUnicode: "the file is neither UTF-8 nor UTF-16 with a byte order mark"
            case .missingString: "a key or a text is expected"
            case .missing(let sign): "\"\(sign)\" is expected"
            case .unterminated: "a string or a comment does not end"
            case .json(let fault): fault.description
            }
        return "line \(self.line): \(text)"
    }
}

/// Reads the lines `"key" = "text";` of a `.strings` file, and passes comments.
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
            // A key alone stands for itself.
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

    /// Passes white space and comments.
    ///
    /// - Returns: whether something follows.
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

    /// Passes a string in quotes, or a word without.
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

    /// What stands for an escape whose backslash was passed, in UTF-16, since two of them can make one character.
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

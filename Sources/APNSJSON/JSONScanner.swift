// SPDX-License-Identifier: Apache-2.0

import Glibc

/// A pull scanner for JSON in memory: it validates every byte that it skips, and neither builds a value nor allocates.
///
/// The caller requests the token that it expects next. Nesting does not recurse: ``skipValue(enclosedBy:)`` stores one
/// bit for each level, so the input determines neither the stack depth nor an allocation.
///
/// - SeeAlso: RFC 8259; RFC 3629 for UTF-8.
@safe @usableFromInline
package struct JSONScanner {
    @usableFromInline let start: UnsafeRawPointer
    @usableFromInline let end: UnsafeRawPointer
    @usableFromInline var position: UnsafeRawPointer

    /// The number of white space bytes between tokens so far.
    package private(set) var whiteSpaceByteCount = 0

    /// The maximum nesting of objects and arrays, for which the scanner stores its stack in one 64-bit word.
    @inlinable package static var depthMax: Int { 64 }

    /// Creates a scanner at the first byte.
    @inlinable
    package init(_ bytes: UnsafeRawBufferPointer) {
        let start = unsafe bytes.baseAddress ?? UnsafeRawPointer(StaticString("").utf8Start)
        unsafe self.start = start
        unsafe self.position = start
        unsafe self.end = start + bytes.count
    }

    /// The offset of the next byte.
    @inlinable
    package var byteOffset: Int {
        unsafe self.position - self.start
    }

    /// The next byte, or `nil` at the end.
    @inlinable @inline(__always)
    package var next: UInt8? {
        unsafe self.position < self.end ? self.position.load(as: UInt8.self) : nil
    }

    /// The raw bytes of a string.
    @inlinable
    package func bytes(of string: JSONString) -> UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(start: self.start + string.byteOffset, count: string.byteCount)
    }

    /// Skips these bytes, which are a whole value, if they are next.
    ///
    /// Returns whether they are.
    package mutating func skip(_ bytes: borrowing [UInt8]) -> Bool {
        let count = bytes.count
        guard count > 0, unsafe self.end - self.position >= count else { return false }
        let position = unsafe self.position
        let isNext = unsafe bytes.withUnsafeBytes { bytes in
            unsafe bytes.baseAddress.map { unsafe memcmp($0, position, count) == 0 } ?? false
        }
        guard isNext else { return false }
        self.advance(by: count)
        return true
    }

    @inlinable @inline(__always)
    mutating func advance(by byteCount: Int = 1) {
        unsafe self.position += byteCount
    }

    /// Creates the error for the next byte, or for the end; NUL has its own error.
    @usableFromInline @inline(never)
    package func failure(_ problem: JSONProblem) -> ScanFailure {
        let problem: JSONProblem =
            switch self.next {
            case nil where problem != .empty: .unexpectedEnd
            case 0: .nul
            default: problem
            }
        return ScanFailure(problem, byteOffset: self.byteOffset)
    }
}

// MARK: - White space and the ends

extension JSONScanner {
    /// Skips white space.
    @inlinable @inline(__always)
    package mutating func skipWhiteSpace() {
        guard let byte = self.next, byte <= 0x20 else { return }
        self.skipWhiteSpaceRun()
    }

    @usableFromInline
    mutating func skipWhiteSpaceRun() {
        let before = unsafe self.position
        while let byte = self.next, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 {
            self.advance()
        }
        unsafe self.whiteSpaceByteCount += self.position - before
    }

    /// Skips white space before a text; a byte order mark is an error.
    package mutating func begin() throws(ScanFailure) {
        self.skipWhiteSpace()
        guard let byte = self.next else { throw self.failure(.empty) }
        let rest = unsafe self.end - self.position
        let second = unsafe rest > 1 ? self.position.load(fromByteOffset: 1, as: UInt8.self) : 0
        switch (byte, second) {
        case (0xEF, 0xBB), (0xFE, 0xFF), (0xFF, 0xFE):
            throw self.failure(.byteOrderMark)
        default:
            break
        }
    }

    /// Skips white space after a text; anything else is an error.
    package mutating func finish() throws(ScanFailure) {
        self.skipWhiteSpace()
        guard self.next == nil else { throw self.failure(.trailingContent) }
    }

    /// The kind of the value that begins at the next byte.
    @inlinable @inline(__always)
    package func kind() throws(ScanFailure) -> JSONKind {
        // NUL represents the end here, since neither begins a value.
        switch self.next ?? 0 {
        case UInt8(ascii: "\""): return .string
        case UInt8(ascii: "{"): return .object
        case UInt8(ascii: "["): return .array
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return .number
        case UInt8(ascii: "t"), UInt8(ascii: "f"): return .boolean
        case UInt8(ascii: "n"): return .null
        default: throw self.failure(.missingValue)
        }
    }
}

// MARK: - Objects and arrays

extension JSONScanner {
    /// Skips the next key of an object, its colon, and white space.
    ///
    /// Returns the key, or `nil` at the closing brace, which is skipped.
    ///
    /// - Throws: ``ScanFailure`` for the first byte at fault.
    @inlinable @inline(__always)
    package mutating func nextKey(isFirst: inout Bool) throws(ScanFailure) -> JSONString? {
        self.skipWhiteSpace()
        if self.next == UInt8(ascii: "}") {
            self.advance()
            return nil
        }
        if isFirst {
            isFirst = false
        } else {
            guard self.next == UInt8(ascii: ",") else { throw self.failure(.missingCommaOrBrace) }
            self.advance()
            self.skipWhiteSpace()
            if self.next == UInt8(ascii: "}") { throw self.failure(.trailingComma) }
        }
        return try self.key()
    }

    /// Skips the separator before the next element of an array.
    ///
    /// Returns `false` at the closing bracket, which is skipped.
    ///
    /// - Throws: ``ScanFailure`` for the first byte at fault.
    @inlinable
    package mutating func nextElement(isFirst: inout Bool) throws(ScanFailure) -> Bool {
        self.skipWhiteSpace()
        if self.next == UInt8(ascii: "]") {
            self.advance()
            return false
        }
        if isFirst {
            isFirst = false
        } else {
            guard self.next == UInt8(ascii: ",") else { throw self.failure(.missingCommaOrBracket) }
            self.advance()
            self.skipWhiteSpace()
            if self.next == UInt8(ascii: "]") { throw self.failure(.trailingComma) }
        }
        return true
    }

    /// Skips the opening brace or bracket that ``kind()`` returned.
    @inlinable @inline(__always)
    package mutating func enter() {
        self.advance()
    }

    /// Skips a key, its colon and the white space around it.
    @inlinable @inline(__always)
    mutating func key() throws(ScanFailure) -> JSONString {
        guard self.next == UInt8(ascii: "\"") else { throw self.failure(.missingKey) }
        let key = try self.string()
        self.skipWhiteSpace()
        guard self.next == UInt8(ascii: ":") else { throw self.failure(.missingColon) }
        self.advance()
        self.skipWhiteSpace()
        return key
    }

    /// Skips one value of any kind.
    ///
    /// - Throws: ``ScanFailure`` for the first byte at fault.
    @inlinable
    package mutating func skipValue(enclosedBy depth: Int) throws(ScanFailure) {
        // Bit 0 is the innermost level: 1 for an object, 0 for an array.
        var levels: UInt64 = 0
        var level = depth
        while true {
            let kind = try self.kind()
            var isFirst = false
            switch kind {
            case .string:
                _ = try self.string()
            case .number:
                try self.skipNumber()
            case .boolean, .null:
                try self.skipLiteral()
            case .object, .array:
                guard level < Self.depthMax else { throw self.failure(.tooDeep) }
                level += 1
                levels = levels << 1 | (kind == .object ? 1 : 0)
                self.enter()
                isFirst = true
            }
            var isClosed = true
            while isClosed, level > depth {
                if levels & 1 == 1 {
                    isClosed = try self.nextKey(isFirst: &isFirst) == nil
                } else {
                    isClosed = try !self.nextElement(isFirst: &isFirst)
                }
                isFirst = false
                if isClosed {
                    levels >>= 1
                    level -= 1
                }
            }
            if isClosed { return }
        }
    }
}

// MARK: - Strings, numbers and literals

extension JSONScanner {
    /// Skips a number of any length.
    @inlinable
    package mutating func skipNumber() throws(ScanFailure) {
        if self.next == UInt8(ascii: "-") { self.advance() }
        if self.next == UInt8(ascii: "0") {
            self.advance()
            if let byte = self.next, Self.isDigit(byte) { throw self.failure(.leadingZero) }
        } else {
            try self.skipDigits()
        }
        if self.next == UInt8(ascii: ".") {
            self.advance()
            try self.skipDigits()
        }
        if let byte = self.next, byte | 0x20 == UInt8(ascii: "e") {
            self.advance()
            if let sign = self.next, sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-") { self.advance() }
            try self.skipDigits()
        }
    }

    @inlinable @inline(__always)
    mutating func skipDigits() throws(ScanFailure) {
        var cursor = unsafe self.position
        while unsafe cursor < self.end, unsafe Self.isDigit(cursor.load(as: UInt8.self)) {
            unsafe cursor += 1
        }
        guard unsafe cursor > self.position else { throw self.failure(.missingDigit) }
        unsafe self.position = cursor
    }

    @inlinable @inline(__always)
    static func isDigit(_ byte: UInt8) -> Bool {
        byte &- UInt8(ascii: "0") < 10
    }

    /// Skips `true`, `false` or `null`.
    @inlinable
    package mutating func skipLiteral() throws(ScanFailure) {
        let byteCount = self.next == UInt8(ascii: "f") ? 5 : 4
        let offset = byteCount - 4
        guard unsafe self.end - self.position >= byteCount else { throw self.failure(.invalidLiteral) }
        // The last four bytes distinguish the words, since the first byte of `false` is known.
        let word = unsafe UInt32(bigEndian: self.position.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
        let expected: UInt32 =
            switch self.next {
            case UInt8(ascii: "t"): 0x7472_7565
            case UInt8(ascii: "f"): 0x616C_7365
            default: 0x6E75_6C6C
            }
        guard word == expected else { throw self.failure(.invalidLiteral) }
        self.advance(by: byteCount)
    }

    /// Skips a string; its opening quote is the next byte.
    @inlinable
    package mutating func string() throws(ScanFailure) -> JSONString {
        let first = unsafe self.position + 1
        let stop = unsafe self.endOfPlainWords(from: first)
        guard unsafe stop < self.end, unsafe stop.load(as: UInt8.self) == UInt8(ascii: "\"") else {
            unsafe self.position = stop
            return try unsafe self.restOfString(from: first)
        }
        unsafe self.position = stop + 1
        return JSONString(byteOffset: unsafe first - self.start, byteCount: unsafe stop - first, hasEscapes: false)
    }

    /// Skips the rest of a string after its plain beginning.
    @usableFromInline @inline(never)
    mutating func restOfString(from first: UnsafeRawPointer) throws(ScanFailure) -> JSONString {
        var hasEscapes = false
        while let byte = self.next {
            switch byte {
            case UInt8(ascii: "\""):
                let byteCount = unsafe self.position - first
                self.advance()
                return JSONString(
                    byteOffset: unsafe first - self.start,
                    byteCount: byteCount,
                    hasEscapes: hasEscapes
                )
            case UInt8(ascii: "\\"):
                hasEscapes = true
                try self.skipEscape()
            case 0x00...0x1F:
                throw ScanFailure(.controlCharacter, byteOffset: self.byteOffset)
            case 0x80...0xFF:
                try self.skipMultiByteCharacters()
            default:
                self.advance()
            }
            unsafe self.position = self.endOfPlainWords(from: self.position)
        }
        throw ScanFailure(.unterminatedString, byteOffset: unsafe first - self.start - 1)
    }

    /// Finds the first byte that is not plain, eight at a time, or stops when fewer than eight are left.
    ///
    /// Bit 7 of each byte of `stop` is set for a quote, a backslash, a control character or a byte above 0x7F. A borrow
    /// may set it incorrectly, but only above a byte that set it correctly, and only the lowest one is used.
    @inlinable @inline(__always)
    func endOfPlainWords(from first: UnsafeRawPointer) -> UnsafeRawPointer {
        let ones: UInt64 = 0x0101_0101_0101_0101
        var cursor = unsafe first
        while unsafe self.end - cursor >= 8 {
            let word = unsafe UInt64(littleEndian: cursor.loadUnaligned(as: UInt64.self))
            let quotes = word ^ (ones &* UInt64(UInt8(ascii: "\"")))
            let backslashes = word ^ (ones &* UInt64(UInt8(ascii: "\\")))
            let stop =
                ((quotes &- ones) | (backslashes &- ones) | (word &- ones &* 0x20) | word) & (ones &* 0x80)
            guard stop == 0 else { return unsafe cursor + stop.trailingZeroBitCount / 8 }
            unsafe cursor += 8
        }
        return unsafe cursor
    }

    /// Skips an escape; its backslash is the next byte.
    private mutating func skipEscape() throws(ScanFailure) {
        let rest = unsafe self.end - self.position
        guard rest >= 2 else { throw self.failureAtEnd() }
        switch unsafe self.position.load(fromByteOffset: 1, as: UInt8.self) {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
            UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            self.advance(by: 2)
        case UInt8(ascii: "u"):
            guard let unit = try self.escapedUnit(at: 0) else { throw self.failureAtEnd() }
            switch unit {
            case 0xD800...0xDBFF:
                guard rest >= 8, unsafe self.position.load(fromByteOffset: 6, as: UInt8.self) == UInt8(ascii: "\\"),
                    unsafe self.position.load(fromByteOffset: 7, as: UInt8.self) == UInt8(ascii: "u"),
                    let low = try self.escapedUnit(at: 6), 0xDC00...0xDFFF ~= low
                else {
                    throw ScanFailure(.loneSurrogate, byteOffset: self.byteOffset)
                }
                self.advance(by: 12)
            case 0xDC00...0xDFFF:
                throw ScanFailure(.loneSurrogate, byteOffset: self.byteOffset)
            default:
                self.advance(by: 6)
            }
        default:
            throw ScanFailure(.invalidEscape, byteOffset: self.byteOffset)
        }
    }

    private func failureAtEnd() -> ScanFailure {
        ScanFailure(.unexpectedEnd, byteOffset: unsafe self.end - self.start)
    }

    /// Reads the four digits of the `\u` escape at an offset from the next byte; `nil` if the bytes end inside it.
    private func escapedUnit(at offset: Int) throws(ScanFailure) -> UInt16? {
        var unit: UInt16 = 0
        for index in (offset + 2)..<(offset + 6) {
            guard unsafe self.position + index < self.end else { return nil }
            guard let digit = unsafe Self.hexValue(self.position.load(fromByteOffset: index, as: UInt8.self)) else {
                throw ScanFailure(.invalidEscape, byteOffset: self.byteOffset + offset)
            }
            unit = unit << 4 | UInt16(digit)
        }
        return unit
    }

    @inline(__always)
    private static func hexValue(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        default: nil
        }
    }

    /// Skips characters of two to four bytes up to the next one of a single byte.
    ///
    /// - SeeAlso: RFC 3629, section 4: the table of well-formed sequences.
    private mutating func skipMultiByteCharacters() throws(ScanFailure) {
        while let lead = self.next, lead >= 0x80 {
            let rest = unsafe self.end - self.position
            let second: UInt8 = unsafe rest > 1 ? self.position.load(fromByteOffset: 1, as: UInt8.self) : 0
            let byteCount: Int
            switch (lead, second) {
            case (0xC2...0xDF, 0x80...0xBF):
                byteCount = 2
            case (0xE0, 0xA0...0xBF), (0xE1...0xEC, 0x80...0xBF), (0xED, 0x80...0x9F), (0xEE...0xEF, 0x80...0xBF):
                byteCount = 3
            case (0xF0, 0x90...0xBF), (0xF1...0xF3, 0x80...0xBF), (0xF4, 0x80...0x8F):
                byteCount = 4
            default:
                throw ScanFailure(.invalidUTF8, byteOffset: self.byteOffset)
            }
            var isWhole = rest >= byteCount
            for index in 2..<max(byteCount, 2) where isWhole {
                isWhole = unsafe self.position.load(fromByteOffset: index, as: UInt8.self) & 0xC0 == 0x80
            }
            guard isWhole else {
                throw ScanFailure(.invalidUTF8, byteOffset: self.byteOffset)
            }
            self.advance(by: byteCount)
        }
    }
}

// MARK: - Values of strings

extension JSONScanner {
    /// The value of a scanned string.
    ///
    /// Returns the text, without quotes and escapes.
    package func text(of string: JSONString) -> String {
        unsafe self.withValue(of: string) { unsafe String(decoding: $0, as: UTF8.self) }
    }

    /// Calls `body` with the bytes of a scanned string, without quotes and escapes.
    ///
    /// Returns what `body` returns.
    @inlinable @inline(__always)
    package func withValue<Value>(of string: JSONString, _ body: (UnsafeRawBufferPointer) -> Value) -> Value {
        unsafe string.hasEscapes ? self.withDecoded(string, body) : body(self.bytes(of: string))
    }

    @usableFromInline @inline(never)
    func withDecoded<Value>(_ string: JSONString, _ body: (UnsafeRawBufferPointer) -> Value) -> Value {
        unsafe withUnsafeTemporaryAllocation(byteCount: string.byteCount, alignment: 8) { target in
            let byteCount = unsafe self.decode(string, into: target) ?? 0
            return unsafe body(UnsafeRawBufferPointer(rebasing: target[..<byteCount]))
        }
    }

    /// The raw text from an offset to the current position.
    package func text(from byteOffset: Int) -> String {
        let bytes = unsafe UnsafeRawBufferPointer(start: self.start + byteOffset, count: self.byteOffset - byteOffset)
        return unsafe String(decoding: bytes, as: UTF8.self)
    }

    /// Writes the value of a scanned string, as UTF-8, into the caller's memory.
    ///
    /// Returns the number of bytes written, or `nil` if `target` is too small.
    package func decode(_ string: JSONString, into target: UnsafeMutableRawBufferPointer) -> Int? {
        var output = 0
        var index = 0
        let bytes = unsafe self.bytes(of: string)
        while index < bytes.count {
            var scalar = unsafe UInt32(bytes[index])
            var byteCount = 1
            var isEscaped = false
            if scalar == 0x5C, let (value, count) = unsafe Self.escape(bytes[index...]) {
                scalar = value
                byteCount = count
                isEscaped = true
            }
            index += byteCount
            // A byte that is not escaped is copied, even if it is part of a longer character.
            let width = isEscaped ? Self.byteCountUTF8(scalar) : 1
            guard output + width <= target.count else { return nil }
            if width == 1 {
                unsafe target[output] = UInt8(truncatingIfNeeded: scalar)
            } else {
                for place in 0..<width {
                    let bits = UInt8(truncatingIfNeeded: scalar >> (6 * UInt32(width - 1 - place)))
                    let lead = UInt8(truncatingIfNeeded: 0xF00 >> width)
                    unsafe target[output + place] = place == 0 ? lead | bits : 0x80 | bits & 0x3F
                }
            }
            output += width
        }
        return output
    }

    /// Decodes an escape at the start of bytes that are already validated.
    private static func escape(_ bytes: Slice<UnsafeRawBufferPointer>) -> (scalar: UInt32, byteCount: Int)? {
        let first = unsafe bytes.startIndex
        guard unsafe bytes.count >= 2 else { return nil }
        switch unsafe bytes[first + 1] {
        case UInt8(ascii: "b"): return (0x08, 2)
        case UInt8(ascii: "f"): return (0x0C, 2)
        case UInt8(ascii: "n"): return (0x0A, 2)
        case UInt8(ascii: "r"): return (0x0D, 2)
        case UInt8(ascii: "t"): return (0x09, 2)
        case UInt8(ascii: "u"):
            guard let unit = unsafe self.unit(bytes, at: first + 2) else { return nil }
            guard 0xD800...0xDBFF ~= unit, let low = unsafe self.unit(bytes, at: first + 8) else { return (unit, 6) }
            return (0x10000 + (unit & 0x3FF) << 10 + low & 0x3FF, 12)
        case let byte: return (UInt32(byte), 2)
        }
    }

    private static func unit(_ bytes: Slice<UnsafeRawBufferPointer>, at index: Int) -> UInt32? {
        guard unsafe index + 4 <= bytes.endIndex else { return nil }
        var unit: UInt32 = 0
        for place in index..<(index + 4) {
            guard let digit = unsafe Self.hexValue(bytes[place]) else { return nil }
            unit = unit << 4 | UInt32(digit)
        }
        return unit
    }

    private static func byteCountUTF8(_ scalar: UInt32) -> Int {
        switch scalar {
        case ..<0x80: 1
        case ..<0x800: 2
        case ..<0x10000: 3
        default: 4
        }
    }
}

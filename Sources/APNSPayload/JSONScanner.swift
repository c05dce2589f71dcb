// SPDX-License-Identifier: Apache-2.0

/// A pull scanner for JSON in memory: it checks every byte it passes, builds nothing and allocates nothing.
///
/// The caller asks for what it expects next. Nesting takes no recursion: what ``skipValue(enclosedBy:)`` passes is kept
/// in one bit for each level, so input decides neither the depth of the stack nor an allocation.
///
/// - SeeAlso: RFC 8259; RFC 3629 for UTF-8.
@safe
package struct JSONScanner {
    let start: UnsafeRawPointer
    let end: UnsafeRawPointer
    var position: UnsafeRawPointer

    /// The bytes of white space between tokens that were passed so far.
    package internal(set) var whiteSpaceByteCount = 0

    /// Makes a scanner that stands before the first byte.
    ///
    /// - Parameter bytes: must stay where they are as long as the scanner is used.
    package init(_ bytes: UnsafeRawBufferPointer) {
        let start = unsafe bytes.baseAddress ?? UnsafeRawPointer(StaticString("").utf8Start)
        unsafe self.start = start
        unsafe self.position = start
        unsafe self.end = start + bytes.count
    }

    /// The offset of the next byte.
    package var byteOffset: Int {
        unsafe self.position - self.start
    }

    /// The next byte, or `nil` at the end.
    @inline(__always)
    package var next: UInt8? {
        unsafe self.position < self.end ? self.position.load(as: UInt8.self) : nil
    }

    /// The bytes of a string, as they are written.
    package func bytes(of string: JSONString) -> UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(start: self.start + string.byteOffset, count: string.byteCount)
    }

    @inline(__always)
    mutating func advance(by byteCount: Int = 1) {
        unsafe self.position += byteCount
    }

    /// Makes the error for the next byte, or for the end; a NUL is named where it is the reason.
    @inline(never)
    package func failure(_ fault: JSONFault) -> ScanFailure {
        let fault: JSONFault =
            switch self.next {
            case nil where fault != .empty: .unexpectedEnd
            case 0: .nul
            default: fault
            }
        return ScanFailure(kind: .syntax(fault), byteOffset: self.byteOffset)
    }
}

// MARK: - White space and the ends

extension JSONScanner {
    /// Passes white space.
    @inline(__always)
    package mutating func skipWhiteSpace() {
        guard let byte = self.next, byte <= 0x20 else { return }
        self.skipWhiteSpaceRun()
    }

    private mutating func skipWhiteSpaceRun() {
        let before = unsafe self.position
        while let byte = self.next, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 {
            self.advance()
        }
        unsafe self.whiteSpaceByteCount += self.position - before
    }

    /// Passes what may stand before a text: white space, and no byte order mark.
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

    /// Passes what may stand behind a text: white space only.
    package mutating func finish() throws(ScanFailure) {
        self.skipWhiteSpace()
        guard self.next == nil else { throw self.failure(.trailingContent) }
    }

    /// The kind of the value that begins at the next byte.
    @inline(__always)
    package func kind() throws(ScanFailure) -> JSONKind {
        // NUL stands for the end here, since neither begins a value.
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
    /// Passes the key that comes next in an object, its colon, and white space.
    ///
    /// - Parameter isFirst: `true` for the first call behind the opening brace, which the caller has passed with
    ///   ``enter()``; set to `false`.
    /// - Returns: the key, or `nil` at the closing brace, which is passed too.
    /// - Throws: ``ScanFailure`` for the first byte at fault.
    @inline(__always)
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

    /// Passes what separates an element of an array from the one before.
    ///
    /// - Parameter isFirst: `true` for the first call behind the opening bracket; set to `false`.
    /// - Returns: `false` at the closing bracket, which is passed too.
    /// - Throws: ``ScanFailure`` for the first byte at fault.
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

    /// Passes the opening brace or bracket whose kind was just told by ``kind()``.
    @inline(__always)
    package mutating func enter() {
        self.advance()
    }

    /// Passes a key, its colon and the white space around it.
    @inline(__always)
    private mutating func key() throws(ScanFailure) -> JSONString {
        guard self.next == UInt8(ascii: "\"") else { throw self.failure(.missingKey) }
        let key = try self.string()
        self.skipWhiteSpace()
        guard self.next == UInt8(ascii: ":") else { throw self.failure(.missingColon) }
        self.advance()
        self.skipWhiteSpace()
        return key
    }

    /// Passes one value of any kind.
    ///
    /// - Parameter depth: how many objects and arrays the value stands in; they count towards
    ///   ``PayloadRules/depthMax``.
    /// - Throws: ``ScanFailure`` for the first byte at fault.
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
                guard level < PayloadRules.depthMax else { throw self.failure(.tooDeep) }
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

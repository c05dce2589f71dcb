// SPDX-License-Identifier: Apache-2.0

extension JSONScanner {
    /// Passes a number of any length.
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

    @inline(__always)
    private mutating func skipDigits() throws(ScanFailure) {
        var cursor = unsafe self.position
        while unsafe cursor < self.end, unsafe Self.isDigit(cursor.load(as: UInt8.self)) {
            unsafe cursor += 1
        }
        guard unsafe cursor > self.position else { throw self.failure(.missingDigit) }
        unsafe self.position = cursor
    }

    @inline(__always)
    private static func isDigit(_ byte: UInt8) -> Bool {
        byte &- UInt8(ascii: "0") < 10
    }

    /// Passes `true`, `false` or `null`.
    package mutating func skipLiteral() throws(ScanFailure) {
        let byteCount = self.next == UInt8(ascii: "f") ? 5 : 4
        let offset = byteCount - 4
        guard unsafe self.end - self.position >= byteCount else { throw self.failure(.invalidLiteral) }
        // The last four bytes tell the words apart, since the first byte of `false` is known.
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

    /// Passes a string, whose opening quote is the next byte.
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

    /// Passes what is left of a string behind its plain beginning.
    @inline(never)
    private mutating func restOfString(from first: UnsafeRawPointer) throws(ScanFailure) -> JSONString {
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
                throw ScanFailure(kind: .syntax(.controlCharacter), byteOffset: self.byteOffset)
            case 0x80...0xFF:
                try self.skipMultiByteCharacters()
            default:
                self.advance()
            }
            unsafe self.position = self.endOfPlainWords(from: self.position)
        }
        throw ScanFailure(kind: .syntax(.unterminatedString), byteOffset: unsafe first - self.start - 1)
    }

    /// Finds the first byte that is not plain, eight at a time, or where fewer than eight are left.
    ///
    /// Bit 7 of each byte of `stop` is set where a quote, a backslash, a control character or a byte above 0x7F
    /// stands. A borrow may set it wrongly, but only above a byte that set it rightly, and the lowest one counts.
    @inline(__always)
    private func endOfPlainWords(from first: UnsafeRawPointer) -> UnsafeRawPointer {
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

    /// Passes an escape, whose backslash is the next byte.
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
                    throw ScanFailure(kind: .syntax(.loneSurrogate), byteOffset: self.byteOffset)
                }
                self.advance(by: 12)
            case 0xDC00...0xDFFF:
                throw ScanFailure(kind: .syntax(.loneSurrogate), byteOffset: self.byteOffset)
            default:
                self.advance(by: 6)
            }
        default:
            throw ScanFailure(kind: .syntax(.invalidEscape), byteOffset: self.byteOffset)
        }
    }

    private func failureAtEnd() -> ScanFailure {
        ScanFailure(kind: .syntax(.unexpectedEnd), byteOffset: unsafe self.end - self.start)
    }

    /// Reads the four digits of a `\u` escape that begins so far behind the next byte; `nil` if the bytes end in it.
    private func escapedUnit(at offset: Int) throws(ScanFailure) -> UInt16? {
        var unit: UInt16 = 0
        for index in (offset + 2)..<(offset + 6) {
            guard unsafe self.position + index < self.end else { return nil }
            guard let digit = unsafe Self.hexValue(self.position.load(fromByteOffset: index, as: UInt8.self)) else {
                throw ScanFailure(kind: .syntax(.invalidEscape), byteOffset: self.byteOffset + offset)
            }
            unit = unit << 4 | UInt16(digit)
        }
        return unit
    }

    @inline(__always)
    static func hexValue(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        default: nil
        }
    }

    /// Passes characters of two to four bytes until one of a single byte comes.
    ///
    /// - SeeAlso: RFC 3629, section 4, whose table of well-formed sequences this is.
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
                throw ScanFailure(kind: .syntax(.invalidUTF8), byteOffset: self.byteOffset)
            }
            var isWhole = rest >= byteCount
            for index in 2..<max(byteCount, 2) where isWhole {
                isWhole = unsafe self.position.load(fromByteOffset: index, as: UInt8.self) & 0xC0 == 0x80
            }
            guard isWhole else {
                throw ScanFailure(kind: .syntax(.invalidUTF8), byteOffset: self.byteOffset)
            }
            self.advance(by: byteCount)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

/// A reader of tokens in any usual spelling.
///
/// A table may mix spellings, so each value is judged by itself.
enum TokenText {
    /// The bytes of a usual token; a BLOB of more may be a text.
    private static var usualByteCount: Int { 32 }
    /// The digits of the usual 32 bytes.
    private static var usualDigitCount: Int { 64 }
    /// The length of an unpadded base64 text of the usual 32 bytes.
    private static var unpaddedCharacterCount: Int { 43 }
    /// So many letters that are no hexadecimal digits make a text without padding base64.
    ///
    /// A hexadecimal token with a mistyped digit or two must not pass as another token.
    private static var foreignLetterCountMin: Int { 8 }

    /// Reads a token from text.
    ///
    /// - Parameters:
    ///   - text: the bytes of the text.
    ///   - target: room for ``PurgeLimits/tokenByteCountMax`` bytes.
    /// - Returns: how many bytes the token has, and its spelling; `nil` for what is no token.
    static func decode(
        text: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) -> (byteCount: Int, spelling: TokenSpelling)? {
        if text.count == self.usualDigitCount, let spelling = self.decodeUsual(text, into: target) {
            return (self.usualDigitCount / 2, spelling)
        }
        if let count = self.decodeDigits(text, into: target) { return (count, self.letterCase(text)) }
        let text = self.trimmed(text)
        if let found = self.decodeSpaced(text, into: target) { return found }
        return self.decodeBase64(text, into: target).map { ($0, .base64) }
    }

    /// Reads a token from a BLOB: its bytes, unless these are a text.
    static func decode(
        blob: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) -> (byteCount: Int, spelling: TokenSpelling)? {
        // That so many random bytes are all characters does not happen, so what is a text and no token is none.
        if blob.count > self.usualByteCount, blob.allSatisfy({ (0x20...0x7E).contains($0) || self.isSpace($0) }) {
            return self.decode(text: blob, into: target).map { ($0.byteCount, .textBlob) }
        }
        guard (1...PurgeLimits.tokenByteCountMax).contains(blob.count) else { return nil }
        target.copyMemory(from: blob)
        return (blob.count, .blob)
    }

    // MARK: Hexadecimal digits

    /// The usual number of digits with nothing between them, eight at a time.
    private static func decodeUsual(
        _ text: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) -> TokenSpelling? {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let highBits = ones &* 0x80
        var areDigits = highBits
        var lower: UInt64 = 0
        var upper: UInt64 = 0
        for index in 0..<self.usualDigitCount / 8 {
            let characters = UInt64(littleEndian: text.loadUnaligned(fromByteOffset: 8 * index, as: UInt64.self))
            // Below 0x80, adding the distance from a bound to 0x80 sets bit 7 from that bound on, and carries nowhere.
            let plain = characters & ~highBits
            let folded = plain | (ones &* 0x20)
            let areDecimal = (plain &+ ones &* (0x80 - 0x30)) & ~(plain &+ ones &* (0x80 - 0x3A)) & highBits
            let areLetters = (folded &+ ones &* (0x80 - 0x61)) & ~(folded &+ ones &* (0x80 - 0x67)) & highBits
            areDigits &= (areDecimal | areLetters) & ~characters
            lower |= areLetters & (characters << 2)
            upper |= areLetters & ~(characters << 2)
            let values = (plain & (ones &* 0x0F)) &+ (areLetters >> 7) &* 9
            var pairs = (values << 4 | values >> 8) & 0x00FF_00FF_00FF_00FF
            pairs = (pairs | pairs >> 8) & 0x0000_FFFF_0000_FFFF
            let bytes = UInt32(truncatingIfNeeded: pairs | pairs >> 16).littleEndian
            target.storeBytes(of: bytes, toByteOffset: 4 * index, as: UInt32.self)
        }
        guard areDigits == highBits else { return nil }
        return upper == 0 ? .hexadecimal : lower == 0 ? .upperHexadecimal : .mixedHexadecimal
    }

    /// Digits with nothing between them.
    private static func decodeDigits(
        _ text: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) -> Int? {
        let count = text.count / 2
        guard text.count.isMultiple(of: 2), (1...PurgeLimits.tokenByteCountMax).contains(count) else { return nil }
        var faults: UInt8 = 0
        for index in 0..<count {
            let high = self.digit(text[2 * index])
            let low = self.digit(text[2 * index + 1])
            faults |= high | low
            target[index] = high << 4 | low & 15
        }
        return faults < 16 ? count : nil
    }

    /// The value of a digit, or 255.
    @inline(__always)
    private static func digit(_ character: UInt8) -> UInt8 {
        let digit = character &- UInt8(ascii: "0")
        let letter = (character | 0x20) &- UInt8(ascii: "a")
        return digit < 10 ? digit : letter < 6 ? letter &+ 10 : 255
    }

    private static func letterCase(_ digits: UnsafeRawBufferPointer) -> TokenSpelling {
        var lower = false
        var upper = false
        for character in digits where character >= UInt8(ascii: "A") {
            if character & 0x20 == 0 { upper = true } else { lower = true }
        }
        return upper ? lower ? .mixedHexadecimal : .upperHexadecimal : .hexadecimal
    }

    /// Digits with white space between them, inside brackets or not.
    private static func decodeSpaced(
        _ text: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) -> (byteCount: Int, spelling: TokenSpelling)? {
        var digits = text
        let isBracketed = text.first == UInt8(ascii: "<")
        if isBracketed {
            guard text.count > 2, text.last == UInt8(ascii: ">") else { return nil }
            digits = UnsafeRawBufferPointer(rebasing: text[1..<(text.count - 1)])
        }
        var digitCount = 0
        var isSpaced = false
        for character in digits {
            if self.isSpace(character) {
                isSpaced = true
                continue
            }
            let value = self.digit(character)
            guard value < 16, digitCount < 2 * PurgeLimits.tokenByteCountMax else { return nil }
            let byte = digitCount.isMultiple(of: 2) ? 0 : target[digitCount / 2]
            target[digitCount / 2] = digitCount.isMultiple(of: 2) ? value << 4 : byte | value
            digitCount += 1
        }
        guard digitCount >= 2, digitCount.isMultiple(of: 2) else { return nil }
        return (digitCount / 2, isBracketed ? .bracketed : isSpaced ? .spaced : self.letterCase(digits))
    }

    private static func isSpace(_ character: UInt8) -> Bool { character == 0x20 || (9...13).contains(character) }

    private static func trimmed(_ text: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        var rest = text[...]
        while let first = rest.first, self.isSpace(first) { rest.removeFirst() }
        while let last = rest.last, self.isSpace(last) { rest.removeLast() }
        return UnsafeRawBufferPointer(rebasing: rest)
    }

    // MARK: Base64

    private static func decodeBase64(
        _ text: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) -> Int? {
        var characters = text[...]
        while characters.last == UInt8(ascii: "="), text.count - characters.count < 2 { characters.removeLast() }
        let isPadded = characters.count < text.count
        let byteCount = characters.count * 6 / 8
        guard (1...PurgeLimits.tokenByteCountMax).contains(byteCount), characters.count % 4 != 1,
            !isPadded || text.count.isMultiple(of: 4)
        else { return nil }
        var bits: UInt32 = 0
        var foreignLetterCount = 0
        for (index, character) in characters.enumerated() {
            guard let value = self.base64Value(character) else { return nil }
            if self.digit(character) == 255 { foreignLetterCount += 1 }
            bits = bits << 6 | value
            let restCount = (index + 1) * 6 % 8
            // Each character but every fourth completes a byte.
            if restCount != 6 { target[(index + 1) * 6 / 8 - 1] = UInt8(truncatingIfNeeded: bits >> UInt32(restCount)) }
        }
        // The last bits belong to no byte; others than zero are another spelling of the same token.
        let spareBits: UInt32 = [0, 0, 0b1111, 0b11][characters.count % 4]
        guard bits & spareBits == 0 else { return nil }
        let isPlain = characters.count == self.unpaddedCharacterCount || characters.count.isMultiple(of: 4)
        guard isPadded || isPlain && foreignLetterCount >= self.foreignLetterCountMin else { return nil }
        return byteCount
    }

    private static func base64Value(_ character: UInt8) -> UInt32? {
        switch character {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(character - UInt8(ascii: "A"))
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(character - UInt8(ascii: "a")) + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(character - UInt8(ascii: "0")) + 52
        case UInt8(ascii: "+"), UInt8(ascii: "-"): 62
        case UInt8(ascii: "/"), UInt8(ascii: "_"): 63
        default: nil
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

/// Decodes device tokens in all formats that providers store them in, without allocating.
///
/// Each value is decoded independently, since a file or a table may mix formats.
@usableFromInline
package enum DeviceTokenText {
    /// The accepted formats.
    ///
    /// A hexadecimal token with one or two mistyped digits must not be decoded as another token, so base64 must be
    /// clearly distinguishable from it.
    @usableFromInline
    package enum Spellings: Sendable {
        /// Hexadecimal digits with or without spaces and tabs between them, with or without angle brackets; and the
        /// padded base64 of 32 bytes.
        case common
        /// Those, and also line breaks between digits, and base64 of any length that is padded or unambiguous.
        case any
    }

    /// The length of the padded base64 of the usual 32 bytes.
    private static var paddedCharacterCount: Int { 44 }
    /// The length of the base64 of the usual 32 bytes without padding.
    private static var unpaddedCharacterCount: Int { 43 }
    /// Text without padding is base64 if it has at least this many letters that are not hexadecimal digits.
    private static var nonHexadecimalLetterCountMin: Int { 8 }

    // MARK: The usual spelling

    /// Decodes 64 hexadecimal digits without separators.
    ///
    /// Returns `false` for any other text.
    @inlinable @inline(__always)
    package static func decodeUsual(_ text: UnsafeRawBufferPointer, into token: inout DeviceToken) -> Bool {
        guard text.count == 2 * WireLimits.tokenByteCountUsual else { return false }
        var digits = Hexadecimal.Words()
        let head = unsafe (
            digits.decode(text, at: 0), digits.decode(text, at: 16), digits.decode(text, at: 32),
            digits.decode(text, at: 48)
        )
        guard digits.isValid else { return false }
        token.storage = DeviceToken.Storage()
        token.storage.head = head
        token.storedCount = UInt8(truncatingIfNeeded: WireLimits.tokenByteCountUsual)
        return true
    }

    private static func decodeUsual(
        _ text: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) -> DeviceTokenSpelling? {
        var digits = Hexadecimal.Words()
        for index in 0..<WireLimits.tokenByteCountUsual / 8 {
            let word = unsafe digits.decode(text, at: 16 * index)
            unsafe target.storeBytes(of: word, toByteOffset: 8 * index, as: UInt64.self)
        }
        guard digits.isValid else { return nil }
        return self.letterCase(hasLower: digits.lower != 0, hasUpper: digits.upper != 0)
    }

    private static func letterCase(hasLower: Bool, hasUpper: Bool) -> DeviceTokenSpelling {
        hasUpper ? hasLower ? .mixedHexadecimal : .upperHexadecimal : .hexadecimal
    }

    // MARK: Every spelling

    /// Decodes a text.
    ///
    /// Returns `false` if the text is not a token.
    @inlinable @inline(__always)
    package static func decode(
        _ text: UnsafeRawBufferPointer,
        _ spellings: Spellings = .common,
        into token: inout DeviceToken
    ) -> Bool {
        if unsafe self.decodeUsual(text, into: &token) { return true }
        return unsafe self.decodeUnusual(text, spellings, into: &token)
    }

    @inline(never) @usableFromInline
    static func decodeUnusual(
        _ text: UnsafeRawBufferPointer,
        _ spellings: Spellings,
        into token: inout DeviceToken
    ) -> Bool {
        unsafe withUnsafeTemporaryAllocation(byteCount: WireLimits.tokenByteCountMax, alignment: 8) { target in
            guard let (byteCount, _) = unsafe self.decode(text, spellings, into: target) else { return false }
            let bytes = unsafe UnsafeRawBufferPointer(rebasing: target[..<byteCount])
            guard let decoded = try? unsafe DeviceToken(bytes: bytes) else { return false }
            token = decoded
            return true
        }
    }

    /// Decodes a text into memory.
    ///
    /// Returns the length of the token and its format; `nil` if the text is not a token.
    package static func decode(
        _ text: UnsafeRawBufferPointer,
        _ spellings: Spellings,
        into target: UnsafeMutableRawBufferPointer
    ) -> (byteCount: Int, spelling: DeviceTokenSpelling)? {
        let usualByteCount = WireLimits.tokenByteCountUsual
        if text.count == 2 * usualByteCount, let spelling = unsafe self.decodeUsual(text, into: target) {
            return (usualByteCount, spelling)
        }
        let text = unsafe self.trimmed(text)
        do throws(WireError) {
            let (count, spelling) = try unsafe self.decodeDigits(
                text,
                allowsLineBreaks: spellings == .any,
                into: target
            )
            guard count.isMultiple(of: 2), (2...2 * WireLimits.tokenByteCountMax).contains(count) else { return nil }
            return (count / 2, spelling)
        } catch {
            if spellings == .common, text.count != self.paddedCharacterCount { return nil }
            guard let found = unsafe self.decodeBase64(text, into: target) else { return nil }
            if spellings == .common, !found.isPadded || found.byteCount != usualByteCount { return nil }
            return (found.byteCount, .base64)
        }
    }

    /// Decodes a value that is either text or the raw bytes of a token.
    ///
    /// Returns the length of the token and its format; `nil` if the value is not a token.
    package static func decode(
        blob value: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) -> (byteCount: Int, spelling: DeviceTokenSpelling)? {
        // Random bytes of this length are practically never all printable, so printable bytes are text.
        let isText = unsafe value.allSatisfy { (0x20...0x7E).contains($0) || self.isSpace($0) }
        if value.count > WireLimits.tokenByteCountUsual, isText {
            return unsafe self.decode(value, .any, into: target).map { ($0.byteCount, .textBlob) }
        }
        guard (1...WireLimits.tokenByteCountMax).contains(value.count) else { return nil }
        unsafe target.copyMemory(from: value)
        return (value.count, .blob)
    }

    private static func isSpace(_ character: UInt8) -> Bool { character == 0x20 || (9...13).contains(character) }

    private static func trimmed(_ text: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        var rest = unsafe text[...]
        while let first = unsafe rest.first, self.isSpace(first) { unsafe rest.removeFirst() }
        while let last = unsafe rest.last, self.isSpace(last) { unsafe rest.removeLast() }
        return unsafe UnsafeRawBufferPointer(rebasing: rest)
    }

    // MARK: Hexadecimal digits

    /// Decodes hexadecimal digits with or without white space between them, with or without angle brackets.
    ///
    /// A group with all digits of the usual token is a token, so that other groups next to it are not part of it.
    ///
    /// Returns the number of digits, of which at most 200 were decoded, and the format.
    static func decodeDigits(
        _ text: UnsafeRawBufferPointer,
        allowsLineBreaks: Bool,
        into target: UnsafeMutableRawBufferPointer
    ) throws(WireError) -> (digitCount: Int, spelling: DeviceTokenSpelling) {
        var digitCount = 0
        var (isInside, isClosed) = (false, false)
        var (hasSpace, isSpaced) = (false, false)
        var (groupStart, longestGroup) = (0, 0)
        var (hasLower, hasUpper) = (false, false)
        for position in 0..<text.count {
            let character = unsafe text[position]
            let value = Hexadecimal.value(character)
            switch character {
            case UInt8(ascii: " "), UInt8(ascii: "\t"),
                _ where allowsLineBreaks && (10...13).contains(character):
                hasSpace = digitCount > 0
                longestGroup = max(longestGroup, digitCount - groupStart)
                groupStart = digitCount
            case UInt8(ascii: "<") where !isInside && digitCount == 0: isInside = true
            case UInt8(ascii: ">") where isInside && !isClosed: isClosed = true
            case _ where value < 16 && !isClosed:
                if digitCount < 2 * WireLimits.tokenByteCountMax {
                    let byte = unsafe target[digitCount / 2]
                    unsafe target[digitCount / 2] = digitCount.isMultiple(of: 2) ? value << 4 : byte | value
                }
                digitCount += 1
                isSpaced = isSpaced || hasSpace
                hasLower = hasLower || character >= UInt8(ascii: "a")
                hasUpper = hasUpper || (UInt8(ascii: "A")...UInt8(ascii: "F")).contains(character)
            default: throw .tokenText(position: position)
            }
        }
        longestGroup = max(longestGroup, digitCount - groupStart)
        let hasTwo = isSpaced && longestGroup >= 2 * WireLimits.tokenByteCountUsual
        guard isInside == isClosed, !hasTwo else { throw .tokenText(position: text.count) }
        let letterCase = self.letterCase(hasLower: hasLower, hasUpper: hasUpper)
        return (digitCount, isInside ? .bracketed : isSpaced ? .spaced : letterCase)
    }

    // MARK: Base64

    /// Decodes base64 of either alphabet, with padding or without.
    private static func decodeBase64(
        _ text: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) -> (byteCount: Int, isPadded: Bool)? {
        var characterCount = text.count
        while characterCount > 0, unsafe text[characterCount - 1] == UInt8(ascii: "="),
            text.count - characterCount < 2
        {
            characterCount -= 1
        }
        let isPadded = characterCount < text.count
        let byteCount = characterCount * 6 / 8
        guard (1...WireLimits.tokenByteCountMax).contains(byteCount), characterCount % 4 != 1,
            !isPadded || text.count.isMultiple(of: 4)
        else { return nil }
        var bits: UInt32 = 0
        var foreignLetterCount = 0
        for index in 0..<characterCount {
            let character = unsafe text[index]
            guard let value = Base64.value(character) else { return nil }
            if Hexadecimal.value(character) == 255 { foreignLetterCount += 1 }
            bits = bits << 6 | value
            let restCount = (index + 1) * 6 % 8
            // Every character except each fourth one completes a byte.
            if restCount != 6 {
                unsafe target[(index + 1) * 6 / 8 - 1] = UInt8(truncatingIfNeeded: bits >> UInt32(restCount))
            }
        }
        // The last bits belong to no byte; if they are not zero, it is another encoding of the same token.
        let spareBits: UInt32 = characterCount % 4 == 2 ? 0b1111 : characterCount % 4 == 3 ? 0b11 : 0
        guard bits & spareBits == 0 else { return nil }
        let isPlain = characterCount == self.unpaddedCharacterCount || characterCount.isMultiple(of: 4)
        guard isPadded || isPlain && foreignLetterCount >= self.nonHexadecimalLetterCountMin else { return nil }
        return (byteCount, isPadded)
    }
}

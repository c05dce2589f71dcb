// SPDX-License-Identifier: Apache-2.0

package import APNSWire

/// The spellings of a token in batch input: those of `DeviceToken` and base64.
package enum BatchToken {
    /// The length of 32 bytes in base64, padding included.
    ///
    /// Only this length is read as base64. A hexadecimal token with a mistyped digit would else pass as another token.
    package static let base64ByteCount = 44

    /// Reads a token; `false`, and no token, for what is none.
    @inline(__always)
    package static func parse(_ text: UnsafeRawBufferPointer, into token: inout DeviceToken) -> Bool {
        if text.count == 2 * WireLimits.tokenByteCountUsual, self.parseUsual(text, into: &token) { return true }
        guard let unusual = self.parseUnusual(text) else { return false }
        token = unusual
        return true
    }

    /// Reads 64 bytes that are digits with nothing between them, eight at a time; `false` for anything else.
    @inline(__always)
    static func parseUsual(_ text: UnsafeRawBufferPointer, into token: inout DeviceToken) -> Bool {
        var bytes = InlineArray<8, UInt32>(repeating: 0)
        var areDigits: UInt64 = ~0
        for index in 0..<8 {
            bytes[index] = self.decode(text.loadUnaligned(fromByteOffset: 8 * index, as: UInt64.self), &areDigits)
        }
        guard areDigits & self.highBits == self.highBits else { return false }
        do throws(WireError) {
            token = try bytes.span.withUnsafeBytes { bytes throws(WireError) in try DeviceToken(bytes: bytes) }
        } catch {
            return false
        }
        return true
    }

    private static var highBits: UInt64 { 0x8080_8080_8080_8080 }

    /// Decodes eight digits of either case; bit 7 of a byte of `areDigits` stays if its character was a digit.
    @inline(__always)
    private static func decode(_ word: UInt64, _ areDigits: inout UInt64) -> UInt32 {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let characters = UInt64(littleEndian: word)
        // Below 0x80, adding the distance from a bound to 0x80 sets bit 7 from that bound on, and carries nowhere.
        let plain = characters & ~self.highBits
        let lower = plain | (ones &* 0x20)
        let areDecimal = (plain &+ ones &* (0x80 - 0x30)) & ~(plain &+ ones &* (0x80 - 0x3A))
        let areLetters = (lower &+ ones &* (0x80 - 0x61)) & ~(lower &+ ones &* (0x80 - 0x67))
        areDigits &= (areDecimal | areLetters) & ~characters
        let values = (plain & (ones &* 0x0F)) &+ ((areLetters & self.highBits) >> 7) &* 9
        var pairs = (values << 4 | values >> 8) & 0x00FF_00FF_00FF_00FF
        pairs = (pairs | pairs >> 8) & 0x0000_FFFF_0000_FFFF
        return UInt32(truncatingIfNeeded: pairs | pairs >> 16).littleEndian
    }

    @inline(never)
    private static func parseUnusual(_ text: UnsafeRawBufferPointer) -> DeviceToken? {
        let text = text.trimmed
        guard text.count == self.base64ByteCount, text.last == UInt8(ascii: "=") else {
            return try? DeviceToken(text: text)
        }
        var bytes = InlineArray<32, UInt8>(repeating: 0)
        var bits: UInt32 = 0
        for index in 0..<43 {
            guard let value = self.base64Value(text[index]) else { return nil }
            bits = bits << 6 | value
            let bitCount = (index + 1) * 6 % 8
            // Each character but every fourth completes a byte.
            if bitCount != 6 { bytes[(index + 1) * 6 / 8 - 1] = UInt8(truncatingIfNeeded: bits >> UInt32(bitCount)) }
        }
        // The last two bits belong to no byte; others than zero are another spelling of the same token.
        guard bits & 0b11 == 0 else { return nil }
        return bytes.span.withUnsafeBytes { try? DeviceToken(bytes: $0) }
    }

    private static func base64Value(_ byte: UInt8) -> UInt32? {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(byte - UInt8(ascii: "A"))
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(byte - UInt8(ascii: "a")) + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(byte - UInt8(ascii: "0")) + 52
        case UInt8(ascii: "+"), UInt8(ascii: "-"): 62
        case UInt8(ascii: "/"), UInt8(ascii: "_"): 63
        default: nil
        }
    }
}

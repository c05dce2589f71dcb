// SPDX-License-Identifier: Apache-2.0

/// Hexadecimal digits and their values.
@usableFromInline
package enum Hexadecimal {
    /// The value of a digit of either case, 0 to 15, or 255 for any other character.
    @inlinable
    package static func value(_ character: UInt8) -> UInt8 {
        let digit = character &- UInt8(ascii: "0")
        let letter = (character | 0x20) &- UInt8(ascii: "a")
        return digit < 10 ? digit : letter < 6 ? letter &+ 10 : 255
    }

    /// The lower-case digit of a value of 0 to 15.
    @inlinable
    package static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") &+ value : UInt8(ascii: "a") &- 10 &+ value
    }

    /// Writes the two digits of a byte in place: a string for each request costs more than its header.
    @inline(__always)
    static func write(_ byte: UInt8, to target: UnsafeMutableRawBufferPointer, at position: Int) {
        unsafe target[position] = self.digit(byte >> 4)
        unsafe target[position + 1] = self.digit(byte & 15)
    }

    /// The digits of the lower four bytes, the first of which is the highest.
    ///
    /// The first digit is the lowest byte of the result.
    @inline(__always)
    static func digits(of bytes: UInt64) -> UInt64 {
        var values = UInt64(UInt32(truncatingIfNeeded: bytes).byteSwapped)
        values = (values | values << 16) & 0x0000_FFFF_0000_FFFF
        values = (values | values << 8) & 0x00FF_00FF_00FF_00FF
        values = (values >> 4 | values << 8) & 0x0F0F_0F0F_0F0F_0F0F
        // Bit 4 of the sum is set for letters, which begin 39 after where the decimal digits would go on.
        let letters = ((values &+ 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101
        return values &+ 0x3030_3030_3030_3030 &+ letters &* 39
    }

    /// Two lower-case digits for each byte.
    package static func text(_ bytes: some Collection<UInt8>) -> String {
        unsafe String(unsafeUninitializedCapacity: 2 * bytes.count) { target in
            var index = 0
            for byte in bytes {
                unsafe target.initializeElement(at: index, to: Self.digit(byte >> 4))
                unsafe target.initializeElement(at: index + 1, to: Self.digit(byte & 15))
                index += 2
            }
            return index
        }
    }

    /// Sixteen digits that are decoded together.
    ///
    /// The digits of either case are decoded eight at a time, in the bytes of one integer.
    @usableFromInline
    struct Words {
        /// Bit 7 of a byte is set as long as every character at its place was a digit.
        @usableFromInline var areDigits: UInt64 = 0x8080_8080_8080_8080
        /// Bit 7 of a byte is set if a lower-case letter was read there.
        @usableFromInline var lower: UInt64 = 0
        /// Bit 7 of a byte is set if an upper-case letter was read there.
        @usableFromInline var upper: UInt64 = 0

        @inlinable @inline(__always)
        init() {}

        /// Whether only digits were read.
        @inlinable @inline(__always)
        var isValid: Bool { self.areDigits == 0x8080_8080_8080_8080 }

        /// Decodes eight digits: the first character is the lowest byte of `characters`, and the first byte of the
        /// result is its lowest.
        @inlinable @inline(__always)
        mutating func decode(_ characters: UInt64) -> UInt32 {
            let ones: UInt64 = 0x0101_0101_0101_0101
            let highBits = ones &* 0x80
            // Below 0x80, adding the distance from a bound to 0x80 sets bit 7 for values from that bound, without a
            // carry.
            let plain = characters & ~highBits
            let folded = plain | (ones &* 0x20)
            let areDecimal = (plain &+ ones &* (0x80 - 0x30)) & ~(plain &+ ones &* (0x80 - 0x3A))
            let areLetters = (folded &+ ones &* (0x80 - 0x61)) & ~(folded &+ ones &* (0x80 - 0x67)) & highBits
            self.areDigits &= (areDecimal | areLetters) & ~characters
            self.lower |= areLetters & (characters << 2)
            self.upper |= areLetters & ~(characters << 2)
            let values = (plain & (ones &* 0x0F)) &+ (areLetters >> 7) &* 9
            var pairs = (values << 4 | values >> 8) & 0x00FF_00FF_00FF_00FF
            pairs = (pairs | pairs >> 8) & 0x0000_FFFF_0000_FFFF
            return UInt32(truncatingIfNeeded: pairs | pairs >> 16)
        }

        /// Decodes the sixteen digits at an offset; the result has the bytes in memory order.
        @inlinable @inline(__always)
        mutating func decode(_ text: UnsafeRawBufferPointer, at offset: Int) -> UInt64 {
            let first = unsafe text.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
            let second = unsafe text.loadUnaligned(fromByteOffset: offset + 8, as: UInt64.self)
            let low = UInt64(self.decode(UInt64(littleEndian: first)))
            let high = UInt64(self.decode(UInt64(littleEndian: second)))
            return (high << 32 | low).littleEndian
        }
    }
}

extension [UInt8] {
    /// Overwrites the bytes at a position with the digits of a token.
    package mutating func setHexadecimal(_ token: DeviceToken, at position: Int) {
        precondition(position + 2 * token.byteCount <= self.count)
        unsafe self.withUnsafeMutableBytes { target in
            unsafe token.withUnsafeBytes { bytes in
                let wordsEnd = bytes.count & ~3
                for index in stride(from: 0, to: wordsEnd, by: 4) {
                    let word = unsafe UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt32.self))
                    let digits = Hexadecimal.digits(of: UInt64(word)).littleEndian
                    unsafe target.storeBytes(of: digits, toByteOffset: position + 2 * index, as: UInt64.self)
                }
                for index in wordsEnd..<bytes.count {
                    unsafe Hexadecimal.write(bytes[index], to: target, at: position + 2 * index)
                }
            }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

/// JSON that is written into memory of the caller's, who knows that there is room.
package struct JSONText {
    private let target: UnsafeMutableRawBufferPointer
    package private(set) var byteCount = 0

    /// The most bytes that one byte of a string can take: `\u001f`.
    package static let escapeByteCountMax = 6

    package init(_ target: UnsafeMutableRawBufferPointer) {
        self.target = target
    }

    /// What is written.
    package var bytes: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: self.target[..<self.byteCount])
    }

    @inline(__always)
    package mutating func append(_ byte: UInt8) {
        self.target[self.byteCount] = byte
        self.byteCount += 1
    }

    @inline(__always)
    package mutating func append(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress, let base = self.target.baseAddress else { return }
        precondition(bytes.count <= self.target.count - self.byteCount, "The caller knows that there is room.")
        (base + self.byteCount).copyMemory(from: source, byteCount: bytes.count)
        self.byteCount += bytes.count
    }

    @inline(__always)
    package mutating func append(_ literal: StaticString) {
        self.append(UnsafeRawBufferPointer(start: literal.utf8Start, count: literal.utf8CodeUnitCount))
    }

    /// Writes a byte of a string.
    package mutating func appendEscaped(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"):
            self.append(UInt8(ascii: "\\"))
            self.append(byte)
        case 0x00...0x1F, 0x7F:
            self.append("\\u00")
            self.append(Self.digit(byte >> 4))
            self.append(Self.digit(byte & 0xF))
        default:
            self.append(byte)
        }
    }

    /// Writes a number that is not negative.
    package mutating func append(_ number: Int) {
        precondition(number >= 0, "Counts and line numbers have no sign.")
        var digitCount = 1
        var rest = number
        while rest >= 10 {
            rest /= 10
            digitCount += 1
        }
        rest = number
        for place in stride(from: self.byteCount + digitCount - 1, through: self.byteCount, by: -1) {
            self.target[place] = UInt8(ascii: "0") + UInt8(rest % 10)
            rest /= 10
        }
        self.byteCount += digitCount
    }

    @inline(__always)
    package static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") &+ value : UInt8(ascii: "a") &- 10 &+ value
    }

    /// Writes the two lower-case digits of each byte.
    package mutating func appendHexadecimal(_ bytes: UnsafeRawBufferPointer) {
        precondition(2 * bytes.count <= self.target.count - self.byteCount, "The caller knows that there is room.")
        var index = 0
        while index + 4 <= bytes.count {
            let word = bytes.loadUnaligned(fromByteOffset: index, as: UInt32.self)
            let digits = Self.digits(UInt32(littleEndian: word)).littleEndian
            self.target.storeBytes(of: digits, toByteOffset: self.byteCount, as: UInt64.self)
            self.byteCount += 8
            index += 4
        }
        while index < bytes.count {
            self.append(Self.digit(bytes[index] >> 4))
            self.append(Self.digit(bytes[index] & 0xF))
            index += 1
        }
    }

    /// The eight digits of four bytes, the first byte and the first digit lowest.
    @inline(__always)
    private static func digits(_ bytes: UInt32) -> UInt64 {
        let ones: UInt64 = 0x0101_0101_0101_0101
        var lanes = UInt64(bytes)
        lanes = (lanes | lanes << 16) & 0x0000_FFFF_0000_FFFF
        lanes = (lanes | lanes << 8) & 0x00FF_00FF_00FF_00FF
        let values = (lanes >> 4 | lanes << 8) & (ones &* 0x0F)
        // Adding six carries into bit 4 from ten on.
        let areLetters = ((values &+ ones &* 6) >> 4) & ones
        let lettersAfterDigits = UInt64(UInt8(ascii: "a") - UInt8(ascii: "0") - 10)
        return values &+ ones &* UInt64(UInt8(ascii: "0")) &+ areLetters &* lettersAfterDigits
    }

    /// Writes the bytes of a string.
    package mutating func appendEscaped(_ bytes: UnsafeRawBufferPointer) {
        var first = 0
        for index in 0..<bytes.count {
            let byte = bytes[index]
            guard byte < 0x20 || byte == 0x22 || byte == 0x5C || byte == 0x7F else { continue }
            self.append(UnsafeRawBufferPointer(rebasing: bytes[first..<index]))
            self.appendEscaped(byte)
            first = index + 1
        }
        self.append(UnsafeRawBufferPointer(rebasing: bytes[first...]))
    }
}

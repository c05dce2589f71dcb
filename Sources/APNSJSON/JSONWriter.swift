// SPDX-License-Identifier: Apache-2.0

/// Writes JSON into the caller's memory, which must be large enough.
///
/// A quote and a backslash are escaped by a backslash, and a control character as `\u00` and two digits.
@safe @usableFromInline
package struct JSONWriter {
    @usableFromInline let target: UnsafeMutableRawBufferPointer

    @usableFromInline var storedByteCount = 0

    /// The number of bytes written.
    @inlinable package var byteCount: Int { self.storedByteCount }

    /// The maximum number of bytes for one byte of a string: `\u001f`.
    @inlinable package static var escapeByteCountMax: Int { 6 }

    /// Creates a writer.
    @inlinable
    package init(_ target: UnsafeMutableRawBufferPointer) {
        unsafe self.target = target
    }

    /// The written bytes.
    @inlinable package var bytes: UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(rebasing: self.target[..<self.byteCount])
    }

    /// Writes a byte without escaping.
    @inlinable @inline(__always)
    package mutating func append(_ byte: UInt8) {
        unsafe self.target[self.byteCount] = byte
        self.storedByteCount += 1
    }

    /// Writes bytes without escaping.
    @inlinable @inline(__always)
    package mutating func append(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress, let base = unsafe self.target.baseAddress else { return }
        unsafe precondition(bytes.count <= self.target.count - self.byteCount, "The memory must be large enough.")
        unsafe (base + self.byteCount).copyMemory(from: source, byteCount: bytes.count)
        self.storedByteCount += bytes.count
    }

    /// Writes a text without escaping.
    @inlinable @inline(__always)
    package mutating func append(_ literal: StaticString) {
        unsafe self.append(UnsafeRawBufferPointer(start: literal.utf8Start, count: literal.utf8CodeUnitCount))
    }

    /// Writes a non-negative number.
    @inlinable
    package mutating func append(_ number: Int) {
        precondition(number >= 0, "Counts and line numbers are not negative.")
        var digitCount = 1
        var rest = number
        while rest >= 10 {
            rest /= 10
            digitCount += 1
        }
        rest = number
        for place in stride(from: self.byteCount + digitCount - 1, through: self.byteCount, by: -1) {
            unsafe self.target[place] = UInt8(ascii: "0") + UInt8(rest % 10)
            rest /= 10
        }
        self.storedByteCount += digitCount
    }
}

// MARK: - Strings

extension JSONWriter {
    /// A text as a JSON string, with its quotes.
    package static func quoted(_ text: String) -> String {
        var text = text
        return text.withUTF8 { bytes in
            let room = Self.escapeByteCountMax * bytes.count + 2
            return unsafe String(unsafeUninitializedCapacity: room) { target in
                var writer = unsafe JSONWriter(UnsafeMutableRawBufferPointer(target))
                unsafe writer.appendString(UnsafeRawBufferPointer(bytes))
                return writer.byteCount
            }
        }
    }

    /// A character as escaped in a JSON string.
    package static func escaped(_ scalar: Unicode.Scalar) -> String {
        guard let byte = UInt8(exactly: scalar.value), scalar.isASCII else { return String(Character(scalar)) }
        return unsafe String(unsafeUninitializedCapacity: Self.escapeByteCountMax) { target in
            var writer = unsafe JSONWriter(UnsafeMutableRawBufferPointer(target))
            writer.appendEscaped(byte)
            return writer.byteCount
        }
    }

    /// Writes a string with its quotes.
    package mutating func appendString(_ bytes: UnsafeRawBufferPointer) {
        self.append(UInt8(ascii: "\""))
        unsafe self.appendEscaped(bytes)
        self.append(UInt8(ascii: "\""))
    }

    /// Writes the bytes of a string.
    @inlinable
    package mutating func appendEscaped(_ bytes: UnsafeRawBufferPointer) {
        var first = 0
        for index in 0..<bytes.count {
            let byte = unsafe bytes[index]
            guard byte < 0x20 || byte == 0x22 || byte == 0x5C || byte == 0x7F else { continue }
            unsafe self.append(UnsafeRawBufferPointer(rebasing: bytes[first..<index]))
            self.appendEscaped(byte)
            first = index + 1
        }
        unsafe self.append(UnsafeRawBufferPointer(rebasing: bytes[first...]))
    }

    /// Writes a byte of a string.
    @inlinable
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

    /// The number of bytes that ``appendEscaped(_:)-(UInt8)`` writes.
    @inlinable
    package static func escapedByteCount(_ byte: UInt8) -> Int {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"): 2
        case 0x00...0x1F, 0x7F: Self.escapeByteCountMax
        default: 1
        }
    }

    // MARK: Hexadecimal digits

    /// Writes the two lower-case digits of each byte.
    @inlinable
    package mutating func appendHexadecimal(_ bytes: UnsafeRawBufferPointer) {
        unsafe precondition(
            2 * bytes.count <= self.target.count - self.byteCount,
            "The memory must be large enough."
        )
        var index = 0
        while index + 4 <= bytes.count {
            let word = unsafe bytes.loadUnaligned(fromByteOffset: index, as: UInt32.self)
            let digits = Self.digits(UInt32(littleEndian: word)).littleEndian
            unsafe self.target.storeBytes(of: digits, toByteOffset: self.byteCount, as: UInt64.self)
            self.storedByteCount += 8
            index += 4
        }
        while index < bytes.count {
            self.append(Self.digit(unsafe bytes[index] >> 4))
            self.append(Self.digit(unsafe bytes[index] & 0xF))
            index += 1
        }
    }

    @inlinable @inline(__always)
    static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") &+ value : UInt8(ascii: "a") &- 10 &+ value
    }

    /// The eight digits of four bytes, the first byte and the first digit lowest.
    @inlinable @inline(__always)
    static func digits(_ bytes: UInt32) -> UInt64 {
        let ones: UInt64 = 0x0101_0101_0101_0101
        var lanes = UInt64(bytes)
        lanes = (lanes | lanes << 16) & 0x0000_FFFF_0000_FFFF
        lanes = (lanes | lanes << 8) & 0x00FF_00FF_00FF_00FF
        let values = (lanes >> 4 | lanes << 8) & (ones &* 0x0F)
        // Adding six carries into bit 4 for values from ten.
        let areLetters = ((values &+ ones &* 6) >> 4) & ones
        let lettersAfterDigits = UInt64(UInt8(ascii: "a") - UInt8(ascii: "0") - 10)
        return values &+ ones &* UInt64(UInt8(ascii: "0")) &+ areLetters &* lettersAfterDigits
    }
}

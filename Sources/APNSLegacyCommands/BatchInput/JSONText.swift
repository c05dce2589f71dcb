// SPDX-License-Identifier: Apache-2.0

/// JSON that is written into memory of the caller's, who knows that there is room.
struct JSONText {
    private let target: UnsafeMutableRawBufferPointer
    private(set) var octetCount = 0

    /// The most octets that one octet of a string can take: `\u001f`.
    static let escapeOctetCountMax = 6

    init(_ target: UnsafeMutableRawBufferPointer) {
        self.target = target
    }

    /// What is written.
    var octets: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: self.target[..<self.octetCount])
    }

    @inline(__always)
    mutating func append(_ octet: UInt8) {
        self.target[self.octetCount] = octet
        self.octetCount += 1
    }

    @inline(__always)
    mutating func append(_ octets: UnsafeRawBufferPointer) {
        guard let source = octets.baseAddress, let base = self.target.baseAddress else { return }
        precondition(octets.count <= self.target.count - self.octetCount, "The caller knows that there is room.")
        (base + self.octetCount).copyMemory(from: source, byteCount: octets.count)
        self.octetCount += octets.count
    }

    @inline(__always)
    mutating func append(_ literal: StaticString) {
        self.append(UnsafeRawBufferPointer(start: literal.utf8Start, count: literal.utf8CodeUnitCount))
    }

    /// Writes an octet of a string.
    mutating func appendEscaped(_ octet: UInt8) {
        switch octet {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"):
            self.append(UInt8(ascii: "\\"))
            self.append(octet)
        case 0x00...0x1F, 0x7F:
            self.append("\\u00")
            self.append(Self.digit(octet >> 4))
            self.append(Self.digit(octet & 0xF))
        default:
            self.append(octet)
        }
    }

    /// Writes a number that is not negative.
    mutating func append(_ number: Int) {
        precondition(number >= 0, "Counts and line numbers have no sign.")
        var digitCount = 1
        var rest = number
        while rest >= 10 {
            rest /= 10
            digitCount += 1
        }
        rest = number
        for place in stride(from: self.octetCount + digitCount - 1, through: self.octetCount, by: -1) {
            self.target[place] = UInt8(ascii: "0") + UInt8(rest % 10)
            rest /= 10
        }
        self.octetCount += digitCount
    }

    @inline(__always)
    static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") &+ value : UInt8(ascii: "a") &- 10 &+ value
    }

    /// Writes the two lower-case digits of each octet.
    mutating func appendHexadecimal(_ octets: UnsafeRawBufferPointer) {
        precondition(2 * octets.count <= self.target.count - self.octetCount, "The caller knows that there is room.")
        var index = 0
        while index + 4 <= octets.count {
            let word = octets.loadUnaligned(fromByteOffset: index, as: UInt32.self)
            let digits = Self.digits(UInt32(littleEndian: word)).littleEndian
            self.target.storeBytes(of: digits, toByteOffset: self.octetCount, as: UInt64.self)
            self.octetCount += 8
            index += 4
        }
        while index < octets.count {
            self.append(Self.digit(octets[index] >> 4))
            self.append(Self.digit(octets[index] & 0xF))
            index += 1
        }
    }

    /// The eight digits of four octets, the first octet and the first digit lowest.
    @inline(__always)
    private static func digits(_ octets: UInt32) -> UInt64 {
        let ones: UInt64 = 0x0101_0101_0101_0101
        var lanes = UInt64(octets)
        lanes = (lanes | lanes << 16) & 0x0000_FFFF_0000_FFFF
        lanes = (lanes | lanes << 8) & 0x00FF_00FF_00FF_00FF
        let values = (lanes >> 4 | lanes << 8) & (ones &* 0x0F)
        // Adding six carries into bit 4 from ten on.
        let areLetters = ((values &+ ones &* 6) >> 4) & ones
        let lettersAfterDigits = UInt64(UInt8(ascii: "a") - UInt8(ascii: "0") - 10)
        return values &+ ones &* UInt64(UInt8(ascii: "0")) &+ areLetters &* lettersAfterDigits
    }

    /// Writes the octets of a string.
    mutating func appendEscaped(_ octets: UnsafeRawBufferPointer) {
        var first = 0
        for index in 0..<octets.count {
            let octet = octets[index]
            guard octet < 0x20 || octet == 0x22 || octet == 0x5C || octet == 0x7F else { continue }
            self.append(UnsafeRawBufferPointer(rebasing: octets[first..<index]))
            self.appendEscaped(octet)
            first = index + 1
        }
        self.append(UnsafeRawBufferPointer(rebasing: octets[first...]))
    }
}

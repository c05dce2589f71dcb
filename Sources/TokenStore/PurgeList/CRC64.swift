// SPDX-License-Identifier: Apache-2.0

/// The CRC-64 that the XZ format uses: the polynomial of ECMA-182, reflected.
///
/// It detects every change within 64 consecutive bits, and every change of one or two bits; of all other changes, it
/// misses one in 2^64. It does not protect against an attacker.
package struct CRC64: Equatable, Sendable {
    private var state = UInt64.max

    package var value: UInt64 { ~self.state }

    /// Creates the checksum of no bytes.
    package init() {}

    /// Eight tables of 256 values, so that eight bytes need one step.
    private static let tables: [UInt64] = {
        var tables = (0..<256 as Range<UInt64>).map { byte in
            (0..<8).reduce(byte) { value, _ in value >> 1 ^ (value & 1 == 0 ? 0 : 0xC96C_5795_D787_0F42) }
        }
        for index in 256..<8 * 256 {
            let before = tables[index - 256]
            tables.append(before >> 8 ^ tables[Int(before & 0xFF)])
        }
        return tables
    }()

    /// Adds the eight bytes of a number, the least significant one first.
    mutating func add(_ number: UInt64) {
        let tables = Self.tables
        let word = self.state ^ number
        var next: UInt64 = 0
        for index in 0..<8 {
            next ^= tables[(7 - index) * 256 + Int(truncatingIfNeeded: word >> (8 * UInt64(index)) & 0xFF)]
        }
        self.state = next
    }

    /// Adds bytes.
    package mutating func add(_ bytes: UnsafeRawBufferPointer) {
        var index = 0
        while index + 8 <= bytes.count {
            unsafe self.add(UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)))
            index += 8
        }
        let tables = Self.tables
        while index < bytes.count {
            unsafe self.state = self.state >> 8 ^ tables[Int((self.state ^ UInt64(bytes[index])) & 0xFF)]
            index += 1
        }
    }

    /// Adds a text with its length, so that moving bytes from one text to the next changes the value.
    mutating func add(_ text: String) {
        var text = text
        text.withUTF8 { unsafe self.add(UnsafeRawBufferPointer($0)) }
        self.add(UInt64(text.utf8.count))
    }
}

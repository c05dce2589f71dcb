// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// The 64-bit FNV-1a hash, which is the same in every run.
///
/// It tells inputs apart and detects damage. It does not protect against an attacker.
package struct FNV1aHash: Equatable, Sendable {
    package private(set) var value: UInt64 = 0xCBF2_9CE4_8422_2325

    /// Creates the hash of an empty input.
    package init() {}

    package mutating func add(_ bytes: some Sequence<UInt8>) {
        for byte in bytes { self.value = (self.value ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        // A separator, so that moving bytes from one part to the next changes the hash.
        self.value = (self.value ^ 0xFF) &* 0x0000_0100_0000_01B3
    }

    /// The value as 16 lower-case hexadecimal digits.
    package var hexadecimal: [UInt8] { Array(self.value.hexadecimal.utf8) }
}

extension UInt64 {
    /// The number as 16 lower-case hexadecimal digits.
    var hexadecimal: String {
        unsafe withUnsafeBytes(of: self.bigEndian) { unsafe Hexadecimal.text($0) }
    }
}

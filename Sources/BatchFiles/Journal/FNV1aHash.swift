// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// The FNV-1a hash of 64 bits: the same in every run, to tell one input from another and to find damage; no protection
/// against intent.
package struct FNV1aHash: Equatable, Sendable {
    package private(set) var value: UInt64 = 0xCBF2_9CE4_8422_2325

    /// Of nothing.
    package init() {}

    package mutating func add(_ bytes: some Sequence<UInt8>) {
        for byte in bytes { self.value = (self.value ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        // A boundary, so that what stands before it and behind it cannot be exchanged.
        self.value = (self.value ^ 0xFF) &* 0x0000_0100_0000_01B3
    }

    /// The value in 16 lower-case hexadecimal digits.
    package var hexadecimal: [UInt8] {
        unsafe withUnsafeBytes(of: self.value.bigEndian) { unsafe Array(Hexadecimal.text($0).utf8) }
    }
}

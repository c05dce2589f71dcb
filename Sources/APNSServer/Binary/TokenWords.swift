// SPDX-License-Identifier: Apache-2.0

/// A device token of 32 bytes, the usual length, in four words for fast comparison.
package struct TokenWords: Equatable, Sendable {
    @usableFromInline var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)

    /// 32 zero bytes.
    @inlinable
    package init() {}

    package init(_ bytes: UnsafeRawBufferPointer) {
        self.words = unsafe bytes.loadUnaligned(as: (UInt64, UInt64, UInt64, UInt64).self)
    }

    /// Whether both are the same token.
    @inlinable @inline(__always)
    package static func == (left: TokenWords, right: TokenWords) -> Bool { left.words == right.words }

    /// Returns a hash of the bytes and a seed.
    @inlinable @inline(__always)
    package func mixed(_ seed: UInt64) -> UInt64 {
        var mixed = (self.words.0 ^ seed) &* 0x9E37_79B9_7F4A_7C15
        mixed = (mixed ^ (mixed >> 32) ^ self.words.1) &* 0xBF58_476D_1CE4_E5B9
        let last = self.words.3 << 1 | self.words.3 >> 63
        mixed = (mixed ^ (mixed >> 29) ^ self.words.2 ^ last) &* 0x94D0_49BB_1331_11EB
        // Once more, since a product does not carry the last byte of a token to lower bits.
        mixed = (mixed ^ (mixed >> 32)) &* 0x9E37_79B9_7F4A_7C15
        return mixed ^ (mixed >> 32)
    }
}

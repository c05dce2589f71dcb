// SPDX-License-Identifier: Apache-2.0

/// The position of a scanned string, without its quotes.
@usableFromInline
package struct JSONString: Hashable, Sendable {
    /// The offset of the byte after the opening quote, from the start of the scanner's bytes.
    @usableFromInline package let byteOffset: Int
    /// The number of raw bytes up to the closing quote.
    @usableFromInline package let byteCount: Int
    /// Whether the bytes contain a backslash, so that they must be decoded.
    @usableFromInline package let hasEscapes: Bool

    @inlinable @inline(__always)
    init(byteOffset: Int, byteCount: Int, hasEscapes: Bool) {
        self.byteOffset = byteOffset
        self.byteCount = byteCount
        self.hasEscapes = hasEscapes
    }
}

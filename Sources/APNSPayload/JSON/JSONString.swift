// SPDX-License-Identifier: Apache-2.0

/// Where a string that was scanned lies, without its quotes.
package struct JSONString: Hashable, Sendable {
    /// The offset of the byte behind the opening quote, counted from the first byte that the scanner was given.
    package let byteOffset: Int
    /// The count of bytes up to the closing quote, escapes as they are written.
    package let byteCount: Int
    /// Whether there is a backslash among the bytes, so that they are not the string itself.
    package let hasEscapes: Bool

    @inline(__always)
    init(byteOffset: Int, byteCount: Int, hasEscapes: Bool) {
        self.byteOffset = byteOffset
        self.byteCount = byteCount
        self.hasEscapes = hasEscapes
    }
}

// SPDX-License-Identifier: Apache-2.0

/// Where a string that was scanned lies, without its quotes.
package struct JSONString: Hashable, Sendable {
    /// The offset of the octet behind the opening quote, counted from the first octet that the scanner was given.
    package let octetOffset: Int
    /// The count of octets up to the closing quote, escapes as they are written.
    package let octetCount: Int
    /// Whether there is a backslash among the octets, so that they are not the string itself.
    package let hasEscapes: Bool

    @inline(__always)
    init(octetOffset: Int, octetCount: Int, hasEscapes: Bool) {
        self.octetOffset = octetOffset
        self.octetCount = octetCount
        self.hasEscapes = hasEscapes
    }
}

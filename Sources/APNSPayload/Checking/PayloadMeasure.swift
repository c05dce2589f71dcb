// SPDX-License-Identifier: Apache-2.0

/// The length of a payload that passed its check.
public struct PayloadMeasure: Hashable, Sendable {
    /// The bytes of the payload as given.
    public let byteCount: Int
    /// The bytes of the payload without white space between its tokens.
    public let minifiedByteCount: Int

    /// Whether the payload may have another push type than `alert` and `background`, by its keys.
    ///
    /// ``PayloadTraits`` tells which. It is no part of the length, and does not count in a comparison.
    package let mayHaveOtherPushType: Bool

    package init(byteCount: Int, minifiedByteCount: Int, mayHaveOtherPushType: Bool = true) {
        self.byteCount = byteCount
        self.minifiedByteCount = minifiedByteCount
        self.mayHaveOtherPushType = mayHaveOtherPushType
    }

    /// Compares the lengths.
    public static func == (left: Self, right: Self) -> Bool {
        left.byteCount == right.byteCount && left.minifiedByteCount == right.minifiedByteCount
    }

    /// Hashes the lengths.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(self.byteCount)
        hasher.combine(self.minifiedByteCount)
    }
}

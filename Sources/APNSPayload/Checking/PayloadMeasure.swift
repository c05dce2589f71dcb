// SPDX-License-Identifier: Apache-2.0

/// The length of a payload that passed its check.
public struct PayloadMeasure: Hashable, Sendable {
    /// The bytes of the payload as given.
    public let byteCount: Int
    /// The bytes of the payload without white space between its tokens.
    public let minifiedByteCount: Int

    package init(byteCount: Int, minifiedByteCount: Int) {
        self.byteCount = byteCount
        self.minifiedByteCount = minifiedByteCount
    }
}

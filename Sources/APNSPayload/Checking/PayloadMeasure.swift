// SPDX-License-Identifier: Apache-2.0

/// How long a payload is that passed its check.
public struct PayloadMeasure: Hashable, Sendable {
    /// The bytes of the payload as it is.
    public let byteCount: Int
    /// The bytes of the payload without the white space between its tokens.
    public let minifiedByteCount: Int

    package init(byteCount: Int, minifiedByteCount: Int) {
        self.byteCount = byteCount
        self.minifiedByteCount = minifiedByteCount
    }
}

// SPDX-License-Identifier: Apache-2.0

/// How long a payload is that passed its check.
public struct PayloadMeasure: Hashable, Sendable {
    /// The octets of the payload as it is.
    public let octetCount: Int
    /// The octets of the payload without the white space between its tokens.
    public let minifiedOctetCount: Int

    package init(octetCount: Int, minifiedOctetCount: Int) {
        self.octetCount = octetCount
        self.minifiedOctetCount = minifiedOctetCount
    }
}

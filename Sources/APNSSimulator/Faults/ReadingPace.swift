// SPDX-License-Identifier: Apache-2.0

/// How fast bytes are taken from a provider.
public struct ReadingPace: Hashable, Sendable, Codable {
    /// How many bytes at a time, at least 1; of ciphertext.
    public var byteCount: Int
    /// How long from one time to the next, in milliseconds.
    public var intervalMilliseconds: Int

    /// Makes a pace.
    ///
    /// - Parameters:
    ///   - byteCount: bytes of ciphertext at a time, at least 1.
    ///   - intervalMilliseconds: milliseconds from one time to the next.
    public init(byteCount: Int, intervalMilliseconds: Int) {
        self.byteCount = max(1, byteCount)
        self.intervalMilliseconds = max(0, intervalMilliseconds)
    }
}

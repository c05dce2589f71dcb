// SPDX-License-Identifier: Apache-2.0

/// The key that identifies a notification that a provider sends again: the SHA-256 digest of its token, payload, expiry
/// and priority.
///
/// It is the same in each run of the program, and does not reveal the token.
public struct ResendKey: Hashable, Sendable {
    /// The length of a key in bytes.
    public static let byteCount = 32

    private let words: [4 of UInt64]

    /// Creates a key from its bytes; `nil` if their number is not ``byteCount``.
    ///
    /// - Parameter bytes: ``byteCount`` bytes.
    public init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        self.init(digest: bytes)
    }

    /// Creates a key from the digest of a notification, which has ``byteCount`` bytes.
    package init(digest: some Collection<UInt8>) {
        var words = [4 of UInt64](repeating: 0)
        for (index, byte) in digest.prefix(Self.byteCount).enumerated() {
            words[index / 8] = words[index / 8] << 8 | UInt64(byte)
        }
        self.words = words
    }

    /// The key in bytes.
    public var bytes: [UInt8] {
        self.words.indices.flatMap { index in
            (0..<8).map { UInt8(truncatingIfNeeded: self.words[index] >> (56 - 8 * $0)) }
        }
    }

    /// Whether all bytes are equal.
    public static func == (left: ResendKey, right: ResendKey) -> Bool {
        left.words.indices.allSatisfy { left.words[$0] == right.words[$0] }
    }

    /// Hashes a part of the digest, which is enough.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(self.words[0])
    }
}

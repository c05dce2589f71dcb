// SPDX-License-Identifier: Apache-2.0

/// A notification that was delivered although its provider is going to send it again.
public struct ExpectedResend: Hashable, Sendable {
    /// The position among the messages that an error response asks a provider to send again.
    public struct Place: Hashable, Sendable {
        /// The number of the error response; unique for a provider, and increasing.
        public var response: Int64
        /// How many messages precede it among those to send again, whether they were delivered or not.
        public var index: Int64

        /// Creates a position.
        ///
        /// - Parameters:
        ///   - response: the number of the error response.
        ///   - index: how many messages precede it.
        public init(response: Int64, index: Int64) {
            self.response = response
            self.index = index
        }
    }

    /// What identifies it if its provider computes the expiry again each time it writes the notification.
    public struct Lifetime: Hashable, Sendable {
        /// The SHA-256 digest of token, payload and priority.
        public var content: ResendKey
        /// The expiry minus the time of arrival, in milliseconds; negative if it had expired.
        public var milliseconds: Int64

        /// Creates a lifetime.
        ///
        /// - Parameters:
        ///   - content: the digest of token, payload and priority.
        ///   - milliseconds: the expiry minus the time of arrival, in milliseconds.
        public init(content: ResendKey, milliseconds: Int64) {
            self.content = content
            self.milliseconds = milliseconds
        }
    }

    /// The digest of token, payload, expiry and priority.
    public var key: ResendKey
    /// Its position; `nil` if an earlier version of the program stored it, which knew only the key.
    public var place: Place?
    /// Its lifetime; `nil` if it has no expiry, or if an earlier version of the program stored it.
    public var lifetime: Lifetime?

    /// Creates an expected resend.
    ///
    /// - Parameters:
    ///   - key: the digest of token, payload, expiry and priority.
    ///   - place: its position; `nil`, the default, if it is unknown.
    ///   - lifetime: its lifetime; `nil`, the default, for none.
    public init(key: ResendKey, place: Place? = nil, lifetime: Lifetime? = nil) {
        self.key = key
        self.place = place
        self.lifetime = lifetime
    }
}

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

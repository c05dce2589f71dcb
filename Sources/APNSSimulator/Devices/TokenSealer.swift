// SPDX-License-Identifier: Apache-2.0

import APNSWire
import OpenSSLTLS

/// Creates device tokens that only a service with the same key can create, by sealing the name of a device and an app.
///
/// A token has 32 bytes:
///
/// | bytes | content |
/// |---|---|
/// | 0 to 15 | the first half of HMAC-SHA-256 over the name |
/// | 16 to 31 | the name, XOR the first half of HMAC-SHA-256 over bytes 0 to 15 |
///
/// The name is the number of the device (8 bytes, big-endian), the number of previous tokens of the app on it
/// (2 bytes), the environment (1 byte) and a digest of the topic (5 bytes). Both keys are derived from the service's.
struct TokenSealer: Sendable {
    /// The content of a token.
    struct Name: Hashable {
        /// The number of the device, from 1.
        var device: UInt64
        /// The number of previous tokens of the app on the device.
        var generation: UInt16
        /// The environment.
        var environment: PushEnvironment
        /// A digest of the app's topic, see ``TokenSealer/digest(_:)``.
        var topicDigest: [UInt8]
    }

    private static let nameByteCount = 16
    private static let topicDigestByteCount = 5

    private let tagKey: [UInt8]
    private let maskKey: [UInt8]

    init(key: [UInt8]) {
        self.tagKey = SHA256.authenticationCode(Array("tag".utf8), key: key)
        self.maskKey = SHA256.authenticationCode(Array("mask".utf8), key: key)
    }

    /// Returns the digest of a topic.
    func digest(_ topic: String) -> [UInt8] {
        Array(SHA256.authenticationCode(Array(topic.utf8), key: self.tagKey).prefix(Self.topicDigestByteCount))
    }

    /// Seals the token of a device and an app.
    func token(_ name: Name) -> DeviceToken {
        var bytes = unsafe withUnsafeBytes(of: name.device.bigEndian) { unsafe Array($0) }
        bytes += [UInt8(name.generation >> 8), UInt8(truncatingIfNeeded: name.generation)]
        bytes.append(name.environment == .production ? 1 : 0)
        bytes += name.topicDigest
        let tag = SHA256.authenticationCode(bytes, key: self.tagKey).prefix(Self.nameByteCount)
        guard let token = try? DeviceToken(bytes: Array(tag) + self.masked(bytes, tag)) else {
            preconditionFailure("Any 32 bytes are a token.")
        }
        return token
    }

    /// Unseals a token; `nil` if it was not sealed with this key.
    func name(of token: DeviceToken) -> Name? {
        let bytes = token.bytes
        guard bytes.count == 2 * Self.nameByteCount else { return nil }
        let tag = bytes.prefix(Self.nameByteCount)
        let name = self.masked(bytes.suffix(Self.nameByteCount), tag)
        guard SHA256.authenticationCode(name, key: self.tagKey).prefix(Self.nameByteCount) == tag else { return nil }
        return Name(
            device: name[..<8].reduce(0) { $0 << 8 | UInt64($1) },
            generation: UInt16(name[8]) << 8 | UInt16(name[9]),
            environment: name[10] == 1 ? .production : .sandbox,
            topicDigest: Array(name[11...])
        )
    }

    private func masked(_ bytes: some Collection<UInt8>, _ tag: ArraySlice<UInt8>) -> [UInt8] {
        zip(bytes, SHA256.authenticationCode(Array(tag), key: self.maskKey)).map { $0 ^ $1 }
    }
}

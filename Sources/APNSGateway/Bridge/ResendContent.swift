// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import NIOCore
import OpenSSLTLS

/// What tells one notification from another, whatever identifier it has.
///
/// The identifier is no part of it: providers that number the messages of each connection from 1 give another one to
/// a resend. Notifications that are alike in all of this are alike to the device, so it does not matter which of them
/// a resend is taken for, only how many.
struct ResendContent: Sendable {
    let token: DeviceToken
    private(set) var payload: ByteBuffer
    let expiry: UInt32?
    let priority: UInt8

    init(token: DeviceToken, payload: ByteBuffer, expiry: UInt32?, priority: UInt8?) {
        self.token = token
        self.payload = payload
        self.expiry = expiry
        self.priority = priority ?? 10
    }

    /// Keeps the payload in memory of its own, as it may lie in that of a whole read, which is much larger.
    mutating func compact() { self.payload = ByteBuffer(bytes: self.payload.readableBytesView) }

    /// The key under which the content is remembered.
    var key: ResendKey {
        var bytes = ByteBuffer()
        bytes.writeInteger(UInt8(self.token.byteCount))
        unsafe self.token.withUnsafeBytes { _ = unsafe bytes.writeBytes($0) }
        bytes.writeInteger(self.priority)
        bytes.writeInteger(UInt8(self.expiry == nil ? 0 : 1))
        bytes.writeInteger(self.expiry ?? 0)
        bytes.writeImmutableBuffer(self.payload)
        return ResendKey(digestOf: bytes.readableBytesView)
    }
}

extension ResendKey {
    fileprivate init(digestOf bytes: ByteBufferView) {
        let digest = unsafe bytes.withUnsafeBytes { unsafe SHA256.digest($0) }
        // OpenSSL fails here only where memory is out, and a key that nothing else has costs a resend at worst.
        self.init(digest: digest ?? (0..<Self.byteCount).map { _ in .random(in: 0...255) })
    }
}

/// Names one notification on its way to the service; never used twice for one provider.
struct DeliveryNumber: RawRepresentable, Hashable, Sendable {
    var rawValue: UInt64
}

/// Where an outcome goes.
struct DeliveryOrigin: Hashable, Sendable {
    /// The connection at its listener.
    var connection: UInt64
    /// The number of the message on it.
    var number: UInt64
}

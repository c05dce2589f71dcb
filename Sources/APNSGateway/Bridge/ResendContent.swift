// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import NIOCore
import OpenSSLTLS

/// The content that distinguishes notifications, regardless of their identifiers.
///
/// The identifier is not part of it, since providers that number the messages of each connection from 1 assign another
/// one to a resend. Notifications with the same content are the same to the device, so it only matters how many of
/// them a resend accounts for.
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

    /// Copies the payload, which may be a slice of a much larger read.
    mutating func compact() { self.payload = ByteBuffer(bytes: self.payload.readableBytesView) }

    /// The key under which the content is stored.
    var key: ResendKey {
        self.digest { bytes in
            bytes.writeInteger(UInt8(self.expiry == nil ? 0 : 1))
            bytes.writeInteger(self.expiry ?? 0)
        }
    }

    /// What identifies the content if its expiry is computed each time it is written; `nil` if it has no expiry.
    ///
    /// Returns the content without its expiry, and the time from the arrival to the expiry.
    func lifetime(arrivedAt: Int64) -> ExpectedResend.Lifetime? {
        guard let expiry, expiry != 0 else { return nil }
        return ExpectedResend.Lifetime(
            content: self.digest { _ in },
            milliseconds: Int64(expiry) * 1000 - arrivedAt
        )
    }

    private func digest(_ writeExpiry: (inout ByteBuffer) -> Void) -> ResendKey {
        var bytes = ByteBuffer()
        bytes.writeInteger(UInt8(self.token.byteCount))
        unsafe self.token.withUnsafeBytes { _ = unsafe bytes.writeBytes($0) }
        bytes.writeInteger(self.priority)
        writeExpiry(&bytes)
        bytes.writeImmutableBuffer(self.payload)
        return ResendKey(digestOf: bytes.readableBytesView)
    }
}

extension ResendKey {
    fileprivate init(digestOf bytes: ByteBufferView) {
        let digest = unsafe bytes.withUnsafeBytes { unsafe SHA256.digest($0) }
        // OpenSSL fails here only if memory is exhausted; a unique key then costs at most a duplicate.
        self.init(digest: digest ?? (0..<Self.byteCount).map { _ in .random(in: 0...255) })
    }
}

/// The number of a notification's delivery to the service; unique per provider.
struct DeliveryNumber: RawRepresentable, Hashable, Sendable {
    var rawValue: UInt64
}

/// Where an outcome is reported.
struct DeliveryOrigin: Hashable, Sendable {
    /// The number of the connection at its listener.
    var connection: UInt64
    /// The number of the message on the connection.
    var number: UInt64
}

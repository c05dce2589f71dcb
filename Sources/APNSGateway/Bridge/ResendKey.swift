// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// By what a notification is known again when the provider sends it once more.
///
/// The identifier is no part of it: providers that number the messages of each connection from 1 give another one to
/// a resend. Notifications that are alike in all of this are alike to the device, so it does not matter which of them
/// is swallowed, only how many.
struct ResendKey: Hashable, Sendable {
    private let token: DeviceToken
    private let payloadOctetCount: Int
    /// Seeded by chance for each run of the process, so that nobody can make two payloads that share it.
    private let payloadDigest: Int
    private let expiry: UInt32?
    private let priority: UInt8

    init(token: DeviceToken, payload: UnsafeRawBufferPointer, expiry: UInt32?, priority: UInt8?) {
        var hasher = Hasher()
        hasher.combine(bytes: payload)
        self.token = token
        self.payloadOctetCount = payload.count
        self.payloadDigest = hasher.finalize()
        self.expiry = expiry
        self.priority = priority ?? 10
    }
}

/// Names one notification on its way to the service; never used twice for one provider.
struct FlightNumber: RawRepresentable, Hashable, Sendable {
    var rawValue: UInt64
}

/// Where a verdict goes.
struct FlightOrigin: Hashable, Sendable {
    /// The connection at its front.
    var connection: UInt64
    /// The number of the message on it.
    var number: UInt64
}

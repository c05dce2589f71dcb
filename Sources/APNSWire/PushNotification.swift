// SPDX-License-Identifier: Apache-2.0

public import NIOCore

/// A notification that a provider sends: a payload for one token.
///
/// Its identifier belongs to the frame and is assigned by the connection.
public struct PushNotification: Hashable, Sendable {
    /// The recipient.
    public var token: DeviceToken

    /// The JSON text in UTF-8, without a terminating NUL.
    public var payload: ByteBuffer

    /// How long the service stores it for a device that is offline.
    public var expiry: PushExpiry

    /// 10: immediately; 5: at a time that saves the device's battery; `nil`: omitted, which means 10.
    ///
    /// Only command 2 transmits it.
    public var priority: UInt8?

    /// The app, with the suffix of the push type; `nil`, the default, for the topic of the certificate or the
    /// configuration.
    ///
    /// Over HTTP/2 only: in the binary protocol, the certificate determines the topic.
    public var topic: String?

    /// The type of the notification; `nil`, the default, to infer it from the topic and payload.
    ///
    /// Over HTTP/2 only.
    public var pushType: PushType?

    /// Notifications with the same value replace each other on the device; at most 64 bytes; `nil` by default.
    ///
    /// Over HTTP/2 only.
    public var collapseIdentifier: String?

    /// The `apns-id`, which the service repeats in its answer; `nil`, the default, for a random one.
    ///
    /// Over HTTP/2 only.
    public var identifier: PushIdentifier?

    /// Creates a notification.
    ///
    /// - Parameters:
    ///   - token: the recipient.
    ///   - payload: JSON text in UTF-8.
    ///   - expiry: how long it is stored; by default as long as the service stores any.
    ///   - priority: 10 or 5; `nil` by default.
    public init(token: DeviceToken, payload: ByteBuffer, expiry: PushExpiry = .none, priority: UInt8? = nil) {
        self.token = token
        self.payload = payload
        self.expiry = expiry
        self.priority = priority
    }

    /// Creates a notification from the text of its payload.
    ///
    /// - Parameters:
    ///   - token: the recipient.
    ///   - payload: JSON text.
    ///   - expiry: how long it is stored; by default as long as the service stores any.
    ///   - priority: 10 or 5; `nil` by default.
    public init(token: DeviceToken, payload: String, expiry: PushExpiry = .none, priority: UInt8? = nil) {
        self.init(token: token, payload: ByteBuffer(string: payload), expiry: expiry, priority: priority)
    }

    /// Creates a notification from the bytes of its payload.
    ///
    /// - Parameters:
    ///   - token: the recipient.
    ///   - payload: JSON text in UTF-8.
    ///   - expiry: how long it is stored; by default as long as the service stores any.
    ///   - priority: 10 or 5; `nil` by default.
    public init(token: DeviceToken, payload: [UInt8], expiry: PushExpiry = .none, priority: UInt8? = nil) {
        self.init(token: token, payload: ByteBuffer(bytes: payload), expiry: expiry, priority: priority)
    }

    /// The bytes of the payload.
    public var payloadBytes: [UInt8] { Array(self.payload.readableBytesView) }

    /// The payload as text; bytes that are not UTF-8 become U+FFFD.
    public var payloadText: String { String(buffer: self.payload) }
}

extension PushNotification: CustomStringConvertible {
    /// Lengths only; the token and payload are private data.
    public var description: String {
        "notification for a \(self.token) with a payload of \(self.payload.readableBytes) bytes"
    }
}

extension PushNotification: CustomReflectable {
    /// Lengths only; the token and payload are private data.
    public var customMirror: Mirror { Mirror(self, children: ["payloadByteCount": self.payload.readableBytes]) }
}

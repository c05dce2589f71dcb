// SPDX-License-Identifier: Apache-2.0

public import NIOCore

/// A notification that a provider sends: a payload for one token.
///
/// Its identifier belongs to the frame and is assigned by the connection.
public struct PushNotification: Hashable, Sendable {
    /// The recipient.
    public var token: DeviceToken

    /// The JSON text in UTF-8, without a terminating NUL.
    ///
    /// A buffer of SwiftNIO, because notifications with the same payload share its bytes, and frames and streams are
    /// written from it. The initializers also accept text and bytes; ``payloadText`` and ``payloadBytes`` return them.
    public var payload: ByteBuffer

    /// How long the service stores it for a device that is offline.
    public var expiry: PushExpiry

    /// When the device receives it; `nil`, the default, for the default of the push type.
    ///
    /// In the binary protocol, only command 2 transmits it.
    public var priority: PushPriority?

    /// The app; `nil`, the default, for the topic of the certificate or the configuration.
    ///
    /// The suffix of the push type, such as `.voip`, is added if it is missing.
    ///
    /// Over HTTP/2 only: in the binary protocol, the certificate determines the topic.
    public var topic: String?

    /// The type of the notification; `nil`, the default, to infer it from the topic and payload.
    ///
    /// The binary protocol has no field for it: a notification of a type that the topic of the certificate does not
    /// have is refused.
    public var pushType: PushType?

    /// Notifications with the same value replace each other on the device; at most 64 bytes; `nil` by default.
    ///
    /// Over HTTP/2 only.
    public var collapseID: String?

    /// The `apns-id`, which the service repeats in its answer; `nil`, the default, for a random one.
    ///
    /// Over HTTP/2 only.
    public var apnsID: PushIdentifier?

    /// Creates a notification.
    ///
    /// - Parameters:
    ///   - token: the recipient.
    ///   - payload: JSON text in UTF-8.
    ///   - expiry: how long it is stored; by default as long as the service stores any.
    ///   - priority: when the device receives it; by default the default of the push type.
    public init(token: DeviceToken, payload: ByteBuffer, expiry: PushExpiry = .none, priority: PushPriority? = nil) {
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
    ///   - priority: when the device receives it; by default the default of the push type.
    public init(token: DeviceToken, payload: String, expiry: PushExpiry = .none, priority: PushPriority? = nil) {
        self.init(token: token, payload: ByteBuffer(string: payload), expiry: expiry, priority: priority)
    }

    /// Creates a notification from the bytes of its payload.
    ///
    /// - Parameters:
    ///   - token: the recipient.
    ///   - payload: JSON text in UTF-8.
    ///   - expiry: how long it is stored; by default as long as the service stores any.
    ///   - priority: when the device receives it; by default the default of the push type.
    public init(token: DeviceToken, payload: [UInt8], expiry: PushExpiry = .none, priority: PushPriority? = nil) {
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

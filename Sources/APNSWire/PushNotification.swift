// SPDX-License-Identifier: Apache-2.0

public import NIOCore

/// What a provider wants delivered: a payload for one token.
///
/// It has no identifier: that belongs to the frame, and a connection gives it.
public struct PushNotification: Hashable, Sendable {
    /// Whom it is for.
    public var token: DeviceToken

    /// The JSON text in UTF-8, without a terminating NUL.
    public var payload: ByteBuffer

    /// Until when the service keeps it for a device that is away.
    public var expiry: PushExpiry

    /// 10: at once; 5: as suits the device's battery; `nil`: not said, which means 10.
    ///
    /// Only command 2 carries it.
    public var priority: UInt8?

    /// The app, with the suffix of the push type; `nil`, the default, for that of the certificate or the configuration.
    ///
    /// Over HTTP/2 only: in the binary protocol it is the certificate's.
    public var topic: String?

    /// What kind of notification it is; `nil`, the default, to infer it from topic and payload.
    ///
    /// Over HTTP/2 only.
    public var pushType: PushType?

    /// Notifications with the same one replace each other on the device; at most 64 bytes; `nil` by default.
    ///
    /// Over HTTP/2 only.
    public var collapseIdentifier: String?

    /// The `apns-id`, which the service names in its answer; `nil`, the default, for a random one.
    ///
    /// Over HTTP/2 only.
    public var identifier: PushIdentifier?

    /// Makes a notification.
    ///
    /// - Parameters:
    ///   - token: whom it is for.
    ///   - payload: JSON text in UTF-8.
    ///   - expiry: until when it is kept; by default as long as the service keeps any.
    ///   - priority: 10 or 5; `nil` by default.
    public init(token: DeviceToken, payload: ByteBuffer, expiry: PushExpiry = .none, priority: UInt8? = nil) {
        self.token = token
        self.payload = payload
        self.expiry = expiry
        self.priority = priority
    }

    /// Makes a notification from the text of its payload.
    ///
    /// - Parameters:
    ///   - token: whom it is for.
    ///   - payload: JSON text.
    ///   - expiry: until when it is kept; by default as long as the service keeps any.
    ///   - priority: 10 or 5; `nil` by default.
    public init(token: DeviceToken, payload: String, expiry: PushExpiry = .none, priority: UInt8? = nil) {
        self.init(token: token, payload: ByteBuffer(string: payload), expiry: expiry, priority: priority)
    }

    /// Makes a notification from the bytes of its payload.
    ///
    /// - Parameters:
    ///   - token: whom it is for.
    ///   - payload: JSON text in UTF-8.
    ///   - expiry: until when it is kept; by default as long as the service keeps any.
    ///   - priority: 10 or 5; `nil` by default.
    public init(token: DeviceToken, payload: [UInt8], expiry: PushExpiry = .none, priority: UInt8? = nil) {
        self.init(token: token, payload: ByteBuffer(bytes: payload), expiry: expiry, priority: priority)
    }

    /// The payload in an array.
    public var payloadBytes: [UInt8] { Array(self.payload.readableBytesView) }

    /// The payload as text; bytes that are not UTF-8 become U+FFFD.
    public var payloadText: String { String(buffer: self.payload) }
}

extension PushNotification: CustomStringConvertible {
    /// Lengths only; token and payload are private data.
    public var description: String {
        "notification for a \(self.token) with a payload of \(self.payload.readableBytes) bytes"
    }
}

extension PushNotification: CustomReflectable {
    /// Lengths only; token and payload are private data.
    public var customMirror: Mirror { Mirror(self, children: ["payloadByteCount": self.payload.readableBytes]) }
}

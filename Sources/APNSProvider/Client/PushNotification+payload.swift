// SPDX-License-Identifier: Apache-2.0

public import APNSPayload
public import APNSWire

extension PushNotification {
    /// Makes a notification of a payload, which may be a literal of JSON.
    ///
    /// - Parameters:
    ///   - token: whom it is for.
    ///   - payload: what it says.
    ///   - expiry: until when it is kept; by default as long as the service keeps any.
    ///   - priority: 10 or 5; `nil` by default.
    public init(to token: DeviceToken, _ payload: Payload, expiry: PushExpiry = .none, priority: UInt8? = nil) {
        self.init(token: token, payload: payload.bytes, expiry: expiry, priority: priority)
    }

    /// Makes a notification of Apple's keys, and of keys of one's own.
    ///
    /// - Parameters:
    ///   - token: whom it is for.
    ///   - aps: what the device shows and does.
    ///   - custom: what the app gets beside that.
    ///   - expiry: until when it is kept; by default as long as the service keeps any.
    ///   - priority: 10 or 5; `nil` by default.
    public init(
        to token: DeviceToken,
        _ aps: APS,
        _ custom: [String: JSONValue] = [:],
        expiry: PushExpiry = .none,
        priority: UInt8? = nil
    ) {
        self.init(to: token, Payload(aps, custom), expiry: expiry, priority: priority)
    }
}

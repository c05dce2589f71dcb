// SPDX-License-Identifier: Apache-2.0

public import APNSPayload
public import APNSWire
import Glibc

extension PushNotification {
    /// Creates a notification from a payload, which can be a literal of JSON.
    ///
    /// - Parameters:
    ///   - token: the recipient.
    ///   - payload: the payload.
    ///   - expiry: how long it is stored; by default as long as the service stores any.
    ///   - priority: when the device receives it; by default the default of the push type.
    ///   - pushType: the type of the notification; by default it is inferred from the topic and the payload.
    public init(
        to token: DeviceToken,
        _ payload: Payload,
        expiry: PushExpiry = .none,
        priority: PushPriority? = nil,
        pushType: PushType? = nil
    ) {
        self.init(token: token, payload: payload.bytes, expiry: expiry, priority: priority)
        self.pushType = pushType
    }

    /// Creates a notification from Apple's keys and the app's own keys.
    ///
    /// - Parameters:
    ///   - token: the recipient.
    ///   - aps: what the device shows and does.
    ///   - custom: the keys for the app.
    ///   - expiry: how long it is stored; by default as long as the service stores any.
    ///   - priority: when the device receives it; by default the default of the push type.
    ///   - pushType: the type of the notification; by default `liveActivity` if there is one in `aps`, otherwise it is
    ///     inferred from the topic and the payload.
    public init(
        to token: DeviceToken,
        _ aps: APS,
        _ custom: [String: JSONValue] = [:],
        expiry: PushExpiry = .none,
        priority: PushPriority? = nil,
        pushType: PushType? = nil
    ) {
        let inferred: PushType? = aps.liveActivity == nil ? nil : .liveActivity
        self.init(
            to: token,
            Payload(aps, custom),
            expiry: expiry,
            priority: priority,
            pushType: pushType ?? inferred
        )
    }
}

extension PushExpiry {
    /// Stored for a duration from now, by the system's clock; the result is rounded up to a whole second.
    ///
    /// The time is determined by this call, not when the notification is sent.
    ///
    /// - Parameter duration: the duration, such as `.seconds(3600)`.
    /// - Returns: the expiry.
    public static func after(_ duration: Duration) -> PushExpiry { .after(duration, from: Int64(time(nil))) }
}

// SPDX-License-Identifier: Apache-2.0

public import APNSWire
public import NIOCore

/// How a notification of the binary protocol becomes a request of the HTTP/2 provider API, for one provider.
///
/// | binary                          | HTTP/2                                                                      |
/// |---------------------------------|-----------------------------------------------------------------------------|
/// | expiry                          | `apns-expiration`, at most 30 days ahead; one that is past is passed on      |
/// | no expiry                       | no header                                                                   |
/// | priority, 10 where there is none | `apns-priority`; 5 for background pushes, which 10 would have refused       |
/// | the certificate's topic         | `apns-topic`                                                                |
/// | nothing                         | `apns-push-type`, by the topic and the payload                              |
public struct RequestRules: Hashable, Sendable {
    /// The longest that the service keeps a notification, in seconds: 30 days.
    public static let lifetimeSecondsMax: UInt32 = 30 * 86_400

    /// How the push type is found.
    public enum PushTypeRule: Hashable, Sendable {
        /// By the topic and the payload.
        case inferred
        /// It is always this.
        case fixed(PushType)
        /// The header is left out.
        case omitted
    }

    /// The topic of all requests; `nil` leaves the header out.
    public var topic: String?

    /// How the push type is found; by default by the topic and the payload.
    public var pushType = PushTypeRule.inferred

    /// The push type for topics of passes (`pass.`) and websites (`web.`), for which none is documented; by default
    /// `nil`, which leaves the header out.
    public var passPushType: PushType?

    /// The priority of all requests that are no background pushes; by default `nil`, for what the provider says.
    public var priority: UInt8?

    /// How long a notification without an expiry is kept, in seconds; by default `nil`, for as long as the service
    /// likes.
    public var lifetimeSeconds: UInt32?

    /// Expiries other than 0 and up to this are taken for seconds from now, since there are providers that write a
    /// lifetime where a point in time belongs; by default 0, so that none is.
    public var relativeExpiryMax: UInt32 = 0

    /// Makes rules with the defaults.
    ///
    /// - Parameter topic: the topic of all requests; `nil` leaves the header out.
    public init(topic: String?) { self.topic = topic }

    /// Makes the request for a notification.
    ///
    /// - Parameters:
    ///   - token: whom it is for.
    ///   - payload: its payload, which is passed on unchanged.
    ///   - expiry: as the provider wrote it; `nil` for none.
    ///   - priority: as the provider wrote it; `nil` for none.
    ///   - now: the time in seconds since 1970 (UTC).
    /// - Returns: the request.
    public func request(
        token: DeviceToken,
        payload: ByteBuffer,
        expiry: UInt32?,
        priority: UInt8?,
        now: UInt32
    ) -> PushRequest {
        let pushType = unsafe payload.withUnsafeReadableBytes { unsafe self.pushType(of: PayloadTraits($0)) }
        var request = PushRequest(token: token, payload: payload, topic: self.topic, pushType: pushType)
        request.priority = pushType == .background ? 5 : self.priority ?? priority ?? 10
        request.expiration = self.expiration(expiry, now: now)
        return request
    }

    private func expiration(_ expiry: UInt32?, now: UInt32) -> UInt32? {
        let latest = now.addingReportingOverflow(Self.lifetimeSecondsMax)
        let max = latest.overflow ? UInt32.max : latest.partialValue
        func ahead(_ seconds: UInt32) -> UInt32 { seconds > max - now ? max : now + seconds }
        switch expiry {
        case nil: return self.lifetimeSeconds.map(ahead)
        case 0: return 0
        case .some(let expiry) where expiry <= self.relativeExpiryMax: return ahead(expiry)
        case .some(let expiry): return min(expiry, max)
        }
    }

    private func pushType(of payload: PayloadTraits) -> PushType? {
        switch self.pushType {
        case .fixed(let type): return type
        case .omitted: return nil
        case .inferred: break
        }
        let topic = self.topic ?? ""
        if payload.hasDeviceManagement || topic.hasPrefix("com.apple.mgmt.") { return .mdm }
        if topic.hasSuffix(".voip") { return .voip }
        if topic.hasSuffix(".complication") { return .complication }
        if topic.hasPrefix("pass.") || topic.hasPrefix("web.") { return self.passPushType }
        return payload.hasContentAvailable && !payload.hasAlertBadgeOrSound ? .background : .alert
    }
}

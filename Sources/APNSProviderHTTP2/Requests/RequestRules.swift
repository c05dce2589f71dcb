// SPDX-License-Identifier: Apache-2.0

public import APNSWire
package import NIOCore

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
    /// The longest that the service keeps a notification: 30 days.
    public static let lifetimeMax = Duration.seconds(30 * 86_400)

    /// How the push type is found.
    ///
    /// Later versions may add cases.
    @nonexhaustive
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

    /// How long a notification without an expiry is kept, in whole seconds; by default `nil`, for as long as the
    /// service likes.
    public var lifetime: Duration?

    /// Expiries other than 0 and up to so many seconds since 1970 are taken for seconds from now, since there are
    /// providers that write a lifetime where a point in time belongs; by default 0, so that none is.
    public var relativeExpiryMax = Duration.zero

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
    package func request(
        token: DeviceToken,
        payload: ByteBuffer,
        expiry: UInt32?,
        priority: UInt8?,
        now: UInt32
    ) -> PushRequest {
        let pushType = unsafe payload.withUnsafeReadableBytes { unsafe self.pushType(of: PayloadTraits($0)) }
        var request = PushRequest(token: token, payload: payload, topic: self.topic, pushType: pushType)
        request.priority = pushType == .background ? 5 : self.priority ?? priority ?? 10
        request.expiry = PushExpiry(wireValue: self.expiry(expiry, now: now))
        return request
    }

    private func expiry(_ expiry: UInt32?, now: UInt32) -> UInt32? {
        func seconds(_ duration: Duration) -> UInt32 { UInt32(clamping: duration.components.seconds) }
        let latest = now.addingReportingOverflow(seconds(Self.lifetimeMax))
        let max = latest.overflow ? UInt32.max : latest.partialValue
        func ahead(_ seconds: UInt32) -> UInt32 { seconds > max - now ? max : now + seconds }
        switch expiry {
        case nil: return self.lifetime.map { ahead(seconds($0)) }
        case 0: return 0
        case .some(let expiry) where expiry <= seconds(self.relativeExpiryMax): return ahead(expiry)
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

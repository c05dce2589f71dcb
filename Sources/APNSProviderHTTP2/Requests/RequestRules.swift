// SPDX-License-Identifier: Apache-2.0

public import APNSWire
package import NIOCore

/// How a notification of the binary protocol is converted to a request of the HTTP/2 provider API, for one provider.
///
/// | binary                          | HTTP/2                                                                      |
/// |---------------------------------|-----------------------------------------------------------------------------|
/// | expiry                          | `apns-expiration`, at most 30 days ahead; a past one is unchanged            |
/// | no expiry                       | no header                                                                   |
/// | priority 10, 5 or 1             | `apns-priority`; 5 for background pushes, which are refused with 10         |
/// | no or another priority, as 0    | the same as 10                                                              |
/// | the certificate's topic         | `apns-topic`                                                                |
/// | nothing                         | `apns-push-type`, by the topic and the payload                              |
public struct RequestRules: Hashable, Sendable {
    /// The maximum time that the service stores a notification: 30 days.
    public static let lifetimeMax = Duration.seconds(30 * 86_400)

    /// How the push type is determined.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum PushTypeRule: Hashable, Sendable {
        /// From the topic and the payload.
        case inferred
        /// A fixed value.
        case fixed(PushType)
        /// The header is omitted.
        case omitted
    }

    /// The topic of all requests; `nil` omits the header.
    public var topic: String?

    /// How the push type is determined; by default from the topic and the payload.
    public var pushType = PushTypeRule.inferred

    /// The push type for topics of passes (`pass.`) and websites (`web.`), for which none is documented; by default
    /// `nil`, which omits the header.
    public var passPushType: PushType?

    /// The priority of all requests except background pushes; by default `nil`, for the provider's priority.
    public var priority: UInt8?

    /// The expiry of a notification without one, as a duration in whole seconds; by default `nil`, which omits the
    /// header.
    public var lifetime: Duration?

    /// Expiries from 1 to this number of seconds are interpreted as relative to now, since some providers write a
    /// lifetime instead of a time; by default 0, which disables it.
    public var relativeExpiryMax = Duration.zero

    /// Makes rules with the defaults.
    ///
    /// - Parameter topic: the topic of all requests; `nil` omits the header.
    public init(topic: String?) { self.topic = topic }

    /// Creates the request for a notification of the library; its own values have precedence over these rules.
    func request(for notification: borrowing PushNotification, now: UInt32) -> PushRequest {
        var rules = self
        if let topic = notification.topic { rules.topic = topic }
        if let type = notification.pushType { rules.pushType = .fixed(type) }
        var request = rules.request(
            token: notification.token,
            payload: notification.payload,
            expiry: notification.expiry.wireValue,
            priority: notification.priority,
            now: now
        )
        request.collapseIdentifier = notification.collapseIdentifier
        if let identifier = notification.identifier { request.identifier = identifier }
        return request
    }

    /// Creates the request for a notification of the binary protocol.
    package func request(
        token: DeviceToken,
        payload: ByteBuffer,
        expiry: UInt32?,
        priority: UInt8?,
        now: UInt32
    ) -> PushRequest {
        let pushType = unsafe payload.withUnsafeReadableBytes { unsafe self.pushType(of: PayloadTraits($0)) }
        var request = PushRequest(token: token, payload: payload, topic: self.topic, pushType: pushType)
        let known = self.priority ?? FrameLayout.knownPriority(priority)
        request.priority = pushType == .background ? 5 : known ?? 10
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

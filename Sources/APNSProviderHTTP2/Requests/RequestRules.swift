// SPDX-License-Identifier: Apache-2.0

import APNSPayload
public import APNSWire
package import NIOCore

/// How a notification of the binary protocol is converted to a request of the HTTP/2 provider API, for one provider.
///
/// | binary                          | HTTP/2                                                                      |
/// |---------------------------------|-----------------------------------------------------------------------------|
/// | expiry                          | `apns-expiration`, at most 30 days ahead; a past one is unchanged            |
/// | no expiry                       | no header                                                                   |
/// | priority 10, 5 or 1             | `apns-priority`, if the push type permits it: background pushes have 5 or 1  |
/// | no or another priority, as 0    | the default of the push type: 10, and 5 for background pushes               |
/// | the certificate's topic         | `apns-topic`, with the suffix of the push type                              |
/// | nothing                         | `apns-push-type`, by the topic and the payload                              |
///
/// A notification whose push type cannot be inferred, or whose topic is that of another push type, is invalid and not
/// sent.
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
    ///
    /// The suffix of the push type, such as `.voip`, is added if it is missing.
    public var topic: String? {
        didSet { self.family = self.topic.flatMap { TopicFamily(of: $0) } }
    }

    /// The family of ``topic``, found once for many notifications.
    private var family: TopicFamily?

    /// How the push type is determined; by default from the topic and the payload.
    public var pushType = PushTypeRule.inferred

    /// The push type for topics of passes (`pass.`) and websites (`web.`), for which none is documented; by default
    /// `nil`, which omits the header.
    public var passPushType: PushType?

    /// The priority of all requests whose push type permits it; by default `nil`, for the provider's priority.
    public var priority: PushPriority?

    /// The expiry of a notification without one, as a duration in whole seconds; by default `nil`, which omits the
    /// header.
    public var lifetime: Duration?

    /// Expiries from 1 to this number of seconds are interpreted as relative to now, since some providers write a
    /// lifetime instead of a time; by default 0, which disables it.
    public var relativeExpiryMax = Duration.zero

    /// Makes rules with the defaults.
    ///
    /// - Parameter topic: the topic of all requests; `nil` omits the header.
    public init(topic: String?) {
        self.topic = topic
        self.family = topic.flatMap { TopicFamily(of: $0) }
    }

    /// Creates the request for a notification of the library; its own values have precedence over these rules.
    func request(for notification: borrowing PushNotification, now: UInt32) -> PushRequest {
        var rules = self
        if let topic = notification.topic, topic != rules.topic { rules.topic = topic }
        if let type = notification.pushType { rules.pushType = .fixed(type) }
        var request = rules.request(
            token: notification.token,
            payload: notification.payload,
            expiry: notification.expiry.wireValue,
            priority: notification.priority?.rawValue,
            now: now
        )
        request.collapseID = notification.collapseID
        if let identifier = notification.apnsID { request.apnsID = identifier }
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
        var request = PushRequest(token: token, payload: payload, topic: self.topic, pushType: nil)
        self.setPushType(&request)
        let type = request.pushType ?? .alert
        let known = self.priority ?? priority.flatMap { PushPriority(rawValue: $0) } ?? type.defaultPriority
        request.priority = (type.permits(known) ? known : type.defaultPriority).rawValue
        let expiry = self.expiry(expiry, now: now) ?? (type.expiresImmediately ? 0 : nil)
        request.expiry = PushExpiry(wireValue: expiry)
        return request
    }

    private static let lifetimeSecondsMax = UInt32(lifetimeMax.components.seconds)

    private func expiry(_ expiry: UInt32?, now: UInt32) -> UInt32? {
        func seconds(_ duration: Duration) -> UInt32 { UInt32(clamping: duration.components.seconds) }
        let latest = now.addingReportingOverflow(Self.lifetimeSecondsMax)
        let max = latest.overflow ? UInt32.max : latest.partialValue
        func ahead(_ seconds: UInt32) -> UInt32 { seconds > max - now ? max : now + seconds }
        switch expiry {
        case nil: return self.lifetime.map { ahead(seconds($0)) }
        case 0: return 0
        case .some(let expiry) where self.relativeExpiryMax > .zero && expiry <= seconds(self.relativeExpiryMax):
            return ahead(expiry)
        case .some(let expiry): return min(expiry, max)
        }
    }

    /// Sets the push type of a request, and the topic that it requires.
    private func setPushType(_ request: inout PushRequest) {
        switch self.pushType {
        case .fixed(let type): request.pushType = type
        case .omitted: return
        case .inferred:
            let traits = unsafe request.payload.withUnsafeReadableBytes { unsafe PayloadTraits($0) }
            if traits.isUnclear(for: self.family) {
                request.fault = .pushTypeUnclear
            } else {
                request.pushType = traits.pushType(for: self.family) ?? self.passPushType
            }
        }
        // Nearly all notifications are of these types or of that of the topic.
        guard let type = request.pushType, let topic, type != .alert, type != .background, type != family?.pushType,
            let required = TopicFamily(requiredBy: type)
        else { return }
        if family == nil, let derived = required.topic(ofApp: topic) {
            request.topic = derived
        } else {
            request.fault = .topicNotForPushType(type)
        }
    }
}

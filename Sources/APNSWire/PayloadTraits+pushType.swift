// SPDX-License-Identifier: Apache-2.0

package import APNSPayload

extension PayloadTraits {
    /// Whether the payload has one of several push types with the topic of a family, or of an app if there is none.
    package func isUnclear(for family: TopicFamily?) -> Bool {
        family == nil && !self.hasDeviceManagement && self.isForWidgetsOrControls
    }

    /// The push type that the payload has with the topic of a family, or of an app if there is none; `nil` if none is
    /// documented for the family.
    package func pushType(for family: TopicFamily?) -> PushType? {
        if self.hasDeviceManagement { return .mdm }
        if let family { return family.pushType }
        if self.hasLiveActivity { return .liveActivity }
        return self.hasContentAvailable && !self.hasAlertBadgeOrSound ? .background : .alert
    }

    /// Why the payload cannot be sent with a topic that cannot be changed; `nil` if it can.
    package func problem(for topic: FixedTopic) -> DeliveryOutcome.InvalidReason? {
        if self.isUnclear(for: topic.family) { return .pushTypeUnclear }
        return self.pushType(for: topic.family).flatMap { topic.problem(of: $0) }
    }
}

/// The topic of a certificate, if it is that of all notifications, as over the binary protocol.
@usableFromInline
package struct FixedTopic: Hashable, Sendable {
    private let topic: String
    /// Its family, found once for many notifications.
    fileprivate let family: TopicFamily?

    package init(_ topic: String) {
        self.topic = topic
        self.family = TopicFamily(of: topic)
    }

    /// Why a notification of a push type cannot be sent with the topic; `nil` if it can.
    package func problem(of type: PushType) -> DeliveryOutcome.InvalidReason? {
        // Nearly all notifications are of these types.
        guard type != .alert, type != .background, let required = TopicFamily(requiredBy: type),
            !required.contains(self.topic)
        else { return nil }
        return .topicNotForPushType(type)
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSWire

extension PushType {
    /// What the topics of this kind end in; `nil` for nothing in particular.
    private var topicSuffix: String? {
        switch self {
        case .complication: ".complication"
        case .controls: ".push-type.controls"
        case .fileprovider: ".pushkit.fileprovider"
        case .liveactivity: ".push-type.liveactivity"
        case .location: ".location-query"
        case .pushtotalk: ".voip-ptt"
        case .voip: ".voip"
        case .widgets: ".push-type.widgets"
        default: nil
        }
    }

    /// What the topics of device management begin with, behind which is the name of a certificate.
    private static let managementPrefix = "com.apple.mgmt."

    /// What is wrong with a notification of this kind.
    ///
    /// - Parameters:
    ///   - topic: whom it is for.
    ///   - priority: `nil` where it is not said, which means 10, or what the kind needs.
    ///   - expiration: `nil` where it is not said.
    /// - Returns: the first fault, or `nil`.
    func problem(topic: String, priority: UInt8?, expiration: UInt32?) -> PushReason? {
        switch self {
        // It must not interrupt.
        case .background where priority == 10: return .badPriority
        // Who talks is heard at once or never.
        case .pushtotalk where (priority ?? 10) != 10: return .badPriority
        case .pushtotalk where (expiration ?? 0) != 0: return .badExpirationDate
        case .mdm where !topic.hasPrefix(Self.managementPrefix): return .badTopic
        default: break
        }
        guard let suffix = self.topicSuffix else { return nil }
        return topic.hasSuffix(suffix) && topic.utf8.count > suffix.utf8.count ? nil : .badTopic
    }
}

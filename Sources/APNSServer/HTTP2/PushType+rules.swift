// SPDX-License-Identifier: Apache-2.0

import APNSWire

extension PushType {
    /// The suffix of topics of this type; `nil` for none.
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

    /// The prefix of device management topics, which is followed by the name of a certificate.
    private static let managementPrefix = "com.apple.mgmt."

    /// Returns the error of a notification of this type.
    func problem(topic: String, priority: UInt8?, expiration: UInt32?) -> PushRefusal? {
        let name = "push type \(self.rawValue)"
        switch self {
        // A background notification must not interrupt the user.
        case .background where priority == 10: return PushRefusal(.badPriority, "\(name) requires priority 5 or 1")
        // Push-to-talk speech is delivered immediately or never.
        case .pushtotalk where (priority ?? 10) != 10: return PushRefusal(.badPriority, "\(name) requires priority 10")
        case .pushtotalk where (expiration ?? 0) != 0:
            return PushRefusal(.badExpirationDate, "\(name) requires expiration 0")
        case .mdm where !topic.hasPrefix(Self.managementPrefix):
            return PushRefusal(.badTopic, "\(name) requires a topic that begins with \(Self.managementPrefix)")
        default: break
        }
        guard let suffix = self.topicSuffix else { return nil }
        guard !topic.hasSuffix(suffix) || topic.utf8.count == suffix.utf8.count else { return nil }
        return PushRefusal(.badTopic, "\(name) requires a topic that ends with \(suffix)")
    }
}

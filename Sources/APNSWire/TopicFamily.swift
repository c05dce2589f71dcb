// SPDX-License-Identifier: Apache-2.0

/// The topics of one push type, or of one kind of certificate.
///
/// Clients and gateways infer the push type, priority and topic of a notification from this table, and a server checks
/// them against it.
///
/// - SeeAlso: "Sending notification requests to APNs".
package struct TopicFamily: Hashable, Sendable {
    /// Where the topics of a family are alike.
    private enum Mark: Hashable {
        /// After the identifier of an app.
        case suffix(String)
        /// Before the identifier of a certificate.
        case prefix(String)
    }

    private let mark: Mark
    /// The push type of its topics; `nil` if none is documented.
    package let pushType: PushType?
    /// Whether the push type has no other topics.
    private let isRequired: Bool

    /// Whether a text is a valid topic: ASCII letters and digits, hyphens, periods and underscores.
    package static func isTopic(_ text: String) -> Bool {
        (1...WireLimits.topicByteCountMax).contains(text.utf8.count)
            && text.utf8.allSatisfy {
                switch $0 {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }

    /// All families; other topics are identifiers of apps.
    package static let all: [TopicFamily] = [
        Self(".voip", .voip),
        Self(".voip-ptt", .pushToTalk),
        Self(".complication", .complication),
        Self(".pushkit.fileprovider", .fileProvider),
        Self(".location-query", .location),
        Self(".push-type.liveactivity", .liveActivity),
        Self(".push-type.controls", .controls),
        Self(".push-type.widgets", .widgets),
        Self(mark: .prefix("com.apple.mgmt."), pushType: .mdm, isRequired: true),
        // Apple's servers for mail, calendars and contacts, and those that replace them.
        Self(mark: .prefix("com.apple.mail.XServer."), pushType: .background, isRequired: false),
        Self(mark: .prefix("com.apple.calendar.XServer."), pushType: .background, isRequired: false),
        Self(mark: .prefix("com.apple.contact.XServer."), pushType: .background, isRequired: false),
        Self(mark: .prefix("pass."), pushType: nil, isRequired: false),
        Self(mark: .prefix("web."), pushType: nil, isRequired: false),
    ]

    private init(mark: Mark, pushType: PushType?, isRequired: Bool) {
        self.mark = mark
        self.pushType = pushType
        self.isRequired = isRequired
    }

    private init(_ suffix: String, _ pushType: PushType) {
        self.init(mark: .suffix(suffix), pushType: pushType, isRequired: true)
    }

    /// Finds the family of a topic; `nil` for the identifier of an app.
    package init?(of topic: String) {
        guard let family = Self.all.first(where: { $0.contains(topic) }) else { return nil }
        self = family
    }

    /// Finds the family that a push type requires; `nil` if its topics are identifiers of apps.
    package init?(requiredBy pushType: PushType) {
        guard let family = Self.all.first(where: { $0.isRequired && $0.pushType == pushType }) else { return nil }
        self = family
    }

    /// Whether a topic belongs to the family.
    package func contains(_ topic: String) -> Bool {
        switch self.mark {
        case .suffix(let suffix): topic.hasSuffix(suffix) && topic.utf8.count > suffix.utf8.count
        case .prefix(let prefix): topic.hasPrefix(prefix)
        }
    }

    /// The topic of the family for an app; `nil` if it cannot be derived from the app's identifier.
    package func topic(ofApp identifier: String) -> String? {
        guard case .suffix(let suffix) = self.mark else { return nil }
        return identifier + suffix
    }

    /// Whether the topics are those of passes, whose updates have an empty payload.
    var isForWallet: Bool { self.mark == .prefix("pass.") }

    /// What all topics of the family have, as in "ends with .voip".
    package var condition: String {
        switch self.mark {
        case .suffix(let suffix): "ends with \(suffix)"
        case .prefix(let prefix): "begins with \(prefix)"
        }
    }
}

extension PushType {
    /// Whether the service accepts a priority for the type.
    package func permits(_ priority: PushPriority) -> Bool {
        switch self {
        // A background notification must not interrupt the user.
        case .background: priority != .immediate
        // Push-to-talk speech is delivered immediately or never.
        case .pushToTalk: priority == .immediate
        default: true
        }
    }

    /// The priority of a notification without one.
    package var defaultPriority: PushPriority { self == .background ? .conservingPower : .immediate }

    /// Whether the service accepts no other expiry than `PushExpiry.immediately`.
    package var expiresImmediately: Bool { self == .pushToTalk }
}

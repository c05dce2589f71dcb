// SPDX-License-Identifier: Apache-2.0

/// The type of a notification: the value of `apns-push-type`.
///
/// - SeeAlso: "Sending notification requests to APNs".
public struct PushType: RawRepresentable, Hashable, Sendable {
    /// The value of the header.
    public var rawValue: String

    /// Creates a push type from any value; the service validates it.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// Shows an alert, plays a sound or sets a badge.
    public static let alert = PushType(rawValue: "alert")
    /// Delivers content to the app in the background; its priority must be 5.
    public static let background = PushType(rawValue: "background")
    /// For watch faces; topics end in `.complication`.
    public static let complication = PushType(rawValue: "complication")
    /// For controls; topics end in `.push-type.controls`.
    public static let controls = PushType(rawValue: "controls")
    /// For file providers; topics end in `.pushkit.fileprovider`.
    public static let fileProvider = PushType(rawValue: "fileprovider")
    /// For Live Activities; topics end in `.push-type.liveactivity`.
    public static let liveActivity = PushType(rawValue: "liveactivity")
    /// Asks for a location; topics end in `.location-query`; only with a provider token.
    public static let location = PushType(rawValue: "location")
    /// For device management; the topic is the UID of the certificate.
    public static let mdm = PushType(rawValue: "mdm")
    /// For push to talk; topics end in `.voip-ptt`.
    public static let pushToTalk = PushType(rawValue: "pushtotalk")
    /// For calls; topics end in `.voip`.
    public static let voip = PushType(rawValue: "voip")
    /// For widgets; topics end in `.push-type.widgets`.
    public static let widgets = PushType(rawValue: "widgets")

    /// All documented push types.
    public static let documented: Set<PushType> = [
        .alert, .background, .complication, .controls, .fileProvider, .liveActivity, .location, .mdm, .pushToTalk,
        .voip, .widgets,
    ]
}

extension PushType: Codable {}

extension PushType: ExpressibleByStringLiteral {
    /// Creates a push type from any value; the service validates it.
    public init(stringLiteral value: String) { self.init(rawValue: value) }
}

extension PushType: CustomStringConvertible {
    /// The value of the header.
    public var description: String { self.rawValue }
}

// SPDX-License-Identifier: Apache-2.0

/// The `aps` object of a payload: what the system reads; all else is the app's.
///
/// A property that is `nil`, or `false`, is left out. What each key does depends on the version of the system that
/// receives it; one that does not know a key ignores it.
///
/// ```swift
/// let aps = APS(alert: "Your train leaves in ten minutes", badge: 1, sound: .default)
/// ```
///
/// - SeeAlso: "Creating the Remote Notification Payload" and "Generating a remote notification" in Apple's
///   documentation.
public struct APS: Hashable, Sendable {
    /// `alert`: what is shown.
    ///
    /// Since 2009.
    public var alert: Alert?

    /// `badge`: the number on the app's icon; 0 takes it away.
    ///
    /// Since 2009.
    ///
    /// Up to 2012 the guide said that a missing number takes it away, too; since then a missing one changes nothing.
    public var badge: Int?

    /// `sound`: what is played.
    ///
    /// Since 2009; critical ones since iOS 12.
    public var sound: Sound?

    /// `content-available`, as 1: the app is woken in the background.
    ///
    /// Since iOS 5 for Newsstand, iOS 7 for all.
    public var isContentAvailable = false

    /// `mutable-content`, as 1: an extension of the app may change what is shown.
    ///
    /// Since iOS 10.
    public var isMutableContent = false

    /// `category`: which actions are offered.
    ///
    /// Since iOS 8.
    public var category: String?

    /// `thread-id`: notifications with the same one are grouped.
    ///
    /// Since iOS 10, grouped since iOS 12.
    public var threadID: String?

    /// `url-args`: what fills the address that a website's notification opens.
    ///
    /// Since OS X 10.9, for Safari.
    public var urlArguments: [String]?

    /// `account-id`: the account of a mail notification.
    ///
    /// Not documented by Apple.
    public var accountID: String?

    /// `target-content-id`: which window is brought to the front.
    ///
    /// Since iOS 13.
    public var targetContentID: String?

    /// `interruption-level`: how much it may disturb.
    ///
    /// Since iOS 15.
    public var interruptionLevel: InterruptionLevel?

    /// `relevance-score`: the rank in a summary, 0 to 1; any number for a Live Activity.
    ///
    /// Since iOS 15.
    public var relevanceScore: Double?

    /// `filter-criteria`: decides whether it is shown in the present Focus.
    ///
    /// Since iOS 16.
    public var filterCriteria: String?

    /// `timestamp`, `event` and the other keys of a Live Activity.
    ///
    /// Since iOS 16.1.
    public var liveActivity: LiveActivity?

    /// `summary-arg`: what the summary of a group says of this one.
    ///
    /// Since iOS 12, ignored since iOS 15.
    ///
    /// Other senders write it into the alert, see ``Alert/summaryArgument``.
    public var summaryArgument: String?

    /// `summary-arg-count`: for how many it counts in the summary of a group.
    ///
    /// Since iOS 12, ignored since iOS 15.
    public var summaryArgumentCount: Int?

    /// Makes an `aps` object of the keys that are used most; the others are properties.
    ///
    /// - Parameters:
    ///   - alert: what is shown; nothing by default.
    ///   - badge: the number on the app's icon; unchanged by default.
    ///   - sound: what is played; none by default.
    public init(alert: Alert? = nil, badge: Int? = nil, sound: Sound? = nil) {
        self.alert = alert
        self.badge = badge
        self.sound = sound
    }

    /// An `aps` object that wakes the app in the background and shows nothing.
    public static let background: APS = {
        var aps = APS()
        aps.isContentAvailable = true
        return aps
    }()

    /// How much a notification may disturb.
    public struct InterruptionLevel: RawRepresentable, Hashable, Sendable, Encodable {
        /// As it stands in the payload.
        public var rawValue: String

        /// Takes a level.
        ///
        /// - Parameter rawValue: as it stands in the payload.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// It goes to the list without a sound.
        public static let passive = InterruptionLevel(rawValue: "passive")
        /// It is shown at once; what the system does by default.
        public static let active = InterruptionLevel(rawValue: "active")
        /// It is shown at once, also in a Focus that lets such ones through.
        public static let timeSensitive = InterruptionLevel(rawValue: "time-sensitive")
        /// It is shown at once and plays its sound in any case; needs an entitlement.
        public static let critical = InterruptionLevel(rawValue: "critical")
    }
}

extension APS: Encodable {
    enum CodingKeys: String, CodingKey {
        case alert, badge, sound, category
        case contentAvailable = "content-available"
        case mutableContent = "mutable-content"
        case threadID = "thread-id"
        case urlArguments = "url-args"
        case accountID = "account-id"
        case targetContentID = "target-content-id"
        case interruptionLevel = "interruption-level"
        case relevanceScore = "relevance-score"
        case filterCriteria = "filter-criteria"
        case summaryArgument = "summary-arg"
        case summaryArgumentCount = "summary-arg-count"
    }

    /// Writes the object.
    ///
    /// - Parameter encoder: writes it.
    /// - Throws: what the encoder throws.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encodeIfPresent(self.alert, forKey: .alert)
        try container.encodeIfPresent(self.badge, forKey: .badge)
        try container.encodeIfPresent(self.sound, forKey: .sound)
        if self.isContentAvailable { try container.encode(1, forKey: .contentAvailable) }
        if self.isMutableContent { try container.encode(1, forKey: .mutableContent) }
        try container.encodeIfPresent(self.category, forKey: .category)
        try container.encodeIfPresent(self.threadID, forKey: .threadID)
        try container.encodeIfPresent(self.urlArguments, forKey: .urlArguments)
        try container.encodeIfPresent(self.accountID, forKey: .accountID)
        try container.encodeIfPresent(self.targetContentID, forKey: .targetContentID)
        try container.encodeIfPresent(self.interruptionLevel, forKey: .interruptionLevel)
        try container.encodeIfPresent(self.relevanceScore, forKey: .relevanceScore)
        try container.encodeIfPresent(self.filterCriteria, forKey: .filterCriteria)
        try container.encodeIfPresent(self.summaryArgument, forKey: .summaryArgument)
        try container.encodeIfPresent(self.summaryArgumentCount, forKey: .summaryArgumentCount)
        try self.liveActivity?.encode(to: encoder)
    }
}

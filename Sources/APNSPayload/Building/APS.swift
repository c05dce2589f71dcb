// SPDX-License-Identifier: Apache-2.0

public import APNSJSON

/// The `aps` object of a payload, which the system reads; the other keys belong to the app.
///
/// A property that is `nil` or `false` is omitted. The effect of a key depends on the system version of the device;
/// unknown keys are ignored.
///
/// ```swift
/// let aps = APS(alert: "Your train leaves in ten minutes", badge: 1, sound: .default)
/// ```
///
/// - SeeAlso: "Creating the Remote Notification Payload" and "Generating a remote notification" in Apple's
///   documentation.
public struct APS: Hashable, Sendable {
    /// `alert`: the text to show.
    ///
    /// Since 2009.
    ///
    /// Its ``Alert/sound``, if it has one, is moved to ``sound``.
    public var alert: Alert? { didSet { self.moveSound() } }

    /// `badge`: the number on the app's icon; 0 removes it.
    ///
    /// Since 2009.
    ///
    /// Until 2012, the guide specified that a missing number also removes the badge; since then it leaves the badge
    /// unchanged.
    public var badge: Int?

    /// `sound`: the sound to play.
    ///
    /// Since 2009; critical ones since iOS 12.
    public var sound: Sound?

    /// `content-available`, as 1: wakes the app in the background.
    ///
    /// Since iOS 5 for Newsstand, iOS 7 for all.
    public var isContentAvailable = false

    /// `mutable-content`, as 1: an app extension may change the content before it is shown.
    ///
    /// Since iOS 10.
    public var isMutableContent = false

    /// `content-changed`, as `true`: reloads the app's widgets or controls.
    ///
    /// Since iOS 18 for controls, iOS 26 for widgets.
    ///
    /// Set the push type of the notification to `controls` or `widgets`, since the payload is the same for both.
    public var isContentChanged = false

    /// `category`: determines the actions of the notification.
    ///
    /// Since iOS 8.
    public var category: String?

    /// `thread-id`: notifications with the same value are grouped.
    ///
    /// Since iOS 10, grouped since iOS 12.
    public var threadID: String?

    /// `url-args`: the values for the placeholders of the URL that a website's notification opens.
    ///
    /// Since OS X 10.9, for Safari.
    public var urlArguments: [String]?

    /// `account-id`: the account of a mail notification.
    ///
    /// Not documented by Apple.
    public var accountID: String?

    /// `target-content-id`: the window to bring to the front.
    ///
    /// Since iOS 13.
    public var targetContentID: String?

    /// `interruption-level`: how much the notification may interrupt the user.
    ///
    /// Since iOS 15.
    public var interruptionLevel: InterruptionLevel?

    /// `relevance-score`: the rank in a summary, 0 to 1; any number for a Live Activity.
    ///
    /// Since iOS 15.
    public var relevanceScore: Double?

    /// `filter-criteria`: determines whether it is shown in the current Focus.
    ///
    /// Since iOS 16.
    public var filterCriteria: String?

    /// `timestamp`, `event` and the other keys of a Live Activity.
    ///
    /// Since iOS 16.1.
    public var liveActivity: LiveActivity?

    /// `summary-arg`: the text for this notification in the summary of its group.
    ///
    /// Since iOS 12, ignored since iOS 15.
    ///
    /// Other senders put it into the alert, see ``Alert/summaryArgument``.
    public var summaryArgument: String?

    /// `summary-arg-count`: how many items it counts as in the summary of its group.
    ///
    /// Since iOS 12, ignored since iOS 15.
    public var summaryArgumentCount: Int?

    /// Keys that have no property, such as new ones of Apple; none by default.
    ///
    /// A key here takes precedence over the property with the same key.
    public var otherKeys: [String: JSONValue] = [:]

    /// Creates an `aps` object from the most common keys; the others are properties.
    ///
    /// - Parameters:
    ///   - alert: the text to show; none by default.
    ///   - badge: the number on the app's icon; unchanged by default.
    ///   - sound: the sound to play; that of the alert by default.
    public init(alert: Alert? = nil, badge: Int? = nil, sound: Sound? = nil) {
        self.alert = alert
        self.badge = badge
        self.moveSound()
        if let sound { self.sound = sound }
    }

    /// Creates an `aps` object whose alert is a text that is not a literal.
    ///
    /// - Parameters:
    ///   - alert: the text to show, which is the body of the alert; none if it is `nil`.
    ///   - badge: the number on the app's icon; unchanged by default.
    ///   - sound: the sound to play; none by default.
    @_disfavoredOverload
    public init(alert: String?, badge: Int? = nil, sound: Sound? = nil) {
        self.init(alert: alert.map { Alert($0) }, badge: badge, sound: sound)
    }

    /// Creates an `aps` object for a Live Activity.
    ///
    /// - Parameters:
    ///   - liveActivity: what happens to the activity, and its content.
    ///   - alert: the text to show with the change; none by default.
    public init(liveActivity: LiveActivity, alert: Alert? = nil) {
        self.init(alert: alert)
        self.liveActivity = liveActivity
    }

    private mutating func moveSound() {
        guard let sound = self.alert?.sound else { return }
        self.alert?.sound = nil
        self.sound = sound
    }

    /// An `aps` object that wakes the app in the background and shows nothing.
    public static let background: APS = {
        var aps = APS()
        aps.isContentAvailable = true
        return aps
    }()

    /// How much a notification may interrupt the user.
    public struct InterruptionLevel: RawRepresentable, Hashable, Sendable, Codable {
        /// The value in the payload.
        public var rawValue: String

        /// Creates a level.
        ///
        /// - Parameter rawValue: the value in the payload.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// Adds the notification to the list without a sound.
        public static let passive = InterruptionLevel(rawValue: "passive")
        /// Shows the notification immediately; the system's default.
        public static let active = InterruptionLevel(rawValue: "active")
        /// Shows the notification immediately, also in a Focus that permits time-sensitive ones.
        public static let timeSensitive = InterruptionLevel(rawValue: "time-sensitive")
        /// Shows the notification immediately and always plays its sound; needs an entitlement.
        public static let critical = InterruptionLevel(rawValue: "critical")
    }
}

extension APS: Codable {
    enum CodingKeys: String, CodingKey {
        case alert, badge, sound, category
        case contentAvailable = "content-available"
        case contentChanged = "content-changed"
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

    /// Decodes the object, including keys that have no property.
    ///
    /// - Parameter decoder: the decoder.
    /// - Throws: the errors of the decoder; `DecodingError` for a value of the wrong type.
    public init(from decoder: any Decoder) throws {
        var reader = try MemberReader(try JSONValue(from: decoder), decoder.codingPath)
        self.badge = try reader.integer(CodingKeys.badge)
        self.isContentAvailable = try reader.flag(CodingKeys.contentAvailable)
        self.isContentChanged = try reader.flag(CodingKeys.contentChanged)
        self.isMutableContent = try reader.flag(CodingKeys.mutableContent)
        self.category = try reader.string(CodingKeys.category)
        self.threadID = try reader.string(CodingKeys.threadID)
        self.urlArguments = try reader.strings(CodingKeys.urlArguments)
        self.accountID = try reader.string(CodingKeys.accountID)
        self.targetContentID = try reader.string(CodingKeys.targetContentID)
        self.interruptionLevel = try reader.string(CodingKeys.interruptionLevel).map { .init(rawValue: $0) }
        self.relevanceScore = try reader.double(CodingKeys.relevanceScore)
        self.filterCriteria = try reader.string(CodingKeys.filterCriteria)
        self.summaryArgument = try reader.string(CodingKeys.summaryArgument)
        self.summaryArgumentCount = try reader.integer(CodingKeys.summaryArgumentCount)
        // Without an event, the other keys of a Live Activity have no effect.
        let event = LiveActivity.CodingKeys.event
        if reader.members[event.stringValue] != nil { self.liveActivity = try LiveActivity(reading: &reader) }
        self.alert = try reader.value(CodingKeys.alert).map { try Alert($0, reader.path(CodingKeys.alert)) }
        self.moveSound()
        let sound = try reader.value(CodingKeys.sound).map { try Sound($0, reader.path(CodingKeys.sound)) }
        if let sound { self.sound = sound }
        self.otherKeys = reader.members
    }

    /// Encodes the object.
    ///
    /// - Parameter encoder: the encoder.
    /// - Throws: the errors of the encoder.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encodeIfPresent(self.alert, forKey: .alert)
        try container.encodeIfPresent(self.badge, forKey: .badge)
        try container.encodeIfPresent(self.sound, forKey: .sound)
        if self.isContentAvailable { try container.encode(1, forKey: .contentAvailable) }
        if self.isContentChanged { try container.encode(true, forKey: .contentChanged) }
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
        try self.otherKeys.encodeMembers(to: encoder)
    }
}

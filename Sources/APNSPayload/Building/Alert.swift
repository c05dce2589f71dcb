// SPDX-License-Identifier: Apache-2.0

public import APNSJSON

extension APS {
    /// The text to show: `alert` of the `aps` object.
    ///
    /// An alert with only a plain body is encoded as a string, the oldest and shortest form.
    public struct Alert: Hashable, Sendable {
        /// `title`, or `title-loc-key` with `title-loc-args`.
        ///
        /// Since iOS 8.2; for Safari since OS X 10.9.
        public var title: AlertText?

        /// `subtitle`, or `subtitle-loc-key` with `subtitle-loc-args`.
        ///
        /// Since iOS 10.
        public var subtitle: AlertText?

        /// `body`, or `loc-key` with `loc-args`.
        ///
        /// Since 2009.
        public var body: AlertText?

        /// `launch-image`: the image shown while the app starts.
        ///
        /// Since iOS 4.
        public var launchImage: String?

        /// `action-loc-key`: the button that opens the app.
        ///
        /// Since 2009; no longer in Apple's documentation.
        public var actionButton: ActionButton?

        /// `action`: the button of a website's notification.
        ///
        /// Since OS X 10.9, for Safari.
        public var action: String?

        /// `summary-arg`: the text for this notification in the summary of its group.
        ///
        /// Since iOS 12, ignored since iOS 15.
        public var summaryArgument: String?

        /// `summary-arg-count`: how many items it counts as in the summary of its group.
        ///
        /// Since iOS 12, ignored since iOS 15.
        public var summaryArgumentCount: Int?

        /// The sound to play with the alert: the same as ``APS/sound``, to which it is moved.
        public var sound: Sound?

        /// Keys that have no property, such as new ones of Apple; none by default.
        ///
        /// A key here takes precedence over the property with the same key.
        public var otherKeys: [String: JSONValue] = [:]

        /// Creates an alert from the most common keys; the others are properties.
        ///
        /// - Parameters:
        ///   - title: a short line above the body; none by default.
        ///   - subtitle: a line between the title and the body; none by default.
        ///   - body: the text; none by default.
        ///   - sound: the sound to play; none by default.
        public init(
            title: AlertText? = nil,
            subtitle: AlertText? = nil,
            body: AlertText? = nil,
            sound: Sound? = nil
        ) {
            self.title = title
            self.subtitle = subtitle
            self.body = body
            self.sound = sound
        }

        /// Creates an alert from texts that are not literals; the others are properties.
        ///
        /// - Parameters:
        ///   - title: a short line above the body; none by default.
        ///   - subtitle: a line between the title and the body; none by default.
        ///   - body: the text; none by default.
        ///   - sound: the sound to play; none by default.
        @_disfavoredOverload
        public init(title: String? = nil, subtitle: String? = nil, body: String? = nil, sound: Sound? = nil) {
            self.init(
                title: title.map { .plain($0) },
                subtitle: subtitle.map { .plain($0) },
                body: body.map { .plain($0) },
                sound: sound
            )
        }

        /// Creates an alert with only a body.
        ///
        /// - Parameter body: the text.
        public init(_ body: String) { self.init(body: .plain(body)) }
    }

    /// A text of an alert.
    @frozen
    public enum AlertText: Hashable, Sendable {
        /// Literal text.
        case plain(String)
        /// The text for this key in the app's `Localizable.strings`, with the arguments inserted in order.
        case localized(key: String, arguments: [String] = [])
    }

    /// The button of an alert that opens the app, on systems that show one.
    @frozen
    public enum ActionButton: Hashable, Sendable {
        /// The text for this key in the app's `Localizable.strings`.
        case localized(key: String)
        /// Only the button that closes the alert; encoded as `null`.
        case none
    }
}

extension APS.Alert: ExpressibleByStringInterpolation {
    /// Creates an alert with only a body.
    ///
    /// - Parameter value: the text.
    public init(stringLiteral value: String) { self.init(value) }
}

extension APS.AlertText: ExpressibleByStringInterpolation {
    /// Makes literal text.
    ///
    /// - Parameter value: the text.
    public init(stringLiteral value: String) { self = .plain(value) }
}

extension APS.Alert: Codable {
    enum CodingKeys: String, CodingKey {
        case title, subtitle, body, action, sound
        case titleKey = "title-loc-key"
        case titleArguments = "title-loc-args"
        case subtitleKey = "subtitle-loc-key"
        case subtitleArguments = "subtitle-loc-args"
        case bodyKey = "loc-key"
        case bodyArguments = "loc-args"
        case actionKey = "action-loc-key"
        case launchImage = "launch-image"
        case summaryArgument = "summary-arg"
        case summaryArgumentCount = "summary-arg-count"
    }

    /// Decodes a string or an object, including keys that have no property.
    ///
    /// - Parameter decoder: the decoder.
    /// - Throws: the errors of the decoder; `DecodingError` for a value of the wrong type.
    public init(from decoder: any Decoder) throws {
        try self.init(try JSONValue(from: decoder), decoder.codingPath)
    }

    init(_ value: JSONValue, _ codingPath: [any CodingKey]) throws {
        if let text = value.string {
            self.init(text)
            return
        }
        var reader = try MemberReader(value, codingPath)
        self.init(
            title: try APS.AlertText(reading: &reader, CodingKeys.title, .titleKey, .titleArguments),
            subtitle: try APS.AlertText(reading: &reader, CodingKeys.subtitle, .subtitleKey, .subtitleArguments),
            body: try APS.AlertText(reading: &reader, CodingKeys.body, .bodyKey, .bodyArguments)
        )
        if reader.members[CodingKeys.actionKey.stringValue] == .null { self.actionButton = APS.ActionButton.none }
        if let key = try reader.string(CodingKeys.actionKey) { self.actionButton = .localized(key: key) }
        self.action = try reader.string(CodingKeys.action)
        self.launchImage = try reader.string(CodingKeys.launchImage)
        self.summaryArgument = try reader.string(CodingKeys.summaryArgument)
        self.summaryArgumentCount = try reader.integer(CodingKeys.summaryArgumentCount)
        self.sound = try reader.value(CodingKeys.sound).map { try APS.Sound($0, reader.path(CodingKeys.sound)) }
        self.otherKeys = reader.members
    }

    /// Encodes a string or an object.
    ///
    /// The ``sound`` is part of the object only if the alert is not in an ``APS``.
    ///
    /// - Parameter encoder: the encoder.
    /// - Throws: the errors of the encoder.
    public func encode(to encoder: any Encoder) throws {
        if case .plain(let text) = self.body, self == APS.Alert(text) {
            var container = encoder.singleValueContainer()
            return try container.encode(text)
        }
        var container = encoder.container(keyedBy: CodingKeys.self)
        try self.title?.encode(into: &container, .title, .titleKey, .titleArguments)
        try self.subtitle?.encode(into: &container, .subtitle, .subtitleKey, .subtitleArguments)
        try self.body?.encode(into: &container, .body, .bodyKey, .bodyArguments)
        switch self.actionButton {
        case .localized(let key): try container.encode(key, forKey: .actionKey)
        case .some(.none): try container.encodeNil(forKey: .actionKey)
        case nil: break
        }
        try container.encodeIfPresent(self.action, forKey: .action)
        try container.encodeIfPresent(self.launchImage, forKey: .launchImage)
        try container.encodeIfPresent(self.summaryArgument, forKey: .summaryArgument)
        try container.encodeIfPresent(self.summaryArgumentCount, forKey: .summaryArgumentCount)
        try container.encodeIfPresent(self.sound, forKey: .sound)
        try self.otherKeys.encodeMembers(to: encoder)
    }
}

extension APS.AlertText {
    /// Reads a text; next to a literal one, the keys of a localized one are left.
    fileprivate init?<Key: CodingKey>(
        reading reader: inout MemberReader,
        _ plain: Key,
        _ key: Key,
        _ arguments: Key
    ) throws {
        if let text = try reader.string(plain) {
            self = .plain(text)
        } else if let name = try reader.string(key) {
            self = .localized(key: name, arguments: try reader.strings(arguments) ?? [])
        } else {
            return nil
        }
    }

    fileprivate func encode<Key: CodingKey>(
        into container: inout KeyedEncodingContainer<Key>,
        _ plain: Key,
        _ key: Key,
        _ arguments: Key
    ) throws {
        switch self {
        case .plain(let text): try container.encode(text, forKey: plain)
        case .localized(let name, let values):
            try container.encode(name, forKey: key)
            if !values.isEmpty { try container.encode(values, forKey: arguments) }
        }
    }
}

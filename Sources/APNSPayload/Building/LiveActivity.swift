// SPDX-License-Identifier: Apache-2.0

extension APS {
    /// The keys of the `aps` object that start, change or end a Live Activity.
    ///
    /// Since iOS 16.1.
    ///
    /// All moments are whole seconds since 1970 (UTC).
    public struct LiveActivity: Hashable, Sendable {
        /// `event`: what becomes of the activity.
        public var event: Event

        /// `timestamp`: when the state was as it is told here; an older one than the device has is left out.
        public var timestamp: Int

        /// `content-state`: what the activity shows, as its type in the app reads it.
        public var contentState: JSONValue?

        /// `stale-date`: from when on it counts as out of date.
        public var staleDate: Int?

        /// `dismissal-date`: when an activity that has ended goes away.
        public var dismissalDate: Int?

        /// `attributes-type`: the name of the activity's type in the app; for ``Event/start``.
        public var attributesType: String?

        /// `attributes`: what does not change while the activity runs; for ``Event/start``.
        public var attributes: JSONValue?

        /// `input-push-token`, as 1: the device makes a token for the activity that starts.
        ///
        /// Since iOS 18; not in
        /// Apple's documentation.
        public var wantsPushToken = false

        /// `input-push-channel`: the broadcast channel of the activity that starts.
        ///
        /// Since iOS 18; not in Apple's
        /// documentation.
        public var pushChannel: String?

        /// Makes the keys that every event has; the others are properties.
        ///
        /// - Parameters:
        ///   - event: what becomes of the activity.
        ///   - timestamp: when the state was as it is told here, in seconds since 1970 (UTC).
        ///   - contentState: what it shows; nothing by default.
        public init(_ event: Event, timestamp: Int, contentState: JSONValue? = nil) {
            self.event = event
            self.timestamp = timestamp
            self.contentState = contentState
        }

        /// What becomes of an activity.
        public struct Event: RawRepresentable, Hashable, Sendable, Encodable {
            /// As it stands in the payload.
            public var rawValue: String

            /// Takes an event.
            ///
            /// - Parameter rawValue: as it stands in the payload.
            public init(rawValue: String) { self.rawValue = rawValue }

            /// It starts.
            ///
            /// Since iOS 17.2.
            public static let start = Event(rawValue: "start")
            /// It changes.
            public static let update = Event(rawValue: "update")
            /// It ends.
            public static let end = Event(rawValue: "end")
        }
    }
}

extension APS.LiveActivity: Encodable {
    enum CodingKeys: String, CodingKey {
        case event, timestamp, attributes
        case contentState = "content-state"
        case staleDate = "stale-date"
        case dismissalDate = "dismissal-date"
        case attributesType = "attributes-type"
        case inputPushToken = "input-push-token"
        case inputPushChannel = "input-push-channel"
    }

    /// Writes the keys.
    ///
    /// - Parameter encoder: writes them.
    /// - Throws: what the encoder throws.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(self.timestamp, forKey: .timestamp)
        try container.encode(self.event, forKey: .event)
        try container.encodeIfPresent(self.contentState, forKey: .contentState)
        try container.encodeIfPresent(self.staleDate, forKey: .staleDate)
        try container.encodeIfPresent(self.dismissalDate, forKey: .dismissalDate)
        try container.encodeIfPresent(self.attributesType, forKey: .attributesType)
        try container.encodeIfPresent(self.attributes, forKey: .attributes)
        if self.wantsPushToken { try container.encode(1, forKey: .inputPushToken) }
        try container.encodeIfPresent(self.pushChannel, forKey: .inputPushChannel)
    }
}

// SPDX-License-Identifier: Apache-2.0

public import APNSJSON

extension APS {
    /// The keys of the `aps` object that start, update or end a Live Activity.
    ///
    /// Since iOS 16.1.
    ///
    /// All times are whole seconds.
    public struct LiveActivity: Hashable, Sendable {
        /// `event`: what happens to the activity.
        public var event: Event

        /// `timestamp`: the time of this state; the device ignores a state that is older than its own.
        public var timestamp: Timestamp {
            get { Timestamp(secondsSince1970: Int64(self.timestampSeconds)) }
            set { self.timestampSeconds = Int(newValue.secondsSince1970) }
        }

        /// `content-state`: the content of the activity, decoded by its type in the app.
        public var contentState: JSONValue?

        /// `stale-date`: the time from which the content is out of date.
        public var staleDate: Timestamp? {
            get { self.staleDateSeconds.map { Timestamp(secondsSince1970: Int64($0)) } }
            set { self.staleDateSeconds = newValue.map { Int($0.secondsSince1970) } }
        }

        /// `dismissal-date`: the time when an ended activity is removed.
        public var dismissalDate: Timestamp? {
            get { self.dismissalDateSeconds.map { Timestamp(secondsSince1970: Int64($0)) } }
            set { self.dismissalDateSeconds = newValue.map { Int($0.secondsSince1970) } }
        }

        /// `attributes-type`: the name of the activity's type in the app; for ``Event/start``.
        public var attributesType: String?

        /// `attributes`: the data that does not change while the activity runs; for ``Event/start``.
        public var attributes: JSONValue?

        /// `input-push-token`, as 1: the device creates a push token for the activity that starts.
        ///
        /// Since iOS 18; not in Apple's documentation.
        public var wantsPushToken = false

        /// `input-push-channel`: the broadcast channel of the activity that starts.
        ///
        /// Since iOS 18; not in Apple's documentation.
        public var pushChannel: String?

        // As in the payload, so that decoding changes no number.
        package var timestampSeconds = 0
        package var staleDateSeconds: Int?
        package var dismissalDateSeconds: Int?

        /// Creates the keys that every event has; the others are properties.
        ///
        /// - Parameters:
        ///   - event: what happens to the activity.
        ///   - timestamp: the time of the state, of which parts of a second are omitted.
        ///   - contentState: the content of the activity; none by default.
        public init(_ event: Event, timestamp: Timestamp, contentState: JSONValue? = nil) {
            self.event = event
            self.timestamp = timestamp
            self.contentState = contentState
        }

        /// What happens to an activity.
        public struct Event: RawRepresentable, Hashable, Sendable, Codable {
            /// The value in the payload.
            public var rawValue: String

            /// Creates an event.
            ///
            /// - Parameter rawValue: the value in the payload.
            public init(rawValue: String) { self.rawValue = rawValue }

            /// Starts the activity.
            ///
            /// Since iOS 17.2.
            public static let start = Event(rawValue: "start")
            /// Updates the activity.
            public static let update = Event(rawValue: "update")
            /// Ends the activity.
            public static let end = Event(rawValue: "end")
        }
    }
}

extension APS.LiveActivity: Codable {
    enum CodingKeys: String, CodingKey {
        case event, timestamp, attributes
        case contentState = "content-state"
        case staleDate = "stale-date"
        case dismissalDate = "dismissal-date"
        case attributesType = "attributes-type"
        case inputPushToken = "input-push-token"
        case inputPushChannel = "input-push-channel"
    }

    /// Decodes the keys.
    ///
    /// - Parameter decoder: the decoder.
    /// - Throws: the errors of the decoder; `DecodingError` if `event` or `timestamp` is missing, or for an unknown
    ///   key.
    public init(from decoder: any Decoder) throws {
        var reader = try MemberReader(try JSONValue(from: decoder), decoder.codingPath)
        try self.init(reading: &reader)
        try reader.finish()
    }

    init(reading reader: inout MemberReader) throws {
        let event = try reader.require(try reader.string(CodingKeys.event), CodingKeys.event)
        let timestamp = try reader.require(try reader.integer(CodingKeys.timestamp), CodingKeys.timestamp)
        self.event = Event(rawValue: event)
        self.timestampSeconds = timestamp
        self.contentState = reader.value(CodingKeys.contentState)
        self.staleDateSeconds = try reader.integer(CodingKeys.staleDate)
        self.dismissalDateSeconds = try reader.integer(CodingKeys.dismissalDate)
        self.attributesType = try reader.string(CodingKeys.attributesType)
        self.attributes = reader.value(CodingKeys.attributes)
        self.wantsPushToken = try reader.flag(CodingKeys.inputPushToken)
        self.pushChannel = try reader.string(CodingKeys.inputPushChannel)
    }

    /// Encodes the keys.
    ///
    /// - Parameter encoder: the encoder.
    /// - Throws: the errors of the encoder.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(self.timestampSeconds, forKey: .timestamp)
        try container.encode(self.event, forKey: .event)
        try container.encodeIfPresent(self.contentState, forKey: .contentState)
        try container.encodeIfPresent(self.staleDateSeconds, forKey: .staleDate)
        try container.encodeIfPresent(self.dismissalDateSeconds, forKey: .dismissalDate)
        try container.encodeIfPresent(self.attributesType, forKey: .attributesType)
        try container.encodeIfPresent(self.attributes, forKey: .attributes)
        if self.wantsPushToken { try container.encode(1, forKey: .inputPushToken) }
        try container.encodeIfPresent(self.pushChannel, forKey: .inputPushChannel)
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSJSON

extension APS {
    /// The sound to play: `sound` of the `aps` object.
    ///
    /// A sound with only a name is encoded as a string; a critical one, since iOS 12, as an object.
    public struct Sound: Hashable, Sendable {
        /// The name of a file in the app, or `default`.
        public var name: String

        /// Whether it is played even if the device is muted; needs an entitlement.
        public var isCritical: Bool

        /// The volume of a critical sound, 0 to 1; `nil` for the system's default.
        public var volume: Double?

        /// Creates a sound from a file of the app.
        ///
        /// - Parameter name: the file name; if the app has no such file, the default sound is played.
        public init(_ name: String) {
            self.name = name
            self.isCritical = false
        }

        /// The system's default sound.
        public static let `default` = Sound("default")

        /// A sound that is played even if the device is muted.
        ///
        /// Since iOS 12.
        ///
        /// - Parameters:
        ///   - name: a file of the app; by default the system's default sound.
        ///   - volume: 0 to 1; by default the system's default.
        /// - Returns: the sound.
        public static func critical(_ name: String = "default", volume: Double? = nil) -> Sound {
            var sound = Sound(name)
            sound.isCritical = true
            sound.volume = volume
            return sound
        }
    }
}

extension APS.Sound: ExpressibleByStringLiteral {
    /// Creates a sound from a file of the app.
    ///
    /// - Parameter value: the file name.
    public init(stringLiteral value: String) { self.init(value) }
}

extension APS.Sound: Codable {
    enum CodingKeys: String, CodingKey { case critical, name, volume }

    /// Decodes a string or an object.
    ///
    /// - Parameter decoder: the decoder.
    /// - Throws: the errors of the decoder; `DecodingError` if the name is missing, or for an unknown key.
    public init(from decoder: any Decoder) throws {
        try self.init(try JSONValue(from: decoder), decoder.codingPath)
    }

    init(_ value: JSONValue, _ codingPath: [any CodingKey]) throws {
        if let name = value.string {
            self.init(name)
            return
        }
        var reader = try MemberReader(value, codingPath)
        self.init(try reader.require(try reader.string(CodingKeys.name), CodingKeys.name))
        self.isCritical = try reader.flag(CodingKeys.critical)
        self.volume = try reader.double(CodingKeys.volume)
        try reader.finish()
    }

    /// Encodes a string or an object.
    ///
    /// - Parameter encoder: the encoder.
    /// - Throws: the errors of the encoder.
    public func encode(to encoder: any Encoder) throws {
        guard self.isCritical || self.volume != nil else {
            var container = encoder.singleValueContainer()
            return try container.encode(self.name)
        }
        var container = encoder.container(keyedBy: CodingKeys.self)
        if self.isCritical { try container.encode(1, forKey: .critical) }
        try container.encode(self.name, forKey: .name)
        try container.encodeIfPresent(self.volume, forKey: .volume)
    }
}

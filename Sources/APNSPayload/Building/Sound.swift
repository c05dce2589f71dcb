// SPDX-License-Identifier: Apache-2.0

extension APS {
    /// What is played: `sound` of the `aps` object.
    ///
    /// One with a name alone is written as a string; a critical one, since iOS 12, as an object.
    public struct Sound: Hashable, Sendable {
        /// The name of a file in the app, or `default`.
        public var name: String

        /// Whether it is played although the device is silent; needs an entitlement.
        public var isCritical: Bool

        /// How loud a critical one is, 0 to 1; `nil` for the system's own choice.
        public var volume: Double?

        /// Takes a file of the app.
        ///
        /// - Parameter name: its name; where the app has no such file, the default sound is played.
        public init(_ name: String) {
            self.name = name
            self.isCritical = false
        }

        /// The sound of the system.
        public static let `default` = Sound("default")

        /// A sound that is played although the device is silent.
        ///
        /// Since iOS 12.
        ///
        /// - Parameters:
        ///   - name: a file of the app; the sound of the system by default.
        ///   - volume: 0 to 1; the system's own choice by default.
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
    /// Takes a file of the app.
    ///
    /// - Parameter value: its name.
    public init(stringLiteral value: String) { self.init(value) }
}

extension APS.Sound: Encodable {
    enum CodingKeys: String, CodingKey { case critical, name, volume }

    /// Writes a string or an object.
    ///
    /// - Parameter encoder: writes it.
    /// - Throws: what the encoder throws.
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

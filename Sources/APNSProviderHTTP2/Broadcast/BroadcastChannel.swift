// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// A channel to which devices subscribe, so that one broadcast updates the Live Activities of all of them.
///
/// Store it with the event that it is for, and pass the ``ChannelID/text`` of its ``id`` to the app. A channel exists
/// until it is deleted.
public struct BroadcastChannel: Hashable, Sendable, Codable {
    /// What the service calls it.
    public var id: ChannelID

    /// What the service stores for devices that are offline; it cannot be changed.
    public var storagePolicy: MessageStoragePolicy

    /// Creates the description of a channel that the service has.
    ///
    /// - Parameters:
    ///   - id: what the service calls it.
    ///   - storagePolicy: the policy with which it was created;
    ///     ``BroadcastClient/channel(_:requestID:deadline:)`` returns it.
    public init(id: ChannelID, storagePolicy: MessageStoragePolicy) {
        self.id = id
        self.storagePolicy = storagePolicy
    }
}

/// What the service stores of the broadcasts to a channel, for devices that are offline.
public struct MessageStoragePolicy: RawRepresentable, Hashable, Sendable, Codable {
    /// The number in requests and responses.
    public var rawValue: Int

    /// Creates a policy.
    ///
    /// - Parameter rawValue: the number in requests and responses.
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// Nothing, which permits more broadcasts in the same time: for scores and other frequent updates.
    public static let noMessage = Self(rawValue: 0)

    /// The last broadcast, for at most 8 hours: for updates such as those of a flight.
    public static let mostRecentMessage = Self(rawValue: 1)
}

extension MessageStoragePolicy: CustomStringConvertible {
    /// The policy in words; the number of an unknown one.
    public var description: String {
        switch self {
        case .noMessage: "no message"
        case .mostRecentMessage: "most recent message"
        default: "policy \(self.rawValue)"
        }
    }
}

/// The identifier of a broadcast channel, which the service chooses: text in base64.
public struct ChannelID: Hashable, Sendable {
    /// The text, as the service and the app use it.
    public let text: String

    /// The maximum number of characters: all header fields of a request must fit into one frame.
    ///
    /// Those of the service are shorter; their length is not documented.
    public static let characterCountMax = WireLimits.channelIDCharacterCountMax

    /// Creates an identifier from its text; `nil` if that is not base64, with or without padding, or too long.
    ///
    /// - Parameter text: as the service returned it.
    public init?(_ text: some StringProtocol) {
        guard (1...Self.characterCountMax).contains(text.utf8.count), Base64.isText(text) else { return nil }
        self.text = String(text)
    }
}

extension ChannelID: CustomStringConvertible {
    /// The text.
    public var description: String { self.text }
}

extension ChannelID: Codable {
    /// Decodes the text.
    ///
    /// - Parameter decoder: the decoder.
    /// - Throws: `DecodingError` if it is not base64.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let id = Self(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "expected base64")
        }
        self = id
    }

    /// Encodes the text.
    ///
    /// - Parameter encoder: the encoder.
    /// - Throws: the errors of the encoder.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(self.text)
    }
}

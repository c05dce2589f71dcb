// SPDX-License-Identifier: Apache-2.0

import APNSJSON
import NIOCore

extension PushExpiry: Codable {
    private static let noneText = "none"

    /// Decodes seconds since 1970 (UTC), 0 for ``immediately``, or the text `none`; `null` is the same as `none`.
    ///
    /// - Parameter decoder: the decoder.
    /// - Throws: `DecodingError` for any other value.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .none
        } else if let text = try? container.decode(String.self) {
            guard text == Self.noneText else {
                throw DecodingError.dataCorruptedError(in: container, debugDescription: "expected seconds or none")
            }
            self = .none
        } else {
            self.init(wireValue: try container.decode(UInt32.self))
        }
    }

    /// Encodes seconds since 1970 (UTC), 0 for ``immediately``, or the text `none`.
    ///
    /// It is never `null`, so that it differs from an optional value that is `nil`.
    ///
    /// - Parameter encoder: the encoder.
    /// - Throws: the errors of the encoder.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        if let value = self.wireValue { try container.encode(value) } else { try container.encode(Self.noneText) }
    }
}

/// The keys are `token`, `payload` and, for values that are set, `expiry`, `priority`, `topic`, `pushType`,
/// `collapseID` and `apnsID`.
extension PushNotification: Codable {
    private enum CodingKeys: String, CodingKey {
        case token, payload, expiry, priority, topic, pushType
        case collapseID
        case apnsID
    }

    /// Decodes a notification, whose payload is a text of JSON, or any object.
    ///
    /// - Parameter decoder: the decoder.
    /// - Throws: `DecodingError` if a value is missing or wrong; the content of the payload is not checked.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        let payload: ByteBuffer =
            switch try container.decode(JSONValue.self, forKey: .payload) {
            case .string(let text): ByteBuffer(string: text)
            case let value: ByteBuffer(bytes: value.bytes)
            }
        self.init(
            token: try container.decode(DeviceToken.self, forKey: .token),
            payload: payload,
            expiry: try container.decodeIfPresent(PushExpiry.self, forKey: .expiry) ?? .none,
            priority: try container.decodeIfPresent(PushPriority.self, forKey: .priority)
        )
        self.topic = try container.decodeIfPresent(String.self, forKey: .topic)
        self.pushType = try container.decodeIfPresent(PushType.self, forKey: .pushType)
        self.collapseID = try container.decodeIfPresent(String.self, forKey: .collapseID)
        self.apnsID = try container.decodeIfPresent(PushIdentifier.self, forKey: .apnsID)
    }

    /// Encodes the notification; the payload is encoded as text, so that each of its bytes is kept.
    ///
    /// - Parameter encoder: the encoder.
    /// - Throws: `EncodingError` if the payload is not UTF-8, and the errors of the encoder.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        guard let payload = String(validating: self.payload.readableBytesView, as: UTF8.self) else {
            let path = encoder.codingPath + [CodingKeys.payload]
            let context = EncodingError.Context(codingPath: path, debugDescription: "The payload is not UTF-8.")
            throw EncodingError.invalidValue(self, context)
        }
        try container.encode(self.token, forKey: .token)
        try container.encode(payload, forKey: .payload)
        if self.expiry != .none { try container.encode(self.expiry, forKey: .expiry) }
        try container.encodeIfPresent(self.priority, forKey: .priority)
        try container.encodeIfPresent(self.topic, forKey: .topic)
        try container.encodeIfPresent(self.pushType, forKey: .pushType)
        try container.encodeIfPresent(self.collapseID, forKey: .collapseID)
        try container.encodeIfPresent(self.apnsID, forKey: .apnsID)
    }
}

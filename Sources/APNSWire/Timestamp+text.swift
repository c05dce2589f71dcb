// SPDX-License-Identifier: Apache-2.0

public import APNSPayload

extension Timestamp: CustomStringConvertible, LosslessStringConvertible {
    /// The time in ISO 8601 format in UTC, such as `2026-01-05T10:00:00Z`; with three digits after the second unless it
    /// is a whole one.
    public var description: String {
        let text = ISO8601Time.text(self.secondsSince1970)
        let milliseconds = self.millisecondsSince1970 % 1000
        return milliseconds == 0 ? text : "\(text.dropLast()).\(String(milliseconds + 1000).dropFirst())Z"
    }

    /// Parses a time in ISO 8601 format; `nil` for any other text, for one without a zone, and before 1970.
    ///
    /// - Parameter description: the text; digits after the third one of a fraction are ignored.
    public init?(_ description: String) {
        guard let time = ISO8601Time(description.utf8), time.zoneOffset != nil,
            TimeText.range.contains(time.earliest)
        else { return nil }
        let fraction = description.utf8.drop { $0 != UInt8(ascii: ".") && $0 != UInt8(ascii: ",") }.dropFirst()
        let digits = fraction.prefix { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }.prefix(3)
        var milliseconds: Int64 = 0
        for digit in digits { milliseconds = milliseconds * 10 + Int64(digit - UInt8(ascii: "0")) }
        for _ in digits.count..<3 { milliseconds *= 10 }
        self.init(millisecondsSince1970: time.earliest * 1000 + milliseconds)
    }
}

extension Timestamp: Codable {
    /// Decodes a text in ISO 8601 format.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let time = Self(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "not a time in ISO 8601 format")
        }
        self = time
    }

    /// Encodes the ``description``.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(self.description)
    }
}

// SPDX-License-Identifier: Apache-2.0

import Glibc

/// A point in time, in whole milliseconds since 1970-01-01 00:00 UTC.
///
/// With Foundation, `Date(timeIntervalSince1970: Double(time.millisecondsSince1970) / 1000)` is the same time.
public struct Timestamp: Hashable, Sendable {
    /// The milliseconds since 1970 (UTC); from 0 to the end of the year 9999.
    public let millisecondsSince1970: Int64

    /// Creates a time from milliseconds.
    ///
    /// - Parameter milliseconds: milliseconds since 1970 (UTC); times before 1970 and after the year 9999 are clamped.
    public init(millisecondsSince1970 milliseconds: Int64) {
        self.millisecondsSince1970 = min(max(milliseconds, 0), TimeText.range.upperBound * 1000 + 999)
    }

    /// Creates a time from seconds.
    ///
    /// - Parameter seconds: seconds since 1970 (UTC); times before 1970 and after the year 9999 are clamped.
    public init(secondsSince1970 seconds: Int64) {
        self.millisecondsSince1970 = min(max(seconds, 0), TimeText.range.upperBound) * 1000
    }

    /// The whole seconds since 1970 (UTC).
    public var secondsSince1970: Int64 { self.millisecondsSince1970 / 1000 }

    /// The present time of the system's clock.
    public static var now: Timestamp {
        var now = timespec()
        unsafe clock_gettime(CLOCK_REALTIME, &now)
        return Timestamp(millisecondsSince1970: Int64(now.tv_sec) * 1000 + Int64(now.tv_nsec) / 1_000_000)
    }
}

extension Timestamp: Comparable {
    /// Whether the first time is before the second.
    public static func < (left: Timestamp, right: Timestamp) -> Bool {
        left.millisecondsSince1970 < right.millisecondsSince1970
    }
}

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

// SPDX-License-Identifier: Apache-2.0

import Glibc

/// A point in time, in whole milliseconds since 1970-01-01 00:00 UTC.
///
/// `APNSWire` adds its text in ISO 8601 format.
///
/// With Foundation, `Date(timeIntervalSince1970: Double(time.millisecondsSince1970) / 1000)` is the same time.
public struct Timestamp: Hashable, Sendable {
    /// The last second of the year 9999, the last that ISO 8601 can express.
    private static let secondsMax: Int64 = 253_402_300_799

    /// The milliseconds since 1970 (UTC); from 0 to the end of the year 9999.
    public let millisecondsSince1970: Int64

    /// Creates a time from milliseconds.
    ///
    /// - Parameter milliseconds: milliseconds since 1970 (UTC); times before 1970 and after the year 9999 are clamped.
    public init(millisecondsSince1970 milliseconds: Int64) {
        self.millisecondsSince1970 = min(max(milliseconds, 0), Self.secondsMax * 1000 + 999)
    }

    /// Creates a time from seconds.
    ///
    /// - Parameter seconds: seconds since 1970 (UTC); times before 1970 and after the year 9999 are clamped.
    public init(secondsSince1970 seconds: Int64) {
        self.millisecondsSince1970 = min(max(seconds, 0), Self.secondsMax) * 1000
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

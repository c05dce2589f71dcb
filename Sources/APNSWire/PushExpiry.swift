// SPDX-License-Identifier: Apache-2.0

/// How long the service stores a notification for a device that is offline.
public struct PushExpiry: Hashable, Sendable {
    /// The value in the frame: seconds since 1970 (UTC), 0 for ``immediately``, `nil` for ``none``.
    public let wireValue: UInt32?

    /// Creates an expiry from the value in a frame.
    ///
    /// - Parameter wireValue: seconds since 1970 (UTC), 0 for ``immediately``, `nil` for ``none``.
    @inlinable
    public init(wireValue: UInt32?) { self.wireValue = wireValue }

    /// Omitted: the service stores the notification as long as it stores any, at most 30 days.
    @inlinable public static var none: PushExpiry { PushExpiry(wireValue: nil) }

    /// Not stored: a device that is offline does not receive the notification.
    @inlinable public static var immediately: PushExpiry { PushExpiry(wireValue: 0) }

    /// Stored until a time.
    ///
    /// - Parameter time: the time, of which parts of a second are omitted; the field ends in the year 2106, and later
    ///   times are clamped to its end.
    /// - Returns: the expiry.
    public static func at(_ time: Timestamp) -> PushExpiry { .at(secondsSince1970: time.secondsSince1970) }

    /// Stored until a time in seconds since 1970 (UTC).
    package static func at(secondsSince1970 seconds: Int64) -> PushExpiry {
        // 0 has another meaning than a time in the past.
        PushExpiry(wireValue: max(1, UInt32(clamping: seconds)))
    }

    /// Stored for a duration from a time; the result is rounded up to a whole second.
    package static func after(_ duration: Duration, from seconds: Int64) -> PushExpiry {
        let (whole, part) = duration.components
        let (sum, overflows) = seconds.addingReportingOverflow(part > 0 ? whole.advanced(byClamping: 1) : whole)
        return .at(secondsSince1970: overflows ? (whole < 0 ? .min : .max) : sum)
    }
}

extension PushExpiry: CustomStringConvertible {
    /// `none`, `immediately`, or the time in ISO 8601 format.
    public var description: String {
        switch self.wireValue {
        case nil: "none"
        case 0: "immediately"
        case .some(let seconds): ISO8601Time.text(Int64(seconds))
        }
    }
}

extension Int64 {
    fileprivate func advanced(byClamping distance: Int64) -> Int64 {
        let (sum, overflows) = self.addingReportingOverflow(distance)
        return overflows ? .max : sum
    }
}

// SPDX-License-Identifier: Apache-2.0

/// Until when the service keeps a notification for a device that is away.
public struct PushExpiry: Hashable, Sendable {
    /// What is on the wire: seconds since 1970 (UTC), 0 for ``immediately``, `nil` where nothing is said.
    public let wireValue: UInt32?

    /// Takes what is on the wire.
    ///
    /// - Parameter wireValue: seconds since 1970 (UTC), 0 for ``immediately``, `nil` for ``none``.
    @inlinable
    public init(wireValue: UInt32?) { self.wireValue = wireValue }

    /// No expiry is said: the service keeps it for as long as it keeps any, 30 days at most.
    @inlinable public static var none: PushExpiry { PushExpiry(wireValue: nil) }

    /// It is not kept: where the device is away, nobody gets it.
    @inlinable public static var immediately: PushExpiry { PushExpiry(wireValue: 0) }

    /// It is kept until a moment.
    ///
    /// - Parameter seconds: seconds since 1970-01-01 00:00 UTC; the wire has room for those until the year 2106, and
    ///   later ones become the last of them.
    /// - Returns: the expiry.
    public static func at(secondsSince1970 seconds: Int64) -> PushExpiry {
        // 0 would be another thing than a moment that has passed.
        PushExpiry(wireValue: max(1, UInt32(clamping: seconds)))
    }

    /// It is kept for so long from a moment on; parts of a second count as one.
    ///
    /// - Parameters:
    ///   - duration: how long.
    ///   - seconds: the moment, in seconds since 1970 (UTC).
    /// - Returns: the expiry.
    package static func after(_ duration: Duration, from seconds: Int64) -> PushExpiry {
        let (whole, part) = duration.components
        let (sum, overflows) = seconds.addingReportingOverflow(part > 0 ? whole.advanced(byClamping: 1) : whole)
        return .at(secondsSince1970: overflows ? (whole < 0 ? .min : .max) : sum)
    }
}

extension PushExpiry: CustomStringConvertible {
    /// `none`, `immediately`, or the moment as ISO 8601 has it.
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

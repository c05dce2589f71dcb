// SPDX-License-Identifier: Apache-2.0

/// Why a notification was rejected, in the terms of its protocol.
///
/// Later versions may add cases.
@nonexhaustive
public enum Rejection: Hashable, Sendable {
    /// The error response of a binary gateway.
    case binary(ErrorResponse.Status)
    /// The answer of the HTTP/2 provider API.
    case http2(PushRejection)

    /// The rejection for an app that was removed from the device, with the time if it is known.
    ///
    /// - Parameter time: when it was found removed; `nil` if that is unknown.
    /// - Returns: the answer of the HTTP/2 provider API.
    public static func unregistered(at time: Timestamp?) -> Rejection {
        .http2(PushRejection(status: 410, reason: .unregistered, timestamp: time))
    }

    /// The status of the error response, or of HTTP.
    public var statusCode: UInt16 {
        switch self {
        case .binary(let status): UInt16(status.rawValue)
        case .http2(let rejection): UInt16(clamping: rejection.status)
        }
    }

    /// The name of a status code, as in `invalid token` for 8; `nil` for an undocumented code.
    ///
    /// Codes up to 255 are those of error responses, others those of HTTP.
    ///
    /// - Parameter code: as in ``statusCode``.
    /// - Returns: the name.
    public static func statusText(_ code: UInt16) -> String? { Self.staticStatusText(code)?.description }

    /// ``statusText(_:)`` without an allocation.
    package static func staticStatusText(_ code: UInt16) -> StaticString? {
        if let status = UInt8(exactly: code) { return ErrorResponse.Status(rawValue: status).staticName }
        return switch code {
        case 400: "bad request"
        case 403: "forbidden"
        case 404: "not found"
        case 405: "method not allowed"
        case 410: "unregistered"
        case 413: "payload too large"
        case 429: "too many requests"
        case 500: "internal server error"
        case 503: "service unavailable"
        default: nil
        }
    }

    /// The reason in the answer of the HTTP/2 provider API; `nil` over the binary protocol, which has only a status.
    public var reason: PushReason? {
        switch self {
        case .binary: nil
        case .http2(let rejection): rejection.reason
        }
    }
}

/// An answer of the HTTP/2 provider API other than 200.
public struct PushRejection: Hashable, Sendable {
    /// The status of HTTP, 100 to 599.
    public var status: Int

    /// The reason that the service gave.
    public var reason: PushReason

    /// The number that the service sent with status 410: milliseconds since 1970 (UTC), or seconds, which some APNs
    /// emulators send, if it is below 10^11.
    package var timestampNumber: UInt64?

    /// With status 410, when the app was last found removed; otherwise `nil`.
    ///
    /// A time before March 1973 cannot be represented, since its milliseconds would be read as seconds.
    public var timestamp: Timestamp? {
        get { self.timestampNumber.map { Self.time($0) } }
        set { self.timestampNumber = newValue.map { UInt64($0.millisecondsSince1970) } }
    }

    /// How long the service asks to wait before another attempt, in whole seconds; `nil` if it does not.
    ///
    /// It is the value of the header `retry-after`, if that is a number.
    public var retryAfter: Duration? {
        get { self.retryAfterSeconds.map { .seconds(Int64($0)) } }
        set { self.retryAfterSeconds = newValue.map { UInt32(clamping: $0.components.seconds) } }
    }

    private var retryAfterSeconds: UInt32?

    /// Creates a rejection.
    ///
    /// - Parameters:
    ///   - status: the status of HTTP.
    ///   - reason: the reason that the service gave.
    ///   - timestamp: when the app was last found removed, with status 410.
    ///   - retryAfter: how long the service asks to wait.
    public init(status: Int, reason: PushReason, timestamp: Timestamp? = nil, retryAfter: Duration? = nil) {
        self.status = status
        self.reason = reason
        self.timestamp = timestamp
        self.retryAfter = retryAfter
    }

    /// Creates a rejection with the number that the service sent.
    package init(status: Int, reason: PushReason, timestampNumber: UInt64?) {
        self.init(status: status, reason: reason)
        self.timestampNumber = timestampNumber
    }

    /// The timestamp in seconds since 1970, whatever its unit.
    package var secondsSince1970: UInt64? { self.timestampNumber.map { Self.secondsSince1970($0) } }

    /// Converts a timestamp of the service, whatever its unit.
    private static func time(_ number: UInt64) -> Timestamp {
        number < self.millisecondsMin
            ? Timestamp(secondsSince1970: Int64(number))
            : Timestamp(millisecondsSince1970: Int64(clamping: number))
    }

    /// Converts a timestamp of the service, whatever its unit, to seconds since 1970.
    package static func secondsSince1970(_ timestamp: UInt64) -> UInt64 {
        timestamp < self.millisecondsMin ? timestamp : timestamp / 1000
    }

    /// As milliseconds, this is in 1973; as seconds, in the year 5138.
    private static let millisecondsMin: UInt64 = 100_000_000_000
}

extension Rejection: CustomStringConvertible {
    /// The status, and its name or the reason.
    public var description: String {
        switch self {
        case .binary(let status): status.description
        case .http2(let rejection): rejection.description
        }
    }
}

extension PushRejection: CustomStringConvertible {
    /// The status and the reason.
    public var description: String { "\(self.status) \(self.reason)" }
}

/// The keys are `status`, `reason` and, for values that are set, `timestamp` and `retryAfter`, in seconds.
extension PushRejection: Codable {
    private enum CodingKeys: String, CodingKey {
        case status, reason
        case timestampNumber = "timestamp"
        case retryAfterSeconds = "retryAfter"
    }
}

// SPDX-License-Identifier: Apache-2.0

/// What became of a request.
///
/// Every one that is handed to a client ends in exactly one of these. The words are those of the binary provider.
@nonexhaustive
public enum PushOutcome: Hashable, Sendable {
    /// The service answered 200.
    ///
    /// Do not send it again.
    case accepted

    /// The service answered something else.
    ///
    /// Whether to send it again depends on the reason.
    case rejected(PushRejection)

    /// Written, and no answer came.
    ///
    /// Whether to send it again is the caller's to decide: it may arrive twice, or it may have been lost.
    case indeterminate(PushTrouble)

    /// Never processed: proved to be discarded, or never left this process.
    ///
    /// Sending it again is safe.
    case unsent(PushTrouble)

    /// Refused here, before it was sent.
    ///
    /// It can be sent after repair.
    case invalid(InvalidReason)

    /// Why a request was refused before it was sent.
    @nonexhaustive
    public enum InvalidReason: Hashable, Sendable {
        /// The payload has no bytes.
        case payloadEmpty
        /// The payload has more bytes than the limit.
        case payloadTooLong(byteCount: Int, limit: Int)
        /// The value of the header of this name cannot be one.
        case header(String)
    }

    /// The outcome in one word, as the results file has it.
    public var name: String {
        switch self {
        case .accepted: "accepted"
        case .rejected: "rejected"
        case .indeterminate: "indeterminate"
        case .unsent: "unsent"
        case .invalid: "invalid"
        }
    }
}

/// An answer other than 200.
public struct PushRejection: Hashable, Sendable {
    /// The status of HTTP, 100 to 599.
    public var status: Int

    /// What the service gave as the reason.
    public var reason: PushReason

    /// When the app was last found to be gone, in milliseconds since 1970 (UTC), with status 410; else `nil`.
    ///
    /// Values below 10^11 are seconds, from fakes of the service.
    public var timestamp: UInt64?

    /// Makes a rejection.
    ///
    /// - Parameters:
    ///   - status: the status of HTTP.
    ///   - reason: what the service gave as the reason.
    ///   - timestamp: milliseconds since 1970, with status 410.
    public init(status: Int, reason: PushReason, timestamp: UInt64? = nil) {
        self.status = status
        self.reason = reason
        self.timestamp = timestamp
    }

    /// The timestamp in seconds since 1970, whatever its unit.
    public var secondsSince1970: UInt64? {
        self.timestamp.map { $0 < Self.millisecondsMin ? $0 : $0 / 1000 }
    }

    /// As milliseconds this is in 1973, as seconds in the year 5138.
    private static let millisecondsMin: UInt64 = 100_000_000_000
}

/// Why a request has no answer.
@nonexhaustive
public enum PushTrouble: Hashable, Sendable {
    /// It waited for its turn, or for the answer, for too long.
    case deadline
    /// The connection was lost; the text says how.
    case connectionLost(String)
    /// The service ended the request's stream with this code of HTTP/2.
    case streamReset(code: Int)
    /// The service refused the stream, went away before it, or did not take the whole of it, too often.
    case refusedTooOften
    /// The client, its certificate or its key is not permitted, and trying again would not help.
    case notPermitted(String)
    /// The service cannot be reached; the text is the last failure.
    case unavailable(String)
    /// The client ended, or the task was cancelled.
    case stopped
}

extension PushTrouble: CustomStringConvertible {
    /// What happened, in a few words.
    public var description: String {
        switch self {
        case .deadline: "no answer in time"
        case .connectionLost(let text): "the connection was lost: \(text)"
        case .streamReset(let code): "the service ended the stream with code \(code)"
        case .refusedTooOften: "the service refused it too often without a reason"
        case .notPermitted(let text): "not permitted: \(text)"
        case .unavailable(let text): "the service cannot be reached: \(text)"
        case .stopped: "the client ended"
        }
    }
}

/// What became of a request, and how.
public struct PushReport: Hashable, Sendable {
    /// The name of the request.
    public var identifier: PushIdentifier
    /// What became of it.
    public var outcome: PushOutcome
    /// On how many streams it was written; 0 where it never left this process.
    public var attempts: Int
    /// Whether it may have reached its device more than once.
    public var possibleDuplicate: Bool
    /// How long the service took to answer the last attempt; `nil` where it did not.
    public var latency: Duration?

    /// Makes a report.
    ///
    /// - Parameters:
    ///   - identifier: the name of the request.
    ///   - outcome: what became of it.
    ///   - attempts: on how many streams it was written.
    ///   - possibleDuplicate: whether it may have reached its device more than once.
    ///   - latency: how long the service took to answer the last attempt.
    public init(
        identifier: PushIdentifier,
        outcome: PushOutcome,
        attempts: Int,
        possibleDuplicate: Bool = false,
        latency: Duration? = nil
    ) {
        self.identifier = identifier
        self.outcome = outcome
        self.attempts = attempts
        self.possibleDuplicate = possibleDuplicate
        self.latency = latency
    }
}

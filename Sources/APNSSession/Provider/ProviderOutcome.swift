// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// What became of a notification.
///
/// Every one that is handed to a provider ends in exactly one of these.
@nonexhaustive
public enum Outcome: Hashable, Sendable {
    /// Proved: the gateway answered something later on the same connection.
    ///
    /// Do not send it again.
    case accepted

    /// The gateway named it and did not take it.
    ///
    /// Do not send it again. Where it is also a possible duplicate and the status is one that passes (1, 255), an
    /// earlier attempt may have been taken.
    case rejected(ErrorResponse.Status)

    /// Written, and the connection died without a word about it.
    ///
    /// Whether to send it again is the caller's to decide: it may arrive twice, or it may have been lost.
    case indeterminate

    /// Never processed: proved to be discarded, or never left this process.
    ///
    /// Sending it again is safe.
    case unsent

    /// Refused here, before it was sent.
    ///
    /// It can be sent after repair.
    case invalid(InvalidReason)

    /// Not sent, because its token is known to be dead, or was rejected earlier in the same run.
    case suppressed

    /// Why a notification was refused before it was sent.
    @nonexhaustive
    public enum InvalidReason: Hashable, Sendable {
        /// The payload has no bytes.
        case payloadEmpty
        /// The payload has more bytes than the limit.
        case payloadTooLong(byteCount: Int, limit: Int)
    }
}

extension Outcome {
    /// The outcome in one word, as the results file has it.
    public var name: String {
        switch self {
        case .accepted: "accepted"
        case .rejected: "rejected"
        case .indeterminate: "indeterminate"
        case .unsent: "unsent"
        case .invalid: "invalid"
        case .suppressed: "suppressed"
        }
    }
}

/// The outcome of notifications that followed one another.
public struct Settlement: Hashable, Sendable {
    /// Which ones, by their sequence numbers.
    public var numbers: Range<UInt64>

    /// What became of each of them.
    public var outcome: Outcome

    /// On how many connections each of them was written; 0 where none left this process.
    public var attempts: Int

    /// Whether each of them may have reached its device more than once.
    public var possibleDuplicate: Bool

    /// Makes a settlement.
    ///
    /// - Parameters:
    ///   - numbers: which notifications.
    ///   - outcome: what became of each.
    ///   - attempts: on how many connections each was written.
    ///   - possibleDuplicate: whether each may have arrived more than once.
    public init(numbers: Range<UInt64>, outcome: Outcome, attempts: Int, possibleDuplicate: Bool) {
        self.numbers = numbers
        self.outcome = outcome
        self.attempts = attempts
        self.possibleDuplicate = possibleDuplicate
    }
}

// SPDX-License-Identifier: Apache-2.0

public import APNSPayload

/// What became of a notification, whichever protocol it went over.
///
/// Every one that is handed over to be sent ends in exactly one of these.
///
/// There may be more in later versions.
@nonexhaustive
public enum DeliveryOutcome: Hashable, Sendable {
    /// Proved: the service answered 200, or the binary gateway something later on the same connection.
    ///
    /// Do not send it again.
    case accepted

    /// It was not taken, and this is why.
    ///
    /// Over the binary protocol, do not send it again. Where it is also a possible duplicate and the status is one that
    /// passes (1, 255), an earlier attempt may have been taken. Over HTTP/2, the reason says whether to send it again.
    case rejected(Rejection)

    /// Written, and no answer came; `nil` where no more is known than that.
    ///
    /// Whether to send it again is the caller's to decide: it may arrive twice, or it may have been lost.
    case indeterminate(Reason?)

    /// Never processed: proved to be discarded, or never left this process; `nil` where no more is known than that.
    ///
    /// Sending it again is safe.
    case unsent(Reason?)

    /// Refused here, before it was sent.
    ///
    /// It can be sent after repair.
    case invalid(InvalidReason)

    /// Not sent, because its token is known to be dead, or was rejected earlier in the same run.
    case suppressed
}

extension DeliveryOutcome {
    /// Why a notification was refused before it was sent.
    ///
    /// There may be more in later versions.
    @nonexhaustive
    public enum InvalidReason: Hashable, Sendable {
        /// The payload has no bytes.
        case payloadEmpty
        /// The payload has more bytes than the limit.
        case payloadTooLong(byteCount: Int, limit: Int)
        /// The payload did not pass its check; this says what is wrong, and where.
        indirect case payload(PayloadProblem)
        /// The topic cannot be the value of a header of HTTP/2.
        case topic
        /// The push type cannot be the value of a header of HTTP/2.
        case pushType
        /// The collapse identifier is too long, or cannot be the value of a header of HTTP/2.
        case collapseIdentifier
    }

    /// Why nobody knows whether a notification was taken, or why it was not sent.
    ///
    /// There may be more in later versions.
    @nonexhaustive
    public enum Reason: Hashable, Sendable {
        /// It waited for its turn, or for the answer, for too long.
        case deadline
        /// The connection was lost.
        case connectionLost(ConnectionFailure)
        /// The service ended the request's stream with this code of HTTP/2.
        case streamReset(code: Int)
        /// The service refused the stream, went away before it, or did not take the whole of it, too often.
        case refusedTooOften
        /// The sender, its certificate or its key is not permitted, and trying again would not help.
        case notPermitted(ConnectionFailure)
        /// The service cannot be reached; this was the last failure.
        case unavailable(ConnectionFailure)
        /// Sending ended, or the task was cancelled.
        case stopped
        /// The service did not take it, with an answer that says nothing against the notification: it has trouble, or
        /// does not let this sender in.
        case serviceAnswer(PushRejection)
    }

    /// An outcome without its reasons: what is counted, and named in results.
    ///
    /// There may be more in later versions.
    @nonexhaustive
    public enum Kind: UInt8, Hashable, Sendable, CaseIterable {
        /// Proved to be taken.
        case accepted
        /// Not taken.
        case rejected
        /// Written, and nobody knows more.
        case indeterminate
        /// Never processed.
        case unsent
        /// Refused here, before sending.
        case invalid
        /// Its token is known to be dead.
        case suppressed

        /// The name in results and metrics.
        @inlinable public var name: StaticString {
            switch self {
            case .accepted: "accepted"
            case .rejected: "rejected"
            case .indeterminate: "indeterminate"
            case .unsent: "unsent"
            case .invalid: "invalid"
            case .suppressed: "suppressed"
            }
        }

        /// Reads a name; `nil` where it is none.
        ///
        /// - Parameter name: as ``name`` has it.
        package init?(name: some StringProtocol) {
            guard let kind = Self.allCases.first(where: { name == "\($0.name)" }) else { return nil }
            self = kind
        }
    }

    /// The outcome without its reasons.
    @inlinable public var kind: Kind {
        switch self {
        case .accepted: .accepted
        case .rejected: .rejected
        case .indeterminate: .indeterminate
        case .unsent: .unsent
        case .invalid: .invalid
        case .suppressed: .suppressed
        }
    }

    /// The status of a rejection, as the results file has it; `nil` where nothing was rejected.
    public var rejectionStatusCode: UInt16? {
        if case .rejected(let rejection) = self { rejection.statusCode } else { nil }
    }

    /// Whether the service says that the token is none any more, so that a caller may delete it: status 8, status 410,
    /// or `BadDeviceToken`.
    ///
    /// The service says the same of tokens of the other environment: where many in a row are dead, suspect that first.
    public var isDeadToken: Bool {
        guard case .rejected(let rejection) = self else { return false }
        return switch rejection.tokenFault(now: .max) {
        case .dead, .invalid: true
        case .foreign, nil: false
        }
    }

    /// The outcome in one word, as the results file has it.
    public var name: String { "\(self.kind.name)" }
}

extension DeliveryOutcome.Reason: CustomStringConvertible {
    /// What happened, in a few words.
    public var description: String {
        switch self {
        case .deadline: "no answer in time"
        case .connectionLost(let failure): "the connection was lost: \(failure)"
        case .streamReset(let code): "the service ended the stream with code \(code)"
        case .refusedTooOften: "the service refused it too often without a reason"
        case .notPermitted(let failure): "not permitted: \(failure)"
        case .unavailable(let failure): "the service cannot be reached: \(failure)"
        case .stopped: "the client ended"
        case .serviceAnswer(let rejection): "\(Rejection.http2(rejection))"
        }
    }
}

extension DeliveryOutcome.InvalidReason: CustomStringConvertible {
    /// What is wrong, in a few words.
    public var description: String {
        switch self {
        case .payloadEmpty: "the payload is empty"
        case .payloadTooLong(let byteCount, let limit): "the payload has \(byteCount) bytes, the limit is \(limit)"
        case .payload(let problem): "invalid payload, \(problem)"
        case .topic: "the topic cannot be sent in a header"
        case .pushType: "the push type cannot be sent in a header"
        case .collapseIdentifier: "the collapse identifier is too long, or cannot be sent in a header"
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

public import APNSPayload

/// The outcome of a notification, over either protocol.
///
/// Each notification handed over for sending ends in exactly one outcome.
///
/// Later versions may add cases.
@nonexhaustive
public enum DeliveryOutcome: Hashable, Sendable {
    /// Verified: the service answered 200, or the binary gateway confirmed it by an answer to something sent later.
    ///
    /// Do not send it again.
    case accepted

    /// The service rejected it, for this reason.
    ///
    /// ``retryAdvice`` tells whether to send it again. Over the binary protocol, it is not: if it is a possible
    /// duplicate and its status is temporary (1, 255), an earlier attempt may have been accepted.
    case rejected(Rejection)

    /// Written, but never answered; the reason is `nil` if it is unknown.
    ///
    /// The caller decides whether to send it again: it may arrive twice, or it may have been lost.
    case indeterminate(Reason?)

    /// Never processed: verified as discarded, or never sent by this process; the reason is `nil` if it is unknown.
    ///
    /// Sending it again is safe.
    case unsent(Reason?)

    /// Refused locally, before it was sent.
    ///
    /// It can be sent once corrected.
    case invalid(InvalidReason)

    /// Not sent, because its token is known to be dead or was rejected earlier in the same run; in a gateway, because
    /// it was delivered before its provider was asked to send it again.
    case suppressed
}

extension DeliveryOutcome {
    /// Why a notification was refused before it was sent.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum InvalidReason: Hashable, Sendable {
        /// The payload has no bytes.
        case payloadEmpty
        /// The payload has more bytes than the limit.
        case payloadTooLong(byteCount: Int, limit: Int)
        /// The payload did not pass its check; the problem describes what is wrong and where.
        indirect case payload(PayloadProblem)
        /// The topic is not a valid header value of HTTP/2.
        case topic
        /// The push type is not a valid header value of HTTP/2.
        case pushType
        /// The collapse identifier is too long, or not a valid header value of HTTP/2.
        case collapseID
        /// The expiry is not immediate, although the broadcast channel stores no message.
        case expiry
        /// The payload of a broadcast is not of a Live Activity.
        case liveActivityMissing
        /// The payload fits several push types, of which none is set: it reloads either widgets or controls.
        case pushTypeUnclear
        /// The push type requires other topics than that of the notification, the configuration or the certificate.
        case topicNotForPushType(PushType)
        /// Another reason, as text: of a later version, or decoded from a text only.
        case other(String)
    }

    /// Why it is unknown whether a notification was accepted, or why it was not sent.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Reason: Hashable, Sendable {
        /// It waited too long for its turn or for the answer.
        case deadline
        /// The task that waited for its outcome was cancelled.
        case cancelled
        /// The connection was lost.
        case connectionLost(ConnectionFailure)
        /// The service reset the request's stream with this HTTP/2 error code.
        case streamReset(code: Int)
        /// The service began to answer with status 200, and did not end the answer, or it answered with another
        /// status of success, 201 to 299: it most likely accepted the notification.
        case acceptanceIncomplete
        /// The service refused the stream, closed the connection before it, or stopped reading the request, too many
        /// times.
        case refusedTooOften
        /// The sender, its certificate or its key is not permitted, and another attempt would not help.
        case notPermitted(ConnectionFailure)
        /// The service cannot be reached; this was the last failure.
        case unavailable(ConnectionFailure)
        /// Sending ended: the client was stopped, or the task that ran it was cancelled.
        case stopped
        /// The service refused it for a reason that is not the notification's fault: the service has a problem, or
        /// rejects this sender.
        case serviceResponse(PushRejection)
        /// Another reason, as text: of a later version, or decoded from a text only.
        case other(String)
    }

    /// An outcome without its reason, for counters and results.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Kind: UInt8, Hashable, Sendable, CaseIterable {
        /// Verified as accepted.
        case accepted
        /// Rejected by the service.
        case rejected
        /// Written, with an unknown outcome.
        case indeterminate
        /// Never processed.
        case unsent
        /// Refused locally, before it was sent.
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

        /// Parses a name; `nil` if it is unknown.
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

    /// The status of a rejection, as in the results file; `nil` for other outcomes.
    public var rejectionStatusCode: UInt16? {
        if case .rejected(let rejection) = self { rejection.statusCode } else { nil }
    }

    /// Whether the service reports that the token is no longer valid, so that a caller may delete it: status 8, status
    /// 410, or `BadDeviceToken`.
    ///
    /// The service answers the same for tokens of the other environment: if many in a row are dead, check that first.
    public var isDeadToken: Bool {
        guard case .rejected(let rejection) = self else { return false }
        return switch rejection.tokenFault(now: .max) {
        case .dead, .invalid: true
        case .foreign, nil: false
        }
    }

    /// The outcome in one word, as in the results file.
    public var name: String { "\(self.kind.name)" }
}

extension DeliveryOutcome.Reason: CustomStringConvertible {
    /// What happened, in a few words.
    public var description: String {
        switch self {
        case .deadline: "the deadline passed"
        case .cancelled: "the task was cancelled"
        case .connectionLost(let failure): "the connection was lost: \(failure)"
        case .streamReset(let code): "the service ended the stream with code \(code)"
        case .acceptanceIncomplete: "the service answered with success, but not with a complete 200"
        case .refusedTooOften: "the service refused it too many times without a reason"
        case .notPermitted(let failure): "not permitted: \(failure)"
        case .unavailable(let failure): "the service cannot be reached: \(failure)"
        case .stopped: "the client ended"
        case .serviceResponse(let rejection): "\(Rejection.http2(rejection))"
        case .other(let text): text
        }
    }
}

extension DeliveryOutcome.InvalidReason: CustomStringConvertible {
    /// What is wrong, in a few words.
    public var description: String {
        switch self {
        case .payloadEmpty: "the payload is empty"
        case .payloadTooLong(let byteCount, let limit): "the payload has \(byteCount) bytes, the limit is \(limit)"
        case .payload(let problem): "invalid payload: \(problem)"
        case .topic: "the topic cannot be sent in a header"
        case .pushType: "the push type cannot be sent in a header"
        case .collapseID: "the collapse identifier is too long, or cannot be sent in a header"
        case .expiry: "the channel stores no message, so the expiry must be immediate"
        case .liveActivityMissing:
            "the payload is not of a Live Activity: aps has neither content-state nor event and timestamp"
        case .pushTypeUnclear: "the payload is for widgets or controls; set the push type"
        case .topicNotForPushType(let type):
            TopicFamily(requiredBy: type).map { "push type \(type) requires a topic that \($0.condition)" }
                ?? "the topic is not for push type \(type)"
        case .other(let text): text
        }
    }
}

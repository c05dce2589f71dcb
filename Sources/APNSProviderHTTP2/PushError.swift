// SPDX-License-Identifier: Apache-2.0

public import APNSWire
public import OpenSSLTLS

/// Why a client as a whole does not go on.
///
/// What became of each request is an outcome, not an error.
@nonexhaustive
public enum PushError: Error, Hashable, Sendable {
    /// The configuration cannot be used; the text says what and why.
    case configuration(String)
    /// The TLS configuration, a certificate or a key cannot be used.
    case tls(TLSError)
    /// The service does not permit it, and trying again would not help.
    case notPermitted(ConnectionFailure)
    /// The service cannot be reached, after as many tries as are allowed; this was the last failure.
    case unavailable(ConnectionFailure)
    /// The service answered this, as it would to every notification of the sender: its credentials or its topic are
    /// not permitted.
    case senderRefused(PushRejection)
    /// The service answered this, time after time, and nothing else.
    case serviceTrouble(PushRejection)
    /// So many tokens in a row were rejected as invalid, and none was accepted in between: tokens of the other
    /// environment?
    case tooManyInvalidTokens(count: Int)
    /// `run` was called a second time.
    case alreadyRan
}

extension PushError: CustomStringConvertible {
    /// What happened, and what to do.
    public var description: String {
        switch self {
        case .configuration(let text): text
        case .tls(let error): "\(error)"
        case .notPermitted(let failure): "The push service does not permit it: \(failure)"
        case .unavailable(let failure): "The push service cannot be reached. The last failure: \(failure)"
        case .senderRefused(let answer):
            "The service does not permit it: \(DeliveryOutcome.Reason.serviceAnswer(answer))."
        case .serviceTrouble(let answer):
            "The service has trouble: it answers \(DeliveryOutcome.Reason.serviceAnswer(answer))."
        case .tooManyInvalidTokens(let count):
            "\(count) tokens in a row were rejected as invalid, and none was accepted in between. Are they tokens of "
                + "the other environment or of another app?"
        case .alreadyRan: "It runs once; make a new one."
        }
    }
}

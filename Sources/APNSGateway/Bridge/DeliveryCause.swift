// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// Why the delivery of a notification ended, as named in logs and metrics.
///
/// Several causes have the same outcome.
enum DeliveryCause: String, CaseIterable, Sendable {
    case accepted, dead, rejected
    /// Too much was sent to its token, until the retry budget was spent or the notification expired.
    case throttled
    /// Given up without knowing whether the service accepted it.
    case unknown
    case misconfigured
    case gatewayFault = "gateway-fault"
    case credentialFault = "credential-fault"
    case budgetSpent = "budget-spent"
    /// Rejected without an error response, as configured.
    case ignored
    /// Not retried, because an error response asks its provider to resend it.
    case leftToResend = "left-to-resend"
    /// Not delivered again, because it was delivered before its provider was asked to resend it.
    case resent
    /// The same, with another expiry than before.
    case resentWithNewExpiry = "resent-new-expiry"
}

extension ResponseClass {
    /// Returns the final outcome of a notification for its provider, and the cause.
    func outcome(isUnknown: Bool, isRepeatable: Bool) -> (outcome: DeliveryOutcome, cause: DeliveryCause) {
        switch self {
        case .accepted: (.accepted, .accepted)
        case .dead(let time): (.rejected(.unregistered(at: time)), .dead)
        case .rejected(let status): (.rejected(.binary(status)), .rejected)
        case .misconfigured(let status): (.rejected(.binary(status)), .misconfigured)
        // The notification is as good as any other, but the protocol has no status for a gateway fault.
        case .requestFault: (.rejected(.binary(.processingError)), .gatewayFault)
        case .credentialFault:
            (
                .unsent(.notPermitted(ConnectionFailure(.identity, "the service does not accept the credentials"))),
                .credentialFault
            )
        case .unconfirmed: (.indeterminate(nil), .unknown)
        // The protocol cannot express uncertainty: "accepted" could hide a loss, "not accepted" a duplicate. Where the
        // gateway itself repeats requests, the provider's resend is one more attempt, and the log has the duplicate.
        case .transient where isUnknown: (isRepeatable ? .unsent(.deadline) : .indeterminate(nil), .unknown)
        // The service did not accept it, so the provider must not believe that it did. Expiry makes no difference: the
        // provider would resend it at once, and the service itself drops what has expired.
        case .transient(.throttled): (.unsent(.deadline), .throttled)
        case .transient: (.unsent(.deadline), .budgetSpent)
        }
    }
}

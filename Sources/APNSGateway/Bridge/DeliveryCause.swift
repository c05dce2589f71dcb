// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// Why the way of a notification to the service ended as it did, in the words of logs and metrics.
///
/// Several causes have the same outcome.
enum DeliveryCause: String, CaseIterable, Sendable {
    case accepted, dead, rejected
    /// Not delivered until the budget was spent or the notification expired, because too much went to its token.
    case throttled
    /// Given up while it is not known whether the service took it.
    case unknown
    case misconfigured
    case gatewayFault = "gateway-fault"
    case credentialFault = "credential-fault"
    case budgetSpent = "budget-spent"
    /// Rejected, which the provider is not told, as its configuration has it.
    case ignored
    /// Not tried again, because its provider was told to send it again.
    case leftToResend = "left-to-resend"
    /// Not delivered again, because it was delivered before the provider was told to send it again.
    case resent
}

extension ResponseMeaning {
    /// What a notification came to that is not tried again, as far as its provider is concerned, and why.
    ///
    /// - Parameter isUnknown: whether an attempt may have been processed without an answer.
    /// - Returns: the outcome and its cause.
    func ending(isUnknown: Bool) -> (outcome: DeliveryOutcome, cause: DeliveryCause) {
        switch self {
        case .accepted: (.accepted, .accepted)
        case .dead(let time): (.rejected(.unregistered(at: time)), .dead)
        case .rejected(let status): (.rejected(.binary(status)), .rejected)
        case .misconfigured(let status): (.rejected(.binary(status)), .misconfigured)
        // The provider's notification is as good as any other; it cannot be told that.
        case .requestFault: (.rejected(.binary(.processingError)), .gatewayFault)
        case .credentialFault:
            (
                .unsent(.notPermitted(ConnectionFailure(.identity, "the service does not accept the credentials"))),
                .credentialFault
            )
        // The protocol has no word for what nobody knows: "taken" could hide a loss, and "not taken" a second delivery.
        case .passing where isUnknown: (.indeterminate(nil), .unknown)
        // The service did not take it, so the provider must not believe that it did. Its expiry changes nothing: told
        // as not taken it would come again at once, and the service itself drops what has expired.
        case .passing(.throttled): (.unsent(.deadline), .throttled)
        case .passing: (.unsent(.deadline), .budgetSpent)
        }
    }
}

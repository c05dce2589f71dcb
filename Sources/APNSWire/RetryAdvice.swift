// SPDX-License-Identifier: Apache-2.0

/// Whether to send a notification again.
///
/// It is one rule for both protocols, and that of the command `send`: another run with the same journal sends again
/// what is ``safe`` or ``later(after:)``, and with at-least-once delivery also what ``mayDuplicate``.
///
/// Later versions may add cases.
@nonexhaustive
public enum RetryAdvice: Hashable, Sendable {
    /// It was not processed: send it again as soon as its reason no longer applies; it cannot arrive twice.
    case safe

    /// It may have been processed: if you send it again, it may arrive twice.
    case mayDuplicate

    /// It was not processed, because the service has a problem or limits the rate: send it again after a delay, which
    /// is `nil` unless the service gave one.
    case later(after: Duration?)

    /// It was accepted, or would not be accepted the next time either.
    case never
}

extension DeliveryOutcome {
    /// Whether to send the notification again.
    ///
    /// `DeliveryReport.retryAdvice` also takes earlier attempts into account.
    public var retryAdvice: RetryAdvice {
        switch self {
        case .accepted, .suppressed, .invalid: .never
        case .rejected(let rejection): rejection.retryAdvice
        case .indeterminate: .mayDuplicate
        case .unsent(.serviceResponse(let answer)): Rejection.http2(answer).delay ?? .safe
        case .unsent: .safe
        }
    }
}

extension Rejection {
    /// Whether to send a notification with this rejection again.
    fileprivate var retryAdvice: RetryAdvice {
        ResponseClass(self, now: .max).isNotificationAtFault ? .never : self.delay ?? .safe
    }

    /// The advice to wait; `nil` if another attempt may succeed sooner.
    fileprivate var delay: RetryAdvice? {
        guard case .http2(let answer) = self else { return nil }
        return switch ResponseClass(self, now: .max) {
        case .transient(.trouble), .transient(.throttled), .transient(.providerTokenRate):
            .later(after: answer.retryAfter)
        default: nil
        }
    }
}

extension DeliveryOutcome.Kind {
    /// Whether another run of a batch sends it again, by the rule of ``RetryAdvice``.
    ///
    /// A batch has no rejections that are the service's fault: they are unsent.
    package func isSentAgain(withDuplicates: Bool) -> Bool {
        self == .unsent || withDuplicates && self == .indeterminate
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSWire
import Glibc
import NIOConcurrencyHelpers

/// Decides how to handle the answers to a batch: applies the ``RetryState`` of each notification, and detects when
/// sending cannot succeed.
final class ResponseClassifier: Sendable {
    /// What to do about an outcome.
    enum Decision: Equatable {
        /// Settle the notification with this outcome.
        case settle(DeliveryOutcome)
        /// Send it again after a delay.
        case sendAgain(after: Duration)
    }

    private struct State {
        var invalidTokenRunCount = 0
        /// The number of notifications with an answer other than a problem of the service.
        var answeredCount: UInt64 = 0
        var failure: ProviderError?
        var isConnectionLost = false
    }

    private let invalidTokenRunCountMax: Int
    private let rules: RetryRules
    private let state = NIOLockedValueBox(State())

    /// - Parameters:
    ///   - invalidTokenRunCountMax: the number of consecutive tokens rejected as invalid after which the batch ends; 0
    ///     for no limit.
    ///   - rules: the limits and delays of attempts.
    init(invalidTokenRunCountMax: Int, rules: RetryRules) {
        self.invalidTokenRunCountMax = invalidTokenRunCountMax
        self.rules = rules
    }

    /// Why no more are sent.
    var failure: ProviderError? { self.state.withLockedValue(\.failure) }

    /// Records that a connection could not be opened, or ended before its first answer.
    func loseConnection() { self.state.withLockedValue { $0.isConnectionLost = true } }

    /// Whether the service has sent nothing since a connection failed.
    var isConnectionLost: Bool { self.state.withLockedValue(\.isConnectionLost) }

    /// Decides how to handle the outcome of an attempt.
    ///
    /// - Parameters:
    ///   - outcome: the outcome.
    ///   - push: the request; if it is to be sent again, it is updated for the next attempt.
    /// - Returns: what to do.
    func classify(_ outcome: DeliveryOutcome, of push: inout PendingPush) -> Decision {
        switch outcome {
        case .accepted:
            self.state.withLockedValue { state in
                state.answeredCount += 1
                state.invalidTokenRunCount = 0
                state.isConnectionLost = false
            }
            return .settle(.accepted)
        case .rejected(let rejection): return self.classify(rejection, of: &push)
        case .indeterminate, .unsent, .invalid, .suppressed: return .settle(outcome)
        }
    }

    private func classify(_ rejection: Rejection, of push: inout PendingPush) -> Decision {
        let answeredCount = self.state.withLockedValue { state in
            state.isConnectionLost = false
            return state.answeredCount
        }
        guard case .http2(let answer) = rejection else { return .settle(.rejected(rejection)) }
        let now = UInt32(clamping: time(nil))
        let meaning = ResponseMeaning(rejection, topic: push.submission.request.topic, now: now)
        let answeredCountThen = push.answeredCountThen ?? answeredCount
        switch push.retries.receive(meaning, self.rules, jitter: .random(in: 0...1)) {
        case .sendAgain(let pause, _):
            push.retries.postpone()
            push.answeredCountThen = answeredCountThen
            return .sendAgain(after: pause)
        case .end(.misconfigured), .end(.credentialFault): self.fail(.senderRefused(answer))
        case .end(.transient(let cause)):
            if cause != .throttled, answeredCount == answeredCountThen { self.fail(.serviceTrouble(answer)) }
        case .end(.accepted), .end(.dead), .end(.rejected), .end(.requestFault), .end(.unconfirmed):
            self.countRejection(rejection.tokenFault(now: now))
            return .settle(.rejected(rejection))
        }
        return .settle(push.unprocessed(.serviceAnswer(answer)))
    }

    private func countRejection(_ fault: TokenFault?) {
        self.state.withLockedValue { state in
            state.answeredCount += 1
            guard fault == .invalid || fault == .foreign, self.invalidTokenRunCountMax > 0 else { return }
            state.invalidTokenRunCount += 1
            guard state.invalidTokenRunCount >= self.invalidTokenRunCountMax, state.failure == nil else { return }
            state.failure = .tooManyInvalidTokens(count: state.invalidTokenRunCount)
        }
    }

    private func fail(_ error: ProviderError) { self.state.withLockedValue { $0.failure = $0.failure ?? error } }
}

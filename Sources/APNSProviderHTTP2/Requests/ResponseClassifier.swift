// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSWire
import Glibc
import NIOConcurrencyHelpers

/// Decides what the answers to a batch lead to: carries out what each notification's ``RetryState`` says, and finds out
/// where going on is of no use.
final class ResponseClassifier: Sendable {
    /// What to do about an outcome.
    enum Decision: Equatable {
        /// The notification has this outcome.
        case settle(DeliveryOutcome)
        /// Send it again after a pause.
        case sendAgain(after: Duration)
    }

    private struct State {
        var invalidTokenRunCount = 0
        /// Notifications that the service said something else about than that it has trouble.
        var answeredCount: UInt64 = 0
        var failure: ProviderError?
        var isConnectionLost = false
    }

    private let invalidTokenRunCountMax: Int
    private let rules: RetryRules
    private let state = NIOLockedValueBox(State())

    /// - Parameters:
    ///   - invalidTokenRunCountMax: after how many tokens in a row that are rejected as invalid the batch ends; 0 for
    ///     never.
    ///   - rules: how often a notification is sent, and how long to wait in between.
    init(invalidTokenRunCountMax: Int, rules: RetryRules) {
        self.invalidTokenRunCountMax = invalidTokenRunCountMax
        self.rules = rules
    }

    /// Why no more are sent.
    var failure: ProviderError? { self.state.withLockedValue(\.failure) }

    /// A connection could not be opened, or ended before the service answered anything.
    func loseConnection() { self.state.withLockedValue { $0.isConnectionLost = true } }

    /// Whether nothing was heard from the service since a connection failed.
    var isConnectionLost: Bool { self.state.withLockedValue(\.isConnectionLost) }

    /// Decides what to do about the outcome of an attempt.
    ///
    /// - Parameters:
    ///   - outcome: what came of it.
    ///   - push: what was sent; where it is to be sent again, it is as it is to be then.
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
            push.retries.putOff()
            push.answeredCountThen = answeredCountThen
            return .sendAgain(after: pause)
        case .end(.misconfigured), .end(.credentialFault): self.fail(.senderRefused(answer))
        case .end(.passing(let passing)):
            if passing != .throttled, answeredCount == answeredCountThen { self.fail(.serviceTrouble(answer)) }
        case .end(.accepted), .end(.dead), .end(.rejected), .end(.requestFault):
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

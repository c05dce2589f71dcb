// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Glibc
import NIOConcurrencyHelpers

/// Decides what the answers to a batch lead to: which notifications have their outcome, which are to be sent again, and
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
        var failure: PushError?
        var isConnectionLost = false
    }

    /// The longest pause before a notification is sent again.
    static let delayMax = Duration.seconds(15)

    private let invalidTokenRunCountMax: Int
    private let tryCountMax: Int
    private let backoff: Backoff
    private let state = NIOLockedValueBox(State())

    /// - Parameters:
    ///   - invalidTokenRunCountMax: after how many tokens in a row that are rejected as invalid the batch ends; 0 for
    ///     never.
    ///   - tryCountMax: how often a notification is sent that the service puts off.
    ///   - backoff: how long to wait in between.
    init(invalidTokenRunCountMax: Int, tryCountMax: Int, backoff: Backoff) {
        self.invalidTokenRunCountMax = invalidTokenRunCountMax
        self.tryCountMax = tryCountMax
        self.backoff = backoff
    }

    /// Why no more are sent.
    var failure: PushError? { self.state.withLockedValue(\.failure) }

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
        self.state.withLockedValue { $0.isConnectionLost = false }
        guard case .http2(let answer) = rejection else { return .settle(.rejected(rejection)) }
        let now = UInt32(clamping: time(nil))
        switch ResponseMeaning(rejection, topic: push.submission.request.topic, now: now) {
        case .passing(.providerToken), .passing(.connection), .misconfigured, .credentialFault:
            // The worker tried another provider token and another connection where these may help.
            self.fail(.senderRefused(answer))
            return .settle(push.unprocessed(.serviceAnswer(answer)))
        case .passing(.header), .accepted, .dead, .rejected, .requestFault:
            self.countRejection(rejection.tokenFault(now: now))
            return .settle(.rejected(rejection))
        case .passing(let passing): return self.putOff(&push, answer, isAboutService: passing != .throttled)
        }
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

    /// The service asks to come again later.
    private func putOff(_ push: inout PendingPush, _ answer: PushRejection, isAboutService: Bool) -> Decision {
        let answeredCount = self.state.withLockedValue(\.answeredCount)
        let later = push.putOff(answeredCount: answeredCount)
        guard later.putOffCount >= self.tryCountMax else {
            push = later
            return .sendAgain(after: self.backoff.delay(failures: later.putOffCount, jitter: .random(in: 0...1)))
        }
        if isAboutService, answeredCount == later.answeredCountThen { self.fail(.serviceTrouble(answer)) }
        return .settle(push.unprocessed(.serviceAnswer(answer)))
    }

    private func fail(_ error: PushError) { self.state.withLockedValue { $0.failure = $0.failure ?? error } }
}

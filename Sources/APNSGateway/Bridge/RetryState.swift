// SPDX-License-Identifier: Apache-2.0

import APNSHTTP2
import APNSSession
import APNSWire

/// One notification on its way to the service, with all tries that it takes: decides what an answer leads to.
struct RetryState: Hashable, Sendable {
    /// What to do about an answer.
    enum OnAnswer: Hashable {
        /// It is over.
        case end(RetryOutcome)
        /// Send the request again after this time, under the same `apns-id`.
        case sendAgain(after: Duration)
    }

    private let rules: RetryRules
    private let startedAt: Duration
    private var failureCount = 0
    private var isProviderTokenReplaced = false
    /// Whether a try of it may have been processed without an answer.
    private(set) var isUnknown = false
    /// Headers that were left out because the service did not like them.
    private(set) var omitted: Set<AnswerMeaning.Header> = []

    init(rules: RetryRules, now: Duration) {
        self.rules = rules
        self.startedAt = now
    }

    /// Takes the answer to the newest try.
    ///
    /// - Parameters:
    ///   - answer: what came.
    ///   - request: what was asked for; a header that the service does not like is taken out of it.
    ///   - now: the time since any fixed point.
    ///   - date: the time in seconds since 1970 (UTC).
    ///   - jitter: a random number, 0 to 1.
    ///   - rules: what answers mean.
    /// - Returns: what to do.
    mutating func receive(
        _ answer: UpstreamAnswer,
        to request: inout PushRequest,
        now: Duration,
        date: UInt32,
        jitter: Double,
        rules: BridgeRules = .exact
    ) -> OnAnswer {
        switch rules.meaning(AnswerMeaning(answer, topic: request.topic, now: date)) {
        case .accepted: return .end(.accepted)
        case .dead(let time): return .end(RetryOutcome(.dead, .dead, deadSince: time))
        case .rejected(let status): return .end(.rejected(status, .rejected))
        case .misconfigured(let status): return .end(.rejected(status, .misconfigured))
        case .gatewayFault: return .end(.rejected(1, .gatewayFault))
        case .credentialFault: return .end(RetryOutcome(.notPermitted, .credentialFault))
        case .passing(let passing):
            return self.receive(passing, to: &request, now: now, jitter: jitter)
        }
    }

    private mutating func receive(
        _ passing: AnswerMeaning.Passing,
        to request: inout PushRequest,
        now: Duration,
        jitter: Double
    ) -> OnAnswer {
        switch passing {
        case .header(let header):
            guard self.omitted.insert(header).inserted else { return .end(.rejected(1, .gatewayFault)) }
            switch header {
            case .priority: request.priority = nil
            case .pushType: request.pushType = nil
            }
            return .sendAgain(after: .zero)
        case .providerToken:
            // The client makes a new one; if that is refused as well, the clocks disagree.
            guard !self.isProviderTokenReplaced else { return .end(RetryOutcome(.notPermitted, .credentialFault)) }
            self.isProviderTokenReplaced = true
            return .sendAgain(after: .zero)
        case .throttled:
            // The service did not take it, so the provider must not believe that it did. Its expiry changes nothing:
            // told as not taken it would come again at once, and the service itself drops what has expired.
            guard let wait = self.wait(now: now, jitter: jitter) else {
                return .end(self.isUnknown ? .unknown : RetryOutcome(.serviceFault, .throttled))
            }
            return .sendAgain(after: wait)
        case .unknown:
            self.isUnknown = true
            if self.rules.givesUpUnknownUnkept, request.expiration == 0 {
                return .end(.unknown)
            }
            return self.sendAgain(now: now, jitter: jitter)
        case .unprocessed, .connection:
            let isInBudget = now <= self.startedAt + self.rules.budget
            guard self.failureCount > 0 || !isInBudget else {
                self.failureCount = 1
                return .sendAgain(after: .zero)
            }
            return self.sendAgain(now: now, jitter: jitter)
        case .trouble, .providerTokenRate: return self.sendAgain(now: now, jitter: jitter)
        }
    }

    private mutating func sendAgain(now: Duration, jitter: Double) -> OnAnswer {
        guard let wait = self.wait(now: now, jitter: jitter) else {
            return .end(self.isUnknown ? .unknown : RetryOutcome(.serviceFault, .budgetSpent))
        }
        return .sendAgain(after: wait)
    }

    private mutating func wait(now: Duration, jitter: Double) -> Duration? {
        self.failureCount += 1
        let wait = self.rules.backoff.delay(failures: self.failureCount, jitter: jitter)
        return now + wait <= self.startedAt + self.rules.budget ? wait : nil
    }
}

/// How the tries for one notification ended.
struct RetryOutcome: Hashable, Sendable {
    /// Why it ended so, in the words of logs and metrics.
    enum Cause: String, CaseIterable, Sendable {
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

    /// What the listener does about it.
    var verdict: Verdict
    var cause: Cause
    /// Since when the app is gone from the device, in seconds since 1970 (UTC).
    var deadSince: UInt32?

    init(_ verdict: Verdict, _ cause: Cause, deadSince: UInt32? = nil) {
        self.verdict = verdict
        self.cause = cause
        self.deadSince = deadSince
    }

    static let accepted = RetryOutcome(.accepted, .accepted)

    /// The protocol has no word for what nobody knows: "taken" could hide a loss, and "not taken" a second delivery.
    static let unknown = RetryOutcome(.inDoubt, .unknown)

    static func rejected(_ status: UInt8, _ cause: Cause) -> RetryOutcome {
        RetryOutcome(.rejected(ErrorResponse.Status(rawValue: status)), cause)
    }
}

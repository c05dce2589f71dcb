// SPDX-License-Identifier: Apache-2.0

import APNSSession
package import APNSWire

/// The attempts of one notification: decides whether there is another one.
///
/// A batch and a gateway differ by their ``RetryRules``. Those and the time are the caller's, since this is carried by
/// value with each request that waits.
package struct RetryState: Hashable, Sendable {
    /// What to do about an answer.
    package enum OnAnswer: Hashable, Sendable {
        /// There is no other attempt: this is what it came to. Where that passes, there were too many.
        case end(ResponseMeaning)
        /// Send it again after this time, under the same `apns-id`, and from now on without this header.
        case sendAgain(after: Duration, without: ResponseMeaning.Header? = nil)
    }

    /// On how many streams it was written since it came, or was put off.
    private var attemptCount: UInt32 = 0
    private var earlierAttemptCount: UInt32 = 0
    private var failureCount: UInt32 = 0
    /// The headers that were left out, one bit for each.
    private var omitted: UInt8 = 0
    /// Whether it was sent again because of its provider token, which is done once.
    private var isTokenRenewed = false
    /// Whether an attempt may have been processed without an answer.
    package private(set) var isUnknown = false

    package init() {}

    /// On how many streams it was written.
    var totalAttemptCount: Int { Int(self.earlierAttemptCount + self.attemptCount) }

    /// It is written on a stream.
    mutating func begin() { self.attemptCount += 1 }

    /// Its stream ended without an answer.
    ///
    /// - Parameters:
    ///   - isUnknown: whether it may have been processed.
    ///   - rules: the limits.
    /// - Returns: whether to send it again at once.
    mutating func resend(isUnknown: Bool, _ rules: RetryRules) -> Bool {
        guard self.attemptCount < rules.attemptCountMax, rules.resendsUnknown || !isUnknown else { return false }
        self.isUnknown = self.isUnknown || isUnknown
        return true
    }

    /// Another provider token, or another connection, is to be tried.
    ///
    /// - Returns: whether it was not yet.
    mutating func renewToken() -> Bool {
        defer { self.isTokenRenewed = true }
        return !self.isTokenRenewed
    }

    /// It waits for its next attempt, which has the streams and the provider token of a new one.
    mutating func putOff() {
        self.earlierAttemptCount += self.attemptCount
        self.attemptCount = 0
        self.isTokenRenewed = false
    }

    /// Takes the answer to the newest attempt.
    ///
    /// - Parameters:
    ///   - meaning: what it means.
    ///   - rules: the limits.
    ///   - isKept: whether the service keeps it for a device that is away.
    ///   - elapsed: the time since the first attempt, for the budget.
    ///   - jitter: a random number, 0 to 1; only made where there is a pause, since each costs a system call.
    /// - Returns: what to do.
    package mutating func receive(
        _ meaning: ResponseMeaning,
        _ rules: RetryRules,
        isKept: Bool = true,
        elapsed: Duration = .zero,
        jitter: @autoclosure () -> Double
    ) -> OnAnswer {
        guard case .passing(let passing) = meaning else { return .end(meaning) }
        var isAtOnce = false
        switch passing {
        case .header(let header):
            let bit: UInt8 = header == .priority ? 1 : 2
            guard rules.omitsHeaders, self.omitted & bit == 0 else { return .end(.requestFault) }
            self.omitted |= bit
            return .sendAgain(after: .zero, without: header)
        case .providerToken:
            // The client makes a new one; if that is refused as well, the clocks disagree.
            guard rules.resendsAtOnce, self.renewToken() else { return .end(.credentialFault) }
            return .sendAgain(after: .zero)
        case .connection where !rules.resendsAtOnce: return .end(.credentialFault)
        case .connection, .unprocessed: isAtOnce = rules.resendsAtOnce && self.failureCount == 0
        case .unknown:
            self.isUnknown = true
            guard isKept || !rules.givesUpUnknownUnkept else { return .end(meaning) }
        case .throttled, .trouble, .providerTokenRate: break
        }
        self.failureCount += 1
        let pause = isAtOnce ? .zero : rules.backoff.delay(failures: Int(self.failureCount), jitter: jitter())
        guard self.failureCount < rules.failureCountMax, elapsed + pause <= rules.budget else { return .end(meaning) }
        return .sendAgain(after: pause)
    }
}

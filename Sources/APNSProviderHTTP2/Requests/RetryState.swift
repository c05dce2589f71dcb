// SPDX-License-Identifier: Apache-2.0

public import APNSSession
package import APNSWire

/// The state of the attempts of one notification, which decides whether there is another one.
///
/// A batch and a gateway differ in their ``RetryRules``. The caller provides those and the time, since this value is
/// copied with each waiting request.
package struct RetryState: Hashable, Sendable {
    /// How to handle an answer.
    package enum OnResponse: Hashable, Sendable {
        /// No other attempt: this is the final meaning. If it is transient, there were too many attempts.
        case end(ResponseClass)
        /// Send it again after this delay, with the same `apns-id`, and from now on without this header.
        case sendAgain(after: Duration, without: ResponseClass.Header? = nil)
    }

    /// The number of streams on which it was written since it was submitted or postponed.
    private var attemptCount: UInt32 = 0
    private var earlierAttemptCount: UInt32 = 0
    private var failureCount: UInt32 = 0
    /// The omitted headers, one bit for each.
    private var omitted: UInt8 = 0
    /// Whether it was sent again with another provider token, or on another connection, which is done once.
    private var isTokenRenewed = false
    /// Whether an attempt may have been processed without an answer.
    package private(set) var isUnknown = false

    package init() {}

    /// The number of streams on which it was written.
    var totalAttemptCount: Int { Int(self.earlierAttemptCount + self.attemptCount) }

    /// Records that it is written on a stream.
    mutating func begin() { self.attemptCount += 1 }

    /// Records that its stream ended without an answer.
    ///
    /// Returns whether to send it again immediately.
    mutating func resend(isUnknown: Bool, _ rules: RetryRules) -> Bool {
        guard self.attemptCount < rules.attemptCountMax, rules.resendsUnknown || !isUnknown else { return false }
        self.isUnknown = self.isUnknown || isUnknown
        return true
    }

    /// Records that it waits for its next attempt, which starts with new counts of streams and provider tokens.
    mutating func postpone() {
        self.earlierAttemptCount += self.attemptCount
        self.attemptCount = 0
        self.isTokenRenewed = false
    }

    /// Processes the answer to the last attempt.
    ///
    /// Returns what to do.
    package mutating func receive(
        _ responseClass: ResponseClass,
        _ rules: RetryRules,
        isKept: Bool = true,
        elapsed: Duration = .zero,
        jitter: @autoclosure () -> Double,
        renews: (ResponseClass.TransientReason) -> Bool = { _ in false }
    ) -> OnResponse {
        guard case .transient(let reason) = responseClass else { return .end(responseClass) }
        if !self.isTokenRenewed, renews(reason) {
            self.isTokenRenewed = true
            return .sendAgain(after: .zero)
        }
        var isAtOnce = false
        switch reason {
        case .header(let header):
            let bit: UInt8 = header == .priority ? 1 : 2
            guard rules.omitsHeaders, self.omitted & bit == 0 else { return .end(.requestFault) }
            self.omitted |= bit
            return .sendAgain(after: .zero, without: header)
        case .providerToken:
            // The client makes a new token; if that is refused as well, the clocks differ.
            guard rules.resendsAtOnce, !self.isTokenRenewed else { return .end(.credentialFault) }
            self.isTokenRenewed = true
            return .sendAgain(after: .zero)
        case .connection where !rules.resendsAtOnce: return .end(.credentialFault)
        case .connection, .unprocessed: isAtOnce = rules.resendsAtOnce && self.failureCount == 0
        case .unknown:
            self.isUnknown = true
            guard isKept || !rules.givesUpUnknownUnkept else { return .end(responseClass) }
        case .throttled, .trouble, .providerTokenRate: break
        }
        self.failureCount += 1
        guard self.failureCount < rules.failureCountMax else { return .end(responseClass) }
        let pause = isAtOnce ? .zero : rules.backoff.delay(failures: Int(self.failureCount), jitter: jitter())
        guard elapsed + pause <= rules.budget else { return .end(responseClass) }
        return .sendAgain(after: pause)
    }
}

/// The limits and delays of attempts to deliver a notification; the defaults are those of a gateway.
public struct RetryRules: Hashable, Sendable {
    /// The time after the first attempt during which others may begin; by default 60 seconds.
    public var budget = Duration.seconds(60)

    /// The delay before a further attempt; by default half a second, doubled with each attempt, up to 15 seconds.
    public var backoff = Backoff(first: .milliseconds(500), max: .seconds(15))

    /// Whether to give up a notification that is not stored (expiry 0) if it is unknown whether the service processed
    /// it; by default it is sent again, and may arrive twice.
    ///
    /// If it is given up, the provider of a gateway gets no error response and its connection closes, so that it
    /// decides about another attempt.
    public var givesUpUnknownUnkept = false

    /// The maximum number of times that the service may postpone it.
    var failureCountMax = Int.max

    /// Whether to omit a header that the service rejects.
    var omitsHeaders = true

    /// Whether to send it again immediately if another connection, or another provider token, may help; not if a
    /// connection worker does that.
    var resendsAtOnce = true

    /// The maximum number of streams on which a connection worker writes it before it is postponed, if none gets an
    /// answer.
    var attemptCountMax = 1

    /// Whether a connection worker writes it again if it is unknown whether the service processed it.
    var resendsUnknown = false

    /// The defaults.
    public init() {}

    /// The rules of a client, and, if the service may postpone notifications, of a batch.
    init(_ configuration: HTTP2Configuration, sendCountMax: Int = 1) {
        self.budget = .seconds(Int64.max)
        self.backoff.first = configuration.backoff.first
        self.failureCountMax = sendCountMax
        self.omitsHeaders = false
        self.resendsAtOnce = false
        self.attemptCountMax = configuration.attemptCountMax
        self.resendsUnknown = configuration.resendsUnknown
    }
}

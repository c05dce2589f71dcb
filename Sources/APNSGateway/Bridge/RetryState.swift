// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSSession
import APNSWire

/// One notification on its way to the service, with all tries that it takes: decides what an answer leads to.
struct RetryState: Hashable, Sendable {
    /// What to do about an answer.
    enum OnAnswer: Hashable {
        /// It is over, with this outcome as far as its provider is concerned.
        case end(DeliveryOutcome, DeliveryCause)
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
    private(set) var omitted: Set<ResponseMeaning.Header> = []

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
        _ answer: DeliveryOutcome,
        to request: inout PushRequest,
        now: Duration,
        date: UInt32,
        jitter: Double,
        rules: BridgeRules = .exact
    ) -> OnAnswer {
        switch rules.meaning(ResponseMeaning(answer, topic: request.topic, now: date)) {
        case .accepted: return .end(.accepted, .accepted)
        case .dead(let time): return .end(.rejected(.unregistered(at: time)), .dead)
        case .rejected(let status): return .end(.rejected(.binary(status)), .rejected)
        case .misconfigured(let status): return .end(.rejected(.binary(status)), .misconfigured)
        case .requestFault: return Self.requestFault
        case .credentialFault: return Self.credentialFault
        case .passing(let passing):
            return self.receive(passing, to: &request, now: now, jitter: jitter)
        }
    }

    /// The provider's notification is as good as any other; it cannot be told that.
    private static let requestFault = OnAnswer.end(.rejected(.binary(.processingError)), .gatewayFault)

    private static let credentialFault = OnAnswer.end(
        .unsent(.notPermitted(ConnectionFailure(.identity, "the service does not accept the credentials"))),
        .credentialFault
    )

    /// The protocol has no word for what nobody knows: "taken" could hide a loss, and "not taken" a second delivery.
    private static let unknown = OnAnswer.end(.indeterminate(nil), .unknown)

    private mutating func receive(
        _ passing: ResponseMeaning.Passing,
        to request: inout PushRequest,
        now: Duration,
        jitter: Double
    ) -> OnAnswer {
        switch passing {
        case .header(let header):
            guard self.omitted.insert(header).inserted else { return Self.requestFault }
            switch header {
            case .priority: request.priority = nil
            case .pushType: request.pushType = nil
            }
            return .sendAgain(after: .zero)
        case .providerToken:
            // The client makes a new one; if that is refused as well, the clocks disagree.
            guard !self.isProviderTokenReplaced else { return Self.credentialFault }
            self.isProviderTokenReplaced = true
            return .sendAgain(after: .zero)
        case .throttled:
            // The service did not take it, so the provider must not believe that it did. Its expiry changes nothing:
            // told as not taken it would come again at once, and the service itself drops what has expired.
            guard let wait = self.wait(now: now, jitter: jitter) else {
                return self.isUnknown ? Self.unknown : .end(.unsent(.deadline), .throttled)
            }
            return .sendAgain(after: wait)
        case .unknown:
            self.isUnknown = true
            if self.rules.givesUpUnknownUnkept, request.expiration == 0 {
                return Self.unknown
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
            return self.isUnknown ? Self.unknown : .end(.unsent(.deadline), .budgetSpent)
        }
        return .sendAgain(after: wait)
    }

    private mutating func wait(now: Duration, jitter: Double) -> Duration? {
        self.failureCount += 1
        let wait = self.rules.backoff.delay(failures: self.failureCount, jitter: jitter)
        return now + wait <= self.startedAt + self.rules.budget ? wait : nil
    }
}

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

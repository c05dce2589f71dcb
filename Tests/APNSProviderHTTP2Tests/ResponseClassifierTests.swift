// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSWire
import Testing

@testable import APNSProviderHTTP2

@Suite struct ResponseClassifierTests {
    /// A request that was written once.
    private static func push(isDuplicate: Bool = false) throws -> PendingPush {
        var push = PendingPush(Submission(try PushFixture.request(), from: .caller { _ in }))
        push.retries.begin()
        if isDuplicate { _ = push.retries.resend(isUnknown: true, try Self.rules(tries: 1)) }
        return push
    }

    private static func rules(tries: Int) throws -> RetryRules {
        var configuration = try PushFixture.clientConfiguration(port: 1)
        configuration.resendsUnknown = true
        return RetryRules(configuration, tryCountMax: tries)
    }

    private static func classifier(breaker: Int = 2, tries: Int = 3) throws -> ResponseClassifier {
        ResponseClassifier(invalidTokenRunCountMax: breaker, rules: try Self.rules(tries: tries))
    }

    private static func rejected(_ reason: PushReason, timestamp: UInt64? = nil) -> DeliveryOutcome {
        .rejected(.http2(PushRejection(status: reason.status ?? 400, reason: reason, timestamp: timestamp)))
    }

    /// The outcome of another request; `nil` if it is to be sent again.
    private static func final(
        _ classifier: ResponseClassifier,
        _ outcome: DeliveryOutcome
    ) throws -> DeliveryOutcome? {
        var push = try self.push()
        guard case .settle(let outcome) = classifier.classify(outcome, of: &push) else { return nil }
        return outcome
    }

    @Test func `every documented reason causes a rejection, another attempt, or the end of the batch`() throws {
        let (passing, ending): (Set<PushReason>, Set<PushReason>) = (
            [
                .idleTimeout, .tooManyProviderTokenUpdates, .tooManyRequests, .internalServerError,
                .serviceUnavailable, .shutdown,
            ],
            [
                .badTopic, .missingTopic, .topicDisallowed, .badCertificate, .badCertificateEnvironment,
                .expiredProviderToken, .forbidden, .invalidProviderToken, .missingProviderToken,
                .unrelatedKeyIdInToken, .badEnvironmentKeyIdInToken,
            ]
        )
        for reason in PushReason.allDocumented {
            let classifier = try Self.classifier()
            let answer = PushRejection(status: reason.status ?? 400, reason: reason)
            let outcome = try Self.final(classifier, Self.rejected(reason))
            if passing.contains(reason) {
                #expect(outcome == nil && classifier.failure == nil, "\(reason)")
            } else if ending.contains(reason) {
                #expect(outcome == .unsent(.serviceAnswer(answer)), "\(reason)")
                #expect(classifier.failure == .senderRefused(answer), "\(reason)")
            } else {
                #expect(outcome == .rejected(.http2(answer)) && classifier.failure == nil, "\(reason)")
            }
        }
    }

    @Test func `only answers about a token count against it`() throws {
        let faults: [(PushReason, TokenFault?)] = [
            (.badDeviceToken, .invalid), (.deviceTokenNotForTopic, .foreign),
            (.unregistered, .dead(since: 1_700_000_000)), (.payloadTooLarge, nil),
        ]
        for (reason, fault) in faults {
            guard case .rejected(let rejection) = Self.rejected(reason, timestamp: 1_700_000_000_999) else { continue }
            #expect(rejection.tokenFault(now: 1_800_000_000) == fault)
        }
        #expect(Rejection.binary(.invalidToken).tokenFault(now: 0) == .invalid)
        #expect(Rejection.binary(.invalidTokenSize).tokenFault(now: 0) == nil)
        let classifier = try Self.classifier(breaker: 0)
        for _ in 0..<10 { _ = try Self.final(classifier, Self.rejected(.badDeviceToken)) }
        #expect(classifier.failure == nil)
    }

    @Test func `the limit counts only consecutive invalid tokens`() throws {
        let classifier = try Self.classifier(breaker: 2)
        for outcome in [
            Self.rejected(.badDeviceToken), .accepted, Self.rejected(.deviceTokenNotForTopic),
            Self.rejected(.unregistered),
        ] {
            _ = try Self.final(classifier, outcome)
            #expect(classifier.failure == nil)
        }
        _ = try Self.final(classifier, Self.rejected(.badDeviceToken))
        #expect(classifier.failure == .tooManyInvalidTokens(count: 2))
    }

    @Test func `5xx answers are retried up to the limit, with increasing delays`() throws {
        let classifier = try Self.classifier(tries: 4)
        var push = try Self.push()
        var longest = Duration.zero
        let trouble = Self.rejected(.serviceUnavailable)
        for _ in 0..<3 {
            guard case .sendAgain(let pause) = classifier.classify(trouble, of: &push) else {
                Issue.record("it is to be sent again")
                return
            }
            // Half of a delay is random, and each is twice as long as the one before.
            #expect(pause >= longest)
            longest = pause
            push.retries.begin()
        }
        let answer = PushRejection(status: 503, reason: .serviceUnavailable)
        #expect(classifier.classify(trouble, of: &push) == .settle(.unsent(.serviceAnswer(answer))))
        #expect("\(DeliveryOutcome.Reason.serviceAnswer(answer))" == "503 ServiceUnavailable")
        #expect(push.retries.totalAttemptCount == 4)
        #expect(classifier.failure == .serviceTrouble(answer))
    }

    @Test func `a service that answers other requests is not given up`() throws {
        let classifier = try Self.classifier(tries: 2)
        var push = try Self.push()
        _ = classifier.classify(Self.rejected(.internalServerError), of: &push)
        _ = try Self.final(classifier, .accepted)
        let answer = PushRejection(status: 500, reason: .internalServerError)
        #expect(
            classifier.classify(Self.rejected(.internalServerError), of: &push)
                == .settle(.unsent(.serviceAnswer(answer)))
        )
        #expect(classifier.failure == nil)
    }

    @Test func `a request that may have arrived is never safe to send again`() throws {
        let classifier = try Self.classifier(tries: 2)
        var push = try Self.push(isDuplicate: true)
        let trouble = Self.rejected(.serviceUnavailable)
        _ = classifier.classify(trouble, of: &push)
        push.retries.begin()
        #expect(push.retries.isUnknown && push.retries.totalAttemptCount == 2)
        #expect(push.unprocessed(.stopped) == .indeterminate(.stopped))
        let answer = PushRejection(status: 503, reason: .serviceUnavailable)
        #expect(classifier.classify(trouble, of: &push) == .settle(.indeterminate(.serviceAnswer(answer))))
    }
}

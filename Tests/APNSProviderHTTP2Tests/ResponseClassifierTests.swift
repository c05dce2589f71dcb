// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSWire
import Testing

@testable import APNSProviderHTTP2

@Suite struct ResponseClassifierTests {
    /// A request that was written once.
    private static func push(isDuplicate: Bool = false, hasOwnTopic: Bool = false) throws -> PendingPush {
        let request = try PushFixture.request()
        var push = PendingPush(Submission(request, from: .caller { _ in }, hasOwnTopic: hasOwnTopic))
        push.retries.begin()
        if isDuplicate { _ = push.retries.resend(isUnknown: true, try Self.rules(tries: 1)) }
        return push
    }

    private static func rules(tries: Int) throws -> RetryRules {
        var configuration = try PushFixture.clientConfiguration(port: 1)
        configuration.resendsUnknown = true
        return RetryRules(configuration, sendCountMax: tries)
    }

    private static func rejection(_ reason: PushReason, timestamp: UInt64? = nil) -> Rejection {
        .http2(PushRejection(status: reason.status ?? 400, reason: reason, timestampNumber: timestamp))
    }

    private static let uniqueIdentifier = PushIdentifier("123E4567-E89B-12D3-A456-42665544000A")

    private static var fields: ResponseFields {
        var values = ResponseFields.Values()
        values.apnsUniqueID = Self.uniqueIdentifier
        return ResponseFields(values)
    }

    /// Handles an answer to a request.
    private static func receive(
        _ rejection: Rejection,
        _ classifier: ResponseClassifier,
        _ push: inout PendingPush,
        tries: Int
    ) throws -> PendingPush.Decision {
        push.receive(
            rejection,
            ResponseClass(rejection, now: .max),
            try Self.rules(tries: tries),
            classifier,
            Self.fields
        )
    }

    /// The outcome of another request; `nil` if it is to be sent again.
    private static func final(
        _ classifier: ResponseClassifier,
        _ rejection: Rejection
    ) throws -> DeliveryOutcome? {
        var push = try self.push()
        guard case .settle(let outcome) = try Self.receive(rejection, classifier, &push, tries: 3) else { return nil }
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
            let classifier = ResponseClassifier(invalidTokenRunCountMax: 2)
            let answer = PushRejection(status: reason.status ?? 400, reason: reason)
            let outcome = try Self.final(classifier, Self.rejection(reason))
            if passing.contains(reason) {
                #expect(outcome == nil && classifier.failure == nil, "\(reason)")
            } else if ending.contains(reason) {
                #expect(outcome == .unsent(.serviceResponse(answer)), "\(reason)")
                #expect(classifier.failure?.kind == .senderRefused(answer), "\(reason)")
                #expect(classifier.failure?.apnsID != nil)
                #expect(classifier.failure?.apnsUniqueID == Self.uniqueIdentifier)
            } else {
                #expect(outcome == .rejected(.http2(answer)) && classifier.failure == nil, "\(reason)")
            }
        }
    }

    @Test func `a topic that only one notification has is its own fault, unless many in a row are refused`() throws {
        let classifier = ResponseClassifier(invalidTokenRunCountMax: 2)
        let answer = PushRejection(status: 400, reason: .topicDisallowed)
        func outcome() throws -> PendingPush.Decision {
            var push = try Self.push(hasOwnTopic: true)
            return try Self.receive(.http2(answer), classifier, &push, tries: 1)
        }
        for round in 0..<2 {
            for _ in 0..<ResponseClassifier.refusedTopicRunCountMax {
                #expect(try outcome() == .settle(.rejected(.http2(answer))) && classifier.failure == nil)
            }
            if round == 0 { classifier.accepted() }
        }
        #expect(try outcome() == .settle(.unsent(.serviceResponse(answer))))
        #expect(classifier.failure?.kind == .senderRefused(answer))
    }

    @Test func `a batch and the advice decide by the same rule`() throws {
        let answers =
            PushReason.allDocumented.map { PushRejection(status: $0.status ?? 400, reason: $0) }
            + [400, 403, 404, 413, 418, 429, 500, 502, 503].map { PushRejection(status: $0, reason: .other("")) }
        for answer in answers {
            let classifier = ResponseClassifier(invalidTokenRunCountMax: 0)
            var push = try Self.push()
            let decision = try Self.receive(.http2(answer), classifier, &push, tries: 1)
            guard case .settle(let outcome) = decision else {
                Issue.record("\(answer) is sent again")
                continue
            }
            // What a client reports for the same answer.
            let advice = DeliveryOutcome.rejected(.http2(answer)).retryAdvice
            #expect((advice == .never) == (outcome.kind == .rejected), "\(answer)")
            #expect(outcome.retryAdvice == advice, "\(answer)")
            #expect(outcome.kind.isSentAgain(withDuplicates: false) == (advice != .never), "\(answer)")
        }
    }

    @Test func `only answers about a token count against it`() throws {
        let faults: [(PushReason, TokenFault?)] = [
            (.badDeviceToken, .invalid), (.deviceTokenNotForTopic, .foreign),
            (.unregistered, .dead(since: 1_700_000_000)), (.payloadTooLarge, nil),
        ]
        for (reason, fault) in faults {
            let rejection = Self.rejection(reason, timestamp: 1_700_000_000_999)
            #expect(rejection.tokenFault(now: 1_800_000_000) == fault)
        }
        #expect(Rejection.binary(.invalidToken).tokenFault(now: 0) == .invalid)
        #expect(Rejection.binary(.invalidTokenSize).tokenFault(now: 0) == nil)
        let classifier = ResponseClassifier(invalidTokenRunCountMax: 0)
        for _ in 0..<10 { _ = try Self.final(classifier, Self.rejection(.badDeviceToken)) }
        #expect(classifier.failure == nil)
    }

    @Test func `the limit counts only consecutive invalid tokens`() throws {
        let classifier = ResponseClassifier(invalidTokenRunCountMax: 2)
        _ = try Self.final(classifier, Self.rejection(.badDeviceToken))
        classifier.accepted()
        for reason: PushReason in [.deviceTokenNotForTopic, .unregistered] {
            _ = try Self.final(classifier, Self.rejection(reason))
            #expect(classifier.failure == nil)
        }
        _ = try Self.final(classifier, Self.rejection(.badDeviceToken))
        #expect(classifier.failure == .tooManyInvalidTokens(count: 2))
    }

    @Test func `5xx answers are retried up to the limit, with increasing delays`() throws {
        let classifier = ResponseClassifier(invalidTokenRunCountMax: 2)
        var push = try Self.push()
        var longest = Duration.zero
        let trouble = Self.rejection(.serviceUnavailable)
        for _ in 0..<3 {
            guard case .sendAgain(let pause) = try Self.receive(trouble, classifier, &push, tries: 4) else {
                Issue.record("it is to be sent again")
                return
            }
            // Half of a delay is random, and each is twice as long as the one before.
            #expect(pause >= longest)
            longest = pause
            push.retries.begin()
        }
        let answer = PushRejection(status: 503, reason: .serviceUnavailable)
        let last = try Self.receive(trouble, classifier, &push, tries: 4)
        #expect(last == .settle(.unsent(.serviceResponse(answer))))
        #expect("\(DeliveryOutcome.Reason.serviceResponse(answer))" == "503 ServiceUnavailable")
        #expect(push.retries.totalAttemptCount == 4)
        #expect(classifier.failure?.kind == .serviceTrouble(answer))
    }

    @Test(arguments: [PushReason.serviceUnavailable, .invalidProviderToken, .badDeviceToken])
    func `after an attempt in doubt, only an answer about the notification settles it`(_ reason: PushReason) throws {
        let answer = Self.rejection(reason)
        let responseClass = ResponseClass(answer, now: .max)
        var (first, again) = (try Self.push(), try Self.push(isDuplicate: true))
        #expect(first.receive(answer, responseClass, try Self.rules(tries: 1), nil) == .settle(.rejected(answer)))
        guard case .settle(let outcome) = again.receive(answer, responseClass, try Self.rules(tries: 1), nil) else {
            Issue.record("it has no outcome")
            return
        }
        #expect(outcome.retryAdvice == (reason == .badDeviceToken ? .never : .mayDuplicate), "\(outcome)")
    }

    @Test func `a service that answers other requests is not given up`() throws {
        let classifier = ResponseClassifier(invalidTokenRunCountMax: 2)
        var push = try Self.push()
        let trouble = Self.rejection(.internalServerError)
        _ = try Self.receive(trouble, classifier, &push, tries: 2)
        classifier.accepted()
        let answer = PushRejection(status: 500, reason: .internalServerError)
        let last = try Self.receive(trouble, classifier, &push, tries: 2)
        #expect(last == .settle(.unsent(.serviceResponse(answer))))
        #expect(classifier.failure == nil)
    }

    @Test func `a request that may have arrived is never safe to send again`() throws {
        let classifier = ResponseClassifier(invalidTokenRunCountMax: 2)
        var push = try Self.push(isDuplicate: true)
        let trouble = Self.rejection(.serviceUnavailable)
        _ = try Self.receive(trouble, classifier, &push, tries: 2)
        push.retries.begin()
        #expect(push.retries.isUnknown && push.retries.totalAttemptCount == 2)
        #expect(push.unprocessed(.stopped) == .indeterminate(.stopped))
        let answer = PushRejection(status: 503, reason: .serviceUnavailable)
        let last = try Self.receive(trouble, classifier, &push, tries: 2)
        #expect(last == .settle(.indeterminate(.serviceResponse(answer))))
    }
}

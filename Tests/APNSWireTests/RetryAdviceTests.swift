// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Testing

@Suite struct RetryAdviceTests {
    private static func rejected(_ status: Int, _ reason: PushReason, after: Duration? = nil) -> DeliveryOutcome {
        .rejected(.http2(PushRejection(status: status, reason: reason, retryAfter: after)))
    }

    @Test func `every outcome has its advice`() {
        let failure = ConnectionFailure(.refused, "refused")
        let busy = PushRejection(status: 503, reason: .serviceUnavailable, retryAfter: .seconds(7))
        let forbidden = PushRejection(status: 403, reason: .invalidProviderToken)
        let advice: [(DeliveryOutcome, RetryAdvice)] = [
            (.accepted, .never), (.suppressed, .never), (.invalid(.topic), .never),
            (.unsent(nil), .safe), (.unsent(.cancelled), .safe), (.unsent(.unavailable(failure)), .safe),
            (.unsent(.serviceResponse(busy)), .later(after: .seconds(7))),
            (.unsent(.serviceResponse(forbidden)), .safe),
            (.indeterminate(nil), .mayDuplicate), (.indeterminate(.acceptanceIncomplete), .mayDuplicate),
            (.indeterminate(.serviceResponse(busy)), .mayDuplicate),
            (Self.rejected(429, .tooManyRequests), .later(after: nil)),
            (Self.rejected(429, .tooManyRequests, after: .seconds(60)), .later(after: .seconds(60))),
            (Self.rejected(429, .other("")), .later(after: nil)),
            (Self.rejected(500, .internalServerError), .later(after: nil)),
            (Self.rejected(503, .serviceUnavailable), .later(after: nil)),
            (Self.rejected(599, .other("New")), .later(after: nil)),
            (Self.rejected(503, .shutdown), .safe), (Self.rejected(400, .idleTimeout), .safe),
            (Self.rejected(403, .expiredProviderToken), .safe), (Self.rejected(400, .topicDisallowed), .safe),
            (Self.rejected(400, .badDeviceToken), .never), (Self.rejected(410, .unregistered), .never),
            (Self.rejected(400, .badPriority), .never), (Self.rejected(413, .payloadTooLarge), .never),
            (Self.rejected(418, .other("Teapot")), .never),
        ]
        for (outcome, expected) in advice { #expect(outcome.retryAdvice == expected, "\(outcome)") }
        // A session has sent it again already if its status permits that.
        for status in UInt8.min...UInt8.max {
            #expect(DeliveryOutcome.rejected(.binary(.init(rawValue: status))).retryAdvice == .never)
        }
    }

    @Test func `a batch sends again what is safe, and what may arrive twice if that is permitted`() {
        let outcomes: [DeliveryOutcome] = [
            .accepted, .rejected(.binary(.invalidToken)), .indeterminate(nil), .unsent(nil), .invalid(.topic),
            .suppressed,
        ]
        #expect(Set(outcomes.map(\.kind)) == Set(DeliveryOutcome.Kind.allCases))
        for outcome in outcomes {
            let advice = outcome.retryAdvice
            #expect(outcome.kind.isSentAgain(withDuplicates: false) == (advice == .safe))
            #expect(outcome.kind.isSentAgain(withDuplicates: true) == (advice != .never))
        }
    }

    @Test func `the service's delay is in whole seconds`() {
        var answer = PushRejection(status: 503, reason: .serviceUnavailable)
        #expect(answer.retryAfter == nil)
        answer.retryAfter = .milliseconds(1500)
        #expect(answer.retryAfter == .seconds(1))
        answer.retryAfter = .seconds(-1)
        #expect(answer.retryAfter == .zero)
    }

    @Test(
        arguments: [
            ("retry-after", "30", nil, Duration.seconds(30)),
            ("retry-after", "Fri, 31 Dec 1999 23:59:59 GMT", nil, nil), ("retry-after", "-1", nil, nil),
            ("retry-after", "99999999999", nil, nil),
            ("apns-unique-id", "123E4567-e89b-12d3-a456-42665544000a", "123e4567-e89b-12d3-a456-42665544000a", nil),
            ("apns-unique-id", "seven", nil, nil), ("apns-id", "123e4567-e89b-12d3-a456-42665544000a", nil, nil),
        ] as [(String, String, String?, Duration?)]
    )
    func `two header fields of an answer are passed on`(name: String, value: String, unique: String?, delay: Duration?)
    {
        let (name, value) = (Array(name.utf8), Array(value.utf8))
        let fields = unsafe name.withUnsafeBufferPointer { name in
            unsafe value.withUnsafeBufferPointer { value in
                unsafe ResponseFields.Name(name).map { unsafe ResponseFields(nil, $0, value) }
            }
        }
        #expect(fields?.apnsUniqueID?.description == unique)
        #expect(fields?.retryAfter == delay)
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSWire
import Foundation
import Testing

/// Goal: values that a program stores or sends as JSON have one format, and are decoded from it.
@Suite struct JSONFormTests {
    private static func text(_ value: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(value), as: UTF8.self)
    }

    /// Encodes to this JSON, which is decoded to the same value.
    private static func check<Value: Codable & Equatable>(_ value: Value, _ json: String) throws {
        #expect(try Self.text(value) == json)
        #expect(try JSONDecoder().decode(Value.self, from: Data(json.utf8)) == value)
    }

    @Test func `values are encoded and decoded`() throws {
        let token = try DeviceToken("00ff7f")
        try Self.check(token, #""00ff7f""#)
        try Self.check(FeedbackTuple(token: token, failedAt: 7), #"{"failedAt":7,"token":"00ff7f"}"#)
        try Self.check(ErrorResponse(status: .invalidToken, identifier: 9), #"{"identifier":9,"status":8}"#)
        try Self.check(TokenScope(topic: "a", environment: .sandbox), #"{"environment":"sandbox","topic":"a"}"#)
        try Self.check([PushType.voip, "new"], #"["voip","new"]"#)
        try Self.check([PushReason.badDeviceToken, .other("New")], #"["BadDeviceToken","New"]"#)
        let identifier = try #require(PushIdentifier("123e4567-e89b-12d3-a456-42665544000a"))
        try Self.check(identifier, #""123e4567-e89b-12d3-a456-42665544000a""#)
        for kind in DeliveryOutcome.Kind.allCases { try Self.check(kind, "\"\(kind.name)\"") }
        try Self.check(
            PushRejection(status: 410, reason: .unregistered, timestampNumber: 5),
            #"{"reason":"Unregistered","status":410,"timestamp":5}"#
        )
    }

    @Test func `an outcome has the keys of the results file, and a cause of its reason`() throws {
        let failure = ConnectionFailure(.refused, "connection refused")
        let problem = #expect(throws: PayloadProblem.self) { try Payload.check(Array("{".utf8)) }
        let outcomes: [(DeliveryOutcome, String)] = [
            (.accepted, #"{"outcome":"accepted"}"#), (.suppressed, #"{"outcome":"suppressed"}"#),
            (.rejected(.binary(.invalidToken)), #"{"outcome":"rejected","status":8,"statusText":"invalid token"}"#),
            (.rejected(.binary(.init(rawValue: 9))), #"{"outcome":"rejected","status":9}"#),
            (
                .rejected(.unregistered(at: Timestamp(secondsSince1970: 3))),
                #"{"outcome":"rejected","reason":"Unregistered","status":410,"#
                    + #""statusText":"unregistered","timestamp":3000}"#
            ),
            (.indeterminate(nil), #"{"outcome":"indeterminate"}"#),
            (
                .unsent(.unavailable(failure)),
                #"{"cause":{"failure":{"detail":"connection refused","kind":"refused"},"name":"unavailable"},"#
                    + #""outcome":"unsent","reason":"the service cannot be reached: connection refused"}"#
            ),
            (
                .invalid(.payloadEmpty),
                #"{"cause":{"name":"payloadEmpty"},"outcome":"invalid","reason":"the payload is empty"}"#
            ),
        ]
        for (outcome, json) in outcomes { try Self.check(outcome, json) }
        let reason = DeliveryOutcome.InvalidReason.payload(try #require(problem))
        let text = try Self.text(DeliveryOutcome.invalid(reason))
        #expect(text.contains("invalid payload: line 1"))
        // The problem itself is decoded as its text.
        let decoded = try JSONDecoder().decode(DeliveryOutcome.self, from: Data(text.utf8))
        #expect(decoded == .invalid(.other("\(reason)")) && decoded.reasonText == "\(reason)")
    }

    @Test func `every reason is decoded to the same one`() throws {
        let failure = ConnectionFailure(.closed(.shutdown), "closed", advice: "wait")
        var answer = PushRejection(status: 503, reason: .other("Busy"), retryAfter: .seconds(30))
        answer.timestampNumber = 4
        let reasons: [DeliveryOutcome.Reason] = [
            .deadline, .cancelled, .connectionLost(failure), .streamReset(code: 8), .acceptanceIncomplete,
            .refusedTooOften, .notPermitted(ConnectionFailure(.tls, "x")), .unavailable(failure), .stopped,
            .serviceResponse(answer), .other("of later"),
        ]
        let invalid: [DeliveryOutcome.InvalidReason] = [
            .payloadEmpty, .payloadTooLong(byteCount: 5, limit: 4), .topic, .pushType, .collapseID,
            .pushTypeUnclear, .topicNotForPushType(.voip), .other("of later"),
        ]
        var outcomes: [DeliveryOutcome] = [
            .rejected(.http2(answer)), .rejected(.http2(.init(status: 200, reason: .other("")))),
        ]
        outcomes += reasons.flatMap { [.indeterminate($0), .unsent($0)] } + invalid.map { .invalid($0) }
        for outcome in outcomes { try Self.check(outcome, try Self.text(outcome)) }
    }

    @Test(arguments: [
        (#"{"outcome":"unsent","reason":"moon phase","cause":{"name":"moon","phase":3}}"#, "unsent: moon phase"),
        (#"{"outcome":"unsent","reason":"no failure","cause":{"name":"unavailable"}}"#, "unsent: no failure"),
        (#"{"outcome":"indeterminate","reason":"the client ended"}"#, "indeterminate: the client ended"),
        (#"{"outcome":"invalid","reason":"too blue","cause":{"name":"blue"}}"#, "invalid: too blue"),
        (#"{"outcome":"rejected","status":700,"reason":"New"}"#, "rejected: 700 New"),
        (
            #"{"outcome":"unsent","cause":{"name":"unavailable","failure":{"kind":"solar","detail":"sun"}}}"#,
            "unsent: the service cannot be reached: sun"
        ),
    ])
    func `a reason of a later version, or of a results line, is kept as text`(json: String, text: String) throws {
        let outcome = try JSONDecoder().decode(DeliveryOutcome.self, from: Data(json.utf8))
        #expect("\(outcome)" == text)
        #expect("\(try JSONDecoder().decode(DeliveryOutcome.self, from: JSONEncoder().encode(outcome)))" == text)
    }

    @Test(arguments: [#""0""#, #""zz""#, "7", #""""#])
    func `an invalid token is refused, and not in the error`(json: String) throws {
        let error = #expect(throws: DecodingError.self) {
            try JSONDecoder().decode(DeviceToken.self, from: Data(json.utf8))
        }
        #expect(!"\(String(describing: error))".contains("zz"))
    }

    @Test(arguments: [#""Accepted""#, "0", #""""#])
    func `an unknown outcome is refused`(json: String) {
        #expect(throws: DecodingError.self) {
            try JSONDecoder().decode(DeliveryOutcome.Kind.self, from: Data(json.utf8))
        }
        let outcome = Data(#"{"outcome":\#(json)}"#.utf8)
        #expect(throws: DecodingError.self) { try JSONDecoder().decode(DeliveryOutcome.self, from: outcome) }
        #expect(throws: DecodingError.self) { try JSONDecoder().decode(PushIdentifier.self, from: Data(json.utf8)) }
    }

    @Test func `descriptions contain nothing of a token`() throws {
        let token = try DeviceToken("00ff7f")
        #expect(
            "\(FeedbackTuple(token: token, failedAt: 0))" == "device token of 3 bytes, dead since 1970-01-01T00:00:00Z"
        )
        let response = ErrorResponse(status: .invalidToken, identifier: 9)
        #expect("\(response)" == "identifier 9: status 8 (invalid token)")
        #expect("\(PushType.voip) \(PushReason.badTopic)" == "voip BadTopic")
        let outcomes: [DeliveryOutcome] = [
            .accepted, .rejected(.binary(.invalidToken)), .rejected(.unregistered(at: nil)), .unsent(.stopped),
            .unsent(nil),
        ]
        #expect(
            outcomes.map { "\($0)" } == [
                "accepted", "rejected: 8 (invalid token)", "rejected: 410 Unregistered", "unsent: the client ended",
                "unsent",
            ]
        )
        #expect(DeliveryOutcome.Kind("accepted") == .accepted && DeliveryOutcome.Kind("Accepted") == nil)
    }
}

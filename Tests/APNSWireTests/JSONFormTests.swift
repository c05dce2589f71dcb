// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import APNSWire
import Foundation
import Testing

/// Goal: values that a program stores or sends as JSON have one form, and come back from it.
@Suite struct JSONFormTests {
    private static func text(_ value: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(value), as: UTF8.self)
    }

    /// The JSON is as it should be, and means the same value.
    private static func check<Value: Codable & Equatable>(_ value: Value, _ json: String) throws {
        #expect(try Self.text(value) == json)
        #expect(try JSONDecoder().decode(Value.self, from: Data(json.utf8)) == value)
    }

    @Test func `values come back from their JSON`() throws {
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
            PushRejection(status: 410, reason: .unregistered, timestamp: 5),
            #"{"reason":"Unregistered","status":410,"timestamp":5}"#
        )
    }

    @Test func `an outcome has the keys of the results`() throws {
        let failure = ConnectionFailure(.refused, "nobody listens")
        let problem = #expect(throws: PayloadProblem.self) { try Payload.check(Array("{".utf8)) }
        let outcomes: [(DeliveryOutcome, String)] = [
            (.accepted, #"{"outcome":"accepted"}"#), (.suppressed, #"{"outcome":"suppressed"}"#),
            (.rejected(.binary(.invalidToken)), #"{"outcome":"rejected","status":8,"statusText":"invalid token"}"#),
            (.rejected(.binary(.init(rawValue: 9))), #"{"outcome":"rejected","status":9}"#),
            (
                .rejected(.unregistered(at: 3)),
                #"{"outcome":"rejected","reason":"Unregistered","status":410,"#
                    + #""statusText":"unregistered","timestamp":3000}"#
            ),
            (.indeterminate(nil), #"{"outcome":"indeterminate"}"#),
            (
                .unsent(.unavailable(failure)),
                #"{"outcome":"unsent","reason":"the service cannot be reached: nobody listens"}"#
            ),
            (.invalid(.payloadEmpty), #"{"outcome":"invalid","reason":"the payload is empty"}"#),
        ]
        for (outcome, json) in outcomes { #expect(try Self.text(outcome) == json) }
        let reason = DeliveryOutcome.InvalidReason.payload(try #require(problem))
        #expect(try Self.text(DeliveryOutcome.invalid(reason)).contains("invalid payload: line 1"))
    }

    @Test(arguments: [#""0""#, #""zz""#, "7", #""""#])
    func `a text that is no token is refused, and not repeated`(json: String) throws {
        let error = #expect(throws: DecodingError.self) {
            try JSONDecoder().decode(DeviceToken.self, from: Data(json.utf8))
        }
        #expect(!"\(String(describing: error))".contains("zz"))
    }

    @Test(arguments: [#""Accepted""#, "0", #""""#])
    func `a word that names no outcome is refused`(json: String) {
        #expect(throws: DecodingError.self) {
            try JSONDecoder().decode(DeliveryOutcome.Kind.self, from: Data(json.utf8))
        }
        #expect(throws: DecodingError.self) { try JSONDecoder().decode(PushIdentifier.self, from: Data(json.utf8)) }
    }

    @Test func `values say what they are, and nothing of a token`() throws {
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

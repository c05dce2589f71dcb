// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSWire
import NIOCore
import Testing

@testable import APNSGateway

/// Goal: each line of the request mapping is implemented (8.1 of the protocol's reference).
@Suite struct RequestRulesTests {
    private static let now: UInt32 = 1_800_000_000
    private static let alert = "{\"aps\":{\"alert\":\"hello\"}}"

    private static func request(
        _ payload: String = Self.alert,
        topic: String? = "com.example.app",
        expiry: UInt32? = nil,
        priority: UInt8? = nil,
        _ change: (inout RequestRules) -> Void = { _ in }
    ) throws -> PushRequest {
        var rules = RequestRules(topic: topic)
        change(&rules)
        return rules.request(
            token: try DeviceToken(bytes: [0xAB, 0xCD]),
            payload: ByteBuffer(string: payload),
            expiry: expiry,
            priority: priority,
            now: Self.now
        )
    }

    @Test func `token, topic and payload pass unchanged`() throws {
        let request = try Self.request(" {\"aps\": {} } ")
        #expect(request.token.hexadecimal == "abcd")
        #expect(request.topic == "com.example.app")
        #expect(String(buffer: request.payload) == " {\"aps\": {} } ")
        #expect(try Self.request(topic: nil).topic == nil)
    }

    struct ExpiryCase: CustomTestStringConvertible {
        var testDescription: String
        var expiry: UInt32?
        var expiration: UInt32?
        var change: @Sendable (inout RequestRules) -> Void = { _ in }
    }

    static let expiries: [ExpiryCase] = [
        ExpiryCase(testDescription: "none leaves the header out", expiry: nil, expiration: nil),
        ExpiryCase(testDescription: "0 stays 0", expiry: 0, expiration: 0),
        ExpiryCase(testDescription: "ahead", expiry: Self.now + 60, expiration: Self.now + 60),
        ExpiryCase(testDescription: "past", expiry: 86_400, expiration: 86_400),
        ExpiryCase(
            testDescription: "30 days are the most",
            expiry: Self.now + 30 * 86_400 + 1,
            expiration: Self.now + 30 * 86_400
        ),
        ExpiryCase(testDescription: "-1", expiry: .max, expiration: Self.now + 30 * 86_400),
        ExpiryCase(testDescription: "a lifetime by option", expiry: 86_400, expiration: Self.now + 86_400) {
            $0.relativeExpiryMax = .seconds(30 * 86_400)
        },
        ExpiryCase(testDescription: "a lifetime never touches 0", expiry: 0, expiration: 0) {
            $0.relativeExpiryMax = .seconds(30 * 86_400)
        },
        ExpiryCase(testDescription: "a lifetime where none is said", expiry: nil, expiration: Self.now + 5) {
            $0.lifetime = .seconds(5)
        },
        ExpiryCase(testDescription: "too long a lifetime", expiry: nil, expiration: Self.now + 30 * 86_400) {
            $0.lifetime = .seconds(Int64.max)
        },
    ]

    @Test(arguments: Self.expiries) func `expiry`(_ fixture: ExpiryCase) throws {
        let request = try Self.request(expiry: fixture.expiry, fixture.change)
        #expect(request.expiry.wireValue == fixture.expiration)
    }

    @Test func `a clock far in the future causes no overflow`() throws {
        let request = RequestRules(topic: nil).request(
            token: try DeviceToken(bytes: [1]),
            payload: ByteBuffer(),
            expiry: .max,
            priority: nil,
            now: .max - 5
        )
        #expect(request.expiry.wireValue == .max)
    }

    @Test func `priority is 10 by default`() throws {
        #expect(try Self.request().priority == 10)
        #expect(try Self.request(priority: 5).priority == 5)
        #expect(try Self.request(priority: 10).priority == 10)
        #expect(try Self.request(priority: 10) { $0.priority = .conservingPower }.priority == 5)
    }

    @Test func `priority 1 is forwarded, and 0 and unknown ones count as none, also for the override`() throws {
        #expect(try Self.request(priority: 1).priority == 1)
        for priority: UInt8 in [0, 2, 7, 11, 255] {
            #expect(try Self.request(priority: priority).priority == 10)
            #expect(try Self.request(priority: priority) { $0.priority = .conservingPower }.priority == 5)
        }
    }

    struct PushTypeCase {
        var topic: String
        var payload: String
        var pushType: PushType?
        var priority: UInt8 = 10
    }

    static let pushTypes: [PushTypeCase] = [
        PushTypeCase(topic: "com.example.app", payload: Self.alert, pushType: .alert),
        PushTypeCase(topic: "com.example.app", payload: "{}", pushType: .alert),
        PushTypeCase(topic: "com.example.app", payload: "{\"mdm\":\"magic\"}", pushType: .mdm),
        PushTypeCase(topic: "com.apple.mgmt.External.1", payload: "{}", pushType: .mdm),
        PushTypeCase(topic: "com.example.app.voip", payload: Self.alert, pushType: .voip),
        PushTypeCase(
            topic: "com.example.app.voip",
            payload: "{\"aps\":{\"content-available\":1}}",
            pushType: .voip
        ),
        PushTypeCase(topic: "com.example.app.complication", payload: "{}", pushType: .complication),
        PushTypeCase(
            topic: "com.example.app",
            payload: "{\"aps\":{\"content-available\":1}}",
            pushType: .background,
            priority: 5
        ),
        PushTypeCase(
            topic: "com.example.app",
            payload: "{ \"a\" : [1,{\"aps\":2}], \"aps\" : { \"content-available\" : true }, \"b\":\"alert\" }",
            pushType: .background,
            priority: 5
        ),
        PushTypeCase(
            topic: "com.example.app",
            payload: "{\"aps\":{\"content-available\":1,\"badge\":1}}",
            pushType: .alert
        ),
        PushTypeCase(
            topic: "com.example.app",
            payload: "{\"aps\":{\"sound\":\"\",\"content-available\":1}}",
            pushType: .alert
        ),
        PushTypeCase(
            topic: "com.example.app",
            payload: "{\"aps\":{\"alert\":\"\",\"content-available\":1}}",
            pushType: .alert
        ),
        PushTypeCase(topic: "com.example.app", payload: "{\"aps\":{\"content-available\":0}}", pushType: .alert),
        PushTypeCase(topic: "com.example.app", payload: "{\"content-available\":1}", pushType: .alert),
        PushTypeCase(
            topic: "com.example.app",
            payload: "{\"aps\":{\"alert\":\"\\\"content-available\\\"\"}}",
            pushType: .alert
        ),
        PushTypeCase(topic: "com.example.app", payload: "{\"aps\":{\"mdm\":1}}", pushType: .alert),
        PushTypeCase(topic: "com.example.app", payload: "{\"mdm\"", pushType: .alert),
        PushTypeCase(topic: "com.example.app", payload: "[\"mdm\"]", pushType: .alert),
        PushTypeCase(topic: "pass.com.example", payload: "{\"aps\":{}}", pushType: nil),
        PushTypeCase(topic: "web.com.example", payload: Self.alert, pushType: nil),
        PushTypeCase(topic: "com.apple.mail.XServer.1", payload: "{}", pushType: .background, priority: 5),
        PushTypeCase(topic: "com.apple.calendar.XServer.1", payload: "{}", pushType: .background, priority: 5),
        PushTypeCase(topic: "com.example.app.voip-ptt", payload: "{}", pushType: .pushToTalk),
        PushTypeCase(topic: "com.example.app.location-query", payload: "{}", pushType: .location),
        PushTypeCase(
            topic: "com.example.app",
            payload: "{\"aps\":{\"event\":\"end\",\"timestamp\":1}}",
            pushType: .liveActivity
        ),
    ]

    @Test(arguments: Self.pushTypes) func `the push type is inferred from topic and payload`(_ fixture: PushTypeCase)
        throws
    {
        let request = try Self.request(fixture.payload, topic: fixture.topic)
        #expect(request.pushType == fixture.pushType)
        #expect(request.priority == fixture.priority)
    }

    @Test func `a background push never has priority 10`() throws {
        let payload = "{\"aps\":{\"content-available\":1}}"
        #expect(try Self.request(payload, priority: 10).priority == 5)
        #expect(try Self.request(payload, priority: 10) { $0.priority = .immediate }.priority == 5)
    }

    @Test func `the push type can be configured`() throws {
        #expect(try Self.request { $0.pushType = .fixed(.voip) }.pushType == .voip)
        #expect(try Self.request { $0.pushType = .omitted }.pushType == nil)
        let pass = try Self.request(topic: "pass.com.example") { $0.passPushType = .background }
        #expect(pass.pushType == .background)
        #expect(pass.priority == 5)
    }

    @Test func `a request's description has neither token nor payload`() throws {
        let requests = try [Self.request(), Self.request()]
        var text = "\(requests[0])" + String(reflecting: requests[1])
        // Four digits occur in about one of two thousand random identifiers.
        for request in requests { text = text.replacing("\(request.apnsID)", with: "") }
        #expect(!text.contains("abcd"))
        #expect(!text.contains("hello"))
    }
}

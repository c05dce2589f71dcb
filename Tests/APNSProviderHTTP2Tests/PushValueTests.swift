// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore
import TestSupport
import Testing

@testable import APNSProviderHTTP2

@Suite("Values of the HTTP/2 provider API")
struct PushValueTests {
    @Test func `an identifier is a canonical UUID of version 4, and is parsed`() throws {
        var random = SplitMix64(seed: 1)
        for _ in 0..<200 {
            let identifier = PushIdentifier(using: &random)
            let text = identifier.description
            #expect(text.count == 36)
            #expect(text == text.lowercased())
            #expect(Array(text)[14] == "4")
            #expect("89ab".contains(Array(text)[19]))
            #expect(PushIdentifier(text) == identifier)
        }
        let known = try #require(PushIdentifier("123e4567-e89b-42d3-a456-426614174000"))
        #expect(known.description == "123e4567-e89b-42d3-a456-426614174000")
    }

    @Test(arguments: ["123E4567-E89B-42D3-A456-426614174000", "123E4567-e89b-42D3-a456-426614174000"])
    func `an identifier is read in either letter case`(_ text: String) throws {
        #expect(PushIdentifier(text)?.description == "123e4567-e89b-42d3-a456-426614174000")
    }

    @Test(arguments: [
        "", "123e4567e89b42d3a456426614174000",
        "123e4567-e89b-42d3-a456-42661417400", "123e4567-e89b-42d3-a456-4266141740000",
        "123e4567-e89b-42d3-a456-42661417400g", "123e4567-e89b-42d3a-456-426614174000",
    ])
    func `no other text is an identifier`(_ text: String) {
        #expect(PushIdentifier(text) == nil)
    }

    @Test func `each documented reason has a unique text and a status`() {
        let texts = Set(PushReason.allDocumented.map(\.text))
        #expect(texts.count == 32)
        for reason in PushReason.allDocumented {
            #expect(PushReason(text: reason.text) == reason)
            #expect(reason.status.map { (400...503).contains($0) } == true)
        }
        #expect(PushReason(text: "BadEnvironmentKeyInToken") == .badEnvironmentKeyIdInToken)
    }

    @Test func `an unknown reason is truncated and sanitized`() {
        #expect(PushReason(text: "Novel") == .other("Novel"))
        #expect(PushReason(text: "a\nb\u{E9}") == .other("a?b?"))
        #expect(PushReason(text: String(repeating: "x", count: 1000)) == .other(String(repeating: "x", count: 64)))
        #expect(PushReason.other("Novel").status == nil)
    }

    @Test func `seconds and milliseconds are distinguished`() {
        let time = Timestamp(secondsSince1970: 1_700_000_000)
        let rejection = PushRejection(status: 410, reason: .unregistered, timestampNumber: 1_700_000_000)
        #expect(rejection.secondsSince1970 == 1_700_000_000 && rejection.timestamp == time)
        #expect(PushRejection(status: 410, reason: .unregistered, timestampNumber: 1_700_000_000_000).timestamp == time)
        let latest = PushRejection(status: 410, reason: .unregistered, timestampNumber: .max)
        #expect(latest.timestamp == Timestamp(millisecondsSince1970: .max))
        let made = PushRejection(status: 410, reason: .unregistered, timestamp: time)
        #expect(made.timestampNumber == 1_700_000_000_000 && made.timestamp == time)
        #expect(PushRejection(status: 410, reason: .unregistered).secondsSince1970 == nil)
    }

    private static let bodies: [(body: String, reason: PushReason, timestamp: UInt64?)] = [
        (#"{"reason":"Unregistered","timestamp":1700000000000}"#, .unregistered, 1_700_000_000_000),
        (#"{"timestamp":1700000000000,"reason":"ExpiredToken","more":[1]}"#, .expiredToken, 1_700_000_000_000),
        (#"{"reason":"BadDeviceToken"}"#, .badDeviceToken, nil), ("{}", .other(""), nil), ("", .other(""), nil),
        ("[1]", .other(""), nil), ("<html>", .other(""), nil),
        (#"{"reason":"Unregistered","timestamp":-1}"#, .unregistered, nil),
    ]

    @Test(arguments: Self.bodies.indices)
    func `a body is parsed as far as possible`(_ index: Int) {
        let (body, reason, timestamp) = Self.bodies[index]
        var answer = PushResponse(status: 410)
        // In pieces, as it may arrive.
        for byte in body.utf8 { answer.append(ByteBuffer(bytes: [byte])) }
        #expect(
            answer.outcome == .rejected(.http2(PushRejection(status: 410, reason: reason, timestampNumber: timestamp)))
        )
    }

    @Test func `an endless body is not stored`() {
        var answer = PushResponse(status: 500)
        for _ in 0..<100 { answer.append(ByteBuffer(repeating: 0x20, count: 1000)) }
        #expect(answer.body.readableBytes == PushResponse.bodyByteCountMax)
    }

    @Test func `descriptions show neither token nor payload`() throws {
        let token = try DeviceToken(bytes: [UInt8](repeating: 0xAB, count: 32))
        let request = PushRequest(token: token, payload: ByteBuffer(string: "secret"))
        var dumped = ""
        dump(request, to: &dumped)
        for text in ["\(request)", String(reflecting: request), dumped] {
            #expect(!text.contains("abab"))
            #expect(!text.contains("secret"))
        }
    }

    @Test func `invalid header values are refused locally`() throws {
        let token = try DeviceToken(bytes: [1])
        var request = PushRequest(token: token, payload: ByteBuffer(string: "{}"))
        #expect(request.problem(payloadByteCountMax: 4096) == nil)
        request.topic = "com.example\r\nx: y"
        #expect(request.problem(payloadByteCountMax: 4096) == .topic)
        request.topic = nil
        request.collapseID = String(repeating: "x", count: 65)
        #expect(request.problem(payloadByteCountMax: 4096) == .collapseID)
        request.collapseID = String(repeating: "x", count: 64)
        #expect(request.problem(payloadByteCountMax: 4096) == nil)
        request.pushType = PushType(rawValue: "")
        #expect(request.problem(payloadByteCountMax: 4096) == .pushType)
    }

    @Test func `a silent connection gets a PING, then is given up`() {
        let start = NIODeadline.uptimeNanoseconds(1_000_000_000_000)
        func make() -> PushKeepAlive {
            PushKeepAlive(idleDelay: .seconds(100), waitingDelay: .seconds(10), durationMax: .seconds(5), now: start)
        }
        var idle = make()
        #expect(idle.step(at: start + .seconds(99), isWaiting: false) == .rest)
        #expect(idle.step(at: start + .seconds(100), isWaiting: false) == .ping)
        #expect(idle.step(at: start + .seconds(104), isWaiting: false) == .rest)
        idle.received(at: start + .seconds(104))
        #expect(idle.step(at: start + .seconds(200), isWaiting: false) == .rest)
        var waiting = make()
        #expect(waiting.step(at: start + .seconds(10), isWaiting: true) == .ping)
        #expect(waiting.step(at: start + .seconds(15), isWaiting: true) == .giveUp)
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSServer
import APNSSession
import APNSTestKit
import APNSWire
import ListenerFixtures
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import OpenSSLTLS
import Testing

@testable import APNSGateway

/// The binary listener with the backend, over TLS, with a scripted service.
@Suite(.timeLimit(.minutes(2))) struct HTTP2BackendTests {
    typealias Fixture = ListenerFixture

    private static let list = TokenScope(topic: Fixture.topic, environment: .sandbox)

    private static func withGateway<Value: Sendable>(
        _ upstream: ScriptedUpstream,
        _ recorder: MemoryRecorder = MemoryRecorder(),
        resends: any ResendStore = VolatileResendStore(),
        rules: BridgeRules = .exact,
        logger: Logger = .current,
        change: (inout BridgeConfiguration) throws -> Void = { _ in },
        listening: (inout BinaryListenerConfiguration) -> Void = { _ in },
        _ body: @escaping @Sendable (Int) async throws -> Value
    ) async throws -> Value {
        let verifier = try CertificateVerifier(authorities: try Fixture.authority.get().certificatePEM)
        var bridge = BridgeConfiguration(
            name: "shop",
            admission: AdmissionRule(verifier: verifier),
            environment: .sandbox,
            upstream: upstream
        )
        bridge.retries.backoff.first = .milliseconds(10)
        try change(&bridge)
        let backend = HTTP2Backend(
            [bridge],
            recorder: recorder,
            resends: resends,
            clock: .system,
            rules: rules,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: logger
        )
        let listener = try Fixture.configuration {
            $0.admitsUnverified = true
            listening(&$0)
        }
        return try await Fixture.withListener(backend, listener) { try await body($1) }
    }

    private static func connect<Value: Sendable>(
        _ port: Int,
        _ identity: TLSIdentity? = nil,
        _ body: (ScriptedProvider) async throws -> Value
    ) async throws -> Value {
        let tls = try Fixture.client(identity)
        return try await ScriptedProvider.withConnection(port: port, tls: tls, body)
    }

    /// Sends three notifications, of which the first is rejected last, and expects an end after which a provider does
    /// not take them for accepted.
    private static func expectDoubt(_ port: Int, _ upstream: ScriptedUpstream, isHalfClosed: Bool) async throws {
        try await Self.connect(port) {
            try await $0.send(try Fixture.frames(1...3))
            try await upstream.wait(count: 3)
            for number in [2, 3] { upstream.answer(number, ScriptedUpstream.accepted) }
            if isHalfClosed { try await $0.closeOutput() }
            upstream.answer(1, ScriptedUpstream.badToken)
            let end = try await $0.end()
            #expect(end.bytes == [] && !end.hasCloseNotify)
        }
    }

    @Test func `notifications become requests for the certificate's topic`() async throws {
        let upstream = ScriptedUpstream()
        try await Self.withGateway(upstream) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...50))
                try await $0.send(try Fixture.probe(51))
                #expect(try await $0.end().bytes == Fixture.response(.missingDeviceToken, 51))
            }
        }
        #expect(upstream.tokens == Array(1...50))
        #expect(Set(upstream.asked.map(\.request.apnsID)).count == 50)
        let request = try #require(upstream.asked.first?.request)
        #expect(request.topic == Fixture.topic)
        #expect(request.pushType == .alert)
        #expect(request.priority == 10)
        #expect(request.expiry == .immediately)
        #expect(request.payload == ByteBuffer(string: "{\"aps\":{\"alert\":\"number 1\"}}"))
    }

    @Test func `what was delivered after a rejection is not delivered again, which is logged`() async throws {
        let (upstream, lines) = (ScriptedUpstream { _ in nil }, LogLines())
        try await Self.withGateway(upstream, logger: lines.logger(.info)) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...5))
                try await upstream.wait(count: 5)
                for number in [5, 4, 1] { upstream.answer(number, ScriptedUpstream.accepted) }
                upstream.answer(2, ScriptedUpstream.badToken)
                // No error response is sent while the service may still accept the third one.
                upstream.answer(3, ScriptedUpstream.accepted)
                #expect(try await $0.end().bytes == Fixture.response(.invalidToken, 2))
            }
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(3...6))
                try await upstream.wait(count: 6)
                upstream.answer(6, ScriptedUpstream.accepted)
                try await $0.send(try Fixture.probe(7))
                #expect(try await $0.end().bytes == Fixture.response(.missingDeviceToken, 7))
            }
        }
        #expect(upstream.tokens.sorted() == Array(1...6))
        let resent = lines.of("resends not delivered again")
        #expect(resent.map { "\($0.metadata["apns.legacy.notifications.resent"] ?? "")" } == ["3"])
        #expect(resent.allSatisfy { $0.level == .info })
    }

    @Test func `a resend whose expiry has moved with the time is not delivered again, which is logged`() async throws {
        let (upstream, lines) = (ScriptedUpstream { _ in nil }, LogLines())
        let expiry: UInt32 = 2_000_000_000
        try await Self.withGateway(upstream, logger: lines.logger(.info)) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...9, expiry: expiry))
                try await upstream.wait(count: 9)
                for number in [1] + Array(3...9) { upstream.answer(number, ScriptedUpstream.accepted) }
                upstream.answer(2, ScriptedUpstream.badToken)
                #expect(try await $0.end().bytes == Fixture.response(.invalidToken, 2))
            }
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(3...10, expiry: expiry + 1))
                try await upstream.wait(count: 10)
                upstream.answer(10, ScriptedUpstream.accepted)
                try await $0.send(try Fixture.probe(11))
                #expect(try await $0.end().bytes == Fixture.response(.missingDeviceToken, 11))
            }
        }
        #expect(upstream.tokens.sorted() == Array(1...10))
        let resent = lines.of("resends not delivered again")
        #expect(resent.map { "\($0.metadata["apns.legacy.notifications.resent"] ?? "")" } == ["7"])
        #expect(resent.map { "\($0.metadata["apns.legacy.notifications.resent.expiry"] ?? "")" } == ["7"])
        #expect(lines.of("possible resends delivered").isEmpty)
    }

    @Test(arguments: [1, 2] as [UInt32])
    func `what follows a failed message named with status 1 is not delivered again`(first: UInt32) async throws {
        let fails = NIOLockedValueBox(true)
        let upstream = ScriptedUpstream {
            let isThrottled = ScriptedUpstream.number($0.token) == 1 && fails.withLockedValue { $0 }
            let throttled = DeliveryOutcome.answered(status: 429, reason: "TooManyRequests", timestamp: nil)
            return isThrottled ? throttled : ScriptedUpstream.accepted
        }
        let expiry: UInt32 = 2_000_000_000
        try await Self.withGateway(upstream, change: { $0.retries.budget = .milliseconds(40) }) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...9, expiry: expiry))
                #expect(try await $0.end().bytes == Fixture.response(.processingError, 1))
            }
            fails.withLockedValue { $0 = false }
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(first...9, expiry: expiry + 1))
                try await $0.send(try Fixture.probe(10))
                #expect(try await $0.end().bytes == Fixture.response(.missingDeviceToken, 10))
            }
        }
        #expect(upstream.tokens.filter { $0 != 1 } == Array(2...9))
    }

    @Test func `a few that may be resends with another expiry are delivered, which is logged`() async throws {
        let (upstream, lines) = (ScriptedUpstream { _ in nil }, LogLines())
        try await Self.withGateway(upstream, logger: lines.logger(.info)) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...3, expiry: 2_000_000_000))
                try await upstream.wait(count: 3)
                for number in [2, 3] { upstream.answer(number, ScriptedUpstream.accepted) }
                upstream.answer(1, ScriptedUpstream.badToken)
                #expect(try await $0.end().bytes == Fixture.response(.invalidToken, 1))
            }
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(2...3, expiry: 2_000_000_001))
                try await upstream.wait(count: 5)
                for number in [4, 5] { upstream.asked[number - 1].onResponse(ScriptedUpstream.accepted) }
                try await $0.send(try Fixture.probe(4))
                #expect(try await $0.end().bytes == Fixture.response(.missingDeviceToken, 4))
            }
        }
        #expect(upstream.tokens.sorted() == [1, 2, 2, 3, 3])
        let possible = lines.of("possible resends delivered")
        #expect(possible.map { "\($0.metadata["apns.legacy.notifications.resent.possible"] ?? "")" } == ["2"])
        #expect(possible.allSatisfy { $0.level == .notice })
    }

    @Test func `no error response is sent while the service may accept what follows the rejection`() async throws {
        let upstream = ScriptedUpstream { _ in nil }
        try await Self.withGateway(upstream) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...3))
                try await upstream.wait(count: 3)
                upstream.answer(1, ScriptedUpstream.badToken)
                // Its response is lost with the connection to the service, so the same request is sent again.
                upstream.answer(2, .indeterminate(nil))
                try await upstream.wait(count: 4)
                upstream.asked[3].onResponse(ScriptedUpstream.accepted)
                // It only waits for a retry, which its resend replaces.
                upstream.answer(3, .answered(status: 503, reason: "ServiceUnavailable", timestamp: nil))
                #expect(try await $0.end().bytes == Fixture.response(.invalidToken, 1))
            }
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(2...3))
                try await upstream.wait(count: 5)
                upstream.asked[4].onResponse(ScriptedUpstream.accepted)
                try await $0.send(try Fixture.probe(4))
                #expect(try await $0.end().bytes == Fixture.response(.missingDeviceToken, 4))
            }
        }
        #expect(upstream.tokens == [1, 2, 3, 2, 3])
    }

    @Test(arguments: [1, 2], [false, true])
    func `an unknown outcome is not reported as accepted, nor at most once as not accepted`(
        lost: Int,
        isAtMostOnce: Bool
    ) async throws {
        let lines = LogLines()
        let upstream = ScriptedUpstream {
            switch ScriptedUpstream.number($0.token) {
            case lost: .indeterminate(nil)
            case 1: ScriptedUpstream.badToken
            default: ScriptedUpstream.accepted
            }
        }
        let change: @Sendable (inout BridgeConfiguration) -> Void = {
            $0.retries.budget = .milliseconds(40)
            $0.retries.givesUpUnknownUnkept = isAtMostOnce
        }
        let response = Fixture.response(lost == 1 ? .processingError : .invalidToken, 1)
        try await Self.withGateway(upstream, logger: lines.logger(.info), change: change) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...3))
                let end = try await $0.end()
                #expect(end.bytes == (isAtMostOnce ? [] : response))
                #expect(end.hasCloseNotify != isAtMostOnce)
            }
        }
        let unknown = lines.of("not delivered").filter {
            "\($0.metadata["apns.legacy.settled.cause"] ?? "")" == "unknown"
        }
        #expect(unknown.count == 1)
        #expect((unknown.first?.metadata["apns.legacy.refusal.reason"] == nil) == isAtMostOnce)
    }

    @Test(arguments: [false, true])
    func `an end that takes too long is not orderly`(isHalfClosed: Bool) async throws {
        // Nothing is ever written to this disk.
        let (upstream, resends) = (ScriptedUpstream { _ in nil }, WalkResendStore(WalkDisk()))
        try await Self.withGateway(upstream, resends: resends, listening: { $0.outcomeTimeout = .milliseconds(300) }) {
            port in
            try await Self.expectDoubt(port, upstream, isHalfClosed: isHalfClosed)
        }
    }

    @Test(arguments: ["BadCertificate", "TopicDisallowed"])
    func `what the service may have accepted is named in the log, whatever it answers to the next attempt`(
        reason: String
    ) async throws {
        let (upstream, lines) = (ScriptedUpstream { _ in nil }, LogLines())
        try await Self.withGateway(upstream, logger: lines.logger(.info)) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...1))
                try await upstream.wait(count: 1)
                upstream.asked[0].onResponse(.indeterminate(nil))
                try await upstream.wait(count: 2)
                let status = reason == "BadCertificate" ? 403 : 400
                upstream.asked[1].onResponse(.answered(status: status, reason: reason, timestamp: nil))
                _ = try await $0.end()
            }
        }
        let line = try #require(lines.of("not delivered").first)
        #expect("\(line.metadata["apns.legacy.refusal.reason"] ?? "")".contains("it can arrive twice"))
    }

    @Test(arguments: [false, true])
    func `without room for expected resends no error response is sent, and no orderly end`(
        isHalfClosed: Bool
    ) async throws {
        let (upstream, lines) = (ScriptedUpstream { _ in nil }, LogLines())
        let change: @Sendable (inout BridgeConfiguration) -> Void = { $0.rememberedCountMax = 1 }
        try await Self.withGateway(upstream, logger: lines.logger(.info), change: change) { port in
            try await Self.expectDoubt(port, upstream, isHalfClosed: isHalfClosed)
        }
        let line = "connection closed without an error response"
        #expect(lines.of(line).count == 1)
    }

    @Test func `rejections are ignored if configured`() async throws {
        let (upstream, recorder) = (
            ScriptedUpstream {
                ScriptedUpstream.number($0.token) == 2 ? ScriptedUpstream.badToken : ScriptedUpstream.accepted
            }, MemoryRecorder()
        )
        let change: @Sendable (inout BridgeConfiguration) -> Void = {
            $0.rejections = .ignore
            $0.listsRejectedTokens = true
            $0.payloadByteCountMax = 60
        }
        try await Self.withGateway(upstream, recorder, change: change) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...3))
                // Too long for the listener, in two writes; too long for the provider; without a token.
                var frames = ByteBuffer(bytes: [1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 32] + [UInt8](repeating: 1, count: 32))
                frames.writeInteger(UInt16(3000))
                try await $0.send(frames)
                try await $0.send(ByteBuffer(repeating: 0x20, count: 3000))
                let long = NotificationFrame(
                    token: try Fixture.token(10),
                    payload: ByteBuffer(string: "{\"aps\":\"\(String(repeating: "a", count: 100))\"}"),
                    identifier: 10,
                    command: .enhanced
                )
                var others = ByteBuffer()
                try long.write(into: &others)
                others.writeBytes([0, 0, 0, 0, 2, 0x7B, 0x7D] as [UInt8])
                try await $0.send(others)
                try await $0.send(try Fixture.frames(4...6))
                try await $0.send(try Fixture.probe(7))
                #expect(try await $0.end().bytes == Fixture.response(.missingDeviceToken, 7))
            }
        }
        #expect(upstream.tokens == Array(1...6))
        #expect(recorder.recorded.map(\.tuple.token) == [try Fixture.token(2)])
    }

    @Test func `notifications without identifiers are not remembered, since no response can ask for them`() async throws
    {
        let upstream = ScriptedUpstream { _ in nil }
        try await Self.withGateway(upstream) { port in
            for round in 0..<2 {
                try await Self.connect(port) {
                    try await $0.send(try Fixture.frames(1...5, command: .simple))
                    try await upstream.wait(count: 5 * (round + 1))
                    for asked in upstream.asked[(5 * round)...] {
                        let isBad = ScriptedUpstream.number(asked.request.token) == 2
                        asked.onResponse(isBad ? ScriptedUpstream.badToken : ScriptedUpstream.accepted)
                    }
                    #expect(try await $0.end().bytes == [])
                }
            }
        }
        #expect(upstream.tokens == Array(1...5) + Array(1...5))
    }

    @Test func `a dead device is added to the feedback list, and a delivery removes it`() async throws {
        let (upstream, recorder) = (
            ScriptedUpstream {
                let isDead = ScriptedUpstream.number($0.token) == 2
                let dead = DeliveryOutcome.answered(status: 410, reason: "Unregistered", timestamp: 1_700_000_000_500)
                return isDead ? dead : ScriptedUpstream.accepted
            }, MemoryRecorder()
        )
        try await Self.withGateway(upstream, recorder) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...3))
                try await $0.send(try Fixture.probe(4))
                #expect(try await $0.end().bytes == Fixture.response(.missingDeviceToken, 4))
            }
        }
        let tuple = FeedbackTuple(token: try Fixture.token(2), failedAt: 1_700_000_000)
        #expect(recorder.recorded.map(\.tuple) == [tuple])
        #expect(recorder.recorded.map(\.list) == [Self.list])
    }

    @Test(arguments: [Logger.Level.debug, .info])
    func `at debug level each delivery is logged with its apns-id and its number, otherwise none`(
        level: Logger.Level
    ) async throws {
        let (upstream, lines) = (ScriptedUpstream(), LogLines())
        try await Self.withGateway(upstream, logger: lines.logger(level)) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...3))
                try await $0.send(try Fixture.probe(4))
                #expect(try await $0.end().bytes == Fixture.response(.missingDeviceToken, 4))
            }
        }
        let delivered = lines.of("delivered")
        guard level == .debug else {
            #expect(delivered.isEmpty)
            return
        }
        func values(_ key: String) -> [String] { delivered.map { "\($0.metadata[key] ?? "none")" } }
        #expect(values("apns.legacy.request.identifier") == upstream.asked.map { "\($0.request.apnsID)" })
        #expect(values("apns.legacy.notification.number") == ["1", "2", "3"])
        let admitted = try #require(lines.of("provider admitted").first)
        let connection = try #require(admitted.metadata["apns.legacy.bridge.connection.id"])
        #expect(Set(values("apns.legacy.bridge.connection.id")) == ["\(connection)"])
        #expect(!"\(delivered)".contains(try Fixture.token(1).hexadecimal))
    }

    @Test func `temporary failures are retried with the same identifier`() async throws {
        let upstream = ScriptedUpstream { _ in nil }
        try await Self.withGateway(upstream) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...1))
                try await upstream.wait(count: 1)
                upstream.asked[0].onResponse(.answered(status: 503, reason: "ServiceUnavailable", timestamp: nil))
                try await upstream.wait(count: 2)
                upstream.asked[1].onResponse(.indeterminate(nil))
                try await upstream.wait(count: 3)
                upstream.asked[2].onResponse(ScriptedUpstream.accepted)
                try await $0.send(try Fixture.probe(2))
                #expect(try await $0.end().bytes == Fixture.response(.missingDeviceToken, 2))
            }
        }
        #expect(Set(upstream.asked.map(\.request.apnsID)).count == 1)
    }

    @Test func `a header that the service rejects is omitted from later attempts`() async throws {
        let upstream = ScriptedUpstream {
            if $0.priority != nil { return .answered(status: 400, reason: "BadPriority", timestamp: nil) }
            guard $0.pushType != nil else { return ScriptedUpstream.accepted }
            return .answered(status: 400, reason: "InvalidPushType", timestamp: nil)
        }
        try await Self.withGateway(upstream) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...1))
                try await $0.send(try Fixture.probe(2))
                #expect(try await $0.end().bytes == Fixture.response(.missingDeviceToken, 2))
            }
        }
        let requests = upstream.asked.map(\.request)
        #expect(requests.map(\.priority) == [10, nil, nil] && requests.map(\.pushType) == [.alert, .alert, nil])
        #expect(Set(requests.map(\.apnsID)).count == 1)
    }

    @Test func `a spent budget is a shutdown that names the last accepted one, and delays the next connection`()
        async throws
    {
        let upstream = ScriptedUpstream {
            let isFirst = ScriptedUpstream.number($0.token) == 1
            return isFirst ? ScriptedUpstream.accepted : .answered(status: 500, reason: nil, timestamp: nil)
        }
        let lines = LogLines()
        let change: @Sendable (inout BridgeConfiguration) -> Void = { $0.retries.budget = .milliseconds(40) }
        try await Self.withGateway(upstream, logger: lines.logger(.info), change: change) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...2))
                #expect(try await $0.end().bytes == Fixture.response(.shutdown, 1))
            }
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...1))
                try await $0.send(try Fixture.probe(2))
                #expect(try await $0.end().bytes == Fixture.response(.missingDeviceToken, 2))
            }
        }
        #expect(upstream.tokens.filter { $0 == 1 } == [1, 1])
        #expect(lines.of("provider delayed after a fault").count == 1)
    }

    @Test func `a throttled token is never reported as accepted`() async throws {
        let upstream = ScriptedUpstream {
            let isThrottled = ScriptedUpstream.number($0.token) == 3
            let throttled = DeliveryOutcome.answered(status: 429, reason: "TooManyRequests", timestamp: nil)
            return isThrottled ? throttled : ScriptedUpstream.accepted
        }
        try await Self.withGateway(upstream, change: { $0.retries.budget = .milliseconds(40) }) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...5))
                #expect(try await $0.end().bytes == Fixture.response(.shutdown, 2))
            }
        }
    }

    @Test func `a wrong topic is reported, and delays only that certificate`() async throws {
        let other = try Fixture.authority.get().issueClient(topic: "com.example.other")
        let upstream = ScriptedUpstream {
            let isWrong = $0.topic == "com.example.other"
            let wrong = DeliveryOutcome.answered(status: 400, reason: "TopicDisallowed", timestamp: nil)
            return isWrong ? wrong : ScriptedUpstream.accepted
        }
        let lines = LogLines()
        try await Self.withGateway(upstream, logger: lines.logger(.info)) { port in
            try await Self.connect(port, other.identity) {
                try await $0.send(try Fixture.frames(1...1))
                #expect(try await $0.end().bytes == Fixture.response(.missingTopic, 1))
            }
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(2...2))
                try await $0.send(try Fixture.probe(3))
                #expect(try await $0.end().bytes == Fixture.response(.missingDeviceToken, 3))
            }
            #expect(lines.of("provider delayed after a fault").isEmpty)
            try await Self.connect(port, other.identity) {
                try await $0.send(try Fixture.frames(1...1))
                #expect(try await $0.end().bytes == Fixture.response(.missingTopic, 1))
            }
            #expect(lines.of("provider delayed after a fault").count == 1)
        }
    }

    @Test(arguments: [0, 2])
    func
        `refused credentials are a shutdown after the accepted notifications, or an error of the first`(
            takenCount: Int
        ) async throws
    {
        let upstream = ScriptedUpstream {
            let isTaken = ScriptedUpstream.number($0.token) <= takenCount
            let refused = DeliveryOutcome.answered(status: 403, reason: "BadCertificate", timestamp: nil)
            return isTaken ? ScriptedUpstream.accepted : refused
        }
        try await Self.withGateway(upstream) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...5))
                let ending = try await $0.end()
                let first = Fixture.response(.processingError, 1)
                #expect(ending.bytes == (takenCount > 0 ? Fixture.response(.shutdown, UInt32(takenCount)) : first))
                #expect(ending.hasCloseNotify)
            }
            // A provider that reconnects immediately is delayed, and receives the same response.
            let bytes = try await Self.connect(port) {
                try await $0.send(try Fixture.frames(5...5))
                return try await $0.end().bytes
            }
            #expect(bytes == Fixture.response(.processingError, 5))
        }
    }

    @Test func `a full queue stops reading from the provider, and nothing is lost`() async throws {
        let upstream = ScriptedUpstream { _ in nil }
        upstream.hasRoom = false
        try await Self.withGateway(upstream) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...20))
                for number in 1...20 {
                    try await upstream.wait(count: number)
                    #expect(upstream.asked.count == number)
                    upstream.asked[number - 1].onResponse(ScriptedUpstream.accepted)
                }
                try await $0.send(try Fixture.probe(21))
                #expect(try await $0.end().bytes == Fixture.response(.missingDeviceToken, 21))
            }
        }
        #expect(upstream.tokens == Array(1...20))
    }

    @Test func `a payload over the provider's limit is rejected by the gateway`() async throws {
        let upstream = ScriptedUpstream()
        try await Self.withGateway(upstream, change: { $0.payloadByteCountMax = 10 }) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...2))
                #expect(try await $0.end().bytes == Fixture.response(.invalidPayloadSize, 1))
            }
        }
        #expect(upstream.asked.isEmpty)
    }

    @Test func `a held payload over the limit is rejected when it turns out to be no resend`() async throws {
        let expiry: UInt32 = 2_000_000_000
        let disk = WalkDisk()
        let resends = try (1...5).map { number in
            let content = ResendContent(
                token: try Fixture.token(number),
                payload: ByteBuffer(string: "{\"aps\":{\"alert\":\"number \(number)\"}}"),
                expiry: expiry,
                priority: nil
            )
            return ExpectedResend(
                key: content.key,
                place: .init(response: 1, index: Int64(number) - 1),
                lifetime: content.lifetime(arrivedAt: BridgeClock.system.milliseconds())
            )
        }
        disk.insert(resends)
        var rules = BridgeRules.exact
        rules.runs.holdDuration = .milliseconds(10)
        let upstream = ScriptedUpstream()
        let change: @Sendable (inout BridgeConfiguration) -> Void = { $0.payloadByteCountMax = 10 }
        try await Self.withGateway(upstream, resends: WalkResendStore(disk), rules: rules, change: change) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...1, expiry: expiry + 1))
                #expect(try await $0.end().bytes == Fixture.response(.invalidPayloadSize, 1))
            }
        }
        #expect(upstream.asked.isEmpty)
    }

    @Test func `only configured providers are admitted`() async throws {
        let upstream = ScriptedUpstream()
        let foreign = try CertificateAuthority(name: "Foreign").issueClient(topic: Fixture.topic)
        try await Self.withGateway(upstream) { port in
            try await Self.connect(port, foreign.identity) {
                $0.push(try Fixture.frames(1...1))
                #expect(try await $0.end().bytes == [])
            }
        }
        #expect(upstream.asked.isEmpty)
    }

    @Test func `a pinned certificate is admitted regardless of its issuer`() async throws {
        let upstream = ScriptedUpstream()
        let foreign = try CertificateAuthority(name: "Foreign").issueClient(topic: "com.example.other")
        let pin = AdmissionRule.Pin(fingerprint: foreign.identity.certificate.fingerprint)
        try await Self.withGateway(upstream, change: { $0.admission = AdmissionRule(pins: [pin]) }) { port in
            try await Self.connect(port, foreign.identity) {
                try await $0.send(try Fixture.frames(1...1))
                try await $0.send(try Fixture.probe(2))
                #expect(try await $0.end().bytes == Fixture.response(.missingDeviceToken, 2))
            }
        }
        #expect(upstream.asked.map(\.request.topic) == ["com.example.other"])
    }
}

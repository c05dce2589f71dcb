// SPDX-License-Identifier: Apache-2.0

import APNSHTTP2
import APNSSession
import APNSTestKit
import APNSWire
import Logging
import NIOCore
import OpenSSLTLS
import Testing

@testable import APNSGateway

/// The binary front with the backend, over TLS, before a service that a test plays.
@Suite(.timeLimit(.minutes(2))) struct HTTP2BackendTests {
    typealias Fixture = FrontFixture

    private static let list = FeedbackListName(topic: Fixture.topic, environment: "sandbox")

    private static func withGateway<Value: Sendable>(
        _ upstream: ScriptedUpstream,
        _ recorder: MemoryRecorder = MemoryRecorder(),
        logger: Logger = .current,
        change: (inout BridgeConfiguration) throws -> Void = { _ in },
        _ body: @escaping @Sendable (Int) async throws -> Value
    ) async throws -> Value {
        let verifier = try CertificateVerifier(authorities: try Fixture.authority.get().certificatePEM)
        var bridge = BridgeConfiguration(
            name: "shop",
            admission: AdmissionRule(verifier: verifier),
            environment: "sandbox",
            upstream: upstream
        )
        bridge.retries.backOffFirst = .milliseconds(10)
        try change(&bridge)
        let backend = HTTP2Backend([bridge], recorder: recorder, logger: logger)
        let front = try Fixture.configuration { $0.admitsUnverified = true }
        return try await Fixture.withFront(backend, front) { try await body($1) }
    }

    private static func connect<Value: Sendable>(
        _ port: Int,
        _ identity: TLSIdentity? = nil,
        _ body: (ScriptedProvider) async throws -> Value
    ) async throws -> Value {
        let context = try Fixture.client(identity)
        return try await ScriptedProvider.withConnection(port: port, context: context, body)
    }

    @Test func `what is sent goes out as requests for the certificate's topic`() async throws {
        let upstream = ScriptedUpstream()
        try await Self.withGateway(upstream) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...50))
                try await $0.send(try Fixture.probe(51))
                #expect(try await $0.end().octets == Fixture.response(.missingDeviceToken, 51))
            }
        }
        #expect(upstream.tokens == Array(1...50))
        #expect(Set(upstream.asked.map(\.request.identifier)).count == 50)
        let request = try #require(upstream.asked.first?.request)
        #expect(request.topic == Fixture.topic)
        #expect(request.pushType == .alert)
        #expect(request.priority == 10)
        #expect(request.expiration == 0)
        #expect(request.payload == ByteBuffer(string: "{\"aps\":{\"alert\":\"number 1\"}}"))
    }

    @Test func `what was delivered behind a rejection is not delivered again`() async throws {
        let upstream = ScriptedUpstream { _ in nil }
        try await Self.withGateway(upstream) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...5))
                await upstream.wait(count: 5)
                for number in [5, 4, 1] { upstream.answer(number, ScriptedUpstream.accepted) }
                upstream.answer(2, ScriptedUpstream.badToken)
                #expect(try await $0.end().octets == Fixture.response(.invalidToken, 2))
            }
            // The third is still on its way when it comes again.
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(3...6))
                await upstream.wait(count: 6)
                upstream.answer(3, ScriptedUpstream.accepted)
                upstream.answer(6, ScriptedUpstream.accepted)
                try await $0.send(try Fixture.probe(7))
                #expect(try await $0.end().octets == Fixture.response(.missingDeviceToken, 7))
            }
        }
        #expect(upstream.tokens.sorted() == Array(1...6))
    }

    @Test func `a dead device goes to the feedback list, and a delivery takes it off`() async throws {
        let (upstream, recorder) = (
            ScriptedUpstream {
                let isDead = ScriptedUpstream.number($0.token) == 2
                let dead = UpstreamAnswer.answered(status: 410, reason: "Unregistered", timestamp: 1_700_000_000_500)
                return isDead ? dead : ScriptedUpstream.accepted
            }, MemoryRecorder()
        )
        try await Self.withGateway(upstream, recorder) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...3))
                try await $0.send(try Fixture.probe(4))
                #expect(try await $0.end().octets == Fixture.response(.missingDeviceToken, 4))
            }
        }
        let tuple = FeedbackTuple(failedAt: 1_700_000_000, token: try Fixture.token(2))
        #expect(recorder.recorded.map(\.tuple) == [tuple])
        #expect(recorder.recorded.map(\.list) == [Self.list])
    }

    @Test(arguments: [Logger.Level.debug, .info])
    func `at debug level each delivery is logged with its apns-id and its number, else none`(
        level: Logger.Level
    ) async throws {
        let (upstream, lines) = (ScriptedUpstream(), LogLines())
        try await Self.withGateway(upstream, logger: lines.logger(level)) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...3))
                try await $0.send(try Fixture.probe(4))
                #expect(try await $0.end().octets == Fixture.response(.missingDeviceToken, 4))
            }
        }
        let delivered = lines.of("delivered")
        guard level == .debug else {
            #expect(delivered.isEmpty)
            return
        }
        func values(_ key: String) -> [String] { delivered.map { "\($0.metadata[key] ?? "none")" } }
        #expect(values("push.request.identifier") == upstream.asked.map { "\($0.request.identifier)" })
        #expect(values("push.notification.number") == ["1", "2", "3"])
        let admitted = try #require(lines.of("provider admitted").first)
        let connection = try #require(admitted.metadata["push.bridge.connection.id"])
        #expect(Set(values("push.bridge.connection.id")) == ["\(connection)"])
        #expect(!"\(delivered)".contains(try Fixture.token(1).hexadecimal))
    }

    @Test func `trouble is waited out, under the same identifier`() async throws {
        let upstream = ScriptedUpstream { _ in nil }
        try await Self.withGateway(upstream) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...1))
                await upstream.wait(count: 1)
                upstream.asked[0].onAnswer(.answered(status: 503, reason: "ServiceUnavailable", timestamp: nil))
                await upstream.wait(count: 2)
                upstream.asked[1].onAnswer(.lost)
                await upstream.wait(count: 3)
                upstream.asked[2].onAnswer(ScriptedUpstream.accepted)
                try await $0.send(try Fixture.probe(2))
                #expect(try await $0.end().octets == Fixture.response(.missingDeviceToken, 2))
            }
        }
        #expect(Set(upstream.asked.map(\.request.identifier)).count == 1)
    }

    @Test func `a spent budget is a shutdown that names the last one accepted, and keeps the provider out`()
        async throws
    {
        let upstream = ScriptedUpstream {
            let isFirst = ScriptedUpstream.number($0.token) == 1
            return isFirst ? ScriptedUpstream.accepted : .answered(status: 500, reason: nil, timestamp: nil)
        }
        try await Self.withGateway(upstream, change: { $0.retries.budget = .milliseconds(40) }) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...2))
                #expect(try await $0.end().octets == Fixture.response(.shutdown, 1))
            }
            let octets = try await Self.connect(port) { try await $0.end().octets }
            #expect(octets == [])
        }
    }

    @Test func `a wrong topic is told once, then the provider is kept out`() async throws {
        let upstream = ScriptedUpstream { _ in .answered(status: 400, reason: "TopicDisallowed", timestamp: nil) }
        try await Self.withGateway(upstream) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...1))
                #expect(try await $0.end().octets == Fixture.response(.missingTopic, 1))
            }
            let octets = try await Self.connect(port) { try await $0.end().octets }
            #expect(octets == [])
        }
    }

    @Test(arguments: [0, 2])
    func `credentials that the service refuses are a shutdown behind what was taken, else nothing`(
        takenCount: Int
    ) async throws {
        let upstream = ScriptedUpstream {
            let isTaken = ScriptedUpstream.number($0.token) <= takenCount
            let refused = UpstreamAnswer.answered(status: 403, reason: "BadCertificate", timestamp: nil)
            return isTaken ? ScriptedUpstream.accepted : refused
        }
        try await Self.withGateway(upstream) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...5))
                let ending = try await $0.end()
                #expect(ending.octets == (takenCount > 0 ? Fixture.response(.shutdown, UInt32(takenCount)) : []))
                #expect(ending.hasCloseNotify)
            }
            // Nobody is asked to come back at once.
            let octets = try await Self.connect(port) { try await $0.end().octets }
            #expect(octets == [])
        }
    }

    @Test func `without room the provider is not read from, and nothing is lost`() async throws {
        let upstream = ScriptedUpstream { _ in nil }
        upstream.hasRoom = false
        try await Self.withGateway(upstream) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...20))
                for number in 1...20 {
                    await upstream.wait(count: number)
                    #expect(upstream.asked.count == number)
                    upstream.asked[number - 1].onAnswer(ScriptedUpstream.accepted)
                }
                try await $0.send(try Fixture.probe(21))
                #expect(try await $0.end().octets == Fixture.response(.missingDeviceToken, 21))
            }
        }
        #expect(upstream.tokens == Array(1...20))
    }

    @Test func `a payload over the provider's limit is refused here`() async throws {
        let upstream = ScriptedUpstream()
        try await Self.withGateway(upstream, change: { $0.payloadOctetCountMax = 10 }) { port in
            try await Self.connect(port) {
                try await $0.send(try Fixture.frames(1...2))
                #expect(try await $0.end().octets == Fixture.response(.invalidPayloadSize, 1))
            }
        }
        #expect(upstream.asked.isEmpty)
    }

    @Test func `nobody is let in who is not configured`() async throws {
        let upstream = ScriptedUpstream()
        let foreign = try ThrowawayAuthority(name: "Foreign").issueClient(topic: Fixture.topic)
        try await Self.withGateway(upstream) { port in
            try await Self.connect(port, foreign.identity) {
                $0.push(try Fixture.frames(1...1))
                #expect(try await $0.end().octets == [])
            }
        }
        #expect(upstream.asked.isEmpty)
    }

    @Test func `a pinned certificate is let in, whoever issued it`() async throws {
        let upstream = ScriptedUpstream()
        let foreign = try ThrowawayAuthority(name: "Foreign").issueClient(topic: "com.example.other")
        let pin = AdmissionRule.Pin(fingerprint: foreign.identity.certificate.fingerprint)
        try await Self.withGateway(upstream, change: { $0.admission = AdmissionRule(pins: [pin]) }) { port in
            try await Self.connect(port, foreign.identity) {
                try await $0.send(try Fixture.frames(1...1))
                try await $0.send(try Fixture.probe(2))
                #expect(try await $0.end().octets == Fixture.response(.missingDeviceToken, 2))
            }
        }
        #expect(upstream.asked.map(\.request.topic) == ["com.example.other"])
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSession
import APNSSimulator
import APNSTestKit
import APNSWire
import NIOCore
import OpenSSLTLS
import TestSupport
import Testing

/// The clients that a simulator refuses by option.
@Suite(.timeLimit(.minutes(1)))
struct ServicePolicyTests {
    typealias Fixture = SimulatorFixture

    /// Whether the gateway accepts a probe on a new connection, and names its identifier.
    private func isAnswered(_ simulator: Simulator, _ tls: TLSConfiguration? = nil) async throws -> Bool {
        let tls = try tls ?? Fixture.client()
        let ending = try await ScriptedProvider.withConnection(port: simulator.gatewayPort, tls: tls) {
            $0.push(try Fixture.probe(7))
            return try await $0.end()
        }
        #expect(ending.bytes.isEmpty || ending.bytes == Fixture.response(2, 7))
        return !ending.bytes.isEmpty
    }

    private func feedback(_ simulator: Simulator, _ tls: TLSConfiguration? = nil) async throws -> [UInt8] {
        let tls = try tls ?? Fixture.client()
        return try await ScriptedProvider.withConnection(port: simulator.feedbackPort, tls: tls) {
            try await $0.end().bytes
        }
    }

    private static func path(_ device: Int) throws -> String { "/3/device/" + (try Fixture.token(device)).hexadecimal }

    // MARK: Certificates

    @Test func `a certificate is revoked and restored while the simulator runs`() async throws {
        let fingerprint = try Fixture.provider.get().identity.certificate.fingerprint
        try await Simulator.withRunning(try Fixture.configuration()) { simulator in
            var dead = try Fixture.message(1, to: 101)
            dead.writeImmutableBuffer(try Fixture.probe(2))
            _ = try await Fixture.send(dead, to: simulator)
            #expect(try await self.isAnswered(simulator))
            let client = try Fixture.client()
            try await RawPushClient.withConnection(port: simulator.http2Port, tls: client) { push in
                let path = try Self.path(1)
                #expect(try await push.send(path).text == "200")
                simulator.revoke(fingerprint.uppercased())
                #expect(simulator.revokedFingerprints == [fingerprint])
                #expect(try await push.send(path).text == "403 BadCertificate")
                #expect(try await self.isAnswered(simulator) == false)
                #expect(try await self.feedback(simulator).isEmpty)
                #expect(simulator.restore(fingerprint) && !simulator.restore(fingerprint))
                #expect(try await push.send(path).text == "200")
            }
            #expect(try await self.isAnswered(simulator))
            #expect(try await self.feedback(simulator).count == 38)
        }
    }

    @Test func `an open connection to the gateway ends when its certificate is revoked`() async throws {
        let fingerprint = try Fixture.provider.get().identity.certificate.fingerprint
        try await Simulator.withRunning(try Fixture.configuration()) { simulator in
            let tls = try Fixture.client()
            let ending = try await ScriptedProvider.withConnection(port: simulator.gatewayPort, tls: tls) { provider in
                try await provider.send(try Fixture.message(5, to: 1))
                _ = try await simulator.next(for: try Fixture.token(1), within: .seconds(20))
                simulator.revoke(fingerprint)
                return try await provider.end()
            }
            #expect(ending.bytes == Fixture.response(10, 5))
        }
    }

    @Test func `a certificate on a revocation list is refused`() async throws {
        let authority = try Fixture.authority.get()
        let revoked = try authority.issueClient(topic: Fixture.topic)
        let list = try authority.revocationList(of: [revoked.identity.certificate])
        var configuration = try Fixture.configuration()
        configuration.certificateVerifier = try CertificateVerifier(
            authorities: authority.certificatePEM,
            revocations: list
        )
        let trust = TLSTrust.pem(authority.certificatePEM)
        try await Simulator.withRunning(configuration) { simulator in
            let other = TLSConfiguration.client(identity: revoked.identity, trust: trust)
            for (tls, text) in [(other, "403 BadCertificate"), (try Fixture.client(), "200")] {
                #expect(try await self.isAnswered(simulator, tls) == (text == "200"))
                try await RawPushClient.withConnection(port: simulator.http2Port, tls: tls) {
                    let answer = try await $0.send(try Self.path(1))
                    #expect(answer.text == text)
                }
            }
        }
    }

    @Test(arguments: PushEnvironment.allCases)
    func `a certificate of the other environment is refused`(_ environment: PushEnvironment) async throws {
        let authority = try Fixture.authority.get()
        let trust = TLSTrust.pem(authority.certificatePEM)
        let configuration = try Fixture.configuration {
            $0.environment = environment
            $0.acceptsUnknownTokens = true
        }
        try await Simulator.withRunning(configuration) { simulator in
            for (kinds, isAllowed) in [([1], environment == .sandbox), ([2], environment == .production), ([], true)] {
                let identity = try authority.issueClient(topic: Fixture.topic, environments: kinds).identity
                let tls = TLSConfiguration.client(identity: identity, trust: trust)
                #expect(try await self.isAnswered(simulator, tls) == isAllowed)
                try await RawPushClient.withConnection(port: simulator.http2Port, tls: tls) {
                    let answer = try await $0.send(try Self.path(999))
                    #expect(answer.text == (isAllowed ? "200" : "403 BadCertificateEnvironment"))
                    // Only the sandbox adds apns-unique-id.
                    #expect((answer["apns-unique-id"] != nil) == (isAllowed && environment == .sandbox))
                }
            }
        }
    }

    // MARK: Rate limits

    @Test func `a client that connects too often is refused for a while`() async throws {
        let now = ObservedValue<UInt64>(1_700_000_000_000)
        let configuration = try Fixture.configuration {
            $0.now = { Timestamp(millisecondsSince1970: Int64(now.current)) }
            $0.connectionRateLimit = RateLimit(countMax: 2, in: .seconds(60), blockDuration: .seconds(300))
        }
        try await Simulator.withRunning(configuration) { simulator in
            var answers: [Bool] = []
            for _ in 0..<3 { answers.append(try await self.isAnswered(simulator)) }
            #expect(answers == [true, true, false])
            let other = try Fixture.client(topic: "com.example.other")
            #expect(try await self.isAnswered(simulator, other))
            now.change { $0 += 299_999 }
            #expect(try await self.isAnswered(simulator) == false)
            now.change { $0 += 300_000 }
            #expect(try await self.isAnswered(simulator))
        }
    }

    @Test func `a device over its rate limit is reported`() async throws {
        let now = ObservedValue<UInt64>(1_700_000_000_000)
        let configuration = try Fixture.configuration {
            $0.now = { Timestamp(millisecondsSince1970: Int64(now.current)) }
            $0.deviceRateLimit = RateLimit(countMax: 2, in: .seconds(1))
        }
        try await Simulator.withRunning(configuration) { simulator in
            try await RawPushClient.withConnection(port: simulator.http2Port, tls: try Fixture.client()) { push in
                var texts: [String] = []
                for device in [1, 1, 1, 2] { texts.append(try await push.send(try Self.path(device)).text) }
                now.change { $0 += 1000 }
                texts.append(try await push.send(try Self.path(1)).text)
                #expect(texts == ["200", "200", "429 TooManyRequests", "200", "200"])
            }
            #expect(simulator.statistics.processedCount == 4 && simulator.statistics.rejectedCount == 1)
        }
    }

    // MARK: The binary protocol

    @Test(arguments: [0, 1, 2, Int.max])
    func `the configured number of error responses contain the identifier 0`(_ count: Int) async throws {
        let configuration = try Fixture.configuration { $0.zeroIdentifierCount = count }
        try await Simulator.withRunning(configuration) { simulator in
            for index in 0..<3 {
                let ending = try await Fixture.send(try Fixture.message(7, to: 999), to: simulator)
                #expect(ending.bytes == Fixture.response(8, index < count ? 0 : 7))
            }
        }
    }

    @Test(arguments: [(Command.simple, 257), (.enhanced, 257), (.enhanced, 256), (.items, 257)])
    func `by option, commands 0 and 1 have payloads of 256 bytes`(_ command: Command, _ byteCount: Int) async throws {
        let configuration = try Fixture.configuration { $0.listener.rules.payloadByteCountMaxEnhanced = 256 }
        try await Simulator.withRunning(configuration) { simulator in
            var bytes = ByteBuffer()
            let payload = ByteBuffer(string: "{" + String(repeating: " ", count: byteCount - 2) + "}")
            let token = try Fixture.token(1)
            let frame = NotificationFrame(token: token, payload: payload, identifier: 7, command: command)
            try frame.write(into: &bytes)
            bytes.writeImmutableBuffer(try Fixture.probe(8))
            let answer = try await Fixture.send(bytes, to: simulator).bytes
            switch (command, byteCount) {
            case (.simple, _): #expect(answer.isEmpty)
            case (.enhanced, 257): #expect(answer == Fixture.response(7, 7))
            default: #expect(answer == Fixture.response(2, 8))
            }
            #expect(simulator.receivedCount(of: token) == (answer == Fixture.response(2, 8) ? 1 : 0))
        }
    }
}

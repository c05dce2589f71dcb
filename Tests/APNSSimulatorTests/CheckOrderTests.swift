// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSServer
import APNSSession
import APNSSimulator
import APNSTestKit
import APNSWire
import NIOCore
import OpenSSLTLS
import TestSupport
import Testing

/// The order of the simulator's checks, on both listeners.
@Suite(.timeLimit(.minutes(1)))
struct CheckOrderTests {
    typealias Fixture = SimulatorFixture

    static let (keyID, teamID) = ("KEY0000001", "TEAM000001")
    static let signer = Result { try ES256PrivateKey(bytes: Fixture.provider.get().keyPEM) }
    static let untrusted = Result { try ES256PrivateKey(bytes: Fixture.gateway.get().keyPEM) }

    /// The credentials of a client.
    enum Proof: Sendable, CaseIterable {
        case certificate, key, wrongKey, none
    }

    /// A request: for a device of the fixture, or for its own token.
    struct Sent: Sendable {
        var token: DeviceToken
        var payload = "{\"aps\":{}}"
        var topic: String? = Fixture.topic

        init(_ device: Int, _ payload: String? = nil) throws {
            self.token = try Fixture.token(device)
            self.payload = payload ?? self.payload
        }

        init(token: [UInt8], _ payload: String? = nil) throws {
            self.token = try DeviceToken(bytes: token)
            self.payload = payload ?? self.payload
        }
    }

    private static func configuration(
        _ simulator: Simulator,
        _ proof: Proof
    ) throws -> HTTP2Configuration {
        let endpoint = HTTP2Endpoint(host: "127.0.0.1", port: simulator.http2Port)
        let trust = TLSTrust.pem(try Fixture.authority.get().certificatePEM)
        var configuration = HTTP2Configuration(
            endpoint: endpoint,
            identity: try Fixture.provider.get().identity,
            trust: trust
        )
        if proof != .certificate { configuration.tls = .client(trust: trust) }
        if proof == .key || proof == .wrongKey {
            let signer = try proof == .key ? Self.signer.get() : Self.untrusted.get()
            let key = try ProviderTokenKey(
                key: signer,
                keyID: Self.keyID,
                teamID: Self.teamID
            )
            configuration.providerToken = ProviderTokenSource(key: key)
        }
        configuration.backoff.first = .milliseconds(5)
        // The simulator has to check, not the client.
        configuration.payloadByteCountMax = 8192
        return configuration
    }

    /// Returns the responses of the HTTP/2 listener to consecutive requests.
    private func outcomes(
        _ sent: [Sent],
        _ proof: Proof = .certificate,
        change: (inout SimulatorConfiguration) throws -> Void = { _ in }
    ) async throws -> [DeliveryOutcome] {
        let key = try Self.signer.get().publicKey
        var configuration = try Fixture.configuration()
        configuration.http2.tokenKeys = [Self.keyID: .init(key: key, teamID: Self.teamID)]
        try change(&configuration)
        return try await Simulator.withRunning(configuration) { simulator in
            try await RequestClient.withClient(try Self.configuration(simulator, proof)) { client in
                var outcomes: [DeliveryOutcome] = []
                for one in sent {
                    let payload = ByteBuffer(string: one.payload)
                    let request = PushRequest(token: one.token, payload: payload, topic: one.topic)
                    outcomes.append(await client.send(request))
                }
                return outcomes
            }
        }
    }

    /// Returns the status of the binary listener for a message; 0 if it accepts it.
    private func status(
        _ sent: Sent,
        change: @escaping (inout SimulatorConfiguration) throws -> Void = { _ in }
    ) async throws -> UInt8 {
        var configuration = try Fixture.configuration()
        try change(&configuration)
        return try await Simulator.withRunning(configuration) { simulator in
            var bytes = ByteBuffer()
            let payload = Array(sent.payload.utf8)
            bytes.writeMultipleIntegers(UInt8(1), UInt32(7), UInt32(0), UInt16(sent.token.byteCount))
            bytes.writeBytes(sent.token.bytes)
            bytes.writeInteger(UInt16(payload.count))
            bytes.writeBytes(payload)
            bytes.writeImmutableBuffer(try Fixture.probe(8))
            let response = try await Fixture.send(bytes, to: simulator).bytes
            // If the message was accepted, the probe is rejected.
            return response == Fixture.response(2, 8) ? 0 : response.count == 6 ? response[1] : 255
        }
    }

    private func rejected(_ reason: PushReason, timestamp: UInt64? = nil) -> DeliveryOutcome {
        .rejected(.http2(PushRejection(status: reason.status ?? 0, reason: reason, timestampNumber: timestamp)))
    }

    // MARK: Credentials

    @Test(arguments: [(Proof.none, PushReason.missingProviderToken), (.wrongKey, .invalidProviderToken)])
    func `without valid credentials, a client learns nothing about a token`(_ proof: Proof, _ reason: PushReason)
        async throws
    {
        var sent = try [1, 101, 102, 103, 999].map { try Sent($0) }
        sent.append(try Sent(token: [1]))
        sent.append(try Sent(101, "no JSON"))
        sent.append(try Sent(101, String(repeating: "x", count: 5000)))
        let outcomes = try await self.outcomes(sent, proof)
        #expect(outcomes == sent.map { _ in self.rejected(reason) })
    }

    @Test func `a topic outside the certificate is rejected before the token is checked`() async throws {
        var sent = try [1, 101, 102, 999].map { try Sent($0) }
        for index in sent.indices { sent[index].topic = "com.example.other" }
        let outcomes = try await self.outcomes(sent)
        #expect(outcomes == sent.map { _ in self.rejected(.topicDisallowed) })
    }

    @Test func `a topic outside the key is rejected before the token is checked`() async throws {
        let topics = ["com.example.other", "com.example.application", Fixture.topic + ".voip", Fixture.topic]
        let sent = try topics.map { topic in
            var sent = try Sent(101)
            sent.topic = topic
            return sent
        }
        let dead = self.rejected(.unregistered, timestamp: UInt64(Fixture.deadSince) * 1000)
        let foreign = self.rejected(.deviceTokenNotForTopic)
        #expect(try await self.outcomes(sent, .key) == [foreign, foreign, foreign, dead])
        let limited = try await self.outcomes(sent, .key) { configuration in
            configuration.http2.tokenKeys[Self.keyID]?.topics = [Fixture.topic]
        }
        #expect(limited == [self.rejected(.topicDisallowed), self.rejected(.topicDisallowed), foreign, dead])
    }

    // MARK: The same outcome on both listeners

    /// A message, the status of the binary listener, and the reason over HTTP/2.
    struct Case: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var sent: @Sendable () throws -> Sent
        var status: UInt8
        var reason: PushReason?
    }

    private static let long = String(repeating: " ", count: 5000)

    static let cases = [
        Case(testDescription: "good", sent: { try Sent(1) }, status: 0, reason: nil),
        Case(testDescription: "white space", sent: { try Sent(1, " {}\n") }, status: 0, reason: nil),
        Case(testDescription: "no JSON", sent: { try Sent(1, "hello") }, status: 1, reason: .payloadEmpty),
        Case(testDescription: "an array", sent: { try Sent(1, "[1]") }, status: 1, reason: .payloadEmpty),
        Case(testDescription: "braces only", sent: { try Sent(1, "{aps}") }, status: 1, reason: .payloadEmpty),
        Case(testDescription: "cut off", sent: { try Sent(1, "{\"aps\":{}") }, status: 1, reason: .payloadEmpty),
        Case(testDescription: "two", sent: { try Sent(1, "{}{}") }, status: 1, reason: .payloadEmpty),
        Case(testDescription: "white space only", sent: { try Sent(1, " ") }, status: 1, reason: .payloadEmpty),
        Case(testDescription: "too long", sent: { try Sent(1, "{}" + Self.long) }, status: 7, reason: .payloadTooLarge),
        Case(testDescription: "long, no JSON", sent: { try Sent(1, Self.long) }, status: 7, reason: .payloadTooLarge),
        Case(testDescription: "unknown", sent: { try Sent(999) }, status: 8, reason: .badDeviceToken),
        Case(testDescription: "1 byte", sent: { try Sent(token: [1]) }, status: 8, reason: .badDeviceToken),
        Case(testDescription: "1 byte, no JSON", sent: { try Sent(token: [1], "x") }, status: 1, reason: .payloadEmpty),
        Case(
            testDescription: "1 byte, too long",
            sent: { try Sent(token: [1], Self.long) },
            status: 7,
            reason: .payloadTooLarge
        ),
        Case(testDescription: "dead, no JSON", sent: { try Sent(101, "x") }, status: 1, reason: .payloadEmpty),
    ]

    @Test(arguments: Self.cases) func `both listeners check a message in the same way`(_ one: Case) async throws {
        let sent = try one.sent()
        #expect(try await self.status(sent) == one.status)
        #expect(try await self.outcomes([sent]) == [one.reason.map { self.rejected($0) } ?? .accepted])
    }

    @Test(arguments: [1, 31, 32, 100])
    func `unknown tokens are accepted if configured, except those shorter than any real one`(_ count: Int) async throws
    {
        let sent = try Sent(token: [UInt8](repeating: 7, count: count))
        let isTaken = count >= 32
        let status = try await self.status(sent) { $0.acceptsUnknownTokens = true }
        #expect(status == (isTaken ? 0 : 8))
        let outcomes = try await self.outcomes([sent]) { $0.acceptsUnknownTokens = true }
        #expect(outcomes == [isTaken ? .accepted : self.rejected(.badDeviceToken)])
    }

    @Test func `a registered token is known regardless of its length`() async throws {
        let sent = try Sent(token: [9])
        let device = SimulatedDevice(token: sent.token, topic: Fixture.topic)
        #expect(try await self.status(sent) { $0.devices.append(device) } == 0)
        #expect(try await self.outcomes([sent]) { $0.devices.append(device) } == [.accepted])
    }

    @Test func `a fault occurs only after all checks pass`() async throws {
        let storm = Fault(at: .always, .reject(reason: .serviceUnavailable))
        let sent = try [Sent(1, "x"), Sent(1), Sent(999)]
        let outcomes = try await self.outcomes(sent) { $0.faults = [storm] }
        let unavailable = self.rejected(.serviceUnavailable)
        #expect(outcomes == [self.rejected(.payloadEmpty), unavailable, unavailable])
        let wrong = try await self.outcomes(sent, .wrongKey) { $0.faults = [storm] }
        #expect(wrong == sent.map { _ in self.rejected(.invalidProviderToken) })
    }
}

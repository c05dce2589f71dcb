// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import Testing

/// Goal: a test of a provider needs to import only one module.
///
/// Method: this file imports nothing else, and uses every type that such a test needs.
@Suite(.timeLimit(.minutes(1)))
struct TestKitTests {
    private static let topic = "com.example.app"

    /// A frame for a token, followed by a probe.
    private static func frames(for token: DeviceToken) throws -> [UInt8] {
        let notification = PushNotification(token: token, payload: "{\"aps\":{}}")
        let probe = NotificationFrame.probe(identifier: 2, command: .enhanced)
        return try NotificationFrame(notification, identifier: 1).bytes + probe.bytes
    }

    @Test func `one import is enough to run a simulator, to send to it, and to see what arrived`() async throws {
        let authority = try CertificateAuthority()
        var tls = try authority.makeServerTLS()
        tls.versionMax = .tls1_3
        var configuration = try SimulatorConfiguration(tls: tls)
        configuration.environment = .production
        configuration.listener.drainTimeout = .milliseconds(100)
        configuration.faults = [
            Fault(at: .connection(2), .reject(.binary(.processingError)), report: FaultReport(identifier: .zero)),
            Fault(at: .always, .reject(.http2(PushRejection(status: 503, reason: .serviceUnavailable)))),
        ]
        let client = try authority.makeClientTLS(topic: Self.topic)
        try await Simulator.withRunning(configuration) { simulator in
            let token = simulator.register(topic: Self.topic)
            let frames = try Self.frames(for: token)
            let responses = [
                ErrorResponse(status: .missingDeviceToken, identifier: 2),
                ErrorResponse(status: .processingError, identifier: 0),
            ]
            for expected in responses {
                let ending = try await ScriptedProvider.withConnection(port: simulator.gatewayPort, tls: client) {
                    try await $0.send(frames)
                    return try await $0.end(within: .seconds(20))
                }
                #expect(ending.bytes == expected.bytes)
            }
            let received = try await simulator.next(for: token, within: .seconds(20))
            #expect(received.payloadText == "{\"aps\":{}}" && received.topic == Self.topic)
            #expect(simulator.statistics.processedCount == 1 && simulator.statistics.rejectedCount == 1)
            #expect(simulator.remove(token))
            #expect(simulator.feedback(topic: Self.topic, environment: .production) == [FeedbackTuple]())
        }
    }

    @Test func `scripted gateways and providers accept the same TLS configuration as a simulator`() async throws {
        let authority = try CertificateAuthority()
        let gateway = try await ScriptedGateway.start(tls: try authority.makeServerTLS()) { _ in
            GatewayScript { $0.action = { _, _ in .refuse(.invalidToken) } }
        }
        let frames = try Self.frames(for: DeviceToken(bytes: [UInt8](repeating: 1, count: 32)))
        let client = try authority.makeClientTLS(topic: Self.topic)
        let ending = try await ScriptedProvider.withConnection(port: gateway.port, tls: client) {
            $0.push(frames)
            return try await $0.end(within: .seconds(20))
        }
        #expect(ending.bytes == ErrorResponse(status: .invalidToken, identifier: 1).bytes)
        try await gateway.wait(within: .seconds(20)) { $0.first?.isClosed == true }
        try await gateway.stop()
    }

    @Test func `the same TLS configuration requires certificates of a simulator and of a scripted gateway`()
        async throws
    {
        let authority = try CertificateAuthority()
        let tls = TLSConfiguration.server(identity: try authority.issueServer().identity, trust: authority.trust)
        let gateway = try await ScriptedGateway.start(tls: tls) { _ in GatewayScript() }
        try await Simulator.withRunning(SimulatorConfiguration(tls: tls)) { simulator in
            for port in [gateway.port, simulator.gatewayPort, simulator.feedbackPort] {
                let client = TLSConfiguration.client(trust: authority.trust)
                let ending = try await ScriptedProvider.withConnection(port: port, tls: client) { try await $0.end() }
                guard case TLSError.handshakeRefused(40, _)? = ending.error else {
                    Issue.record("\(ending)")
                    continue
                }
            }
        }
        try await gateway.stop()
    }

    @Test func `a simulator does not start if its TLS configuration requires no certificates`() throws {
        let authority = try CertificateAuthority()
        let identity = try authority.issueServer().identity
        #expect(throws: SimulatorError.clientCertificatesNotRequired) {
            try SimulatorConfiguration(tls: .server(identity: identity))
        }
        #expect(throws: SimulatorError.clientCertificatesNotRequired) {
            try SimulatorConfiguration(
                tls: .server(identity: identity, clientCertificates: .optional, trust: authority.trust)
            )
        }
    }

    @Test func `a simulator does not start without a certificate`() throws {
        #expect(throws: SimulatorError.identityMissing) { try SimulatorConfiguration(tls: .client()) }
    }
}

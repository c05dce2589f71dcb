// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import APNSTestKit
import APNSWire
import NIOConcurrencyHelpers
import NIOCore
import OpenSSLTLS
import Testing

@Suite(.timeLimit(.minutes(1)))
struct SimulatorTests {
    typealias Fixture = SimulatorFixture

    @Test func `accepted notifications are counted, and the last ones are recorded completely`() async throws {
        let seen = NIOLockedValueBox<[UInt64]>([])
        let configuration = try Fixture.configuration {
            $0.receivedCountMax = 7
            $0.onReceive = { delivered in seen.withLockedValue { $0.append(delivered.notificationNumber) } }
        }
        try await Simulator.withRunning(configuration) { simulator in
            var bytes = try Fixture.messages(20)
            bytes.writeImmutableBuffer(try Fixture.message(21, to: 3))
            bytes.writeImmutableBuffer(try Fixture.probe(22))
            #expect(try await Fixture.send(bytes, to: simulator).bytes == Fixture.response(2, 22))
            #expect(simulator.statistics.processedCount == 21)
            #expect(simulator.statistics.messageCount == 21)
            #expect(simulator.statistics.connectionCount == 1)
            #expect(simulator.statistics.endings == [2: 1])
            #expect(simulator.receivedCount(of: try Fixture.token(3)) == 2)
            #expect(simulator.receivedCount(of: try Fixture.token(20)) == 1)
            #expect(simulator.receivedCount(of: try Fixture.token(21)) == 0)
            #expect(simulator.receivedNotifications.map(\.identifier) == [15, 16, 17, 18, 19, 20, 21])
            let last = try #require(simulator.receivedNotifications.last)
            #expect(last.token == (try Fixture.token(3)))
            #expect(last.payloadText == "{\"aps\":{}}")
            #expect(last.topic == Fixture.topic && last.connectionNumber == 1 && !last.isDead)
        }
        #expect(seen.withLockedValue { $0 } == Array(1...21))
    }

    @Test(arguments: [102, 103, 104])
    func `a token of another app, of the other environment, or an unknown one is rejected with 8`(device: Int)
        async throws
    {
        try await Simulator.withRunning(try Fixture.configuration()) { simulator in
            var bytes = try Fixture.message(1, to: 1)
            bytes.writeImmutableBuffer(try Fixture.message(2, to: device))
            bytes.writeImmutableBuffer(try Fixture.message(3, to: 1))
            bytes.writeImmutableBuffer(try Fixture.message(4, to: 1))
            #expect(try await Fixture.send(bytes, to: simulator).bytes == Fixture.response(8, 2))
            let statistics = simulator.statistics
            #expect(statistics.processedCount == 1)
            #expect(statistics.rejectedCount == 1)
            #expect(statistics.discardedCount == 2)
        }
    }

    @Test func `device tokens are limited at the start and later, and a reset frees them`() async throws {
        await #expect(throws: SimulatorError.tooManyDeviceTokens(countMax: 102)) {
            try await Simulator.withRunning(try Fixture.configuration { $0.deviceTokenCountMax = 102 }) { _ in }
        }
        try await Simulator.withRunning(try Fixture.configuration { $0.deviceTokenCountMax = 104 }) { simulator in
            func register() throws -> SimulatedApp {
                try simulator.register(topic: Fixture.topic, token: nil, environment: nil, on: nil)
            }
            let app = try register()
            #expect(throws: SimulatorError.tooManyDeviceTokens(countMax: 104)) { try register() }
            // The token of a removed device is kept.
            #expect(simulator.removeDevice(try #require(simulator.device(of: app.token)?.id)))
            #expect(throws: SimulatorError.tooManyDeviceTokens(countMax: 104)) { try register() }
            simulator.reset()
            _ = try register()
        }
    }

    @Test func `the topic is that of the certificate`() async throws {
        try await Simulator.withRunning(try Fixture.configuration()) { simulator in
            let own = try Fixture.message(1, to: 1)
            #expect(
                try await Fixture.send(own, to: simulator, topic: "com.example.other").bytes == Fixture.response(8, 1)
            )
            var bytes = try Fixture.message(1, to: 102)
            bytes.writeImmutableBuffer(try Fixture.probe(2))
            #expect(
                try await Fixture.send(bytes, to: simulator, topic: "com.example.other").bytes
                    == Fixture.response(2, 2)
            )
        }
    }

    @Test func `unknown tokens are accepted if configured`() async throws {
        let configuration = try Fixture.configuration {
            $0.acceptsUnknownTokens = true
            $0.countedTokenCountMax = 1
        }
        try await Simulator.withRunning(configuration) { simulator in
            var bytes = try Fixture.message(1, to: 500)
            bytes.writeImmutableBuffer(try Fixture.message(2, to: 501))
            bytes.writeImmutableBuffer(try Fixture.message(3, to: 102))
            #expect(try await Fixture.send(bytes, to: simulator).bytes == Fixture.response(8, 3))
            #expect(simulator.receivedCount(of: try Fixture.token(500)) == 1)
            #expect(simulator.receivedCount(of: try Fixture.token(501)) == 0)
            #expect(simulator.statistics.processedCount == 2)
        }
    }

    @Test func `notifications for a dead device are accepted, and feedback lists it until it is registered again`()
        async throws
    {
        try await Simulator.withRunning(try Fixture.configuration()) { simulator in
            #expect(simulator.feedback(topic: Fixture.topic, environment: .sandbox) == [])
            var bytes = try Fixture.message(1, to: 101)
            bytes.writeImmutableBuffer(try Fixture.message(2, to: 1))
            bytes.writeImmutableBuffer(try Fixture.probe(3))
            #expect(try await Fixture.send(bytes, to: simulator).bytes == Fixture.response(2, 3))
            let tuple = FeedbackTuple(token: try Fixture.token(101), failedAt: Fixture.deadSince)
            #expect(simulator.feedback(topic: Fixture.topic, environment: .sandbox) == [tuple])
            #expect(simulator.feedback(topic: Fixture.topic, environment: .production) == [])
            #expect(simulator.feedback(topic: "com.example.other", environment: .sandbox) == [])
            #expect(simulator.statistics.deadCount == 1 && simulator.statistics.processedCount == 2)
            simulator.register(SimulatedDevice(token: try Fixture.token(101), topic: Fixture.topic))
            #expect(simulator.feedback(topic: Fixture.topic, environment: .sandbox) == [])
        }
    }

    @Test func `a simulator applies its TLS configuration at all listeners`() async throws {
        let authority = try CertificateAuthority()
        var tls = try authority.makeServerTLS(names: ["gateway.example.com"])
        tls.versionMin = .tls1_2
        tls.versionMax = .tls1_2
        tls.cipherList = "ECDHE-ECDSA-AES128-GCM-SHA256"
        let configuration = try SimulatorConfiguration(tls: tls)
        #expect(configuration.http2.versionMax == .tls1_3)
        var old = try authority.makeClientTLS(topic: Fixture.topic)
        old.versionMax = .tls1_2
        old.cipherList = "ECDHE-ECDSA-AES256-GCM-SHA384"
        var good = old
        good.cipherList = nil
        let clients = (good: good, old: old)
        try await Simulator.withRunning(configuration) { simulator in
            for port in [simulator.gatewayPort, simulator.feedbackPort, simulator.http2Port] {
                let isShaken = try await Self.isShaken(port, clients.good)
                #expect(isShaken)
                let isShakenAnyway = try await Self.isShaken(port, clients.old)
                #expect(!isShakenAnyway, "a cipher that the configuration does not have")
            }
        }
    }

    /// Whether the handshake succeeds.
    private static func isShaken(_ port: Int, _ tls: TLSConfiguration) async throws -> Bool {
        // The handshake is complete, or has failed, which closes the connection.
        try await ScriptedProvider.withConnection(port: port, tls: tls, serverName: "gateway.example.com") {
            $0.channel.isActive
        }
    }
}

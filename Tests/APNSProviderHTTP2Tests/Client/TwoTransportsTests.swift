// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSProviderHTTP2
import APNSServer
import APNSSession
import APNSSimulator
import APNSTestKit
import APNSWire
import NIOCore
import OpenSSLTLS
import Testing

/// Goal: one program sends over the binary protocol and over HTTP/2, with a certificate or a key; only its
/// configuration differs.
///
/// Method: the same code runs with each, and its results are compared.
@Suite(.timeLimit(.minutes(2))) struct TwoTransportsTests {
    private static let badNumber = 5

    /// The program, which is independent of the transport.
    private static func run(_ configuration: PushClientConfiguration) async throws -> [String] {
        let bad = try Self.notification(Self.badNumber)
        let good = try Self.notification(1)
        return try await PushClient.withClient(configuration, logger: PushFixture.quiet) { client in
            var told = [await client.send(good), await client.send(bad), await client.send(bad)].map(\.name)
            client.allow(bad.token)
            told.append(await client.send(bad).name)
            told.append("\(await client.send(PushNotification(token: good.token, payload: "")))")
            var names: [String: String] = [:]
            for try await record in client.send(Rows(20)) { names[record.id] = record.outcome.name }
            told += names.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }
            var exceptions: [String] = []
            for try await record in client.send(Rows(200), only: .exceptions) { exceptions.append(record.id) }
            return told + exceptions
        }
    }

    private static func notification(_ number: Int) throws -> PushNotification {
        PushNotification(token: try PushFixture.token(number), payload: #"{"aps":{"alert":"Hello"}}"#)
    }

    /// Notifications whose identifiers are strings.
    private struct Rows: AsyncSequence, AsyncIteratorProtocol, Sendable {
        let count: Int
        var number = 0

        init(_ count: Int) { self.count = count }

        mutating func next() async throws -> (id: String, notification: PushNotification)? {
            guard self.number < self.count else { return nil }
            defer { self.number += 1 }
            return ("user\(self.number)", try TwoTransportsTests.notification(self.number))
        }

        func makeAsyncIterator() -> Self { self }
    }

    private static func overBinary() async throws -> [String] {
        let bad = try PushFixture.token(Self.badNumber)
        let tls = TLSConfiguration.server(
            identity: try PushFixture.server.get().identity,
            trust: try PushFixture.trust()
        )
        let gateway = try await ScriptedGateway.start(tls: tls) { _ in
            GatewayScript { $0.action = { frame, _ in frame.token == bad ? .refuse(.invalidToken) : .accept } }
        }
        let told = try await Self.run(
            .binary(
                host: "127.0.0.1",
                port: gateway.port,
                identity: PushFixture.provider.get().identity,
                trust: PushFixture.trust()
            )
        )
        try await gateway.stop()
        return told
    }

    private static func overHTTP2(
        _ makeConfiguration: @Sendable (HTTP2Endpoint) throws -> PushClientConfiguration
    ) async throws -> [String] {
        let bad = try PushFixture.token(Self.badNumber)
        let service = ScriptedService { request, _ in
            request.token == bad ? .reject(.http2(PushRejection(status: 400, reason: .badDeviceToken))) : nil
        }
        let configuration = try PushFixture.serverConfiguration()
        return try await Listener(configuration, service: service, logger: PushFixture.quiet).withRunning { server in
            let endpoint = HTTP2Endpoint(host: "127.0.0.1", port: try await server.boundAddress.port)
            return try await Self.run(try makeConfiguration(endpoint))
        }
    }

    @Test func `one program gets the same results over both protocols`() async throws {
        let expected =
            ["accepted", "rejected", "suppressed", "rejected", "\(DeliveryOutcome.invalid(.payloadEmpty))"]
            + (0..<20).map { "user\($0) \($0 == Self.badNumber ? "suppressed" : "accepted")" }.sorted()
            + ["user\(Self.badNumber)"]
        #expect(try await Self.overBinary() == expected)
        let certificate = try await Self.overHTTP2 { endpoint in
            .http2(endpoint, identity: try PushFixture.provider.get().identity, trust: try PushFixture.trust())
        }
        #expect(certificate == expected)
        let key = try await Self.overHTTP2 { endpoint in
            .http2(
                endpoint,
                providerToken: ProviderTokenSource(key: try PushFixture.key()),
                topic: PushFixture.topic,
                trust: try PushFixture.trust()
            )
        }
        #expect(key == expected)
    }

    @Test func `the certificate and payload determine topic and push type, unless the notification does`()
        async throws
    {
        let service = ScriptedService()
        let configuration = try PushFixture.serverConfiguration()
        try await Listener(configuration, service: service, logger: PushFixture.quiet).withRunning { server in
            let endpoint = HTTP2Endpoint(host: "127.0.0.1", port: try await server.boundAddress.port)
            let identity = try PushFixture.provider.get().identity
            let trust = try PushFixture.trust()
            try await PushClient.withClient(.http2(endpoint, identity: identity, trust: trust)) { client in
                var notification = try Self.notification(1)
                #expect(await client.send(notification) == .accepted)
                let token = notification.token
                let silent = PushNotification(token: token, payload: #"{"aps":{"content-available":1}}"#)
                #expect(await client.send(silent) == .accepted)
                notification.pushType = .background
                notification.collapseID = "news"
                notification.expiry = .immediately
                notification.apnsID = PushIdentifier("123E4567-E89B-12D3-A456-42665544000A")
                #expect(await client.send(notification) == .accepted)
            }
        }
        let requests = service.requests
        try #require(requests.count == 3)
        #expect(requests.map(\.topic) == Array(repeating: PushFixture.topic, count: 3))
        #expect(requests.map(\.pushType) == [.alert, .background, .background])
        #expect(requests[2].collapseID == "news" && requests[2].expiration == 0)
        #expect(requests[2].apnsID == PushIdentifier("123E4567-E89B-12D3-A456-42665544000A"))
    }
}

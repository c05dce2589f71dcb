// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSTestKit
import Logging
import OpenSSLTLS
import ServiceLifecycle
import TestSupport
import Testing

/// Goal: values that contain certificates, keys or provider tokens are printed in one line, without them, at any depth.
@Suite struct DescriptionTests {
    private static func values() throws -> [Any] {
        let identity = try PushFixture.provider.get().identity
        let server = try PushFixture.server.get().identity
        let trust = try PushFixture.trust()
        let binary = BinaryConfiguration(
            endpoint: Endpoint(host: "localhost", port: 2195),
            tls: .client(identity: identity, trust: trust)
        )
        let http2 = try PushFixture.tokenConfiguration(port: 443)
        let clientConfiguration = PushClientConfiguration.http2(http2, RequestRules(topic: PushFixture.topic))
        return [
            binary, PushClientConfiguration.binary(binary), try PushClient(.binary(binary)), try BatchSender(binary),
            http2, clientConfiguration, try PushClient(clientConfiguration),
            try BatchSender(http2: http2, HTTP2BatchOptions(requests: RequestRules(topic: PushFixture.topic))),
            try BroadcastClientTests.configuration(port: 443, usesKey: true),
            try BroadcastClient(try BroadcastClientTests.configuration(port: 443)),
            try BroadcastClientTests.broadcast(),
            try PushFixture.key(), ProviderTokenSource(key: try PushFixture.key()),
            BinaryListenerConfiguration(identity: server, clientTrust: trust),
            BinaryListenerConfiguration(identity: server, clientTrust: trust).listener,
            FeedbackListenerConfiguration(identity: server, clientTrust: trust),
            try PushFixture.serverConfiguration(),
            try SimulatorConfiguration(tls: .server(identity: server, trust: trust)),
            ProviderConnection(
                number: 1,
                identity: ProviderIdentity(identity.certificate),
                remoteAddress: "192.0.2.1:40000",
                certificate: identity.certificate,
                intermediates: [identity.certificate]
            ),
        ]
    }

    @Test func `each description is one line, without bytes`() throws {
        for value in try Self.values() {
            for printed in PrintedText.all(of: value) {
                #expect(printed.isShortLine && !printed.showsBytes, "\(printed)")
            }
        }
    }

    @Test func `a group of services shows no secrets`() throws {
        let identity = try PushFixture.provider.get().identity
        let client = try PushClient(.binary(host: "localhost", identity: identity, trust: try PushFixture.trust()))
        let services: [any Service] = [client]
        let configuration = ServiceGroupConfiguration(services: services, logger: PushFixture.quiet)
        let group = ServiceGroup(configuration: configuration)
        for printed in PrintedText.all(of: configuration) + PrintedText.all(of: group) {
            #expect(!printed.showsBytes && printed.text.count < 10_000, "\(printed.means): \(printed.text.count)")
        }
        #expect("\(configuration)".contains("push client for localhost:2195"))
    }
}

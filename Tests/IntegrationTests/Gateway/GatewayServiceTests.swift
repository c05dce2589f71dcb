// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSTestKit
import APNSWire
import Foundation
import NIOCore
import OpenSSLTLS
import TestSupport
import Testing

/// Goal: temporary failures between gateway and service have no lasting effect, and the gateway causes none.
@Suite(.timeLimit(.minutes(5))) struct GatewayServiceTests {
    private static let keyID = "ABC123DEFG"
    private static let teamID = "TEAM123456"

    /// Sends a notification, and returns whether it was accepted.
    private static func delivers(_ number: UInt32, _ gateway: GatewayProgram) async throws -> Bool {
        try await gateway.connect { provider in
            try await provider.send(try GatewayProgram.frames(number...number))
            try await provider.send(try GatewayProgram.probe(number + 1))
            return try await provider.end().bytes == GatewayProgram.response(.missingDeviceToken, number + 1)
        }
    }

    @Test func `one key creates one token, for all providers and across SIGHUP`() async throws {
        let upstream = GatewayUpstream()
        let folder = try GatewayProgram.Folder()
        let signer = try folder.authority.issueServer()
        try folder.write("key.p8", signer.keyPEM)
        let second = try folder.authority.issueClient(topic: "com.example.second")
        let ending = try await upstream.run(folder) { server in
            let key = try ES256PrivateKey(bytes: signer.keyPEM).publicKey
            server.tokenKeys = [Self.keyID: .init(key: key, teamID: Self.teamID)]
            server.tokenRenewalIntervalMin = .seconds(1200)
        } _: { port in
            let names = ["shop": folder.provider.identity, "second": second.identity]
            let providers = names.map { name, identity in
                """
                  - name: \(name)
                    clients: {pins: [{fingerprint: \(identity.certificate.fingerprint)}]}
                    environment: sandbox
                    retry: {budget: 2s}
                    upstream:
                      {p8: key.p8, keyID: \(Self.keyID), teamID: \(Self.teamID),
                       host: localhost, port: \(port), trust: upstream-ca.pem}
                """
            }
            let text = """
                listen: {port: 0, feedbackPort: 0}
                admin: {port: 0}
                server: {certificate: server.pem}
                feedback: database/feedback.sqlite
                limits: {shutdown: 10s}
                providers:

                """
            try folder.write("gateway.yaml", Array((text + providers.joined(separator: "\n")).utf8))
            let gateway = try await GatewayProgram(folder)
            #expect(try await Self.delivers(1, gateway))
            // A token contains its time in seconds, so two tokens of one second would be the same.
            let time = Int(Date().timeIntervalSince1970)
            try await eventually("the next second") { Int(Date().timeIntervalSince1970) > time }
            try await gateway.connect(second.identity) { provider in
                try await provider.send(try GatewayProgram.frames(11...11))
                try await provider.send(try GatewayProgram.probe(12))
                #expect(try await provider.end().bytes == GatewayProgram.response(.missingDeviceToken, 12))
            }
            gateway.child.send(SIGHUP)
            try await gateway.lines("configuration reloaded")
            #expect(try await Self.delivers(21, gateway))
            return try await gateway.end()
        }
        #expect(ending.code == 0, "\(ending)")
        #expect(upstream.counts == [1: 1, 11: 1, 21: 1])
    }

    @Test func `a service with the wrong certificate is retried, and used when it has the right one`() async throws {
        let folder = try GatewayProgram.Folder()
        let upstream = GatewayUpstream()
        let untrusted = try CertificateAuthority(name: "Unknown Authority").issueServer()
        let port = try await GatewayNghttpdTests.freePort()
        try folder.configure(upstreamPort: port)
        let gateway = try await GatewayProgram(folder)
        try await upstream.run(folder) {
            $0.identity = untrusted.identity
            $0.port = port
        } _: { _ in
            #expect(try await !Self.delivers(1, gateway))
            try await gateway.lines("upstream unreachable", "shop")
        }
        try await upstream.run(folder) {
            $0.port = port
        } _: { _ in
            // Faults delay a provider, and the gateway pauses before it reconnects.
            var number: UInt32 = 1
            try await eventually("it is delivered", within: .seconds(60)) {
                number += 10
                return try await Self.delivers(number, gateway)
            }
            try await gateway.lines("upstream reachable again", "shop")
            #expect(upstream.counts == [number: 1])
        }
        let ending = try await gateway.end()
        #expect(ending.code == 0, "\(ending)")
    }
}

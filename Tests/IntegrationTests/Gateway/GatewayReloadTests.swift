// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import APNSWire
import Foundation
import NIOCore
import OpenSSLTLS
import TestSupport
import Testing

/// Goal: SIGHUP applies new certificates on both sides of a running gateway, closes no connection, and changes nothing
/// if any file is invalid.
@Suite(.timeLimit(.minutes(5))) struct GatewayReloadTests {
    /// The number of notifications between two SIGHUPs.
    private static let countEach: UInt32 = TestEffort.count(50, long: 200)

    /// The fingerprint of the certificate that a new connection receives.
    private static func shown(_ gateway: GatewayProgram, port: Int? = nil) async throws -> String? {
        let tls = try gateway.tls(gateway.folder.provider.identity)
        return try await ScriptedProvider.withConnection(port: port ?? gateway.port, tls: tls) { provider in
            let channel = provider.channel
            return try await channel.eventLoop.submit {
                try channel.pipeline.syncOperations.handler(type: TLSHandler.self).peerCertificate?.fingerprint
            }.get()
        }
    }

    @Test func `new certificates are in use on both sides, and an open connection stays open`() async throws {
        let upstream = GatewayUpstream()
        let ending = try await upstream.withGateway { gateway in
            let folder = gateway.folder
            let (server, own) = (
                try folder.authority.issueServer(), try folder.authority.issueClient(topic: GatewayProgram.topic)
            )
            let first = folder.server.identity.certificate.fingerprint
            #expect(try await Self.shown(gateway) == first)
            try await gateway.connect { provider in
                try await provider.send(try GatewayProgram.frames(1...50))
                try await upstream.wait(count: 50)
                try folder.write("server.pem", server.pem)
                try folder.write("upstream.pem", own.pem)
                gateway.child.send(SIGHUP)
                try await gateway.lines("configuration reloaded")
                let second = server.identity.certificate.fingerprint
                #expect(try await Self.shown(gateway) == second)
                #expect(try await Self.shown(gateway, port: gateway.feedbackPort) == second)
                try await provider.send(try GatewayProgram.frames(51...100))
                try await provider.send(try GatewayProgram.probe(101))
                #expect(try await provider.end().bytes == GatewayProgram.response(.missingDeviceToken, 101))
            }
            #expect(
                upstream.fingerprints == [folder.provider, own].map(\.identity.certificate.fingerprint),
                "The requests behind the signal go out with the new certificate."
            )
        }
        #expect(ending.code == 0, "\(ending)")
        #expect(upstream.counts == Dictionary(uniqueKeysWithValues: (1...100).map { ($0, 1) }))
    }

    @Test func `notifications in flight during a reload arrive once`() async throws {
        let upstream = GatewayUpstream()
        let ending = try await upstream.withGateway { gateway in
            try await gateway.connect { provider in
                for round in 0..<20 as Range<UInt32> {
                    provider.push(try GatewayProgram.frames(round * Self.countEach + 1...(round + 1) * Self.countEach))
                    gateway.child.send(SIGHUP)
                    guard round % 5 == 4 else { continue }
                    try await gateway.lines("configuration reloaded", countMin: Int(round / 5) + 1)
                }
                let probe = 20 * Self.countEach + 1
                try await provider.send(try GatewayProgram.probe(probe))
                #expect(try await provider.end().bytes == GatewayProgram.response(.missingDeviceToken, probe))
            }
        }
        #expect(ending.code == 0, "\(ending)")
        #expect(upstream.counts == Dictionary(uniqueKeysWithValues: (1...20 * Self.countEach).map { ($0, 1) }))
    }

    struct Fault: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var file: String
        var content: @Sendable (GatewayProgram.Folder) throws -> [UInt8]
        /// The expected part of the log.
        var words: [String]
    }

    static let faults = [
        Fault(
            testDescription: "an invalid server certificate",
            file: "server.pem",
            content: { _ in Array("none".utf8) },
            words: ["gateway.yaml: server: ", "/server.pem: the certificate or key cannot be read"]
        ),
        Fault(
            testDescription: "a server's certificate with the key of another",
            file: "server.pem",
            content: { $0.server.certificatePEM + $0.provider.keyPEM },
            words: ["gateway.yaml: server: ", "/server.pem: the private key does not belong to the certificate"]
        ),
        Fault(
            testDescription: "an upstream certificate without its key",
            file: "upstream.pem",
            content: { $0.provider.certificatePEM },
            words: ["provider shop: ", "/upstream.pem: the file contains no private key"]
        ),
        Fault(
            testDescription: "invalid authorities of the service",
            file: "upstream-ca.pem",
            content: { _ in Array("none".utf8) },
            words: ["provider shop: the trusted certificates in ", "upstream-ca.pem cannot be used"]
        ),
        Fault(
            testDescription: "invalid authorities of providers",
            file: "ca.pem",
            content: { _ in Array("none".utf8) },
            words: ["provider shop: ", "ca.pem", "trusted certificates", "cannot be used"]
        ),
        Fault(
            testDescription: "a configuration with a fault",
            file: "gateway.yaml",
            content: { Array(($0.read("gateway.yaml") + "\nlisten: {}\n").utf8) },
            words: ["gateway.yaml, line 1: duplicate key"]
        ),
        Fault(
            testDescription: "fewer remembered notifications than may be in flight",
            file: "gateway.yaml",
            content: { folder in
                let limits = "environment: sandbox\n    limits: {remembered: 7}"
                return Array(folder.read("gateway.yaml").replacing("environment: sandbox", with: limits).utf8)
            },
            words: ["remembered, 7, must be at least inFlight, 10000"]
        ),
        Fault(
            testDescription: "nothing remembered, with a limit that takes effect only after a restart",
            file: "gateway.yaml",
            content: { folder in
                let limits = "environment: sandbox\n    limits: {remembered: 0}"
                let text = folder.read("gateway.yaml").replacing("environment: sandbox", with: limits)
                return Array(text.replacing("{shutdown: 10s}", with: "{inFlightPerConnection: 1}").utf8)
            },
            words: ["provider shop: ", "remembered, 0, must be", "inFlightPerConnection is 1000 until a restart"]
        ),
    ]

    @Test(arguments: faults) func `an error is reported, and nothing changes`(_ fault: Fault) async throws {
        let upstream = GatewayUpstream()
        let ending = try await upstream.withGateway { gateway in
            let folder = gateway.folder
            try await gateway.connect { provider in
                try await provider.send(try GatewayProgram.frames(1...5))
                // Everything is new except for one error, so a partial reload would be detected.
                try folder.write("server.pem", try folder.authority.issueServer().pem)
                let own = try folder.authority.issueClient(topic: GatewayProgram.topic)
                try folder.write("upstream.pem", own.pem)
                try folder.write(fault.file, try fault.content(folder))
                gateway.child.send(SIGHUP)
                let line = try await gateway.lines("configuration not reloaded")
                for words in fault.words { #expect(line[0].contains(words), "\(line)") }
                #expect(try await Self.shown(gateway) == folder.server.identity.certificate.fingerprint)
                let other = try await Self.shown(gateway, port: gateway.feedbackPort)
                #expect(other == folder.server.identity.certificate.fingerprint)
                try await provider.send(try GatewayProgram.frames(6...10))
                try await provider.send(try GatewayProgram.probe(11))
                #expect(try await provider.end().bytes == GatewayProgram.response(.missingDeviceToken, 11))
            }
            #expect(try await gateway.serves())
            #expect(upstream.fingerprints == [folder.provider.identity.certificate.fingerprint])
        }
        #expect(ending.code == 0, "\(ending)")
    }

    @Test func `a revoked provider is not admitted again`() async throws {
        let clients = "{authority: ca.pem, revocations: crl.pem}"
        let upstream = GatewayUpstream()
        try await upstream.withGateway(clients: clients) {
            try $0.write("crl.pem", try $0.authority.revocationList(of: []))
        } _: { gateway in
            let folder = gateway.folder
            #expect(try await gateway.serves())
            try folder.write(
                "crl.pem",
                try folder.authority.revocationList(of: [folder.provider.identity.certificate])
            )
            gateway.child.send(SIGHUP)
            try await gateway.lines("configuration reloaded")
            let bytes = try await gateway.connect { try await $0.end().bytes }
            #expect(bytes == [])
            try await gateway.lines("provider refused", "revoked")
        }
    }
}

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
            words: ["server: ", "/server.pem: the certificate or key cannot be read"]
        ),
        Fault(
            testDescription: "a server's certificate with the key of another",
            file: "server.pem",
            content: { $0.server.certificatePEM + $0.provider.keyPEM },
            words: ["server: ", "/server.pem: the private key does not belong to the certificate"]
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

    @Test(arguments: faults) func `an error is reported, and its part stays as it was`(_ fault: Fault) async throws {
        let upstream = GatewayUpstream()
        let ending = try await upstream.withGateway { gateway in
            let folder = gateway.folder
            let isOfServer = fault.file == "server.pem"
            let own = try folder.authority.issueClient(topic: GatewayProgram.topic)
            let server = try folder.authority.issueServer()
            try await gateway.connect { provider in
                try await provider.send(try GatewayProgram.frames(1...5))
                // Everything is new except for one error.
                try folder.write("server.pem", server.pem)
                try folder.write("upstream.pem", own.pem)
                try folder.write(fault.file, try fault.content(folder))
                gateway.child.send(SIGHUP)
                let isWhole = fault.words[0].hasPrefix("gateway.yaml")
                let message =
                    isWhole ? "configuration not reloaded" : "not reloaded, \(isOfServer ? "the" : "its") old"
                let line = try await gateway.lines(message, "\"level\":\"error\"")
                for words in fault.words { #expect(line[0].contains(words), "\(line)") }
                if !isWhole { try await gateway.lines("configuration only partly reloaded") }
                let shown = isOfServer || isWhole ? folder.server : server
                #expect(try await Self.shown(gateway) == shown.identity.certificate.fingerprint)
                let other = try await Self.shown(gateway, port: gateway.feedbackPort)
                #expect(other == shown.identity.certificate.fingerprint)
                let metrics = try await GatewayOperatorTests.get("/metrics", gateway).body
                for (name, isCurrent) in [("", !isOfServer && !isWhole), ("shop", isOfServer)] {
                    let sample = "apns_legacy_configuration_current{provider=\"\(name)\"} \(isCurrent ? 1 : 0)\n"
                    #expect(metrics.contains(sample), "\(sample)")
                }
                try await provider.send(try GatewayProgram.frames(6...10))
                try await provider.send(try GatewayProgram.probe(11))
                #expect(try await provider.end().bytes == GatewayProgram.response(.missingDeviceToken, 11))
            }
            #expect(try await gateway.serves())
            let fingerprints = [folder.provider, own].map(\.identity.certificate.fingerprint)
            #expect(upstream.fingerprints == (isOfServer ? fingerprints : [fingerprints[0]]))
        }
        #expect(ending.code == 0, "\(ending)")
    }

    @Test func `an expired upstream certificate is refused by a reload, and a new revocation takes effect`()
        async throws
    {
        let upstream = GatewayUpstream()
        try await upstream.withGateway(clients: "{authority: ca.pem, revocations: crl.pem}") {
            try $0.write("crl.pem", try $0.authority.revocationList(of: []))
        } _: { gateway in
            let folder = gateway.folder
            let other = try folder.authority.issueClient(topic: GatewayProgram.topic)
            let expired = try folder.authority.issueClient(topic: GatewayProgram.topic, validity: .expired)
            try folder.write("upstream.pem", expired.pem)
            try folder.write("crl.pem", try folder.authority.revocationList(of: [other.identity.certificate]))
            gateway.child.send(SIGHUP)
            let line = try await gateway.lines("provider not reloaded, its old configuration stays in effect")
            for words in ["\"apns.legacy.provider\":\"shop\"", "upstream.certificate: ", "expired on 20"] {
                #expect(line[0].contains(words), "\(line)")
            }
            try await gateway.lines("configuration only partly reloaded")
            #expect(gateway.lines(["configuration reloaded"]).isEmpty)
            #expect(try await gateway.serves())
            #expect(upstream.fingerprints == [folder.provider.identity.certificate.fingerprint])
            #expect(try await gateway.connect(other.identity) { try await $0.end().bytes } == [])
            try await gateway.lines("provider refused", "revoked")
        }
    }

    @Test func `at a start, a damaged revocation list keeps out its provider alone`() async throws {
        let folder = try GatewayProgram.Folder()
        let upstream = GatewayUpstream()
        let other = try CertificateAuthority(name: "Other")
        let news = try other.issueClient(topic: GatewayProgram.topic)
        try folder.write("other.pem", other.certificatePEM)
        let list = try folder.authority.revocationList(of: [folder.provider.identity.certificate])
        try folder.write("crl.pem", try other.revocationList(of: []) + list.dropLast(40))
        try await upstream.run(folder) { port in
            try folder.configure(upstreamPort: port, clients: "{authority: ca.pem, revocations: crl.pem}")
            // Both authorities: what belongs to the first provider must not be taken for the second one's.
            try folder.write("both.pem", folder.authority.certificatePEM + other.certificatePEM)
            let service = "{certificate: upstream.pem, host: localhost, port: \(port), trust: upstream-ca.pem}"
            let second = """

                  - name: news
                    clients: {authority: both.pem}
                    environment: sandbox
                    upstream: \(service)
                """
            try folder.write("gateway.yaml", Array((folder.read("gateway.yaml") + second).utf8))
            let gateway = try await GatewayProgram(folder)
            let line = try await gateway.lines("provider kept out", "\"apns.legacy.provider\":\"shop\"")
            #expect(line[0].contains("part 2 is damaged") && line[0].contains("\"level\":\"error\""), "\(line)")
            #expect(try await gateway.serves(news.identity))
            #expect(try await gateway.connect { try await $0.end().bytes } == [])
            try await gateway.lines("provider refused", "shop: its configuration cannot be used")
            let metrics = try await GatewayOperatorTests.get("/metrics", gateway).body
            for (name, value) in [("", 1), ("news", 1), ("shop", 0)] {
                #expect(
                    metrics.contains("apns_legacy_configuration_current{provider=\"\(name)\"} \(value)\n"),
                    "\(name)"
                )
            }
            try folder.write("crl.pem", try folder.authority.revocationList(of: []))
            gateway.child.send(SIGHUP)
            try await gateway.lines("configuration reloaded")
            #expect(try await gateway.serves())
            #expect(try await gateway.end().code == 0)
        }
    }

    @Test func `the log says how many open connections keep the old rejections`() async throws {
        let upstream = GatewayUpstream()
        try await upstream.withGateway { gateway in
            func change(_ old: String, _ new: String, count: Int) async throws {
                let yaml = gateway.folder.read("gateway.yaml").replacing(old, with: new)
                try gateway.folder.write("gateway.yaml", Array(yaml.utf8))
                gateway.child.send(SIGHUP)
                try await gateway.lines("configuration reloaded", countMin: count)
            }
            try await gateway.connect { first in
                try await first.send(try GatewayProgram.frames(1...1))
                try await upstream.wait(count: 1)
                try await change("environment: sandbox", "environment: sandbox\n    rejections: ignore", count: 1)
                let lines = try await gateway.lines("open connections keep the old rejections until they close")
                #expect(lines.count == 1 && lines[0].contains("\"apns.legacy.connection.count\":\"1\""), "\(lines)")
                try await gateway.connect { second in
                    try await second.send(try GatewayProgram.frames(2...2))
                    try await upstream.wait(count: 2)
                    try await change("rejections: ignore", "rejections: report", count: 2)
                    let lines = gateway.lines(["open connections keep the old rejections until they close"])
                    #expect(lines.count == 2 && lines[1].contains("\"apns.legacy.connection.count\":\"1\""), "\(lines)")
                }
            }
        }
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

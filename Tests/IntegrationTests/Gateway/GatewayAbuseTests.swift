// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import APNSWire
import Foundation
import NIOCore
import NIOPosix
import OpenSSLTLS
import TestSupport
import Testing

/// Goal: any input at the ports of a running gateway ends in a bounded rejection that is logged with its reason, while
/// other clients are served.
@Suite(.serialized, .timeLimit(.minutes(5))) struct GatewayAbuseTests {
    /// The maximum memory of the gateway in these tests in KiB; an idle debug build has about 60 MiB.
    private static let residentKiBMax = 200 * 1024

    private static let clients = "{authority: ca.pem, revocations: crl.pem}"

    /// Runs a gateway; afterwards, checks that it serves a correct provider, and that its memory stayed within the
    /// limit.
    private static func withGateway(
        limits: String = "{shutdown: 10s}",
        _ body: @escaping @Sendable (GatewayProgram) async throws -> Void
    ) async throws {
        let upstream = GatewayUpstream()
        let ending = try await upstream.withGateway(limits: limits, clients: Self.clients) {
            try $0.write("crl.pem", try $0.authority.revocationList(of: []))
        } _: { gateway in
            try await body(gateway)
            #expect(try await gateway.serves())
            let resident = try #require(gateway.child.residentKiBMax)
            #expect(resident < Self.residentKiBMax, "\(resident) KiB")
        }
        #expect(ending.code == 0, "\(ending)")
        #expect(Set(upstream.counts.keys).isSubset(of: Set(1...9).union(900_001...900_003)))
    }

    // MARK: Certificates

    /// With TLS 1.3, a client has completed its handshake before its certificate is checked.
    static let versions = [TLSVersion.tls1_2, .tls1_3]

    @Test(arguments: versions) func `a client without a certificate is rejected in the handshake, and logged`(
        _ version: TLSVersion
    ) async throws {
        try await Self.withGateway { gateway in
            let tls = try gateway.tls(nil, version: version)
            let error = try await ScriptedProvider.withConnection(port: gateway.port, tls: tls) {
                try await $0.end().error
            }
            #expect(error is TLSError, "\(String(describing: error))")
            let lines = try await gateway.lines("connection refused", "the provider sent no certificate")
            #expect(lines[0].contains("\"level\":\"warning\"") && lines[0].contains("127.0.0.1:"))
        }
    }

    struct UntrustedClient: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var identity: @Sendable (GatewayProgram.Folder) throws -> TLSIdentity
        var reason: String
    }

    static let untrustedClients = [
        UntrustedClient(
            testDescription: "of another authority",
            identity: { _ in
                try CertificateAuthority(name: "Foreign").issueClient(topic: GatewayProgram.topic).identity
            },
            reason: "certificate or its authority; use a certificate of the authority under clients.authority, or"
        ),
        UntrustedClient(
            testDescription: "of another authority with the name of the right one",
            identity: { _ in try CertificateAuthority().issueClient(topic: GatewayProgram.topic).identity },
            reason: "no provider of the configuration has this certificate or its authority"
        ),
        UntrustedClient(
            testDescription: "expired",
            identity: { try $0.authority.issueClient(topic: GatewayProgram.topic, validity: .expired).identity },
            reason: "shop: the certificate of the provider has expired"
        ),
        UntrustedClient(
            testDescription: "not valid yet",
            identity: { try $0.authority.issueClient(topic: GatewayProgram.topic, validity: .future).identity },
            reason: "shop: the certificate of the provider is not valid yet"
        ),
        UntrustedClient(
            testDescription: "for servers",
            identity: { try $0.authority.issueServer().identity },
            reason: "shop: "
        ),
    ]

    @Test(arguments: untrustedClients, versions)
    func `a certificate without a provider is logged with its fingerprint`(
        _ untrusted: UntrustedClient,
        _ version: TLSVersion
    ) async throws {
        try await Self.withGateway { gateway in
            let identity = try untrusted.identity(gateway.folder)
            let bytes = try await gateway.connect(identity, version: version) { provider in
                provider.push(try GatewayProgram.frames(1...9))
                return try await provider.end().bytes
            }
            #expect(bytes == [])
            let fingerprint = "\"apns.legacy.certificate.fingerprint\":\"\(identity.certificate.fingerprint)\""
            let lines = try await gateway.lines("provider refused", untrusted.reason, fingerprint)
            #expect(lines.count == 1 && lines[0].contains("127.0.0.1:"), "\(lines)")
        }
    }

    @Test(arguments: versions) func `a revoked certificate is rejected, and logged`(
        _ version: TLSVersion
    ) async throws {
        let upstream = GatewayUpstream()
        try await upstream.withGateway(clients: Self.clients) {
            try $0.write("crl.pem", try $0.authority.revocationList(of: [$0.provider.identity.certificate]))
        } _: { gateway in
            #expect(try await gateway.connect(version: version) { try await $0.end().bytes } == [])
            let fingerprint = gateway.folder.provider.identity.certificate.fingerprint
            try await gateway.lines("provider refused", "shop: the certificate of the provider is revoked", fingerprint)
            let other = try gateway.folder.authority.issueClient(topic: GatewayProgram.topic)
            #expect(try await gateway.serves(other.identity))
        }
    }

    @Test func `the fingerprint in the log is the one to pin`() async throws {
        let upstream = GatewayUpstream()
        try await upstream.withGateway { gateway in
            let old = try CertificateAuthority(name: "Old").issueClient(
                topic: GatewayProgram.topic,
                validity: .expired
            )
            #expect(try await gateway.connect(old.identity) { try await $0.end().bytes } == [])
            let line = try await gateway.lines("provider refused")[0]
            let key = "\"apns.legacy.certificate.fingerprint\":\""
            let logged = try #require(line.range(of: key).map { line[$0.upperBound...].prefix(64) })
            let pins = "{authority: ca.pem, pins: [{fingerprint: \"\(logged)\", allowExpired: true}]}"
            let text = gateway.folder.read("gateway.yaml").replacingOccurrences(of: "{authority: ca.pem}", with: pins)
            try gateway.folder.write("gateway.yaml", Array(text.utf8))
            gateway.child.send(SIGHUP)
            try await gateway.lines("configuration reloaded")
            #expect(try await gateway.serves(old.identity))
        }
    }

    @Test func `a certificate with a subject of 22 kB causes no long lines, and the log is limited`()
        async throws
    {
        try await Self.withGateway { gateway in
            let untrusted = try CertificateAuthority(name: "Foreign")
                .issueClient(topic: GatewayProgram.topic, description: String(repeating: "é", count: 11_000))
            for _ in 0..<TestEffort.count(60, long: 250) {
                _ = try? await gateway.connect(untrusted.identity) { try await $0.end() }
            }
            let lines = try await gateway.lines("provider refused", "\"apns.legacy.provider.admitted\":\"false\"")
            let longest = gateway.log.split(separator: "\n").map(\.utf8.count).max() ?? 0
            #expect(longest < 4096, "\(longest) bytes")
            #expect(lines[0].contains("... (") && lines[0].contains(untrusted.identity.certificate.fingerprint))
            #expect(gateway.log.utf8.count < 512 * 1024, "\(gateway.log.utf8.count) bytes")
        }
    }

    // MARK: Handshakes

    /// Connects without sending, and waits for the end.
    private static func connectSilently(_ port: Int, saying bytes: [UInt8] = []) async throws {
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .connect(host: "127.0.0.1", port: port).get()
        if !bytes.isEmpty { channel.writeAndFlush(ByteBuffer(bytes: bytes), promise: nil) }
        try? await channel.closeFuture.get()
    }

    @Test func `incomplete handshakes are limited in number and time, and one address cannot occupy all connections`()
        async throws
    {
        try await Self.withGateway(limits: "{connections: 60, unauthenticatedPerAddress: 40, handshake: 3s}") {
            gateway in
            let start = ContinuousClock.now
            try await withThrowingTaskGroup(of: Void.self) { group in
                // A few bytes of a handshake have the same effect as none.
                for number in 0..<200 {
                    let bytes: [UInt8] = number.isMultiple(of: 2) ? [] : [22, 3, 1]
                    group.addTask { try await Self.connectSilently(gateway.port, saying: bytes) }
                }
                try await gateway.lines("connection refused", "unauthenticated connections per address", "reached, 40")
                for _ in 0..<160 { try await group.next() }
                #expect(ContinuousClock.now - start < .seconds(3), "More than there may be go at once.")
                try await group.waitForAll()
            }
            #expect(ContinuousClock.now - start < .seconds(10))
            try await gateway.lines("connection refused", "did not complete the TLS handshake in time", countMin: 40)
        }
    }

    @Test func `thousands of half-open connections leave no resources in use`() async throws {
        try await Self.withGateway(limits: "{connections: 200, unauthenticatedPerAddress: 100, handshake: 200ms}") {
            gateway in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<TestEffort.count(600, long: 4000) {
                    if number >= 150 { try await group.next() }
                    group.addTask { try await Self.connectSilently(gateway.port, saying: [22, 3, 1, 0]) }
                }
                try await group.waitForAll()
            }
            #expect(try await gateway.serves())
            let lines = gateway.lines(["connection refused"])
            #expect(lines.count >= 1 && lines.count <= 2000, "The log is bounded: \(lines.count) lines.")
        }
    }

    @Test func `a connection without TLS is rejected immediately, and logged`() async throws {
        try await Self.withGateway { gateway in
            try await Self.connectSilently(gateway.port, saying: Array("GET / HTTP/1.1\r\n\r\n".utf8))
            try await Self.connectSilently(gateway.port, saying: [UInt8](repeating: 0, count: 5000))
            try await Self.connectSilently(gateway.feedbackPort, saying: Array("GET / HTTP/1.1\r\n\r\n".utf8))
            try await gateway.lines("connection refused", "does not speak TLS", countMin: 2)
            try await gateway.lines("connection refused", countMin: 3)
        }
    }

    // MARK: Bytes

    struct Bytes: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var bytes: [UInt8]
        var answer: [UInt8]
        var reason: String
    }

    static let bytes = [
        Bytes(
            testDescription: "a frame of 4 GiB",
            bytes: [2, 0xFF, 0xFF, 0xFF, 0xFF, 1, 0, 32],
            answer: [8, 128, 0, 0, 0, 0],
            reason: "4294967295"
        ),
        Bytes(
            testDescription: "a token of 65,535 bytes",
            bytes: [1, 0, 0, 0, 9, 0, 0, 0, 0, 0xFF, 0xFF, 1, 2],
            answer: [8, 5, 0, 0, 0, 9],
            reason: "65535"
        ),
        Bytes(testDescription: "no command", bytes: Array("GET / HTTP/1.1".utf8), answer: [], reason: "71"),
    ]

    @Test(arguments: bytes) func `bytes that are not a notification are rejected immediately, and logged`(
        _ bytes: Bytes
    ) async throws {
        try await Self.withGateway { gateway in
            try await gateway.connect { provider in
                // The rest of the announced length is discarded.
                provider.push(ByteBuffer(bytes: bytes.bytes + [UInt8](repeating: 0xFF, count: 1 << 20)))
                let ending = try await provider.end()
                #expect(ending.bytes == bytes.answer)
                // Without an answer, an orderly end would mean that everything is accepted.
                #expect(ending.hasCloseNotify == !bytes.answer.isEmpty)
            }
            try await gateway.lines("bytes refused", bytes.reason, "127.0.0.1:")
        }
    }

    @Test func `a client that never reads and keeps sending is disconnected, and logged`() async throws {
        try await Self.withGateway { gateway in
            let start = ContinuousClock.now
            try await gateway.connect(isReading: false) { provider in
                try await provider.send(try GatewayProgram.frames(1...9))
                try await provider.send(try GatewayProgram.probe(10))
                let junk = ByteBuffer(repeating: 0xFF, count: 1 << 20)
                while (try? await provider.send(junk)) != nil {}
            }
            #expect(ContinuousClock.now - start < .seconds(15))
            try await gateway.lines("connection reset", "after its end, it ")
        }
    }

    @Test func `a client that never reads and stays silent is disconnected in time, and logged`() async throws {
        try await Self.withGateway { gateway in
            try await gateway.connect(isReading: false) { provider in
                try await provider.send(try GatewayProgram.probe(1))
                try await gateway.lines("connection reset", "after its end, it was idle for too long")
            }
        }
    }
}

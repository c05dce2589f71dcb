// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import NIOCore
import NIOPosix
import NIOTLS
import OpenSSLTLS
import Testing

@Suite(.timeLimit(.minutes(1)))
struct HandshakeTests {
    @Test(arguments: TLSVersion.allCases)
    func `data is exchanged in both directions with each version`(version: TLSVersion) async throws {
        let server = try Certificates.serverContext(version: version...version)
        let client = try Certificates.clientContext(version: version...version)
        let echo = Observer(onData: { context, buffer in
            context.writeAndFlush(NIOAny(buffer), promise: nil)
        })
        try await Loopback.withConnection(server: server, client: client, serverObserver: echo) { client, server in
            try await client.channel.writeAndFlush(ByteBuffer(string: "hello")).get(within: .seconds(10))
            try await client.wait("echo") { $0.received == Array("hello".utf8) }
            #expect(client.observer.notes.facts.version == version)
            #expect(client.observer.notes.facts.cipher != nil)
            #expect(
                client.observer.notes.facts.certificate?.hostNames == ["localhost", "127.0.0.1", "::1"]
            )
            #expect(server.observer.notes.facts.requestedName == "localhost")
            #expect(server.observer.notes.facts.certificate == nil)
            try await client.channel.close().get(within: .seconds(10))
            try await server.wait("end") { $0.isInactive }
            try await client.wait("end") { $0.isInactive }
            #expect(server.observer.notes.order == ["handshake", "data", "shutdown", "inactive"])
            #expect(client.observer.notes.order == ["handshake", "data", "shutdown", "inactive"])
        }
    }

    @Test func `by default, a server does not use a version newer than 1.2`() async throws {
        let server = try TLSContext(.server(identity: try Certificates.server.get().identity))
        try await Loopback.withConnection(server: server, client: Certificates.clientContext()) { client, _ in
            try await client.wait("handshake") { $0.isHandshakeDone }
            #expect(client.observer.notes.facts.version == .tls1_2)
        }
    }

    @Test(arguments: [TLSVersion.tls1_2, .tls1_3])
    func `a server reads the client's certificate`(version: TLSVersion) async throws {
        let issued = try Certificates.client.get()
        let server = try Certificates.serverContext(version: version...version) { $0.clientCertificates = .required }
        let client = try Certificates.clientContext { $0.identity = issued.identity }
        try await Loopback.withConnection(server: server, client: client) { _, server in
            try await server.wait("handshake") { $0.isHandshakeDone }
            let facts = server.observer.notes.facts
            #expect(facts.certificate == issued.identity.certificate)
            #expect(facts.certificate?.subjectField("UID") == "com.example.app")
            #expect(facts.certificate?.extensions["1.2.840.113635.100.6.3.2"] == [5, 0])
            #expect(facts.problem == nil)
        }
    }

    @Test(arguments: [TLSVersion.tls1_2, .tls1_3])
    func `a client certificate of any authority can be accepted, and its problem is reported`(
        version: TLSVersion
    ) async throws {
        let untrusted = try CertificateAuthority(name: "Unknown Authority").issueClient(topic: "com.example.other")
        let server = try Certificates.serverContext(version: version...version) {
            $0.clientCertificates = .required
            $0.acceptsUnverifiedClientCertificates = true
        }
        let client = try Certificates.clientContext { $0.identity = untrusted.identity }
        try await Loopback.withConnection(server: server, client: client) { client, server in
            try await server.wait("handshake") { $0.isHandshakeDone }
            let facts = server.observer.notes.facts
            #expect(facts.certificate?.fingerprint == untrusted.identity.certificate.fingerprint)
            guard case .unknownAuthority? = facts.problem else {
                Issue.record("\(String(describing: facts.problem))")
                return
            }
            try await client.channel.writeAndFlush(ByteBuffer(string: "in")).get(within: .seconds(10))
            try await server.wait("data") { $0.received == Array("in".utf8) }
        }
    }

    @Test func `the server's first application protocol that the client offers is selected`() async throws {
        let server = try Certificates.serverContext { $0.applicationProtocols = ["h2", "http/1.1"] }
        let client = try Certificates.clientContext { $0.applicationProtocols = ["spdy/1", "http/1.1", "h2"] }
        try await Loopback.withConnection(server: server, client: client) { client, server in
            try await client.wait("handshake") { $0.isHandshakeDone }
            try await server.wait("handshake") { $0.isHandshakeDone }
            #expect(client.observer.notes.applicationProtocol == "h2")
            #expect(server.observer.notes.applicationProtocol == "h2")
        }
    }

    @Test func `a client without application protocols is accepted`() async throws {
        let server = try Certificates.serverContext { $0.applicationProtocols = ["h2"] }
        try await Loopback.withConnection(server: server, client: Certificates.clientContext()) { client, server in
            try await server.wait("handshake") { $0.isHandshakeDone }
            #expect(server.observer.notes.applicationProtocol == nil)
        }
    }

    @Test(arguments: ["127.0.0.1", "::1", "localhost.", "LOCALHOST"])
    func `a server is verified by address, or by host name in any case`(name: String) async throws {
        let client = try Certificates.clientContext()
        try await Loopback.withConnection(
            server: Certificates.serverContext(),
            client: client,
            name: name
        ) { client, server in
            try await client.wait("handshake") { $0.isHandshakeDone }
            try await server.wait("handshake") { $0.isHandshakeDone }
            #expect((server.observer.notes.facts.requestedName == nil) == (name.contains(":") || name.contains("127")))
        }
    }

    @Test func `intermediate certificates are sent, and the root is enough to verify them`() async throws {
        let root = try CertificateAuthority(name: "Root")
        let issuer = try root.issueAuthority(name: "Issuer")
        let identity = try issuer.issueServer().identity
        #expect(identity.chain.map(\.subject) == ["CN=Issuer"])
        let server = try TLSContext(.server(identity: identity))
        let client = try TLSContext(.client(trust: .pem(root.certificatePEM)))
        try await Loopback.withConnection(server: server, client: client) { client, _ in
            try await client.wait("handshake") { $0.isHandshakeDone }
        }
    }

    @Test func `what is written before the handshake is sent after it`() async throws {
        let observer = Observer()
        let server = try Certificates.serverContext()
        let written = ByteBuffer(string: "early")
        let client = Observer(onEvent: { _, _ in })
        try await Loopback.withConnection(
            server: server,
            client: Certificates.clientContext(),
            serverObserver: observer,
            clientObserver: client
        ) { client, server in
            try await client.channel.writeAndFlush(written).get(within: .seconds(10))
            try await server.wait("data") { $0.received == Array("early".utf8) }
        }
    }
}

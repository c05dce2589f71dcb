// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import NIOCore
import NIOPosix
import NIOTLS
import OpenSSLTLS
import Testing

/// Goal: each problem of a handshake is reported once, with an error that contains a remedy.
@Suite(.timeLimit(.minutes(1)))
struct RefusalTests {
    /// Makes a handshake fail and returns the single error of each side.
    private func failures(
        server: TLSContext,
        client: TLSContext,
        name: String? = "localhost"
    ) async throws -> (client: TLSError?, server: TLSError?) {
        try await Loopback.withConnection(server: server, client: client, name: name) { client, server in
            try await client.wait("end") { $0.isInactive }
            try await server.wait("end") { $0.isInactive }
            let notes = (client.observer.notes, server.observer.notes)
            #expect(notes.0.errors.count == 1, "client: \(notes.0.errors)")
            #expect(notes.1.errors.count == 1, "server: \(notes.1.errors)")
            for error in notes.0.errors + notes.1.errors {
                let text = "\(error)"
                #expect(text.count > 40 && text.contains("; "), "it says what to do: \(text)")
            }
            return (notes.0.tlsError, notes.1.tlsError)
        }
    }

    @Test(arguments: [TLSVersion.tls1_2, .tls1_3])
    func `a certificate for other names causes the error wrongHost`(version: TLSVersion) async throws {
        let identity = try Certificates.authority.get().issueServer(names: ["other.example"]).identity
        let server = try Certificates.serverContext(version: version...version) { $0.identity = identity }
        let errors = try await self.failures(server: server, client: Certificates.clientContext())
        #expect(errors.client == .wrongHost(expected: "localhost", presented: ["other.example"]))
        guard case .ownCertificateRefused(let alert, _)? = errors.server else {
            Issue.record("\(String(describing: errors.server))")
            return
        }
        #expect(alert == 42)
    }

    @Test func `a certificate for other addresses causes the error wrongHost`() async throws {
        let identity = try Certificates.authority.get().issueServer(names: ["localhost"]).identity
        let server = try Certificates.serverContext { $0.identity = identity }
        let errors = try await self.failures(server: server, client: Certificates.clientContext(), name: "127.0.0.1")
        #expect(errors.client == .wrongHost(expected: "127.0.0.1", presented: ["localhost"]))
    }

    @Test func `the host name is not verified if only the chain is requested`() async throws {
        let identity = try Certificates.authority.get().issueServer(names: ["other.example"]).identity
        let server = try Certificates.serverContext { $0.identity = identity }
        let client = try Certificates.clientContext { $0.verification = .chainOnly }
        try await Loopback.withConnection(server: server, client: client) { client, _ in
            try await client.wait("handshake") { $0.isHandshakeDone }
        }
    }

    @Test func `without verification, the problem is only reported`() async throws {
        let client = try Certificates.clientContext {
            $0.trust = .nothing
            $0.verification = .none
        }
        try await Loopback.withConnection(
            server: Certificates.serverContext(),
            client: client,
            name: nil
        ) { client, _ in
            try await client.wait("handshake") { $0.isHandshakeDone }
            guard case .unknownAuthority? = client.observer.notes.facts.problem else {
                Issue.record("\(client.observer.notes.facts)")
                return
            }
        }
    }

    @Test(arguments: [TLSVersion.tls1_2, .tls1_3])
    func `an expired certificate of the server is reported`(version: TLSVersion) async throws {
        let identity = try Certificates.authority.get().issueServer(validity: .expired).identity
        let server = try Certificates.serverContext(version: version...version) { $0.identity = identity }
        let errors = try await self.failures(server: server, client: Certificates.clientContext())
        guard case .certificateExpired? = errors.client, case .ownCertificateRefused(45, _)? = errors.server else {
            Issue.record("\(errors)")
            return
        }
    }

    @Test func `a certificate that is not valid yet is reported`() async throws {
        let identity = try Certificates.authority.get().issueServer(validity: .future).identity
        let server = try Certificates.serverContext { $0.identity = identity }
        let errors = try await self.failures(server: server, client: Certificates.clientContext())
        guard case .certificateNotYetValid? = errors.client else {
            Issue.record("\(errors)")
            return
        }
    }

    @Test(arguments: [TLSVersion.tls1_2, .tls1_3])
    func `an unknown authority is reported`(version: TLSVersion) async throws {
        let untrusted = try CertificateAuthority(name: "Unknown Authority")
        let client = try Certificates.clientContext { $0.trust = .pem(untrusted.certificatePEM) }
        let server = try Certificates.serverContext(version: version...version)
        let errors = try await self.failures(server: server, client: client)
        guard case .unknownAuthority? = errors.client, case .ownCertificateRefused(48, _)? = errors.server else {
            Issue.record("\(errors)")
            return
        }
    }

    @Test(arguments: [TLSVersion.tls1_2, .tls1_3])
    func `a client without the required certificate receives the error`(version: TLSVersion) async throws {
        let server = try Certificates.serverContext(version: version...version) { $0.clientCertificates = .required }
        let errors = try await self.failures(server: server, client: Certificates.clientContext())
        #expect(errors.server == .clientCertificateMissing)
        switch (version, errors.client) {
        case (.tls1_2, .handshakeRefused(40, _)?), (.tls1_3, .ownCertificateRefused(116, _)?): break
        default: Issue.record("\(errors)")
        }
    }

    @Test func `a server with a trust requires a certificate, and one without a trust asks for none`() async throws {
        let identity = try Certificates.server.get().identity
        let authenticating = TLSConfiguration.server(identity: identity, trust: try Certificates.trust())
        #expect(authenticating.clientCertificates == .required)
        let errors = try await self.failures(server: TLSContext(authenticating), client: Certificates.clientContext())
        #expect(errors.server == .clientCertificateMissing)
        #expect(TLSConfiguration.server(identity: identity).clientCertificates == .none)
        #expect(TLSConfiguration.server(identity: identity, clientCertificates: .required).trust == .system)
    }

    @Test(arguments: [TLSVersion.tls1_2, .tls1_3])
    func `a client with an unknown authority receives the error`(version: TLSVersion) async throws {
        let untrusted = try CertificateAuthority(name: "Unknown Authority").issueClient(topic: "com.example.app")
        let server = try Certificates.serverContext(version: version...version) { $0.clientCertificates = .optional }
        let client = try Certificates.clientContext { $0.identity = untrusted.identity }
        let errors = try await self.failures(server: server, client: client)
        guard case .unknownAuthority? = errors.server, case .ownCertificateRefused(48, _)? = errors.client else {
            Issue.record("\(errors)")
            return
        }
    }

    @Test func `an expired client certificate is reported to both sides`() async throws {
        let expired = try Certificates.authority.get().issueClient(topic: "com.example.app", validity: .expired)
        let server = try Certificates.serverContext { $0.clientCertificates = .required }
        let client = try Certificates.clientContext { $0.identity = expired.identity }
        let errors = try await self.failures(server: server, client: client)
        guard case .certificateExpired? = errors.server, case .ownCertificateRefused(45, _)? = errors.client else {
            Issue.record("\(errors)")
            return
        }
    }

    @Test func `with TLS 1.3, a client certificate is rejected after the handshake`() async throws {
        let server = try Certificates.serverContext(version: .tls1_3 ... .tls1_3) { $0.clientCertificates = .required }
        try await Loopback.withConnection(server: server, client: Certificates.clientContext()) { client, _ in
            try await client.wait("end") { $0.isInactive }
            #expect(client.observer.notes.order == ["handshake", "error", "inactive"])
        }
    }

    @Test func `versions without overlap are reported to both sides`() async throws {
        let errors = try await self.failures(
            server: Certificates.serverContext(version: .tls1_2 ... .tls1_2),
            client: Certificates.clientContext(version: .tls1_3 ... .tls1_3)
        )
        guard case .versionRefused? = errors.client, case .versionRefused? = errors.server else {
            Issue.record("\(errors)")
            return
        }
    }

    @Test func `ciphers without overlap are reported to both sides`() async throws {
        let server = try Certificates.serverContext(version: .tls1_2 ... .tls1_2) {
            $0.cipherList = "ECDHE-ECDSA-AES128-GCM-SHA256"
        }
        let client = try Certificates.clientContext(version: .tls1_2 ... .tls1_2) {
            $0.cipherList = "ECDHE-ECDSA-CHACHA20-POLY1305"
        }
        let errors = try await self.failures(server: server, client: client)
        guard case .handshakeRefused(40, _)? = errors.client, case .noCommonCipher? = errors.server else {
            Issue.record("\(errors)")
            return
        }
    }

    @Test func `application protocols without overlap are reported to both sides`() async throws {
        let server = try Certificates.serverContext { $0.applicationProtocols = ["h2"] }
        let client = try Certificates.clientContext { $0.applicationProtocols = ["http/1.1"] }
        let errors = try await self.failures(server: server, client: client)
        #expect(errors.client == .noCommonApplicationProtocol)
        #expect(errors.server == .noCommonApplicationProtocol)
    }

    @Test func `a name that cannot be verified is rejected before anything is sent`() throws {
        let context = try Certificates.clientContext()
        for name in [nil, "", "bücher.example", "a b", String(repeating: "a", count: 300)] as [String?] {
            #expect(throws: TLSError.serverNameInvalid(name ?? "")) {
                try TLSHandler.client(context, serverName: name)
            }
        }
    }

    @Test func `a context for the other role is rejected`() throws {
        #expect(throws: TLSError.self) {
            try TLSHandler.server(Certificates.clientContext())
        }
        #expect(throws: TLSError.self) {
            try TLSHandler.client(Certificates.serverContext(), serverName: "localhost")
        }
    }

    @Test func `configurations that cannot work are rejected`() throws {
        #expect(throws: TLSError.self) {
            try Certificates.clientContext(version: .tls1_2 ... .tls1_3) {
                $0.versionMin = .tls1_3; $0.versionMax = .tls1_2
            }
        }
        #expect(throws: TLSError.self) { try Certificates.clientContext { $0.cipherList = "NO-SUCH-CIPHER" } }
        #expect(throws: TLSError.self) { try Certificates.clientContext { $0.applicationProtocols = [""] } }
        #expect(throws: TLSError.self) { try Certificates.clientContext { $0.trust = .pem(Array("nothing".utf8)) } }
        #expect(throws: TLSError.self) { try Certificates.clientContext { $0.trust = .file("/nonexistent.pem") } }
        #expect(throws: TLSError.self) { try Certificates.serverContext { $0.identity = nil } }
    }
}

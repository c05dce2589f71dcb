// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import OpenSSLTLS
import TestSupport
import Testing

/// Goal: a client accepts only a certificate that names the host it connects to.
@Suite(.timeLimit(.minutes(1))) struct ServerNameTests {
    @Test(arguments: [".example.com", ".", ".localhost", "..", ""])
    func `a name with a leading dot, which would match every name below it, is refused`(_ name: String) throws {
        let error = #expect(throws: TLSError.self) {
            try TLSHandler.client(try Certificates.clientContext(), serverName: name)
        }
        guard case .serverNameInvalid = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        let identity = try Certificates.authority.get().issueServer(names: ["a.example.com", "localhost"]).identity
        #expect(!identity.certificate.matches(host: name))
    }

    /// A server whose certificate has localhost only as its common name.
    private static func server(_ names: String) async throws -> (TLSContext, trust: [UInt8]) {
        let folder = try TemporaryFolder()
        let (certificate, key) = (folder.path + "/c.pem", folder.path + "/k.pem")
        var arguments = ["req", "-x509", "-nodes", "-newkey", "rsa:2048", "-days", "1", "-subj", "/CN=localhost"]
        arguments += ["-keyout", key, "-out", certificate]
        if !names.isEmpty { arguments += ["-addext", "subjectAltName=\(names)"] }
        _ = try await Program.run("/usr/bin/openssl", arguments, deadlineSeconds: 60)
        let identity = try TLSIdentity(contentsOf: certificate, key: key)
        return (try Certificates.serverContext { $0.identity = identity }, identity.certificate.pem)
    }

    @Test(arguments: ["", "IP:127.0.0.1", "email:a@example.com"])
    func `the common name counts only by option, and only without a DNS name`(_ names: String) async throws {
        let (server, trust) = try await Self.server(names)
        for accepts in [false, true] {
            let client = try Certificates.clientContext {
                $0.trust = .pem(trust)
                $0.acceptsCommonName = accepts
            }
            try await Loopback.withConnection(server: server, client: client, name: "localhost") { client, _ in
                guard !accepts else { return try await client.wait("handshake") { $0.isHandshakeDone } }
                try await client.wait("end") { $0.isInactive }
                guard case .wrongHost("localhost", _)? = client.observer.notes.tlsError else {
                    Issue.record("\(client.observer.notes.errors)")
                    return
                }
            }
        }
    }

    @Test func `the common name never counts beside a DNS name`() async throws {
        let (server, trust) = try await Self.server("DNS:other.example")
        let client = try Certificates.clientContext {
            $0.trust = .pem(trust)
            $0.acceptsCommonName = true
        }
        try await Loopback.withConnection(server: server, client: client, name: "localhost") { client, _ in
            try await client.wait("end") { $0.isInactive }
            guard case .wrongHost? = client.observer.notes.tlsError else {
                Issue.record("\(client.observer.notes.errors)")
                return
            }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import Testing

@testable import OpenSSLTLS
import TestSupport

/// Goal: an identity is read from every file format, and problems are reported.
@Suite(.timeLimit(.minutes(1)))
struct TLSIdentityTests {
    private let issued: IssuedIdentity

    init() throws {
        self.issued = try Certificates.client.get()
    }

    @Test func `certificate and key are read from one PEM text in either order`() throws {
        for bytes in [issued.certificatePEM + issued.keyPEM, issued.keyPEM + issued.certificatePEM] {
            #expect(try TLSIdentity(bytes: bytes).certificate == issued.identity.certificate)
        }
    }

    @Test func `certificate and key are read from two texts`() throws {
        let identity = try TLSIdentity(bytes: issued.certificatePEM, key: issued.keyPEM)
        #expect(identity.certificate == issued.identity.certificate)
    }

    @Test func `a DER certificate works with a PEM key`() throws {
        let identity = try TLSIdentity(bytes: issued.certificateDER, key: issued.keyPEM)
        #expect(identity.certificate == issued.identity.certificate)
    }

    @Test func `the certificate that the key belongs to is found at any position`() throws {
        let root = try CertificateAuthority(name: "Root")
        let issuer = try root.issueAuthority(name: "Issuer")
        let client = try issuer.issueClient(topic: "com.example.app")
        let bytes = root.certificatePEM + issuer.certificatePEM + client.certificatePEM + client.keyPEM
        let identity = try TLSIdentity(bytes: bytes)
        #expect(identity.certificate.subjectField("UID") == "com.example.app")
        // The root is omitted: peers that trust it have it.
        #expect(identity.chain.map(\.subject) == ["CN=Issuer"])
    }

    @Test(arguments: [false, true])
    func `an encrypted PEM key is read with its passphrase`(isTraditional: Bool) throws {
        let key = try issued.encryptedKeyPEM(passphrase: "correct horse", isTraditional: isTraditional)
        let identity = try TLSIdentity(
            bytes: issued.certificatePEM,
            key: key,
            passphrase: TLSPassphrase("correct horse")
        )
        #expect(identity.certificate == issued.identity.certificate)
        #expect(throws: TLSError.passphraseWrong) {
            try TLSIdentity(bytes: issued.certificatePEM, key: key, passphrase: TLSPassphrase("wrong"))
        }
        #expect(throws: TLSError.passphraseWrong) {
            try TLSIdentity(bytes: issued.certificatePEM, key: key, passphrase: TLSPassphrase(""))
        }
        #expect(throws: TLSError.passphraseMissing) {
            try TLSIdentity(bytes: issued.certificatePEM + key)
        }
    }

    @Test(arguments: IssuedIdentity.PKCS12Form.allCases)
    func `a PKCS#12 file is read with its passphrase`(form: IssuedIdentity.PKCS12Form) throws {
        let file = try issued.pkcs12(passphrase: "correct horse", form: form)
        let identity = try TLSIdentity(bytes: file, passphrase: TLSPassphrase("correct horse"))
        #expect(identity.certificate == issued.identity.certificate)
        #expect(throws: TLSError.passphraseWrong) {
            try TLSIdentity(bytes: file, passphrase: TLSPassphrase("wrong"))
        }
        #expect(throws: TLSError.passphraseMissing) { try TLSIdentity(bytes: file) }
    }

    @Test(arguments: [nil, ""] as [String?], IssuedIdentity.PKCS12Form.allCases)
    func `a PKCS#12 file with an empty or no passphrase is read with either`(
        written: String?,
        form: IssuedIdentity.PKCS12Form
    ) throws {
        let file = try issued.pkcs12(passphrase: written, form: form)
        for passphrase in [nil, TLSPassphrase("")] {
            #expect(
                try TLSIdentity(bytes: file, passphrase: passphrase).certificate == issued.identity.certificate
            )
        }
    }

    @Test func `intermediate certificates are read from PKCS#12`() throws {
        let issuer = try CertificateAuthority(name: "Root").issueAuthority(name: "Issuer")
        let file = try issuer.issueClient(topic: "com.example.app").pkcs12(passphrase: "x")
        let identity = try TLSIdentity(bytes: file, passphrase: TLSPassphrase("x"))
        #expect(identity.chain.map(\.subject) == ["CN=Issuer"])
    }

    @Test func `a key in a separate PKCS#12 file is read`() throws {
        let identity = try TLSIdentity(
            bytes: issued.certificatePEM,
            key: issued.pkcs12(passphrase: "x"),
            passphrase: TLSPassphrase("x")
        )
        #expect(identity.certificate == issued.identity.certificate)
    }

    @Test func `without the legacy provider, an old PKCS#12 file causes the error that names it`() throws {
        let file = try issued.pkcs12(passphrase: "x", form: .rc2)
        let reader = IdentityReader(passphrase: TLSPassphrase("x"), legacyProvider: "no-such-provider")
        let error = #expect(throws: TLSError.self) { try reader.read(file, key: nil) }
        guard case .legacyProviderMissing? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(error?.description.contains("openssl pkcs12 -legacy") == true)
    }

    @Test func `reading an old file leaves the default library without the old ciphers`() throws {
        let file = try issued.pkcs12(passphrase: "x", form: .rc2)
        for _ in 0..<2 { _ = try TLSIdentity(bytes: file, passphrase: TLSPassphrase("x")) }
        // It is still only readable with the legacy provider.
        let reader = IdentityReader(passphrase: TLSPassphrase("x"), legacyProvider: "no-such-provider")
        #expect(throws: TLSError.self) { try reader.read(file, key: nil) }
    }

    @Test func `an identity from an old file works in a handshake`() async throws {
        let file = try issued.pkcs12(passphrase: "x", form: .rc2)
        let identity = try TLSIdentity(bytes: file, passphrase: TLSPassphrase("x"))
        let server = try Certificates.serverContext { $0.clientCertificates = .required }
        let client = try Certificates.clientContext { $0.identity = identity }
        try await Loopback.withConnection(server: server, client: client) { _, server in
            try await server.wait("handshake") { $0.isHandshakeDone }
        }
    }

    @Test func `a key of another certificate does not match`() throws {
        let other = try Certificates.server.get()
        #expect(throws: TLSError.keyMismatch) {
            try TLSIdentity(bytes: issued.certificatePEM, key: other.keyPEM)
        }
    }

    @Test func `missing parts are reported`() throws {
        #expect(throws: TLSError.keyMissing) { try TLSIdentity(bytes: issued.certificatePEM) }
        #expect(throws: TLSError.keyMissing) { try TLSIdentity(bytes: issued.certificateDER) }
        #expect(throws: TLSError.certificateMissing) { try TLSIdentity(bytes: issued.keyPEM) }
        for bytes in [[], Array("hello".utf8), [0x30, 0x82, 0xFF, 0xFF, 1, 2]] as [[UInt8]] {
            let error = #expect(throws: TLSError.self) { try TLSIdentity(bytes: bytes) }
            guard case .identityMalformed? = error else {
                Issue.record("\(String(describing: error))")
                continue
            }
        }
    }

    @Test func `damaged bytes never trap`() throws {
        var random = SplitMix64(seed: 7)
        let forms = [
            issued.pem, issued.certificateDER, try issued.pkcs12(passphrase: ""),
            try issued.pkcs12(passphrase: "", form: .rc2),
        ]
        for form in forms {
            for _ in 0..<40 {
                var bytes = form
                for _ in 0..<Int.random(in: 1...8, using: &random) {
                    bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
                }
                bytes.removeLast(Int.random(in: 0..<bytes.count, using: &random) / 4)
                do throws(TLSError) {
                    _ = try TLSIdentity(bytes: bytes)
                } catch {
                    #expect(!error.description.isEmpty)
                }
            }
        }
    }

    @Test func `a missing file is reported with its path`() throws {
        let error = #expect(throws: TLSError.self) { try TLSIdentity(contentsOf: "/nonexistent/identity.p12") }
        guard case .fileUnreadable("/nonexistent/identity.p12", _)? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(throws: TLSError.self) { try TLSIdentity(contentsOf: "/") }
    }

    @Test func `identities and passphrases are read from files`() throws {
        let folder = try TemporaryFolder()
        let file = try folder.write("identity.p12", issued.pkcs12(passphrase: "geheim"))
        for text in ["geheim", "geheim\n", "geheim\r\nnext line"] {
            let passphrase = try TLSPassphrase(contentsOf: folder.write("passphrase", Array(text.utf8)))
            let identity = try TLSIdentity(contentsOf: file, passphrase: passphrase)
            #expect(identity.certificate == issued.identity.certificate)
        }
    }

    @Test func `no way of printing shows a passphrase`() throws {
        let passphrase = TLSPassphrase("correct horse")
        var dumped = ""
        dump(passphrase, to: &dumped)
        let texts = ["\(passphrase)", String(reflecting: passphrase), dumped, "\([passphrase])"]
        for text in texts {
            #expect(!text.contains("correct") && !text.contains("99"), "\(text)")
        }
        let key = try issued.encryptedKeyPEM(passphrase: "other")
        let error = #expect(throws: TLSError.self) {
            try TLSIdentity(bytes: issued.certificatePEM, key: key, passphrase: passphrase)
        }
        #expect(!"\(String(describing: error))".contains("correct"))
    }
}

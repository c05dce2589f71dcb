// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import OpenSSLTLS
import TestSupport
import Testing

/// Goal: the printed or logged form of certificates and keys is one line, without their bytes.
@Suite struct DescriptionTests {
    @Test func `each description is one line, without bytes`() throws {
        let authority = try CertificateAuthority()
        let issued = try authority.issueClient(
            topic: "com.example.app",
            description: String(repeating: "x", count: 3000)
        )
        let client = TLSConfiguration.client(identity: issued.identity, trust: authority.trust)
        let key = try ES256PrivateKey(bytes: issued.keyPEM)
        let values: [Any] = [
            issued.identity.certificate, issued.identity, issued, authority, authority.trust, TLSTrust.system, client,
            try authority.makeServerTLS(), TLSPassphrase("correct horse"), key, try key.publicKey,
            try TLSContext(client), try TLSHandler.client(TLSContext(client), serverName: "localhost"),
            try CertificateVerifier(authorities: authority.certificatePEM),
        ]
        for value in values {
            for printed in PrintedText.all(of: value) {
                #expect(printed.isShortLine && !printed.showsBytes, "\(printed)")
                #expect(!printed.text.contains("correct") && !printed.text.contains("PRIVATE KEY"), "\(printed)")
            }
        }
    }

    @Test func `the check detects printed bytes`() throws {
        let certificate = try CertificateAuthority().certificate
        for printed in PrintedText.all(of: certificate.der) { #expect(printed.showsBytes, "\(printed.means)") }
    }

    @Test func `a description identifies its certificate`() throws {
        let certificate = try CertificateAuthority(name: "Anyone").certificate
        #expect("\(certificate)" == "certificate of CN=Anyone, SHA-256 \(certificate.fingerprint.prefix(16))...")
    }

    @Test func `identities are equal by certificate and chain`() throws {
        let authority = try CertificateAuthority()
        let issued = try authority.issueClient(topic: "com.example.app")
        let same = try TLSIdentity(bytes: issued.pem)
        #expect(same == issued.identity && same.hashValue == issued.identity.hashValue)
        #expect(try authority.issueClient(topic: "com.example.app").identity != same)
        let below = try authority.issueAuthority(name: "Below").issueClient(topic: "com.example.app")
        let alone = try TLSIdentity(bytes: below.certificateDER, key: below.keyPEM)
        #expect(alone.certificate == below.identity.certificate && alone != below.identity)
    }
}

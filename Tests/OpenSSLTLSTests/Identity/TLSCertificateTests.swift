// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import APNSWire
import Foundation
import OpenSSLTLS
import TestSupport
import Testing

@Suite struct TLSCertificateTests {
    @Test func `the facts of a push certificate are read`() throws {
        let issued = try CertificateAuthority(name: "Zertifikate für alle").issueClient(topic: "com.example.app")
        let facts = issued.identity.certificate
        #expect(facts.der == issued.certificateDER)
        #expect(
            facts.subjectFields == [
                "UID": ["com.example.app"], "CN": ["Apple Push Services: com.example.app"], "OU": ["ABCDE12345"],
                "O": ["Example"], "C": ["US"],
            ]
        )
        #expect(facts.subjectField("UID") == "com.example.app")
        #expect(facts.subjectField("L") == nil)
        #expect(facts.issuer == "CN=Zertifikate für alle")
        #expect(
            facts.subject == "C=US,O=Example,OU=ABCDE12345,CN=Apple Push Services: com.example.app,UID=com.example.app"
        )
        #expect(facts.extensions["1.2.840.113635.100.6.3.1"] == [5, 0])
        #expect(facts.extensions["1.2.840.113635.100.6.3.2"] == [5, 0])
        #expect(facts.extensions["2.5.29.19"] != nil)
        #expect(facts.notAfter - facts.notBefore == 86_400 + 3600)
        #expect(!facts.isExpired(at: facts.notAfter))
        #expect(facts.isExpired(at: facts.notAfter + 1))
        #expect(facts.hostNames == ["Apple Push Services: com.example.app"])
        #expect(facts.fingerprint.count == 64)
        #expect(try TLSCertificate(der: facts.der) == facts)
        #expect(throws: TLSError.self) { try TLSCertificate(der: [1, 2, 3]) }
    }

    /// dovecot-xaps-daemon b098747 reads its topic only from a certificate with this order, which Apple's have.
    @Test func `the environment is the eighth extension of a provider's certificate`() async throws {
        let folder = try TemporaryFolder()
        let issued = try CertificateAuthority().issueClient(
            topics: [CertificateTopics.Topic(name: "com.apple.mail.XServer.1")],
            environments: [.production],
            period: CertificateAuthority.Period(dayCount: 1, from: Int64(Date().timeIntervalSince1970))
        )
        let path = try folder.write("certificate.pem", issued.certificatePEM)
        let text = try await OpenSSLTool.output(["x509", "-in", path, "-noout", "-text"])
        let lines = text.split(separator: "\n").drop { !$0.hasSuffix("X509v3 extensions:") }.dropFirst()
        let names = lines.filter { $0.hasPrefix("            ") && !$0.hasPrefix("             ") }
        #expect(names.count == 8 && names[7].contains("1.2.840.113635.100.6.3.2:"), "\(text)")
    }

    @Test func `serial number and fingerprint match those from the openssl program`() async throws {
        let folder = try TemporaryFolder()
        let issued = try CertificateAuthority().issueServer(keyKind: .rsa2048)
        let path = try folder.write("certificate.pem", issued.certificatePEM)
        let output = try await OpenSSLTool.output(
            ["x509", "-in", path, "-noout", "-serial", "-fingerprint", "-sha256"])
        let facts = issued.identity.certificate
        let serial = String(repeating: "0", count: facts.serialNumber.count % 2) + facts.serialNumber
        #expect(output.contains("serial=\(serial)\n"))
        #expect(output.replacing(":", with: "").lowercased().contains("fingerprint=\(facts.fingerprint)"))
    }
}

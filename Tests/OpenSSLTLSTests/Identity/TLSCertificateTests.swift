// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
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

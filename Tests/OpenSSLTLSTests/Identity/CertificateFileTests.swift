// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import OpenSSLTLS
import TestSupport
import Testing

/// Goal: a file is parsed as far as possible, even if TLS cannot use it.
@Suite(.timeLimit(.minutes(1))) struct CertificateFileTests {
    @Test func `parts that do not belong together are all read`() throws {
        let (one, other) = (try CertificateAuthority(), try CertificateAuthority(name: "Other"))
        let (client, server) = (try one.issueClient(topic: "a.b"), try other.issueServer(names: ["a.example", "::1"]))
        let locked = try client.encryptedKeyPEM(passphrase: "x")
        let traditional = try client.encryptedKeyPEM(passphrase: "x", isTraditional: true)
        let text = server.certificatePEM + locked + client.pem + one.certificatePEM + traditional
        let file = try CertificateFile(bytes: text)
        #expect(file.form == .pem && file.problem == nil && file.otherLabels.isEmpty)
        let certificates = [server.identity.certificate, client.identity.certificate, one.certificate]
        #expect(file.certificates == certificates)
        #expect(file.keys.map(\.isEncrypted) == [true, false, true])
        #expect(file.keys.map(\.problem) == [.passphraseMissing, nil, .passphraseMissing])
        #expect(file.keys[0].matches(certificates[1]) == nil)
        #expect(certificates.map { file.keys[1].matches($0) } == [false, true, false])
        let open = try CertificateFile(bytes: text, passphrase: TLSPassphrase("x"))
        #expect(open.keys.map { $0.matches(certificates[1]) } == [true, true, true])
        #expect(open.keys.allSatisfy { $0.pem() == client.keyPEM })
        let wrong = try CertificateFile(bytes: text, passphrase: TLSPassphrase("y"))
        #expect(wrong.keys.map(\.problem) == [.passphraseWrong, nil, .passphraseWrong])
        #expect(certificates[1].isIssued(by: one.certificate) && !certificates[0].isIssued(by: one.certificate))
        #expect(one.certificate.isAuthority && !certificates[0].isAuthority)
        #expect(certificates.map { $0.matches(host: "a.example") } == [true, false, false])
        #expect(certificates[0].matches(host: "0:0::1") && !certificates[0].matches(host: "b.example"))
        #expect(certificates[0].isForServers && !certificates[0].isForClients && certificates[1].isForClients)
        #expect(certificates.allSatisfy { CertificateFile.isSame($0) })
    }

    @Test(arguments: IssuedIdentity.PKCS12Form.allCases)
    func `the encryption of a PKCS#12 file is known without its passphrase`(_ form: IssuedIdentity.PKCS12Form) throws {
        let client = try CertificateAuthority().issueClient(topic: "a.b")
        let bytes = try client.pkcs12(passphrase: "x", form: form)
        let file = try CertificateFile(bytes: bytes)
        #expect(file.form == .pkcs12 && file.problem == .passphraseMissing && file.certificates.isEmpty)
        let protection = try #require(file.protection)
        let (certificates, key) =
            switch form {
            case .rc2: ("RC2-40", "3DES")
            case .tripleDES: ("3DES", "3DES")
            default: ("AES-256", "AES-256")
            }
        #expect(protection.parts.map(\.cipher) == [certificates, key])
        #expect(protection.parts.map(\.content) == [.certificates, .key])
        #expect(protection.parts.map(\.iterationCount) == [2048, 2048] && protection.checksumIterationCount == 2048)
        #expect(protection.checksumDigest == (form == .aes256 ? "SHA256" : "SHA1"))
        #expect(protection.isForOldPrograms == (form != .aes256) && protection.needsLegacyProvider == (form == .rc2))
        let open = try CertificateFile(bytes: bytes, passphrase: TLSPassphrase("x"))
        #expect(open.problem == nil && open.certificates == [client.identity.certificate])
        #expect(open.keys.first?.pem() == client.keyPEM)
    }

    @Test func `the limit applies to all keys of a file together`() async throws {
        let folder = try TemporaryFolder()
        let client = try CertificateAuthority().issueClient(topic: "a.b")
        let path = try folder.write("key.pem", client.keyPEM)
        let locked = folder.path + "/locked.pem"
        let arguments = ["pkcs8", "-topk8", "-iter", "1000000", "-in", path, "-passout", "pass:x", "-out", locked]
        _ = try await OpenSSLTool.output(arguments)
        let key = try FileBytes.read(locked)
        let bytes = [[UInt8]](repeating: key, count: 9).flatMap(\.self)
        let file = try CertificateFile(bytes: bytes)
        #expect(file.keys.map(\.problem).prefix(5).allSatisfy { $0 == .passphraseMissing })
        let refused = file.keys.dropFirst(5).map(\.problem)
        #expect(refused.count == 4)
        for problem in refused {
            guard case .keyDerivationTooLong? = problem else {
                Issue.record("\(String(describing: problem))")
                continue
            }
        }
    }

    @Test func `a damaged, empty or other file causes an error or a problem`() throws {
        let client = try CertificateAuthority().issueClient(topic: "a.b")
        for bytes in [[], Array("hello".utf8), [0x30, 0x03, 0x02, 0x01, 0x03]] as [[UInt8]] {
            #expect(throws: TLSError.self) { try CertificateFile(bytes: bytes) }
        }
        var damaged = client.certificatePEM
        damaged[100] = UInt8(ascii: "!")
        let file = try CertificateFile(bytes: client.pem + damaged)
        #expect(file.certificates.count == 1 && file.keys.count == 1)
        guard case .identityMalformed(let detail)? = file.problem else {
            Issue.record("no problem")
            return
        }
        #expect(detail.hasPrefix("part 3 is damaged"))
        #expect(try CertificateFile(bytes: client.certificateDER).certificates == [client.identity.certificate])
    }
}

extension CertificateFile {
    /// Whether a certificate is unchanged after conversion to PEM and back.
    fileprivate static func isSame(_ certificate: TLSCertificate) -> Bool {
        (try? CertificateFile(bytes: certificate.pem))?.certificates == [certificate]
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import Testing

@testable import OpenSSLTLS

@Suite("Signatures of ES256")
struct ES256Tests {
    private func keyPEM(_ kind: TestCertificateAuthority.KeyKind = .p256) throws -> [UInt8] {
        try TestCertificateAuthority().issueClient(topic: "com.example.app", keyKind: kind).keyPEM
    }

    @Test func `the public key verifies exactly what the private key signed`() throws {
        let key = try ES256PrivateKey(bytes: self.keyPEM())
        let other = try ES256PrivateKey(bytes: self.keyPEM())
        // Numbers with leading zeros, which about one signature in 128 contains, must be padded.
        for number in 0..<300 {
            let bytes = Array("message \(number)".utf8)
            let signature = try key.signature(of: bytes)
            #expect(signature.count == 64)
            #expect(try key.publicKey.verifies(signature, of: bytes))
            #expect(try !key.publicKey.verifies(signature, of: bytes + [0]))
        }
        let signature = try key.signature(of: [1])
        #expect(try !other.publicKey.verifies(signature, of: [1]))
        for index in signature.indices {
            var changed = signature
            changed[index] ^= 1
            #expect(try !key.publicKey.verifies(changed, of: [1]))
        }
    }

    @Test func `a signature of another length never verifies`() throws {
        let key = try ES256PrivateKey(bytes: self.keyPEM()).publicKey
        for count in [0, 1, 63, 65, 1000] {
            #expect(!key.verifies([UInt8](repeating: 1, count: count), of: [1]))
        }
    }

    @Test func `anything other than a key on the curve is rejected`() throws {
        #expect(throws: TLSError.identityMalformed(detail: "the key is not one of the curve P-256")) {
            try ES256PrivateKey(bytes: self.keyPEM(.rsa2048))
        }
        #expect(throws: TLSError.self) { try ES256PrivateKey(bytes: []) }
        #expect(throws: TLSError.self) { try ES256PrivateKey(bytes: Array("-----BEGIN NONSENSE-----".utf8)) }
        #expect(throws: TLSError.keyMissing) { try ES256PublicKey(pem: Array("nothing".utf8)) }
        #expect(throws: TLSError.self) { try ES256PrivateKey(contentsOf: "/nonexistent.p8") }
    }

    @Test func `an encrypted key needs its passphrase`() throws {
        let identity = try TestCertificateAuthority().issueClient(topic: "com.example.app")
        let bytes = try identity.encryptedKeyPEM(passphrase: "secret")
        #expect(throws: TLSError.passphraseMissing) { try ES256PrivateKey(bytes: bytes) }
        #expect(throws: TLSError.passphraseWrong) { try ES256PrivateKey(bytes: bytes, passphrase: .init("wrong")) }
        _ = try ES256PrivateKey(bytes: bytes, passphrase: TLSPassphrase("secret"))
    }
}

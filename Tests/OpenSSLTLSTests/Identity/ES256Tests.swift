// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import Foundation
import Testing

@testable import OpenSSLTLS

@Suite("Signatures of ES256")
struct ES256Tests {
    private func keyPEM(_ kind: CertificateAuthority.KeyKind = .p256) throws -> [UInt8] {
        try CertificateAuthority().issueClient(topic: "com.example.app", keyKind: kind).keyPEM
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

    @Test func `a key of two keys is refused, since nobody could verify what it signs`() throws {
        let text = String(decoding: try self.keyPEM(), as: UTF8.self)
        let base64 = text.split(separator: "\n").filter { !$0.hasPrefix("-") }.joined()
        var key = try Array(#require(Data(base64Encoded: base64)))
        _ = try ES256PrivateKey(bytes: key)
        // The number 1, the version of the structure, and the private key, which has 32 bytes.
        let start: [UInt8] = [2, 1, 1, 4, 32]
        let index = try #require(key.indices.first { key[$0...].starts(with: start) })
        key[index + start.count + 31] ^= 1
        #expect {
            try ES256PrivateKey(bytes: key)
        } throws: {
            "\($0)".contains("the public key in the file is not that of the private key")
        }
    }

    @Test func `a signature of another length never verifies`() throws {
        let key = try ES256PrivateKey(bytes: self.keyPEM()).publicKey
        for count in [0, 1, 63, 65, 1000] {
            #expect(!key.verifies([UInt8](repeating: 1, count: count), of: [1]))
        }
    }

    @Test func `a signature verifies as 64 bytes or in strict DER`() throws {
        let key = try ES256PrivateKey(bytes: self.keyPEM())
        let publicKey = try key.publicKey
        var lengths: Set<Int> = []
        for number in 0..<300 {
            let bytes = Array("message \(number)".utf8)
            let raw = try key.signature(of: bytes)
            let encoded = try #require(ES256.encoded(raw))
            lengths.insert(encoded.count)
            #expect(publicKey.format(of: raw, signing: bytes) == .raw)
            #expect(publicKey.format(of: encoded, signing: bytes) == .der)
            #expect(publicKey.format(of: encoded, signing: bytes + [0]) == nil)
        }
        // Both integers with and without a leading zero.
        #expect(lengths.isSuperset(of: [70, 71, 72]))
    }

    @Test func `DER in any other form is no signature`() throws {
        let key = try ES256PrivateKey(bytes: self.keyPEM())
        let publicKey = try key.publicKey
        let encoded = try #require(ES256.encoded(key.signature(of: [1])))
        let (first, rest) = (encoded[1], Array(encoded[2...]))
        let others: [[UInt8]] = [
            [], [0x30], encoded + [0], encoded.dropLast(), [0x30, 0x81, first] + rest,
            // A number with a superfluous leading zero.
            [0x30, first + 1, 0x02, rest[1] + 1, 0] + rest[2...],
            // A set instead of a sequence, and an indefinite length.
            [0x31, first] + rest, [0x30, 0x80] + rest + [0, 0],
            // More or larger numbers.
            [0x30, first + 3] + rest + [2, 1, 1], [0x30, 0x06, 0x02, 0x01, 0x00, 0x02, 0x01, 0x00],
            [0x30, 0x27, 0x02, 0x22] + [UInt8](repeating: 1, count: 34) + [0x02, 0x01, 0x01],
            [UInt8](repeating: 0x30, count: 100_000),
        ]
        for other in others { #expect(publicKey.format(of: other, signing: [1]) == nil) }
        for index in encoded.indices {
            var changed = encoded
            changed[index] ^= 1
            #expect(publicKey.format(of: changed, signing: [1]) == nil)
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
        let identity = try CertificateAuthority().issueClient(topic: "com.example.app")
        let bytes = try identity.encryptedKeyPEM(passphrase: "secret")
        #expect(throws: TLSError.passphraseMissing) { try ES256PrivateKey(bytes: bytes) }
        #expect(throws: TLSError.passphraseWrong) { try ES256PrivateKey(bytes: bytes, passphrase: .init("wrong")) }
        _ = try ES256PrivateKey(bytes: bytes, passphrase: TLSPassphrase("secret"))
    }
}

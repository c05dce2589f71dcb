// SPDX-License-Identifier: Apache-2.0

/// How weak the keys and signatures of a client's certificate may be.
package enum CertificateStrength: Hashable, Sendable {
    /// What Debian's OpenSSL 3 requires for TLS 1.2: RSA keys of 2048 bits, and signatures with SHA-256.
    case current
    /// What old authorities issued: RSA keys of 1024 bits, and signatures with SHA-1.
    case legacy

    /// The minimum strength of a key, in bits of a symmetric key.
    package var keySecurityBitCountMin: Int { self == .current ? 112 : 80 }

    /// The minimum strength of the signed hash; OpenSSL 3 rates SHA-1 at 63 bits and MD5 at 39.
    package var signatureSecurityBitCountMin: Int { self == .current ? 80 : 63 }
}

extension TLSCertificate {
    /// Why the key is too weak; `nil` if it is not.
    package func keyWeakness(_ strength: CertificateStrength) -> String? {
        guard let key = self.publicKey else { return "its key is of an unknown kind" }
        guard key.securityBitCount < strength.keySecurityBitCountMin else { return nil }
        return "its \(key.kind) key has only \(key.bitCount) bits"
    }

    /// Why the signature of its issuer is too weak; `nil` if it is not.
    package func signatureWeakness(_ strength: CertificateStrength) -> String? {
        guard self.signatureSecurityBitCount < strength.signatureSecurityBitCountMin else { return nil }
        return "it is signed with \(self.signatureAlgorithm)"
    }
}

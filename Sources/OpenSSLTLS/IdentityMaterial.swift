// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// OpenSSL's objects of an identity.
///
/// Safe to share: nothing changes after `init`, and OpenSSL counts references to its objects atomically.
final class IdentityMaterial: @unchecked Sendable {
    let leaf: OpaquePointer
    let key: OpaquePointer
    let chain: [OpaquePointer]

    /// Finds the certificate that belongs to `key` and those that lead from it upwards.
    ///
    /// Takes a reference of its own to all it keeps.
    init(certificates: [OpaquePointer], key: OpaquePointer) throws(TLSError) {
        guard !certificates.isEmpty else { throw .certificateMissing }
        let leaf = certificates.first { X509_check_private_key($0, key) == 1 }
        ERR_clear_error()
        guard let leaf else { throw .keyMismatch }
        var chain: [OpaquePointer] = []
        var current = leaf
        // A root is not sent: whoever trusts it has it.
        while let issuer = certificates.first(where: {
            X509_check_issued($0, current) == X509_V_OK && X509_check_issued($0, $0) != X509_V_OK
        }), issuer != leaf, !chain.contains(issuer) {
            chain.append(issuer)
            current = issuer
        }
        ERR_clear_error()
        self.leaf = leaf
        self.key = key
        self.chain = chain
        X509_up_ref(leaf)
        EVP_PKEY_up_ref(key)
        for certificate in chain { X509_up_ref(certificate) }
    }

    deinit {
        X509_free(self.leaf)
        EVP_PKEY_free(self.key)
        for certificate in self.chain { X509_free(certificate) }
    }
}

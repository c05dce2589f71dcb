// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// The OpenSSL objects of an identity.
///
/// Safe to share: nothing changes after `init`, and OpenSSL counts references to its objects atomically.
@safe
final class IdentityMaterial: @unchecked Sendable {
    let leaf: OpaquePointer
    let key: OpaquePointer
    let chain: [OpaquePointer]

    /// Finds the certificate that belongs to `key` and its chain of issuers.
    ///
    /// Retains the objects that it keeps.
    init(certificates: [OpaquePointer], key: OpaquePointer) throws(TLSError) {
        guard unsafe !certificates.isEmpty else { throw .certificateMissing }
        let leaf = unsafe certificates.first { unsafe X509_check_private_key($0, key) == 1 }
        ERR_clear_error()
        guard let leaf = unsafe leaf else { throw .keyMismatch }
        var chain: [OpaquePointer] = unsafe []
        var current = unsafe leaf
        // The root is not sent: a peer that trusts it already has it.
        while let issuer = unsafe certificates.first(where: {
            unsafe X509_check_issued($0, current) == X509_V_OK && X509_check_issued($0, $0) != X509_V_OK
        }), unsafe issuer != leaf, unsafe !chain.contains(issuer) {
            unsafe chain.append(issuer)
            unsafe current = issuer
        }
        ERR_clear_error()
        unsafe self.leaf = leaf
        unsafe self.key = key
        unsafe self.chain = chain
        unsafe X509_up_ref(leaf)
        unsafe EVP_PKEY_up_ref(key)
        unsafe chain.forEach { unsafe X509_up_ref($0) }
    }

    deinit {
        unsafe X509_free(self.leaf)
        unsafe EVP_PKEY_free(self.key)
        unsafe self.chain.forEach { unsafe X509_free($0) }
    }
}

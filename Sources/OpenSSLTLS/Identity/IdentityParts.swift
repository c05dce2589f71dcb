// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// The certificates and the key from which an identity is built; owns them.
@safe
final class IdentityParts {
    private(set) var certificates: [OpaquePointer] = unsafe []
    private(set) var key: OpaquePointer?

    deinit {
        unsafe self.certificates.forEach { unsafe X509_free($0) }
        unsafe EVP_PKEY_free(self.key)
    }

    func append(certificate: OpaquePointer) {
        unsafe self.certificates.append(certificate)
    }

    func replaceKey(with key: OpaquePointer) {
        unsafe EVP_PKEY_free(self.key)
        unsafe self.key = key
    }

    func moveAll(from other: IdentityParts) {
        unsafe self.certificates += other.certificates
        unsafe other.certificates = []
        if let key = unsafe other.key {
            unsafe other.key = nil
            unsafe self.replaceKey(with: key)
        }
    }
}

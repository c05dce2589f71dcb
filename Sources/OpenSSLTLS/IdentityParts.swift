// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// Certificates and a key on their way into an identity; owns them.
final class IdentityParts {
    private(set) var certificates: [OpaquePointer] = []
    private(set) var key: OpaquePointer?

    deinit {
        for certificate in self.certificates { X509_free(certificate) }
        EVP_PKEY_free(self.key)
    }

    func take(certificate: OpaquePointer) {
        self.certificates.append(certificate)
    }

    func replaceKey(with key: OpaquePointer) {
        EVP_PKEY_free(self.key)
        self.key = key
    }

    func takeAll(from other: IdentityParts) {
        self.certificates += other.certificates
        other.certificates = []
        if let key = other.key {
            other.key = nil
            self.replaceKey(with: key)
        }
    }
}

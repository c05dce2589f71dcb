// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import NIOConcurrencyHelpers

/// A private key for tests.
///
/// Safe to share: OpenSSL counts references atomically and nothing changes the key.
@safe
final class TestKey: @unchecked Sendable {
    /// What kind of key.
    enum Kind: Hashable {
        case p256
        case rsa2048
    }

    let pointer: OpaquePointer

    // RSA keys take a while to make, so a few are shared by the whole process.
    private static let rsaKeys = NIOLockedValueBox<[TestKey]>([])
    private static let rsaKeyCountMax = 4
    private static let rsaUses = NIOLockedValueBox(0)

    private init(_ pointer: OpaquePointer) {
        unsafe self.pointer = pointer
    }

    deinit {
        unsafe EVP_PKEY_free(self.pointer)
    }

    static func make(_ kind: Kind) throws(TestCertificateError) -> TestKey {
        switch kind {
        case .p256:
            guard let pointer = unsafe shim_EVP_EC_gen("P-256") else { throw TestCertificateError.current("EC key") }
            return unsafe TestKey(pointer)
        case .rsa2048:
            return try Self.sharedRSAKey()
        }
    }

    private static func sharedRSAKey() throws(TestCertificateError) -> TestKey {
        let use = Self.rsaUses.withLockedValue { uses in
            defer { uses += 1 }
            return uses
        }
        let known = Self.rsaKeys.withLockedValue { keys in
            keys.count < Self.rsaKeyCountMax ? nil : keys[use % keys.count]
        }
        if let known { return known }
        guard let pointer = unsafe shim_EVP_RSA_gen(2048) else { throw TestCertificateError.current("RSA key") }
        let key = unsafe TestKey(pointer)
        Self.rsaKeys.withLockedValue { $0.append(key) }
        return key
    }
}

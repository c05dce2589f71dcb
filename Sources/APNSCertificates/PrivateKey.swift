// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import NIOConcurrencyHelpers

/// The private key of an authority or certificate.
///
/// Safe to share: OpenSSL counts references atomically, and the key is never changed.
@safe
final class PrivateKey: @unchecked Sendable {
    /// The type of a key.
    enum Kind: Hashable {
        case p256
        case rsa2048
    }

    let pointer: OpaquePointer

    // Generating RSA keys is slow, so the process shares a few.
    private static let rsaKeys = NIOLockedValueBox<[PrivateKey]>([])
    private static let rsaKeyCountMax = 4
    private static let rsaUses = NIOLockedValueBox(0)

    private init(_ pointer: OpaquePointer) {
        unsafe self.pointer = pointer
    }

    deinit {
        unsafe EVP_PKEY_free(self.pointer)
    }

    /// Parses a private key that is not encrypted.
    ///
    /// - Throws: `CertificateError` if there is none.
    static func read(pem: [UInt8]) throws(CertificateError) -> PrivateKey {
        ERR_clear_error()
        let pointer = unsafe pem.withUnsafeBytes { bytes -> OpaquePointer? in
            guard let memory = unsafe BIO_new_mem_buf(bytes.baseAddress, Int32(clamping: bytes.count)) else {
                return nil
            }
            defer { unsafe BIO_free(memory) }
            // Prevents a prompt for a passphrase.
            return unsafe PEM_read_bio_PrivateKey(memory, nil, { _, _, _, _ in -1 }, nil)
        }
        guard let pointer = unsafe pointer else { throw CertificateError.current("private key") }
        ERR_clear_error()
        return unsafe PrivateKey(pointer)
    }

    /// Signs and verifies a text, since a damaged private key may have an intact public key.
    func checkWholeness() throws(CertificateError) {
        ERR_clear_error()
        let text = Array("wholeness".utf8)
        guard let context = unsafe EVP_MD_CTX_new() else { throw CertificateError.current("private key") }
        defer { unsafe EVP_MD_CTX_free(context) }
        var count = unsafe Int(EVP_PKEY_get_size(self.pointer))
        var signature = [UInt8](repeating: 0, count: count)
        let isSigned =
            unsafe EVP_DigestSignInit(context, nil, EVP_sha256(), nil, self.pointer) == 1
            && EVP_DigestSign(context, &signature, &count, text, text.count) == 1
        let isGood =
            unsafe isSigned && EVP_MD_CTX_reset(context) == 1
            && EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, self.pointer) == 1
            && EVP_DigestVerify(context, signature, count, text, text.count) == 1
        guard isGood else { throw CertificateError.current("private key") }
        ERR_clear_error()
    }

    /// `nil` for another type.
    var kind: Kind? {
        switch unsafe EVP_PKEY_get_base_id(self.pointer) {
        case EVP_PKEY_EC: .p256
        case EVP_PKEY_RSA: .rsa2048
        default: nil
        }
    }

    /// The key in PEM (PKCS#8), not encrypted.
    func pem() throws(CertificateError) -> [UInt8] {
        try unsafe MemoryText.write("key") {
            unsafe PEM_write_bio_PKCS8PrivateKey($0, self.pointer, nil, nil, 0, nil, nil)
        }
    }

    /// The key in PEM in its traditional format: PKCS#1 for RSA, SEC 1 for EC; not encrypted.
    func traditionalPEM() throws(CertificateError) -> [UInt8] {
        try unsafe MemoryText.write("key") {
            unsafe PEM_write_bio_PrivateKey_traditional($0, self.pointer, nil, nil, 0, nil, nil)
        }
    }

    /// Generates a key.
    ///
    /// - Throws: `CertificateError`.
    static func make(_ kind: Kind, isShared: Bool = true) throws(CertificateError) -> PrivateKey {
        switch kind {
        case .p256:
            guard let pointer = unsafe shim_EVP_EC_gen("P-256") else { throw CertificateError.current("EC key") }
            return unsafe PrivateKey(pointer)
        case .rsa2048:
            return isShared ? try Self.sharedRSAKey() : try Self.newRSAKey()
        }
    }

    private static func newRSAKey() throws(CertificateError) -> PrivateKey {
        guard let pointer = unsafe shim_EVP_RSA_gen(2048) else { throw CertificateError.current("RSA key") }
        return unsafe PrivateKey(pointer)
    }

    private static func sharedRSAKey() throws(CertificateError) -> PrivateKey {
        let use = Self.rsaUses.withLockedValue { uses in
            defer { uses += 1 }
            return uses
        }
        let known = Self.rsaKeys.withLockedValue { keys in
            keys.count < Self.rsaKeyCountMax ? nil : keys[use % keys.count]
        }
        if let known { return known }
        let key = try Self.newRSAKey()
        Self.rsaKeys.withLockedValue { $0.append(key) }
        return key
    }
}

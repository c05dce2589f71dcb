// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// A public key on the curve P-256 that verifies signatures of ``ES256PrivateKey``.
///
/// Safe to share: OpenSSL counts references atomically and nothing changes the key.
public final class ES256PublicKey: @unchecked Sendable {
    private let pointer: OpaquePointer

    /// Reads a key from PEM.
    ///
    /// - Parameter bytes: a text with `PUBLIC KEY` in its first line.
    /// - Throws: ``TLSError/keyMissing``, ``TLSError/identityMalformed(detail:)`` for a key on another curve.
    public init(pem bytes: [UInt8]) throws(TLSError) {
        ERR_clear_error()
        let pointer = bytes.withUnsafeBytes { bytes -> OpaquePointer? in
            guard let memory = BIO_new_mem_buf(bytes.baseAddress, Int32(bytes.count)) else { return nil }
            defer { BIO_free(memory) }
            return PEM_read_bio_PUBKEY(memory, nil, PassphraseRequest.refuse, nil)
        }
        ERR_clear_error()
        guard let pointer else { throw .keyMissing }
        guard ES256.isOnCurve(pointer) else {
            EVP_PKEY_free(pointer)
            throw .identityMalformed(detail: "the key is not one of the curve P-256")
        }
        self.pointer = pointer
    }

    /// Takes the public half of a key.
    init(of key: OpaquePointer) throws(TLSError) {
        ERR_clear_error()
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = i2d_PUBKEY(key, &bytes)
        guard let bytes, count > 0 else { throw ES256.failure() }
        defer { shim_OPENSSL_free(bytes) }
        var position: UnsafePointer<UInt8>? = UnsafePointer(bytes)
        guard let pointer = d2i_PUBKEY(nil, &position, Int(count)) else { throw ES256.failure() }
        self.pointer = pointer
    }

    deinit { EVP_PKEY_free(self.pointer) }

    /// Verifies a signature.
    ///
    /// - Parameters:
    ///   - signature: 64 bytes; any other number verifies never.
    ///   - bytes: what was signed.
    /// - Returns: whether the other half of this key made it.
    public func verifies(_ signature: [UInt8], of bytes: [UInt8]) -> Bool {
        defer { ERR_clear_error() }
        guard let encoded = ES256.encoded(signature), let digest = EVP_MD_CTX_new() else { return false }
        defer { EVP_MD_CTX_free(digest) }
        guard EVP_DigestVerifyInit(digest, nil, EVP_sha256(), nil, self.pointer) == 1 else { return false }
        return EVP_DigestVerify(digest, encoded, encoded.count, bytes, bytes.count) == 1
    }
}

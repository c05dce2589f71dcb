// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// A P-256 public key that verifies signatures of ``ES256PrivateKey``.
///
/// Safe to share: OpenSSL counts references atomically and the key is never changed.
@safe
public final class ES256PublicKey: @unchecked Sendable {
    private let pointer: OpaquePointer

    /// Reads a key from PEM.
    ///
    /// - Parameter bytes: a text with `PUBLIC KEY` in its first line.
    /// - Throws: ``TLSError/keyMissing``, ``TLSError/identityMalformed(detail:)`` for a key on another curve.
    public init(pem bytes: [UInt8]) throws(TLSError) {
        ERR_clear_error()
        let pointer = unsafe bytes.withUnsafeBytes { bytes -> OpaquePointer? in
            guard let memory = unsafe BIO_new_mem_buf(bytes.baseAddress, Int32(bytes.count)) else { return nil }
            defer { unsafe BIO_free(memory) }
            return unsafe PEM_read_bio_PUBKEY(memory, nil, PassphraseRequest.refuse, nil)
        }
        ERR_clear_error()
        guard let pointer = unsafe pointer else { throw .keyMissing }
        guard unsafe ES256.isOnCurve(pointer) else {
            unsafe EVP_PKEY_free(pointer)
            throw .identityMalformed(detail: "the key is not one of the curve P-256")
        }
        unsafe self.pointer = pointer
    }

    /// Creates the public key of a private key.
    init(of key: OpaquePointer) throws(TLSError) {
        ERR_clear_error()
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = unsafe i2d_PUBKEY(key, &bytes)
        guard let bytes = unsafe bytes, count > 0 else { throw ES256.failure() }
        defer { unsafe shim_OPENSSL_free(bytes) }
        var position: UnsafePointer<UInt8>? = unsafe UnsafePointer(bytes)
        guard let pointer = unsafe d2i_PUBKEY(nil, &position, Int(count)) else { throw ES256.failure() }
        unsafe self.pointer = pointer
    }

    deinit { unsafe EVP_PKEY_free(self.pointer) }

    /// Verifies a signature.
    ///
    /// - Parameters:
    ///   - signature: 64 bytes; any other number never verifies.
    ///   - bytes: the signed bytes.
    /// - Returns: whether the matching private key created the signature.
    public func verifies(_ signature: [UInt8], of bytes: [UInt8]) -> Bool {
        ES256.encoded(signature).map { self.verifies(encoded: $0, of: bytes) } ?? false
    }

    /// Verifies a signature in either format: first as 64 bytes, then in DER.
    ///
    /// DER is strict: the shortest form of both integers, and no bytes after them.
    ///
    /// - Parameters:
    ///   - signature: the signature.
    ///   - bytes: the signed bytes.
    /// - Returns: the format in which the signature verifies; `nil` if the matching private key did not create it.
    public func format(of signature: [UInt8], signing bytes: [UInt8]) -> ES256SignatureFormat? {
        if self.verifies(signature, of: bytes) { return .raw }
        return ES256.isEncoded(signature) && self.verifies(encoded: signature, of: bytes) ? .der : nil
    }

    /// Verifies a signature in DER.
    private func verifies(encoded: [UInt8], of bytes: [UInt8]) -> Bool {
        defer { ERR_clear_error() }
        guard let digest = unsafe EVP_MD_CTX_new() else { return false }
        defer { unsafe EVP_MD_CTX_free(digest) }
        guard unsafe EVP_DigestVerifyInit(digest, nil, EVP_sha256(), nil, self.pointer) == 1 else { return false }
        return unsafe EVP_DigestVerify(digest, encoded, encoded.count, bytes, bytes.count) == 1
    }
}

extension ES256PublicKey: CustomStringConvertible, CustomReflectable {
    /// A fixed text, which does not depend on the key.
    public var description: String { "public key on P-256" }

    /// An empty mirror, so that `dump` prints only ``description``.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

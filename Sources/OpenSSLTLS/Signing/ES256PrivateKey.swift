// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import FileSupport

/// A P-256 private key for JSON Web Signatures (ES256).
///
/// Safe to share: OpenSSL counts references atomically and the key is never changed.
///
/// - SeeAlso: RFC 7518, 3.4.
@safe
public final class ES256PrivateKey: Equatable, @unchecked Sendable {
    private let pointer: OpaquePointer

    /// Reads a key from a file.
    ///
    /// - Parameters:
    ///   - path: a .p8 file: PKCS#8 in PEM or DER.
    ///   - passphrase: the passphrase of the key; by default none.
    /// - Throws: ``TLSError/fileUnreadable(path:detail:)`` and the errors of ``init(bytes:passphrase:)``.
    public convenience init(contentsOf path: String, passphrase: TLSPassphrase? = nil) throws(TLSError) {
        var bytes = try FileBytes.read(path)
        defer { bytes.wipe() }
        try self.init(bytes: bytes, passphrase: passphrase)
    }

    /// Reads a key from the bytes of such a file.
    ///
    /// - Parameters:
    ///   - bytes: PEM or DER.
    ///   - passphrase: the passphrase of the key; by default none.
    /// - Throws: ``TLSError/keyMissing`` if the bytes are not a key, ``TLSError/identityMalformed(detail:)`` for a key
    ///   on another curve, or one whose public key is not that of its private key, ``TLSError/passphraseMissing``,
    ///   ``TLSError/passphraseWrong``.
    public init(bytes: [UInt8], passphrase: TLSPassphrase? = nil) throws(TLSError) {
        let reader = IdentityReader(passphrase: passphrase, legacyProvider: LegacyLibrary.provider)
        guard let pointer = try unsafe reader.key(in: bytes) else { throw .keyMissing }
        guard unsafe ES256.isOnCurve(pointer) else {
            unsafe EVP_PKEY_free(pointer)
            throw .identityMalformed(detail: "the key is not one of the curve P-256")
        }
        // OpenSSL reads a damaged key, whose signatures nobody can verify.
        guard unsafe ES256.isPair(pointer) else {
            unsafe EVP_PKEY_free(pointer)
            throw .identityMalformed(detail: "the public key in the file is not that of the private key")
        }
        unsafe self.pointer = pointer
    }

    deinit { unsafe EVP_PKEY_free(self.pointer) }

    /// The public key that verifies the signatures of this key.
    ///
    /// - Throws: ``TLSError/identityMalformed(detail:)``.
    public var publicKey: ES256PublicKey { get throws(TLSError) { try unsafe ES256PublicKey(of: self.pointer) } }

    /// Whether both are the same key.
    public static func == (left: ES256PrivateKey, right: ES256PrivateKey) -> Bool {
        unsafe EVP_PKEY_eq(left.pointer, right.pointer) == 1
    }

    /// Signs bytes.
    ///
    /// - Parameter bytes: any number of bytes.
    /// - Returns: 64 bytes: the two integers of the signature, 32 bytes each.
    /// - Throws: ``TLSError/identityMalformed(detail:)`` with OpenSSL's reason.
    public func signature(of bytes: [UInt8]) throws(TLSError) -> [UInt8] {
        ERR_clear_error()
        guard let digest = unsafe EVP_MD_CTX_new() else { throw ES256.failure() }
        defer { unsafe EVP_MD_CTX_free(digest) }
        guard unsafe EVP_DigestSignInit(digest, nil, EVP_sha256(), nil, self.pointer) == 1 else {
            throw ES256.failure()
        }
        var count = 0
        guard unsafe EVP_DigestSign(digest, nil, &count, bytes, bytes.count) == 1 else { throw ES256.failure() }
        var encoded = [UInt8](repeating: 0, count: count)
        guard unsafe EVP_DigestSign(digest, &encoded, &count, bytes, bytes.count) == 1 else { throw ES256.failure() }
        return try ES256.raw(encoded[..<count])
    }
}

extension ES256PrivateKey: CustomStringConvertible, CustomReflectable {
    /// A fixed text, which does not depend on the key.
    public var description: String { "private key on P-256" }

    /// An empty mirror, so that `dump` prints only ``description``.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

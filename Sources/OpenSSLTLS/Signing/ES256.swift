// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// How the two integers of an ES256 signature are encoded.
@frozen
public enum ES256SignatureFormat: String, Hashable, Sendable, CaseIterable {
    /// 64 bytes: both integers, 32 bytes each, as RFC 7518 requires.
    case raw
    /// The ASN.1 structure that OpenSSL and Java sign with, in DER.
    case der
}

/// Converts between the signature formats of JSON Web Signatures and OpenSSL.
enum ES256 {
    /// The number of bytes of each of the two integers in a signature.
    static let numberByteCount = 32

    static func isOnCurve(_ key: OpaquePointer) -> Bool {
        defer { ERR_clear_error() }
        var name = [CChar](repeating: 0, count: 64)
        var count = 0
        guard unsafe EVP_PKEY_get_group_name(key, &name, name.count, &count) == 1 else { return false }
        return String(decoding: name[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self) == "prime256v1"
    }

    /// Whether the public part of a private key is the one that belongs to it.
    static func isPair(_ key: OpaquePointer) -> Bool {
        defer { ERR_clear_error() }
        guard let context = unsafe EVP_PKEY_CTX_new(key, nil) else { return false }
        defer { unsafe EVP_PKEY_CTX_free(context) }
        return unsafe EVP_PKEY_pairwise_check(context) == 1
    }

    static func failure() -> TLSError { .identityMalformed(detail: OpenSSLQueue.take().text) }

    /// The concatenated integers of a DER signature.
    static func raw(_ encoded: ArraySlice<UInt8>) throws(TLSError) -> [UInt8] {
        let signature = unsafe encoded.withUnsafeBufferPointer { bytes in
            var position = bytes.baseAddress
            return unsafe d2i_ECDSA_SIG(nil, &position, bytes.count)
        }
        guard let signature = unsafe signature else { throw self.failure() }
        defer { unsafe ECDSA_SIG_free(signature) }
        var bytes = [UInt8](repeating: 0, count: 2 * self.numberByteCount)
        let count = Int32(self.numberByteCount)
        let isWhole = unsafe bytes.withUnsafeMutableBufferPointer { target in
            guard let first = target.baseAddress else { return false }
            return unsafe BN_bn2binpad(ECDSA_SIG_get0_r(signature), first, count) == count
                && BN_bn2binpad(ECDSA_SIG_get0_s(signature), first + self.numberByteCount, count) == count
        }
        guard isWhole else { throw self.failure() }
        return bytes
    }

    /// Whether bytes are a signature in DER: encoding its integers again results in the same bytes.
    static func isEncoded(_ bytes: [UInt8]) -> Bool {
        defer { ERR_clear_error() }
        guard bytes.count <= self.encodedByteCountMax, let raw = try? self.raw(bytes[...]) else { return false }
        return self.encoded(raw) == bytes
    }

    /// The number of bytes of the longest DER signature: a header, and two integers with a header and a leading zero.
    private static let encodedByteCountMax = 2 + 2 * (3 + Self.numberByteCount)

    /// The DER signature of both integers; `nil` for any other number of bytes.
    static func encoded(_ raw: [UInt8]) -> [UInt8]? {
        guard raw.count == 2 * self.numberByteCount, let signature = unsafe ECDSA_SIG_new() else { return nil }
        defer { unsafe ECDSA_SIG_free(signature) }
        let count = Int32(self.numberByteCount)
        let first = unsafe BN_bin2bn(Array(raw[..<self.numberByteCount]), count, nil)
        let second = unsafe BN_bin2bn(Array(raw[self.numberByteCount...]), count, nil)
        // The signature takes ownership of the integers, unless the call fails.
        guard unsafe ECDSA_SIG_set0(signature, first, second) == 1 else {
            unsafe BN_free(first)
            unsafe BN_free(second)
            return nil
        }
        var bytes: UnsafeMutablePointer<UInt8>?
        let byteCount = unsafe i2d_ECDSA_SIG(signature, &bytes)
        guard let bytes = unsafe bytes, byteCount > 0 else { return nil }
        defer { unsafe shim_OPENSSL_free(bytes) }
        return unsafe Array(UnsafeBufferPointer(start: bytes, count: Int(byteCount)))
    }
}

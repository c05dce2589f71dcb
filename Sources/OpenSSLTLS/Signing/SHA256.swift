// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// SHA-256, computed by OpenSSL.
///
/// - SeeAlso: FIPS 180-4.
package enum SHA256 {
    /// The number of bytes in a digest.
    package static let byteCount = 32

    /// The digest of a prefix and some bytes.
    ///
    /// Returns `nil` if OpenSSL cannot allocate memory.
    package static func digest(prefix: [UInt8] = [], _ bytes: UnsafeRawBufferPointer) -> [UInt8]? {
        guard let context = unsafe EVP_MD_CTX_new() else { return nil }
        defer { unsafe EVP_MD_CTX_free(context) }
        var digest = [UInt8](repeating: 0, count: Self.byteCount)
        guard unsafe EVP_DigestInit_ex(context, EVP_sha256(), nil) == 1,
            unsafe EVP_DigestUpdate(context, prefix, prefix.count) == 1,
            unsafe EVP_DigestUpdate(context, bytes.baseAddress, bytes.count) == 1,
            unsafe EVP_DigestFinal_ex(context, &digest, nil) == 1
        else { return nil }
        return digest
    }

    /// The message authentication code HMAC-SHA-256.
    ///
    /// - SeeAlso: RFC 2104.
    package static func authenticationCode(_ bytes: [UInt8], key: [UInt8]) -> [UInt8] {
        var code = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var count: UInt32 = 0
        let isDone = unsafe HMAC(EVP_sha256(), key, Int32(key.count), bytes, bytes.count, &code, &count) != nil
        precondition(isDone, "HMAC with SHA-256 is available in every OpenSSL configuration.")
        return Array(code.prefix(Int(count)))
    }
}

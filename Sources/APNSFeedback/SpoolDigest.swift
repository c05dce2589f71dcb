// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// The checksum of a piece of a segment: SHA-256 over its place in the segment and its bytes.
enum SpoolDigest {
    static let byteCount = 32

    static func of(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> [UInt8]? {
        guard let context = unsafe EVP_MD_CTX_new() else { return nil }
        defer { unsafe EVP_MD_CTX_free(context) }
        var digest = [UInt8](repeating: 0, count: Self.byteCount)
        let place = SpoolFormat.bytes(offset)
        guard unsafe EVP_DigestInit_ex(context, EVP_sha256(), nil) == 1,
            unsafe EVP_DigestUpdate(context, place, place.count) == 1,
            unsafe EVP_DigestUpdate(context, bytes.baseAddress, bytes.count) == 1,
            unsafe EVP_DigestFinal_ex(context, &digest, nil) == 1
        else { return nil }
        return digest
    }

    static func of(_ bytes: [UInt8], at offset: UInt64) -> [UInt8]? {
        unsafe bytes.withUnsafeBytes { unsafe Self.of($0, at: offset) }
    }
}

// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// The checksum of a piece of a segment: SHA-256 over its place in the segment and its octets.
enum SpoolDigest {
    static let octetCount = 32

    static func of(_ octets: UnsafeRawBufferPointer, at offset: UInt64) -> [UInt8]? {
        guard let context = EVP_MD_CTX_new() else { return nil }
        defer { EVP_MD_CTX_free(context) }
        var digest = [UInt8](repeating: 0, count: Self.octetCount)
        let place = SpoolFormat.octets(offset)
        guard EVP_DigestInit_ex(context, EVP_sha256(), nil) == 1,
            EVP_DigestUpdate(context, place, place.count) == 1,
            EVP_DigestUpdate(context, octets.baseAddress, octets.count) == 1,
            EVP_DigestFinal_ex(context, &digest, nil) == 1
        else { return nil }
        return digest
    }

    static func of(_ octets: [UInt8], at offset: UInt64) -> [UInt8]? {
        octets.withUnsafeBytes { Self.of($0, at: offset) }
    }
}

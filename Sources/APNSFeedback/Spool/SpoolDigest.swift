// SPDX-License-Identifier: Apache-2.0

import OpenSSLTLS

/// The checksum of a part of a segment: SHA-256 of its offset in the segment and its bytes.
enum SpoolDigest {
    static let byteCount = SHA256.byteCount

    static func of(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> [UInt8]? {
        unsafe SHA256.digest(prefix: SpoolFormat.bytes(offset), bytes)
    }

    static func of(_ bytes: [UInt8], at offset: UInt64) -> [UInt8]? {
        unsafe bytes.withUnsafeBytes { unsafe Self.of($0, at: offset) }
    }
}

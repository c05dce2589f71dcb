// SPDX-License-Identifier: Apache-2.0

import OpenSSLTLS
import Testing

@Suite struct SHA256Tests {
    // The example of FIPS 180-4.
    @Test func `the digest of abc`() throws {
        let digest = try Array("abc".utf8).withUnsafeBytes { try #require(unsafe SHA256.digest($0)) }
        #expect(digest.count == SHA256.byteCount)
        #expect(Array(digest.prefix(4)) == [0xBA, 0x78, 0x16, 0xBF])
        let split = try Array("c".utf8).withUnsafeBytes {
            try #require(unsafe SHA256.digest(prefix: Array("ab".utf8), $0))
        }
        #expect(split == digest)
        let empty = try #require(unsafe SHA256.digest(UnsafeRawBufferPointer(start: nil, count: 0)))
        #expect(Array(empty.prefix(4)) == [0xE3, 0xB0, 0xC4, 0x42])
    }
}

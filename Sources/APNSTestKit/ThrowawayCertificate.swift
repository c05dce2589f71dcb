// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// A certificate for tests.
///
/// Safe to share: OpenSSL counts references atomically and nothing changes the certificate once it is signed.
final class ThrowawayCertificate: @unchecked Sendable {
    let pointer: OpaquePointer

    /// Takes over the caller's reference.
    init(_ pointer: OpaquePointer) {
        self.pointer = pointer
    }

    deinit {
        X509_free(self.pointer)
    }

    func der() -> [UInt8] {
        var octets: UnsafeMutablePointer<UInt8>?
        let count = i2d_X509(self.pointer, &octets)
        guard let octets, count > 0 else { return [] }
        defer { shim_OPENSSL_free(octets) }
        return Array(UnsafeBufferPointer(start: octets, count: Int(count)))
    }

    func pem() throws(ThrowawayError) -> [UInt8] {
        try MemoryText.write("certificate") { PEM_write_bio_X509($0, self.pointer) }
    }
}

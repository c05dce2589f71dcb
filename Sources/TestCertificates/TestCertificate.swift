// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// A certificate for tests.
///
/// Safe to share: OpenSSL counts references atomically and nothing changes the certificate once it is signed.
final class TestCertificate: @unchecked Sendable {
    let pointer: OpaquePointer

    /// Takes over the caller's reference.
    init(_ pointer: OpaquePointer) {
        self.pointer = pointer
    }

    deinit {
        X509_free(self.pointer)
    }

    func der() -> [UInt8] {
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = i2d_X509(self.pointer, &bytes)
        guard let bytes, count > 0 else { return [] }
        defer { shim_OPENSSL_free(bytes) }
        return Array(UnsafeBufferPointer(start: bytes, count: Int(count)))
    }

    func pem() throws(TestCertificateError) -> [UInt8] {
        try MemoryText.write("certificate") { PEM_write_bio_X509($0, self.pointer) }
    }
}

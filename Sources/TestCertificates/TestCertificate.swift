// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// A certificate for tests.
///
/// Safe to share: OpenSSL counts references atomically and nothing changes the certificate once it is signed.
@safe
final class TestCertificate: @unchecked Sendable {
    let pointer: OpaquePointer

    /// Takes over the caller's reference.
    init(_ pointer: OpaquePointer) {
        unsafe self.pointer = pointer
    }

    deinit {
        unsafe X509_free(self.pointer)
    }

    func der() -> [UInt8] {
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = unsafe i2d_X509(self.pointer, &bytes)
        guard let bytes = unsafe bytes, count > 0 else { return [] }
        defer { unsafe shim_OPENSSL_free(bytes) }
        return unsafe Array(UnsafeBufferPointer(start: bytes, count: Int(count)))
    }

    func pem() throws(TestCertificateError) -> [UInt8] {
        try unsafe MemoryText.write("certificate") { unsafe PEM_write_bio_X509($0, self.pointer) }
    }
}

// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// A certificate that was issued, or that issues others.
///
/// Safe to share: OpenSSL counts references atomically, and a signed certificate is never changed.
@safe
final class IssuedCertificate: @unchecked Sendable {
    let pointer: OpaquePointer

    /// Takes ownership of the caller's reference.
    init(_ pointer: OpaquePointer) {
        unsafe self.pointer = pointer
    }

    deinit {
        unsafe X509_free(self.pointer)
    }

    /// Parses the certificates in a PEM text.
    static func read(pem: [UInt8]) throws(CertificateError) -> [IssuedCertificate] {
        ERR_clear_error()
        defer { ERR_clear_error() }
        let certificates = unsafe pem.withUnsafeBytes { bytes -> [IssuedCertificate] in
            guard let memory = unsafe BIO_new_mem_buf(bytes.baseAddress, Int32(clamping: bytes.count)) else {
                return []
            }
            defer { unsafe BIO_free(memory) }
            var certificates: [IssuedCertificate] = []
            while let pointer = unsafe PEM_read_bio_X509(memory, nil, { _, _, _, _ in -1 }, nil) {
                unsafe certificates.append(IssuedCertificate(pointer))
            }
            return certificates
        }
        guard !certificates.isEmpty else { throw CertificateError.current("certificate") }
        return certificates
    }

    func der() -> [UInt8] {
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = unsafe i2d_X509(self.pointer, &bytes)
        guard let bytes = unsafe bytes, count > 0 else { return [] }
        defer { unsafe shim_OPENSSL_free(bytes) }
        return unsafe Array(UnsafeBufferPointer(start: bytes, count: Int(count)))
    }

    func pem() throws(CertificateError) -> [UInt8] {
        try unsafe MemoryText.write("certificate") { unsafe PEM_write_bio_X509($0, self.pointer) }
    }
}

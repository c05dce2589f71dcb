// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// Collects the output of OpenSSL.
enum MemoryText {
    static func write(_ what: String, _ body: (OpaquePointer) -> Int32) throws(CertificateError) -> [UInt8] {
        guard let memory = unsafe BIO_new(BIO_s_mem()) else { throw CertificateError.current(what) }
        defer { unsafe BIO_free(memory) }
        guard unsafe body(memory) == 1 else { throw CertificateError.current(what) }
        var data: UnsafeMutablePointer<CChar>?
        let count = unsafe shim_BIO_get_mem_data(memory, &data)
        guard let data = unsafe data, count > 0 else { return [] }
        return unsafe Array(UnsafeRawBufferPointer(start: data, count: count))
    }
}

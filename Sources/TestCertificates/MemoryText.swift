// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// Collects what OpenSSL writes.
enum MemoryText {
    static func write(_ what: String, _ body: (OpaquePointer) -> Int32) throws(TestCertificateError) -> [UInt8] {
        guard let memory = BIO_new(BIO_s_mem()) else { throw TestCertificateError.current(what) }
        defer { BIO_free(memory) }
        guard body(memory) == 1 else { throw TestCertificateError.current(what) }
        var data: UnsafeMutablePointer<CChar>?
        let count = shim_BIO_get_mem_data(memory, &data)
        guard let data, count > 0 else { return [] }
        return Array(UnsafeRawBufferPointer(start: data, count: count))
    }
}

// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// Reads PKCS#12 files, those with retired ciphers through the legacy provider.
///
/// - SeeAlso: RFC 7292.
struct PKCS12Reader {
    let passphrase: TLSPassphrase?
    let legacyProvider: String

    func read(_ octets: [UInt8]) throws(TLSError) -> IdentityParts {
        ERR_clear_error()
        guard let file = Self.decode(octets, into: nil) else {
            throw .identityMalformed(detail: OpenSSLQueue.take().text)
        }
        defer { PKCS12_free(file) }
        if let parts = self.open(file) { return parts }
        let queue = OpenSSLQueue.take()
        guard queue.isAboutUnsupportedAlgorithm else { throw self.failure(queue) }
        return try self.readLegacy(octets, reason: queue)
    }

    private func readLegacy(_ octets: [UInt8], reason: OpenSSLQueue) throws(TLSError) -> IdentityParts {
        let legacy = try LegacyLibrary(provider: self.legacyProvider, reason: reason.text)
        return try withExtendedLifetime(legacy) { () throws(TLSError) -> IdentityParts in
            guard let empty = PKCS12_init_ex(NID_pkcs7_data, legacy.library, nil),
                let file = Self.decode(octets, into: empty)
            else { throw .identityMalformed(detail: OpenSSLQueue.take().text) }
            defer { PKCS12_free(file) }
            guard let foreign = self.open(file) else { throw self.failure(OpenSSLQueue.take()) }
            let parts = IdentityParts()
            for certificate in foreign.certificates {
                parts.take(certificate: try LegacyLibrary.rehomed(certificate: certificate))
            }
            if let key = foreign.key { parts.replaceKey(with: try LegacyLibrary.rehomed(key: key)) }
            return parts
        }
    }

    private static func decode(_ octets: [UInt8], into empty: OpaquePointer?) -> OpaquePointer? {
        octets.withUnsafeBufferPointer { bytes in
            var file = empty
            var position = bytes.baseAddress
            return d2i_PKCS12(&file, &position, bytes.count)
        }
    }

    private func open(_ file: OpaquePointer) -> IdentityParts? {
        var key: OpaquePointer?
        var certificate: OpaquePointer?
        var others: OpaquePointer?
        let result =
            if let passphrase {
                PKCS12_parse(
                    file,
                    passphrase.octets.map { CChar(bitPattern: $0) } + [0],
                    &key,
                    &certificate,
                    &others
                )
            } else {
                PKCS12_parse(file, nil, &key, &certificate, &others)
            }
        guard result == 1 else { return nil }
        let parts = IdentityParts()
        if let key { parts.replaceKey(with: key) }
        if let certificate { parts.take(certificate: certificate) }
        for index in 0..<max(0, shim_sk_X509_num(others)) {
            guard let other = shim_sk_X509_value(others, index) else { continue }
            X509_up_ref(other)
            parts.take(certificate: other)
        }
        shim_sk_X509_pop_free(others)
        ERR_clear_error()
        return parts
    }

    private func failure(_ queue: OpenSSLQueue) -> TLSError {
        let isPassphrase =
            queue.contains(library: ERR_LIB_PKCS12, reason: PKCS12_R_MAC_VERIFY_FAILURE)
            || queue.contains(library: ERR_LIB_PKCS12, reason: PKCS12_R_PKCS12_CIPHERFINAL_ERROR)
        guard isPassphrase else { return .identityMalformed(detail: queue.text) }
        return self.passphrase == nil ? .passphraseMissing : .passphraseWrong
    }
}

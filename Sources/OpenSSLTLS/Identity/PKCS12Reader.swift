// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// Reads PKCS#12 files, and uses the legacy provider for those with retired ciphers.
///
/// - SeeAlso: RFC 7292.
struct PKCS12Reader {
    let passphrase: TLSPassphrase?
    let legacyProvider: String

    func read(_ bytes: [UInt8]) throws(TLSError) -> IdentityParts {
        ERR_clear_error()
        guard let file = unsafe Self.decode(bytes, into: nil) else {
            throw .identityMalformed(detail: OpenSSLQueue.take().text)
        }
        defer { unsafe PKCS12_free(file) }
        if let parts = try unsafe self.open(file, in: nil) { return parts }
        let queue = OpenSSLQueue.take()
        guard queue.isAboutUnsupportedAlgorithm else { throw self.failure(queue) }
        return try self.readLegacy(bytes, reason: queue)
    }

    private func readLegacy(_ bytes: [UInt8], reason: OpenSSLQueue) throws(TLSError) -> IdentityParts {
        let legacy = try LegacyLibrary(provider: self.legacyProvider, reason: reason.text)
        return try withExtendedLifetime(legacy) { () throws(TLSError) -> IdentityParts in
            guard let empty = unsafe PKCS12_init_ex(NID_pkcs7_data, legacy.library, nil),
                let file = unsafe Self.decode(bytes, into: empty)
            else { throw .identityMalformed(detail: OpenSSLQueue.take().text) }
            defer { unsafe PKCS12_free(file) }
            guard let foreign = try unsafe self.open(file, in: legacy.library) else {
                throw self.failure(OpenSSLQueue.take())
            }
            let parts = IdentityParts()
            for index in unsafe foreign.certificates.indices {
                unsafe parts.append(certificate: try LegacyLibrary.moved(certificate: foreign.certificates[index]))
            }
            if let key = unsafe foreign.key { unsafe parts.replaceKey(with: try LegacyLibrary.moved(key: key)) }
            return parts
        }
    }

    private static func decode(_ bytes: [UInt8], into empty: OpaquePointer?) -> OpaquePointer? {
        unsafe bytes.withUnsafeBufferPointer { bytes in
            var file = unsafe empty
            var position = bytes.baseAddress
            return unsafe d2i_PKCS12(&file, &position, bytes.count)
        }
    }

    /// Opens a file like `PKCS12_parse`, but checks the cost of each key before it is derived.
    ///
    /// - Returns: the content, or `nil` if OpenSSL's queue has an error.
    private func open(_ file: OpaquePointer, in library: OpaquePointer?) throws(TLSError) -> IdentityParts? {
        var cost = KeyDerivationCost()
        try unsafe cost.add(checksumOf: file)
        guard let key = unsafe self.verified(file) else { return nil }
        guard let safes = unsafe PKCS12_unpack_authsafes(file) else { return nil }
        defer { unsafe shim_sk_PKCS7_pop_free(safes) }
        let parts = IdentityParts()
        for index in unsafe 0..<max(0, shim_sk_PKCS7_num(safes)) {
            guard let safe = unsafe shim_sk_PKCS7_value(safes, index) else { continue }
            let bags: OpaquePointer?
            if unsafe shim_PKCS7_is_data(safe) != 0 {
                unsafe bags = PKCS12_unpack_p7data(safe)
            } else if unsafe shim_PKCS7_is_encrypted(safe) != 0 {
                if let algorithm = unsafe shim_PKCS7_get0_encryption(safe) { try unsafe cost.add(algorithm) }
                unsafe bags = key.withText { unsafe PKCS12_unpack_p7encdata(safe, $0, $1) }
            } else {
                continue
            }
            guard let bags = unsafe bags else { return nil }
            defer { unsafe shim_sk_PKCS12_SAFEBAG_pop_free(bags) }
            guard try unsafe self.extract(bags, key, library, &cost, into: parts) else { return nil }
        }
        ERR_clear_error()
        return parts
    }

    /// Takes the certificates and the key from bags and nested bags, whose depth OpenSSL's decoder limits.
    ///
    /// Returns whether it succeeded.
    private func extract(
        _ bags: OpaquePointer,
        _ key: DecryptionKey,
        _ library: OpaquePointer?,
        _ cost: inout KeyDerivationCost,
        into parts: IdentityParts
    ) throws(TLSError) -> Bool {
        for index in unsafe 0..<max(0, shim_sk_PKCS12_SAFEBAG_num(bags)) {
            guard let bag = unsafe shim_sk_PKCS12_SAFEBAG_value(bags, index) else { continue }
            switch unsafe PKCS12_SAFEBAG_get_nid(bag) {
            case NID_keyBag where unsafe parts.key == nil:
                guard let content = unsafe PKCS12_SAFEBAG_get0_p8inf(bag),
                    let plain = unsafe EVP_PKCS82PKEY_ex(content, library, nil)
                else { return false }
                unsafe parts.replaceKey(with: plain)
            case NID_pkcs8ShroudedKeyBag where unsafe parts.key == nil:
                var algorithm: UnsafePointer<X509_ALGOR>?
                unsafe X509_SIG_get0(PKCS12_SAFEBAG_get0_pkcs8(bag), &algorithm, nil)
                if let algorithm = unsafe algorithm { try unsafe cost.add(algorithm) }
                guard let content = unsafe key.withText({ unsafe PKCS12_decrypt_skey_ex(bag, $0, $1, library, nil) })
                else {
                    return false
                }
                defer { unsafe PKCS8_PRIV_KEY_INFO_free(content) }
                guard let plain = unsafe EVP_PKCS82PKEY_ex(content, library, nil) else { return false }
                unsafe parts.replaceKey(with: plain)
            case NID_certBag where unsafe PKCS12_SAFEBAG_get_bag_nid(bag) == NID_x509Certificate:
                guard let certificate = unsafe PKCS12_SAFEBAG_get1_cert(bag) else { return false }
                unsafe parts.append(certificate: certificate)
            case NID_safeContentsBag:
                guard let inner = unsafe PKCS12_SAFEBAG_get0_safes(bag) else { continue }
                guard try unsafe self.extract(inner, key, library, &cost, into: parts) else { return false }
            default: continue
            }
        }
        return true
    }

    /// The key that decrypts a file: PKCS#12 distinguishes no passphrase from an empty one, and either may be meant.
    private struct DecryptionKey {
        var text: SecretBytes?

        func withText<Result>(_ body: (UnsafePointer<CChar>?, Int32) -> Result) -> Result {
            unsafe self.text?.withText(body) ?? body(nil, 0)
        }
    }

    /// Finds the passphrase that the checksum of a file was created with.
    ///
    /// Returns `nil` if it is not the given passphrase; OpenSSL's queue then has an error.
    private func verified(_ file: OpaquePointer) -> DecryptionKey? {
        let text = self.passphrase?.bytes ?? SecretBytes([])
        let isEmpty = unsafe text.withText { $1 == 0 }
        guard unsafe PKCS12_mac_present(file) == 1 else { return DecryptionKey(text: isEmpty ? nil : text) }
        for candidate in isEmpty ? [nil, text] : [text] {
            let key = DecryptionKey(text: candidate)
            if unsafe key.withText({ unsafe PKCS12_verify_mac(file, $0, $1) }) == 1 { return key }
        }
        if OpenSSLQueue.isEmpty { shim_raise_PKCS12_mac_verify_failure() }
        return nil
    }

    private func failure(_ queue: OpenSSLQueue) -> TLSError {
        let isPassphrase =
            queue.contains(library: ERR_LIB_PKCS12, reason: PKCS12_R_MAC_VERIFY_FAILURE)
            || queue.contains(library: ERR_LIB_PKCS12, reason: PKCS12_R_PKCS12_CIPHERFINAL_ERROR)
        guard isPassphrase else { return .identityMalformed(detail: queue.text) }
        return self.passphrase == nil ? .passphraseMissing : .passphraseWrong
    }
}

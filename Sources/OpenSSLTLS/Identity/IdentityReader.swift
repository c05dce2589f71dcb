// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// Reads certificates and keys in any supported format.
package struct IdentityReader {
    let passphrase: TLSPassphrase?

    /// The name of the provider that has RC2-40 and other retired ciphers.
    let legacyProvider: String

    func read(_ bytes: [UInt8], key: [UInt8]?) throws(TLSError) -> IdentityMaterial {
        let found = try self.parts(of: bytes, includingKey: key == nil)
        if let key {
            if let separate = try unsafe self.key(in: key) {
                unsafe found.replaceKey(with: separate)
            } else {
                let other = try PKCS12Reader(passphrase: self.passphrase, legacyProvider: self.legacyProvider)
                    .read(key)
                found.moveAll(from: other)
            }
        }
        guard unsafe !found.certificates.isEmpty else { throw .certificateMissing }
        guard let key = unsafe found.key else { throw .keyMissing }
        return try unsafe IdentityMaterial(certificates: found.certificates, key: key)
    }

    package static func isPEM(_ bytes: [UInt8]) -> Bool {
        Self.contains("-----BEGIN ", in: bytes)
    }

    private static func contains(_ text: String, in bytes: [UInt8]) -> Bool {
        let pattern = Array(text.utf8)
        guard bytes.count >= pattern.count else { return false }
        return (0...(bytes.count - pattern.count)).contains { start in
            bytes[start] == pattern[0] && bytes[start..<start + pattern.count].elementsEqual(pattern)
        }
    }

    private func parts(of bytes: [UInt8], includingKey: Bool) throws(TLSError) -> IdentityParts {
        guard !bytes.isEmpty else { throw .identityMalformed(detail: "there are no bytes") }
        if Self.isPEM(bytes) {
            let parts = IdentityParts()
            let (certificates, damage) = unsafe Self.pemCertificates(bytes)
            unsafe certificates.forEach { unsafe parts.append(certificate: $0) }
            if let damage { throw .identityMalformed(detail: damage) }
            if includingKey, let key = try unsafe self.key(in: bytes) { unsafe parts.replaceKey(with: key) }
            return parts
        }
        if let certificate = unsafe Self.derCertificate(bytes) {
            let parts = IdentityParts()
            unsafe parts.append(certificate: certificate)
            return parts
        }
        return try PKCS12Reader(passphrase: self.passphrase, legacyProvider: self.legacyProvider).read(bytes)
    }

    /// The certificates of a PEM text, which the caller owns, and the problem of the next one, if any.
    static func pemCertificates(_ bytes: [UInt8]) -> (certificates: [OpaquePointer], damage: String?) {
        ERR_clear_error()
        var certificates: [OpaquePointer] = unsafe []
        unsafe bytes.withUnsafeBytes { bytes in
            guard let memory = unsafe BIO_new_mem_buf(bytes.baseAddress, Int32(bytes.count)) else { return }
            defer { unsafe BIO_free(memory) }
            while let certificate = unsafe PEM_read_bio_X509_AUX(memory, nil, PassphraseRequest.refuse, nil) {
                unsafe certificates.append(certificate)
            }
        }
        let queue = OpenSSLQueue.take()
        // At the end of the text, OpenSSL reports that no other part starts.
        if queue.isEmpty || queue.contains(library: ERR_LIB_PEM, reason: PEM_R_NO_START_LINE) {
            return unsafe (certificates, nil)
        }
        return unsafe (certificates, "certificate \(certificates.count + 1) is damaged: \(queue.text)")
    }

    private static func derCertificate(_ bytes: [UInt8]) -> OpaquePointer? {
        defer { ERR_clear_error() }
        return unsafe bytes.withUnsafeBufferPointer { bytes in
            var position = bytes.baseAddress
            return unsafe d2i_X509(nil, &position, bytes.count)
        }
    }

    /// The private key; `nil` for a PEM text without one and for a PKCS#12 file.
    func key(in bytes: [UInt8]) throws(TLSError) -> OpaquePointer? {
        if Self.isPEM(bytes) {
            guard Self.contains("PRIVATE KEY-----", in: bytes) else { return nil }
            return try unsafe self.pemKey(bytes)
        }
        return try unsafe self.derKey(bytes)
    }

    private func pemKey(_ bytes: [UInt8]) throws(TLSError) -> OpaquePointer {
        try Self.checkCost(pem: bytes)
        let request = PassphraseRequest(self.passphrase)
        ERR_clear_error()
        if let key = unsafe Self.pemKey(bytes, request: request, library: nil) { return unsafe key }
        let queue = OpenSSLQueue.take()
        guard queue.isAboutUnsupportedAlgorithm, !request.wasRefused else { throw request.failure(queue) }
        let legacy = try LegacyLibrary(provider: self.legacyProvider, reason: queue.text)
        guard let key = unsafe Self.pemKey(bytes, request: request, library: legacy.library) else {
            throw request.failure(OpenSSLQueue.take())
        }
        defer { unsafe EVP_PKEY_free(key) }
        return try unsafe LegacyLibrary.moved(key: key)
    }

    private static func pemKey(
        _ bytes: [UInt8],
        request: PassphraseRequest,
        library: OpaquePointer?
    ) -> OpaquePointer? {
        unsafe bytes.withUnsafeBytes { bytes in
            guard let memory = unsafe BIO_new_mem_buf(bytes.baseAddress, Int32(bytes.count)) else { return nil }
            defer { unsafe BIO_free(memory) }
            return unsafe request.withPointer {
                unsafe PEM_read_bio_PrivateKey_ex(memory, nil, PassphraseRequest.answer, $0, library, nil)
            }
        }
    }

    private func derKey(_ bytes: [UInt8]) throws(TLSError) -> OpaquePointer? {
        ERR_clear_error()
        defer { ERR_clear_error() }
        let plain = unsafe bytes.withUnsafeBufferPointer { bytes in
            var position = bytes.baseAddress
            return unsafe d2i_AutoPrivateKey(nil, &position, bytes.count)
        }
        if let plain = unsafe plain { return unsafe plain }
        var cost = KeyDerivationCost()
        try Self.add(bytes, to: &cost)
        let request = PassphraseRequest(self.passphrase)
        let encrypted = unsafe bytes.withUnsafeBytes { bytes -> OpaquePointer? in
            guard let memory = unsafe BIO_new_mem_buf(bytes.baseAddress, Int32(bytes.count)) else { return nil }
            defer { unsafe BIO_free(memory) }
            return unsafe request.withPointer {
                unsafe d2i_PKCS8PrivateKey_bio(memory, nil, PassphraseRequest.answer, $0)
            }
        }
        if let encrypted = unsafe encrypted { return unsafe encrypted }
        if request.wasAsked { throw request.failure(OpenSSLQueue.take()) }
        return nil
    }

    /// Adds the cost of decrypting a PKCS#8 key; other bytes cost nothing.
    static func add(_ bytes: some Collection<UInt8>, to cost: inout KeyDerivationCost) throws(TLSError) {
        let key = unsafe Array(bytes).withUnsafeBufferPointer { bytes in
            var position = bytes.baseAddress
            return unsafe d2i_X509_SIG(nil, &position, bytes.count)
        }
        defer {
            unsafe X509_SIG_free(key)
            ERR_clear_error()
        }
        guard let key = unsafe key else { return }
        var algorithm: UnsafePointer<X509_ALGOR>?
        unsafe X509_SIG_get0(key, &algorithm, nil)
        if let algorithm = unsafe algorithm { try unsafe cost.add(algorithm) }
    }

    /// Checks the total cost of the encrypted keys of a PEM text.
    private static func checkCost(pem bytes: [UInt8]) throws(TLSError) {
        var cost = KeyDerivationCost()
        for key in Self.encryptedKeys(pem: bytes) { try Self.add(key, to: &cost) }
    }

    /// The encrypted keys of a PEM text, in DER.
    private static func encryptedKeys(pem bytes: [UInt8]) -> [[UInt8]] {
        unsafe bytes.withUnsafeBytes { bytes in
            guard let memory = unsafe BIO_new_mem_buf(bytes.baseAddress, Int32(bytes.count)) else { return [] }
            defer {
                unsafe BIO_free(memory)
                ERR_clear_error()
            }
            var keys: [[UInt8]] = []
            while true {
                var name: UnsafeMutablePointer<CChar>?
                var header: UnsafeMutablePointer<CChar>?
                var content: UnsafeMutablePointer<UInt8>?
                var count = 0
                guard unsafe PEM_read_bio(memory, &name, &header, &content, &count) == 1 else { return keys }
                defer {
                    unsafe shim_OPENSSL_free(name)
                    unsafe shim_OPENSSL_free(header)
                    unsafe shim_OPENSSL_free(content)
                }
                guard let name = unsafe name, let content = unsafe content,
                    unsafe String(cString: name) == PEM_STRING_PKCS8
                else { continue }
                unsafe keys.append(Array(UnsafeBufferPointer(start: content, count: count)))
            }
        }
    }
}

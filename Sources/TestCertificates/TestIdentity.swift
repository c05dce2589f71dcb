// SPDX-License-Identifier: Apache-2.0

import COpenSSL
public import OpenSSLTLS

/// A certificate with its key, made by a ``TestCertificateAuthority``, in all the forms in which they are kept.
public struct TestIdentity: Sendable {
    /// Certificate, key and intermediate certificates, ready for use.
    public let identity: TLSIdentity

    /// The certificate, followed by intermediate ones, in PEM.
    public let certificatePEM: [UInt8]

    /// The key in PEM (PKCS#8), not encrypted.
    public let keyPEM: [UInt8]

    private let certificate: TestCertificate
    private let key: TestKey
    private let chain: [TestCertificate]

    init(certificate: TestCertificate, key: TestKey, chain: [TestCertificate]) throws {
        self.certificate = certificate
        self.key = key
        self.chain = chain
        self.certificatePEM = try ([certificate] + chain).map { try $0.pem() }.reduce([], +)
        self.keyPEM = try unsafe MemoryText.write("key") {
            unsafe PEM_write_bio_PKCS8PrivateKey($0, key.pointer, nil, nil, 0, nil, nil)
        }
        self.identity = try TLSIdentity(bytes: self.certificatePEM, key: self.keyPEM)
    }

    /// Certificates and key in one PEM text.
    public var pem: [UInt8] { self.certificatePEM + self.keyPEM }

    /// The certificate alone, in DER.
    public var certificateDER: [UInt8] { self.certificate.der() }

    /// The key in PEM, encrypted.
    ///
    /// - Parameters:
    ///   - passphrase: What encrypts it.
    ///   - isTraditional: Whether in the form of old OpenSSL versions, with DES-EDE3, instead of PKCS#8 with AES-256.
    /// - Returns: The PEM text.
    /// - Throws: `TestCertificateError`.
    public func encryptedKeyPEM(passphrase: String, isTraditional: Bool = false) throws -> [UInt8] {
        let bytes = Array(passphrase.utf8)
        return try unsafe MemoryText.write("encrypted key") { memory in
            if isTraditional {
                return unsafe PEM_write_bio_PrivateKey_traditional(
                    memory,
                    self.key.pointer,
                    EVP_des_ede3_cbc(),
                    bytes,
                    Int32(bytes.count),
                    nil,
                    nil
                )
            }
            return unsafe bytes.withUnsafeBytes { bytes in
                unsafe bytes.withMemoryRebound(to: CChar.self) {
                    unsafe PEM_write_bio_PKCS8PrivateKey(
                        memory,
                        self.key.pointer,
                        EVP_aes_256_cbc(),
                        $0.baseAddress,
                        Int32($0.count),
                        nil,
                        nil
                    )
                }
            }
        }
    }

    /// Certificate, intermediate ones and key as a PKCS#12 file.
    ///
    /// - Parameters:
    ///   - passphrase: What encrypts it; `nil` stands for no passphrase, which differs from an empty one.
    ///   - isLegacy: Whether with RC2-40 and Triple DES, as exported by old systems, instead of AES-256.
    /// - Returns: The file's bytes.
    /// - Throws: `TestCertificateError`, or `TLSError` if OpenSSL's legacy provider is missing.
    public func pkcs12(passphrase: String?, isLegacy: Bool = false) throws -> [UInt8] {
        let stack = unsafe shim_sk_X509_new_null()
        defer { unsafe shim_sk_X509_free(stack) }
        for certificate in self.chain { _ = unsafe shim_sk_X509_push(stack, certificate.pointer) }
        let legacy = isLegacy ? try LegacyLibrary() : nil
        let (keyCipher, certificateCipher) =
            isLegacy ? (NID_pbe_WithSHA1And3_Key_TripleDES_CBC, NID_pbe_WithSHA1And40BitRC2_CBC) : (0, 0)
        let file = unsafe PKCS12_create_ex(
            passphrase,
            "throwaway",
            self.key.pointer,
            self.certificate.pointer,
            stack,
            keyCipher,
            certificateCipher,
            0,
            0,
            0,
            legacy?.library,
            nil
        )
        guard let file = unsafe file else { throw TestCertificateError.current("PKCS#12") }
        defer { unsafe PKCS12_free(file) }
        return withExtendedLifetime(legacy) {
            var bytes: UnsafeMutablePointer<UInt8>?
            let count = unsafe i2d_PKCS12(file, &bytes)
            guard let bytes = unsafe bytes, count > 0 else { return [] }
            defer { unsafe shim_OPENSSL_free(bytes) }
            return unsafe Array(UnsafeBufferPointer(start: bytes, count: Int(count)))
        }
    }
}

extension TestIdentity: CustomStringConvertible, CustomReflectable {
    /// Whose it is, in one line; nothing of the key.
    public var description: String { "\(self.identity)" }

    /// Nothing that is not in ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

// SPDX-License-Identifier: Apache-2.0

import COpenSSL
public import OpenSSLTLS

/// A certificate with its key, issued by a ``CertificateAuthority``, in all common formats.
public struct IssuedIdentity: Sendable {
    /// The certificate, key and intermediate certificates, ready for use.
    public let identity: TLSIdentity

    /// The certificate, followed by intermediate certificates, in PEM.
    public let certificatePEM: [UInt8]

    /// The key in PEM (PKCS#8), not encrypted.
    public let keyPEM: [UInt8]

    private let certificate: IssuedCertificate
    private let key: PrivateKey
    private let chain: [IssuedCertificate]

    init(certificate: IssuedCertificate, key: PrivateKey, chain: [IssuedCertificate]) throws {
        self.certificate = certificate
        self.key = key
        self.chain = chain
        self.certificatePEM = try ([certificate] + chain).map { try $0.pem() }.reduce([], +)
        self.keyPEM = try key.pem()
        self.identity = try TLSIdentity(bytes: self.certificatePEM, key: self.keyPEM)
    }

    /// Restores an identity from its certificate and key.
    ///
    /// - Parameters:
    ///   - certificatePEM: ``certificatePEM`` of that identity.
    ///   - keyPEM: ``keyPEM`` of that identity.
    /// - Throws: `CertificateError` if one of them cannot be parsed, or if the key is damaged and its signatures
    ///   are invalid; `TLSError` if they do not match.
    public init(certificatePEM: [UInt8], keyPEM: [UInt8]) throws {
        let key = try PrivateKey.read(pem: keyPEM)
        try key.checkWholeness()
        let certificates = try IssuedCertificate.read(pem: certificatePEM)
        try self.init(certificate: certificates[0], key: key, chain: Array(certificates.dropFirst()))
    }

    /// The type of the key; `nil` for one that no ``CertificateAuthority`` creates.
    public var keyKind: CertificateAuthority.KeyKind? {
        switch self.key.kind {
        case .p256: .p256
        case .rsa2048: .rsa2048
        case nil: nil
        }
    }

    /// The certificates and the key in one PEM text.
    public var pem: [UInt8] { self.certificatePEM + self.keyPEM }

    /// The key in PEM in its traditional format for old programs: PKCS#1 for RSA, SEC 1 for EC.
    ///
    /// - Throws: `CertificateError`.
    public func traditionalKeyPEM() throws -> [UInt8] { try self.key.traditionalPEM() }

    /// The certificate alone, in DER.
    public var certificateDER: [UInt8] { self.certificate.der() }

    /// Returns the key in PEM, encrypted.
    ///
    /// - Parameters:
    ///   - passphrase: The passphrase.
    ///   - isTraditional: Whether to use the format of old OpenSSL versions, with DES-EDE3, instead of PKCS#8 with
    ///     AES-256.
    /// - Returns: The PEM text.
    /// - Throws: `CertificateError`.
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

    /// The encryption of a PKCS#12 file.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum PKCS12Form: Hashable, Sendable, CaseIterable {
        /// AES-256 and a checksum with SHA-256, as written by OpenSSL 3 and Java 17; not readable by systems before
        /// 2018.
        case aes256
        /// Triple DES and a checksum with SHA-1, for old programs; not readable by new ones that reject SHA-1.
        case tripleDES
        /// RC2 with 40 bits for the certificate, Triple DES for the key, and a checksum with SHA-1, as written by
        /// Keychain Access and Windows. OpenSSL 3 reads it only with its legacy provider.
        case rc2
    }

    /// The iteration count of the key derivation, as in `openssl pkcs12`.
    private static let iterationCount: Int32 = 2048

    /// Returns the certificate, intermediate certificates and key as a PKCS#12 file.
    ///
    /// - Parameters:
    ///   - passphrase: The passphrase; `nil` for none, which differs from an empty one.
    ///   - form: The encryption.
    ///   - name: The friendly name of the certificate, in Java its alias.
    /// - Returns: The file's bytes.
    /// - Throws: `CertificateError`, or `TLSError` if OpenSSL's legacy provider is missing.
    public func pkcs12(
        passphrase: String?,
        form: PKCS12Form = .aes256,
        name: String = "throwaway"
    ) throws -> [UInt8] {
        let stack = unsafe shim_sk_X509_new_null()
        defer { unsafe shim_sk_X509_free(stack) }
        for certificate in self.chain { _ = unsafe shim_sk_X509_push(stack, certificate.pointer) }
        let legacy = form == .rc2 ? try LegacyLibrary() : nil
        let (keyCipher, certificateCipher) =
            switch form {
            case .aes256: (NID_aes_256_cbc, NID_aes_256_cbc)
            case .tripleDES: (NID_pbe_WithSHA1And3_Key_TripleDES_CBC, NID_pbe_WithSHA1And3_Key_TripleDES_CBC)
            case .rc2: (NID_pbe_WithSHA1And3_Key_TripleDES_CBC, NID_pbe_WithSHA1And40BitRC2_CBC)
            }
        let file = unsafe PKCS12_create_ex(
            passphrase,
            name,
            self.key.pointer,
            self.certificate.pointer,
            stack,
            keyCipher,
            certificateCipher,
            Self.iterationCount,
            // The checksum is computed below, since this function cannot select its hash.
            -1,
            0,
            legacy?.library,
            nil
        )
        guard let file = unsafe file else { throw CertificateError.current("PKCS#12") }
        defer { unsafe PKCS12_free(file) }
        let hash = unsafe form == .aes256 ? EVP_sha256() : EVP_sha1()
        guard unsafe PKCS12_set_mac(file, passphrase, -1, nil, 0, Self.iterationCount, hash) == 1 else {
            throw CertificateError.current("checksum of PKCS#12")
        }
        return withExtendedLifetime(legacy) {
            var bytes: UnsafeMutablePointer<UInt8>?
            let count = unsafe i2d_PKCS12(file, &bytes)
            guard let bytes = unsafe bytes, count > 0 else { return [] }
            defer { unsafe shim_OPENSSL_free(bytes) }
            return unsafe Array(UnsafeBufferPointer(start: bytes, count: Int(count)))
        }
    }
}

extension IssuedIdentity: CustomStringConvertible, CustomReflectable {
    /// The certificate, in one line, without the key.
    public var description: String { "\(self.identity)" }

    /// Only ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

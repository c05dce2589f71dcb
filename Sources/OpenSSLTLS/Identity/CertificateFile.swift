// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// The content of a file of certificates and keys, as far as it can be read, for diagnosis.
///
/// Unlike ``TLSIdentity``, it keeps parts that do not belong together or cannot be decrypted.
package struct CertificateFile: Sendable {
    /// The format of a file.
    package enum Form: String, Sendable {
        case pem
        case der
        case pkcs12
    }

    /// A private key of a file.
    package struct Key: Sendable {
        /// The public key; `nil` if the key could not be decrypted or read.
        package let publicKey: PublicKeyFacts?
        /// Whether the key itself is encrypted; in PKCS#12, the file is.
        package let isEncrypted: Bool
        /// Why it could not be read.
        package let problem: TLSError?
        private let material: KeyMaterial?

        init(_ material: KeyMaterial?, isEncrypted: Bool, problem: TLSError? = nil) {
            self.material = material
            self.publicKey = material.flatMap { unsafe PublicKeyFacts($0.pointer) }
            self.isEncrypted = isEncrypted
            self.problem = problem
        }

        /// The key in PEM (PKCS#8), not encrypted; `nil` if it could not be read.
        package func pem() -> [UInt8]? { self.material?.pem() }

        /// Whether it is the key of a certificate; `nil` if it could not be read.
        package func matches(_ certificate: TLSCertificate) -> Bool? {
            self.publicKey.map { $0 == certificate.publicKey }
        }
    }

    /// The maximum number of parts of a PEM file; a system's authorities are about 150.
    package static let partCountMax = 10_000

    /// The format of the file.
    package let form: Form
    /// The certificates, in the order of the file.
    package private(set) var certificates: [TLSCertificate] = []
    /// The private keys, in the order of the file; only the first of a PKCS#12 file.
    package private(set) var keys: [Key] = []
    /// The labels of other parts of a PEM file, such as "CERTIFICATE REQUEST".
    package private(set) var otherLabels: [String] = []
    /// How a PKCS#12 file is encrypted.
    package private(set) var protection: PKCS12Protection?
    /// Why part of the file could not be read.
    package private(set) var problem: TLSError?

    /// Reads a file.
    ///
    /// - Throws: ``TLSError/identityMalformed(detail:)`` for another format, and ``TLSError/tooManyParts(countMax:)``.
    package init(bytes: [UInt8], passphrase: TLSPassphrase? = nil) throws(TLSError) {
        guard !bytes.isEmpty else { throw .identityMalformed(detail: "there are no bytes") }
        ERR_clear_error()
        defer { ERR_clear_error() }
        let reader = IdentityReader(passphrase: passphrase, legacyProvider: LegacyLibrary.provider)
        if IdentityReader.isPEM(bytes) {
            self.form = .pem
            try self.readPEM(bytes, reader)
        } else if let protection = PKCS12Protection(of: bytes) {
            self.form = .pkcs12
            self.protection = protection
            do throws(TLSError) {
                let parts = try PKCS12Reader(passphrase: passphrase, legacyProvider: LegacyLibrary.provider).read(bytes)
                self.append(parts)
            } catch {
                self.problem = error
            }
        } else if let certificate = try? TLSCertificate(der: bytes) {
            self.form = .der
            self.certificates = [certificate]
        } else {
            self.form = .der
            do throws(TLSError) {
                guard let key = try unsafe reader.key(in: bytes) else {
                    throw .identityMalformed(detail: "there is neither a certificate nor a key in it")
                }
                unsafe self.keys = [Key(KeyMaterial(key), isEncrypted: PKCS8.isEncrypted(bytes))]
            } catch {
                guard PKCS8.isEncrypted(bytes) else { throw error }
                self.keys = [Key(nil, isEncrypted: true, problem: error)]
            }
        }
    }

    private mutating func append(_ parts: IdentityParts) {
        for index in unsafe parts.certificates.indices {
            unsafe self.certificates.append(TLSCertificate(parts.certificates[index]))
        }
        guard let key = unsafe parts.key else { return }
        unsafe EVP_PKEY_up_ref(key)
        unsafe self.keys = [Key(KeyMaterial(key), isEncrypted: false)]
    }

    private mutating func readPEM(_ bytes: [UInt8], _ reader: IdentityReader) throws(TLSError) {
        let (blocks, damage) = PEMBlock.all(in: bytes, countMax: Self.partCountMax + 1)
        guard blocks.count <= Self.partCountMax else { throw .tooManyParts(countMax: Self.partCountMax) }
        var cost = KeyDerivationCost()
        self.problem = damage.map { .identityMalformed(detail: "part \(blocks.count + 1) is damaged: \($0)") }
        for (index, block) in blocks.enumerated() {
            switch block.label {
            case PEM_STRING_X509, PEM_STRING_X509_OLD, PEM_STRING_X509_TRUSTED:
                do throws(TLSError) {
                    self.certificates.append(try block.certificate())
                } catch {
                    let detail = "part \(index + 1), a certificate, is damaged"
                    self.problem = self.problem ?? .identityMalformed(detail: detail)
                }
            case let label where label.hasSuffix("PRIVATE KEY"):
                do throws(TLSError) {
                    try block.add(to: &cost)
                    guard let key = try unsafe reader.key(in: block.text) else { continue }
                    unsafe self.keys.append(Key(KeyMaterial(key), isEncrypted: block.isEncrypted))
                } catch {
                    self.keys.append(Key(nil, isEncrypted: block.isEncrypted, problem: error))
                }
            // The curve of the key that follows, as `openssl ecparam` writes it.
            case PEM_STRING_ECPARAMETERS: break
            default: self.otherLabels.append(block.label)
            }
        }
    }
}

/// A private key of OpenSSL.
///
/// Safe to share: it is never changed, and OpenSSL counts references atomically.
@safe
final class KeyMaterial: @unchecked Sendable {
    let pointer: OpaquePointer

    /// Takes ownership of the caller's reference.
    init(_ pointer: OpaquePointer) { unsafe self.pointer = pointer }

    deinit { unsafe EVP_PKEY_free(self.pointer) }

    func pem() -> [UInt8]? {
        guard let memory = unsafe BIO_new(BIO_s_mem()) else { return nil }
        defer { unsafe BIO_free(memory) }
        guard unsafe PEM_write_bio_PKCS8PrivateKey(memory, self.pointer, nil, nil, 0, nil, nil) == 1 else {
            ERR_clear_error()
            return nil
        }
        return unsafe PEMBlock.content(of: memory)
    }
}

/// One part of a PEM text.
struct PEMBlock {
    let label: String
    private let header: String
    let content: [UInt8]

    /// Whether it is a key that needs a passphrase.
    var isEncrypted: Bool { self.label == PEM_STRING_PKCS8 || self.header.contains("ENCRYPTED") }

    /// All parts before the first damaged one, and its problem; at most `countMax` parts.
    static func all(in bytes: [UInt8], countMax: Int) -> (blocks: [PEMBlock], damage: String?) {
        ERR_clear_error()
        var blocks: [PEMBlock] = []
        unsafe bytes.withUnsafeBytes { bytes in
            guard let memory = unsafe BIO_new_mem_buf(bytes.baseAddress, Int32(clamping: bytes.count)) else { return }
            defer { unsafe BIO_free(memory) }
            while blocks.count < countMax, let block = unsafe PEMBlock(memory) { blocks.append(block) }
        }
        let queue = OpenSSLQueue.take()
        // At the end of the text, OpenSSL reports that no other part starts.
        let isEnd = queue.isEmpty || queue.contains(library: ERR_LIB_PEM, reason: PEM_R_NO_START_LINE)
        return (blocks, isEnd ? nil : queue.text)
    }

    private init?(_ memory: OpaquePointer) {
        var name: UnsafeMutablePointer<CChar>?
        var header: UnsafeMutablePointer<CChar>?
        var content: UnsafeMutablePointer<UInt8>?
        var count = 0
        guard unsafe PEM_read_bio(memory, &name, &header, &content, &count) == 1 else { return nil }
        defer {
            unsafe shim_OPENSSL_free(name)
            unsafe shim_OPENSSL_free(header)
            unsafe shim_OPENSSL_free(content)
        }
        guard let name = unsafe name, let header = unsafe header, let content = unsafe content, count >= 0 else {
            return nil
        }
        unsafe self.label = String(cString: name)
        unsafe self.header = String(cString: header)
        unsafe self.content = Array(UnsafeBufferPointer(start: content, count: count))
    }

    /// This part in PEM.
    var text: [UInt8] {
        guard let memory = unsafe BIO_new(BIO_s_mem()) else { return [] }
        defer { unsafe BIO_free(memory) }
        _ = unsafe PEM_write_bio(memory, self.label, self.header, self.content, self.content.count)
        return unsafe Self.content(of: memory)
    }

    /// Adds the cost of decrypting a key to the cost of the other keys of its file.
    func add(to cost: inout KeyDerivationCost) throws(TLSError) {
        if self.label == PEM_STRING_PKCS8 { try IdentityReader.add(self.content, to: &cost) }
    }

    /// The certificate in this part.
    func certificate() throws(TLSError) -> TLSCertificate {
        // OpenSSL appends data to a trusted certificate.
        try TLSCertificate(der: self.content)
    }

    /// The revocation list in this part, which the caller owns; `nil` if it is damaged.
    func revocationList() -> OpaquePointer? { unsafe Self.revocationList(in: self.content) }

    /// The revocation list in DER bytes, which the caller owns; `nil` if it is damaged.
    static func revocationList(in bytes: [UInt8]) -> OpaquePointer? {
        defer { ERR_clear_error() }
        return unsafe bytes.withUnsafeBufferPointer { bytes in
            var position = bytes.baseAddress
            return unsafe d2i_X509_CRL(nil, &position, bytes.count)
        }
    }

    static func content(of memory: OpaquePointer) -> [UInt8] {
        var data: UnsafeMutablePointer<CChar>?
        let count = unsafe shim_BIO_get_mem_data(memory, &data)
        guard let data = unsafe data, count > 0 else { return [] }
        return unsafe Array(UnsafeRawBufferPointer(start: data, count: count))
    }
}

/// Private keys in PKCS#8.
enum PKCS8 {
    /// Whether bytes are an encrypted key in DER.
    static func isEncrypted(_ bytes: [UInt8]) -> Bool {
        let key = unsafe bytes.withUnsafeBufferPointer { bytes in
            var position = bytes.baseAddress
            return unsafe d2i_X509_SIG(nil, &position, bytes.count)
        }
        defer { ERR_clear_error() }
        guard let key = unsafe key else { return false }
        unsafe X509_SIG_free(key)
        return true
    }
}

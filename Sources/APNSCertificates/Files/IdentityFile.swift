// SPDX-License-Identifier: Apache-2.0

import FileSupport

/// A file with a certificate, its key or both, in a form that programs read.
package enum IdentityFile: Hashable, Sendable, CaseIterable {
    /// Certificate and key in one PEM file, the key in PKCS#1, which old programs read.
    case combined
    /// Only the certificate.
    case certificate
    /// The key of ``certificate``.
    case key
    /// The same key in PKCS#1, which old programs read.
    case traditionalKey
    /// Both as PKCS#12 with AES-256, which current programs read.
    case pkcs12
    /// Both as PKCS#12 with Triple DES and SHA-1, which old and current programs read.
    case legacyPKCS12
    /// The passphrase of the PKCS#12 files.
    case passphrase

    /// The name of the file; the names of one identity share a prefix.
    package func name(_ prefix: String) -> String {
        switch self {
        case .combined: prefix + "-combined.pem"
        case .certificate: prefix + ".pem"
        case .key: prefix + ".key.pem"
        case .traditionalKey: prefix + "-traditional.key.pem"
        case .pkcs12: prefix + ".p12"
        case .legacyPKCS12: prefix + "-legacy.p12"
        case .passphrase: prefix + "-passphrase.txt"
        }
    }

    /// Whether it contains a certificate.
    package var isIdentity: Bool { [.combined, .certificate, .pkcs12, .legacyPKCS12].contains(self) }

    /// Who may read the file: everyone, if it contains no secret.
    package var mode: UInt32 { self == .certificate ? FileMode.shared : FileMode.secret }

    /// The file in a folder that is written as a whole.
    func kept(_ prefix: String) -> AtomicFolder.KeptFile {
        self == .certificate ? .shared(self.name(prefix)) : .secret(self.name(prefix))
    }
}

/// A certificate with its key, and the files in which it is stored.
package struct IdentityFileSet: Sendable {
    /// The certificate with its key.
    package let identity: IssuedIdentity
    /// The beginning of the names.
    package let prefix: String
    /// The files.
    package let files: [IdentityFile]
    /// The passphrase of PKCS#12 files.
    private let passphrase: String
    /// The friendly name of the certificate in PKCS#12 files.
    private let alias: String

    package init(
        _ identity: IssuedIdentity,
        prefix: String,
        files: [IdentityFile] = [.certificate, .key],
        passphrase: String = "",
        alias: String = "provider"
    ) {
        self.identity = identity
        self.prefix = prefix
        self.files = files
        self.passphrase = passphrase
        self.alias = alias
    }

    /// The content of a file.
    ///
    /// - Throws: `CertificateError`.
    package func content(of file: IdentityFile) throws -> [UInt8] {
        switch file {
        case .combined: try self.identity.certificatePEM + self.identity.traditionalKeyPEM()
        case .certificate: self.identity.certificatePEM
        case .key: self.identity.keyPEM
        case .traditionalKey: try self.identity.traditionalKeyPEM()
        case .pkcs12: try self.identity.pkcs12(passphrase: self.passphrase, form: .aes256, name: self.alias)
        case .legacyPKCS12: try self.identity.pkcs12(passphrase: self.passphrase, form: .tripleDES, name: self.alias)
        case .passphrase: Array((self.passphrase + "\n").utf8)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import COpenSSL
import FileSupport

/// A certificate with its private key and intermediate certificates.
///
/// PEM, PKCS#12 and DER are detected by content, not by file name.
public struct TLSIdentity: Sendable {
    /// The facts of the certificate itself.
    public let certificate: TLSCertificate

    /// The facts of the intermediate certificates that are sent with it, starting with its issuer.
    public let chain: [TLSCertificate]

    /// The file that it was loaded from, for messages; `nil` if there is none.
    package var path: String?

    let material: IdentityMaterial

    /// Loads an identity from files.
    ///
    /// - Parameters:
    ///   - path: A PEM file with the certificate and, unless `key` is given, its key; a PKCS#12 file; or a
    ///     DER certificate, which needs `key`.
    ///   - key: The file of the private key: PEM, DER or PKCS#12. Default: the key is in the first file.
    ///   - passphrase: The passphrase of the key. Default: none, which also opens PKCS#12 files without one.
    /// - Throws: ``TLSError/fileUnreadable(path:detail:)`` and the errors of ``init(bytes:key:passphrase:)``.
    public init(contentsOf path: String, key: String? = nil, passphrase: TLSPassphrase? = nil) throws(TLSError) {
        var bytes = try FileBytes.read(path)
        defer { bytes.wipe() }
        var keyBytes: [UInt8]?
        defer { keyBytes?.wipe() }
        if let key { keyBytes = try FileBytes.read(key) }
        try self.init(bytes: bytes, key: keyBytes, passphrase: passphrase)
        self.path = path
    }

    /// Loads an identity from bytes, in the formats of ``init(contentsOf:key:passphrase:)``.
    ///
    /// - Throws: ``TLSError/identityMalformed(detail:)``, ``TLSError/certificateMissing``,
    ///   ``TLSError/keyMissing``, ``TLSError/passphraseMissing``, ``TLSError/passphraseWrong``,
    ///   ``TLSError/keyMismatch``, ``TLSError/legacyProviderMissing(detail:)``.
    public init(bytes: [UInt8], key: [UInt8]? = nil, passphrase: TLSPassphrase? = nil) throws(TLSError) {
        let reader = IdentityReader(passphrase: passphrase, legacyProvider: LegacyLibrary.provider)
        self.init(try reader.read(bytes, key: key))
    }

    init(_ material: IdentityMaterial) {
        self.material = material
        self.certificate = unsafe TLSCertificate(material.leaf)
        self.chain = unsafe material.chain.map { unsafe TLSCertificate($0) }
    }
}

extension TLSIdentity: Hashable {
    /// Whether both have the same certificate, and therefore the same key, and send the same intermediate certificates.
    public static func == (left: Self, right: Self) -> Bool {
        left.certificate == right.certificate && left.chain == right.chain
    }

    /// Hashes the certificate.
    public func hash(into hasher: inout Hasher) { hasher.combine(self.certificate) }
}

extension TLSIdentity: CustomStringConvertible, CustomReflectable {
    /// The certificate in one line, without the key.
    public var description: String { "key and \(self.certificate)" }

    /// An empty mirror, so that `dump` prints only ``description``.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

// SPDX-License-Identifier: Apache-2.0

import FileSupport
package import OpenSSLTLS

extension CertificateFile {
    /// Reads a file.
    ///
    /// - Throws: `TLSError`.
    package init(contentsOf path: String, passphraseFile: String?) throws(TLSError) {
        var passphrase: TLSPassphrase?
        if let passphraseFile { passphrase = try TLSPassphrase(contentsOf: passphraseFile) }
        var bytes = try FileBytes.read(path)
        defer { bytes.wipe() }
        try self.init(bytes: bytes, passphrase: passphrase)
    }

    /// The main certificate of a file: the one that matches a key, or else the first that is not an authority.
    package func leaf(_ keys: [Key]) -> TLSCertificate? {
        let publicKeys = Set(keys.compactMap(\.publicKey))
        let owner = publicKeys.isEmpty ? nil : self.certificates.first { $0.publicKey.map(publicKeys.contains) == true }
        return owner ?? self.certificates.first { CertificateKind($0) != .authority } ?? self.certificates.first
    }

    /// The certificates above a certificate, each the issuer of the one before, without a self-issued one.
    package func chain(above leaf: TLSCertificate) -> [TLSCertificate] {
        let issuers = IssuerIndex(self.certificates)
        var chain: [TLSCertificate] = []
        var current = leaf
        while let index = issuers.index(ofIssuerOf: current), self.certificates[index] != current,
            !chain.contains(self.certificates[index])
        {
            current = self.certificates[index]
            chain.append(current)
        }
        return chain
    }
}

/// Finds the issuers of certificates; compares names first, since verifying a signature is slow.
struct IssuerIndex {
    private let certificates: [TLSCertificate]
    private let indices: [String: [Int]]

    init(_ certificates: [TLSCertificate]) {
        self.certificates = certificates
        self.indices = Dictionary(grouping: certificates.indices) { Self.name(certificates[$0].subject) }
    }

    /// The index of the first certificate that issued a certificate.
    func index(ofIssuerOf certificate: TLSCertificate) -> Int? {
        self.indices[Self.name(certificate.issuer)]?.first { certificate.isIssued(by: self.certificates[$0]) }
    }

    /// A name in the form for comparison, which ignores case and the amount of white space (RFC 5280, 7.1).
    private static func name(_ text: String) -> String {
        text.lowercased().split(whereSeparator: \.isWhitespace).joined(separator: " ")
    }
}

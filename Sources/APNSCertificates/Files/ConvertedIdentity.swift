// SPDX-License-Identifier: Apache-2.0

package import OpenSSLTLS

/// A certificate with its key and all other certificates of its file, to be written in another form.
package struct ConvertedIdentity: Sendable {
    /// The forms of a file with a certificate and its key.
    package enum Form: Hashable, Sendable {
        case pkcs12(IssuedIdentity.PKCS12Form)
        case pem

        /// The form that the name of a file stands for; `nil` for another name.
        package init?(fileName: String) {
            let name = fileName.lowercased()
            if name.hasSuffix(".p12") || name.hasSuffix(".pfx") {
                self = .pkcs12(.aes256)
            } else if name.hasSuffix(".pem") {
                self = .pem
            } else {
                return nil
            }
        }
    }

    /// Why a file cannot be written in another form without loss.
    package enum Failure: Error, Hashable, Sendable {
        /// The file has no certificate.
        case certificateMissing
        /// There is no private key.
        case keyMissing
        /// A private key cannot be read.
        case keyUnreadable(TLSError)
        /// The private key belongs to no certificate of the file.
        case keyMismatch
        /// There are several private keys, and only one can be kept.
        case severalKeys(count: Int)
        /// The private key cannot be used.
        case keyUnusable(detail: String)
    }

    private let identity: IssuedIdentity
    /// All certificates, starting with the one that the key belongs to and those that issued it.
    package let certificates: [TLSCertificate]

    /// Finds the certificate of a file to which one of the keys belongs.
    package init(_ file: CertificateFile, keys: [CertificateFile.Key]) throws(Failure) {
        if let problem = keys.compactMap(\.problem).first { throw .keyUnreadable(problem) }
        guard !file.certificates.isEmpty else { throw .certificateMissing }
        guard !keys.isEmpty else { throw .keyMissing }
        guard let leaf = file.leaf(keys), let key = keys.first(where: { $0.matches(leaf) == true }),
            let keyPEM = key.pem()
        else { throw .keyMismatch }
        guard keys.count == 1 else { throw .severalKeys(count: keys.count) }
        let chain = [leaf] + file.chain(above: leaf)
        self.certificates = chain + file.certificates.filter { !chain.contains($0) }
        do {
            self.identity = try IssuedIdentity(certificatePEM: self.certificates.flatMap(\.pem), keyPEM: keyPEM)
        } catch {
            throw .keyUnusable(detail: "\(error)")
        }
    }

    /// The content of a file in a form; in PEM, the key is not encrypted without a passphrase.
    ///
    /// - Throws: `CertificateError`.
    package func content(as form: Form, passphrase: String?) throws -> [UInt8] {
        switch form {
        case .pem:
            let key = try passphrase.map { try self.identity.encryptedKeyPEM(passphrase: $0) } ?? self.identity.keyPEM
            return self.identity.certificatePEM + key
        case .pkcs12(let form):
            let leaf = self.certificates[0]
            let name = leaf.pushTopics.first ?? leaf.subjectField("CN") ?? "certificate"
            return try self.identity.pkcs12(passphrase: passphrase, form: form, name: name)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import APNSProviderHTTP2
package import APNSWire
package import OpenSSLTLS

/// The credentials of a new gateway for the service, with the content of their files.
package struct UpstreamCredentials: Sendable {
    /// The kinds of credentials.
    enum Kind: Sendable {
        /// A certificate, its key if that is in a separate file, and the passphrase.
        case certificate(bytes: [UInt8], key: [UInt8]?, passphrase: [UInt8]?, TLSCertificate)
        case providerToken(key: [UInt8], keyID: String, teamID: String)
    }

    let kind: Kind

    /// Reads a certificate in PEM or PKCS#12, with its key in PEM if that is in a separate file.
    ///
    /// - Throws: `TLSError`, for example if the passphrase or the key is missing.
    package init(certificate bytes: [UInt8], key: [UInt8]?, passphrase: [UInt8]?) throws(TLSError) {
        let identity = try TLSIdentity(bytes: bytes, key: key, passphrase: passphrase.map { TLSPassphrase(bytes: $0) })
        self.kind = .certificate(bytes: bytes, key: key, passphrase: passphrase, identity.certificate)
    }

    /// Takes a key that signs provider tokens, in PEM, and its identifiers, for which ``isIdentifier(_:)`` is true.
    package init(key bytes: [UInt8], keyID: String, teamID: String) {
        self.kind = .providerToken(key: bytes, keyID: keyID, teamID: teamID)
    }

    /// Whether a text has the format of Apple's identifiers of keys and teams.
    package static func isIdentifier(_ text: String) -> Bool { ProviderTokenKey.isIdentifier(text) }

    /// The identifier of a key in the name of its file, as Apple names it; `nil` if there is none.
    package static func keyID(inPath path: String) -> String? {
        let name = path.split(separator: "/").last ?? path[...]
        guard name.hasPrefix("AuthKey_"), name.hasSuffix(".p8") else { return nil }
        let identifier = String(name.dropFirst(8).dropLast(3))
        return Self.isIdentifier(identifier) ? identifier : nil
    }

    private var certificate: TLSCertificate? {
        guard case .certificate(_, _, _, let certificate) = self.kind else { return nil }
        return certificate
    }

    /// Whether it is a certificate, not a key that signs provider tokens.
    package var isCertificate: Bool { self.certificate != nil }

    /// The default topic of the certificate; `nil` if there is none.
    package var topic: String? { self.certificate.flatMap { ProviderIdentity($0).topic } }

    /// The environment of a certificate that is valid for only one.
    package var environment: PushEnvironment? {
        guard let identity = self.certificate.map({ ProviderIdentity($0) }),
            identity.isForSandbox != identity.isForProduction
        else { return nil }
        return identity.isForSandbox ? .sandbox : .production
    }

    /// The team that the credentials name; `nil` if they name none.
    var team: String? {
        if case .providerToken(_, _, let identifier) = self.kind { return identifier }
        return self.certificate?.subjectField("OU").flatMap { Self.isIdentifier($0) ? $0 : nil }
    }

    /// Finds problems of the certificate with which the service would never accept it.
    package func findings(
        path: String,
        topic: String,
        environment: PushEnvironment,
        now: Int64
    ) -> [ConfigurationFinding] {
        guard let certificate else { return [] }
        return ResolvedConfiguration.upstreamFindings(
            of: certificate,
            path: path,
            topic: topic,
            environment: environment,
            now: now
        )
    }
}

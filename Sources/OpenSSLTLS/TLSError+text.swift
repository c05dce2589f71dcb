// SPDX-License-Identifier: Apache-2.0

/// The names in the text of a ``TLSError``: the remote side, and the files of this side.
package struct TLSErrorNames: Hashable, Sendable {
    /// The remote side, such as "gateway localhost:2195" or "the provider".
    package var remote: String
    /// The file of this side's certificate; `nil` if it is unknown.
    package var certificate: String?
    /// The file of the trusted authorities; `nil` if it is unknown.
    package var trust: String?
    /// Whether this side has no certificate.
    package var isAnonymous: Bool
    /// What this side's certificate is, if it is not a client's.
    package var otherKind: OtherKind?
    /// The files of an identity, as they are named to the user; `nil` where there are no names.
    package var files: Files?

    /// A kind of certificate that a server refuses from its clients.
    package enum OtherKind: Hashable, Sendable {
        /// A certificate for servers, and not for clients.
        case server
        /// The certificate of an authority.
        case authority
    }

    /// The files of an identity, such as "--certificate push.pem".
    package struct Files: Hashable, Sendable {
        /// The certificate.
        package var certificate: String
        /// The private key; the certificate's file where the key is in it.
        package var key: String
        /// The passphrase.
        package var passphrase: String

        /// Makes names.
        package init(certificate: String, key: String, passphrase: String) {
            self.certificate = certificate
            self.key = key
            self.passphrase = passphrase
        }

        fileprivate var privateKey: String { self.key == self.certificate ? "the key in \(self.key)" : self.key }
    }

    /// Creates names; the defaults suit any connection.
    package init(
        remote: String = "the remote host",
        certificate: String? = nil,
        trust: String? = nil,
        isAnonymous: Bool = false
    ) {
        self.remote = remote
        self.certificate = certificate
        self.trust = trust
        self.isAnonymous = isAnonymous
    }

    /// Creates the names of a connection.
    package init(remote: String, _ configuration: TLSConfiguration) {
        self.init(remote: remote)
        self.certificate = configuration.identity?.path
        if case .file(let path) = configuration.trust { self.trust = path }
        self.isAnonymous = configuration.identity == nil
        self.otherKind = configuration.identity.flatMap { OtherKind($0.certificate) }
    }

    fileprivate var ownCertificate: String { self.certificate.map { "certificate \($0)" } ?? "this side's certificate" }

    /// The certificate of this side, if it is a client.
    package var clientCertificate: String {
        self.certificate.map { "certificate \($0)" } ?? "the client certificate"
    }
}

extension TLSErrorNames.OtherKind {
    fileprivate init?(_ certificate: TLSCertificate) {
        if !certificate.isForClients {
            self = .server
        } else if certificate.isAuthority, !certificate.isForSignatures {
            // A self-issued certificate from `openssl req -x509` is an authority too, but may be a provider's.
            self = .authority
        } else {
            return nil
        }
    }
}

extension TLSError: CustomStringConvertible {
    /// What failed and what to do about it, in one line.
    public var description: String { self.text(TLSErrorNames()) }

    /// What failed and what to do about it, in one line.
    package func text(_ names: TLSErrorNames) -> String {
        let fact = self.fact(names)
        return self.advice(names).map { "\(fact); \($0)" } ?? fact
    }

    /// What failed.
    package func fact(_ names: TLSErrorNames) -> String {
        self.fileFact(names) ?? self.remoteCertificateFact(names) ?? self.alertFact(names)
            ?? self.connectionFact(names)
    }

    /// What to do about it; `nil` if there is no advice.
    package func advice(_ names: TLSErrorNames) -> String? {
        self.fileAdvice ?? self.remoteCertificateAdvice ?? self.alertAdvice(names) ?? self.connectionAdvice
    }
}

// MARK: - Files

extension TLSError {
    private func fileFact(_ names: TLSErrorNames) -> String? {
        switch self {
        case .fileUnreadable(let path, let detail): "cannot read \(path): \(detail)"
        case .identityMalformed(let detail):
            names.files.map { "\($0.certificate) is not PEM, PKCS#12 or DER, or is damaged" }
                ?? "the certificate or key cannot be read: \(detail)"
        case .certificateMissing: "\(names.files?.certificate ?? "the file") contains no certificate"
        case .keyMissing: "\(names.files?.key ?? "the file") contains no private key"
        case .passphraseMissing: "\(names.files?.key ?? "the private key") is encrypted"
        case .passphraseWrong:
            "\(names.files?.passphrase ?? "the passphrase") does not decrypt \(names.files?.key ?? "the private key")"
        case .keyMismatch:
            "\(names.files?.privateKey ?? "the private key") does not belong to "
                + (names.files?.certificate ?? "the certificate")
        case .legacyProviderMissing(let detail):
            "\(names.files?.key ?? "the file") is encrypted with an old cipher, such as RC2-40, and OpenSSL's legacy "
                + "provider cannot be loaded (\(detail))"
        case .keyDerivationTooLong(let count, let countMax):
            "\(names.files?.key ?? "the file") needs \(count == .max ? "countless" : String(count)) iterations to "
                + "derive its keys, more than the limit of \(countMax)"
        case .tooManyParts(let countMax):
            "\(names.files?.certificate ?? "the file") contains more than \(countMax) certificates and keys"
        case .identityTooWeak(let detail):
            "\(names.ownCertificate) is too weak for OpenSSL's security level (\(detail))"
        case .trustUnusable(let detail):
            "the trusted certificates\(names.trust.map { " in \($0)" } ?? "") cannot be used (\(detail))"
        case .configurationUnusable(let detail): "the TLS configuration cannot work: \(detail)"
        case .serverNameInvalid(let name): "\"\(name)\" is not a valid server name"
        default: nil
        }
    }

    private var fileAdvice: String? {
        switch self {
        case .fileUnreadable: "check the path and its permissions"
        case .identityMalformed: "check that the file is PEM, PKCS#12 or DER"
        case .certificateMissing: "give a PEM file with the certificate, or a .p12 file that contains it"
        case .keyMissing: "give the file of the key too, or a .p12 file with certificate and key"
        case .passphraseMissing: "give its passphrase"
        case .passphraseWrong: "give the passphrase that was chosen when the file was exported"
        case .keyMismatch: "give the key that the certificate was requested with"
        case .legacyProviderMissing:
            "install the provider, or encrypt the file again on a machine that has it: "
                + "openssl pkcs12 -legacy -in OLD -nodes | openssl pkcs12 -export -out NEW"
        case .keyDerivationTooLong: "export it again with fewer, such as openssl pkcs12 -export -iter 100000"
        case .tooManyParts: "keep only those that are needed"
        case .identityTooWeak:
            "renew it with a stronger key or signature, or allow a TLS version below 1.2, which lowers the level"
        case .trustUnusable: "give a file of PEM certificates"
        case .serverNameInvalid: "give a host name or an IP address"
        default: nil
        }
    }
}

// MARK: - The certificate of the remote side

extension TLSError {
    private func remoteCertificateFact(_ names: TLSErrorNames) -> String? {
        let certificate = "the certificate of \(names.remote)"
        return switch self {
        case .certificateExpired(let detail): "\(certificate) has expired (\(detail))"
        case .certificateNotYetValid(let detail): "\(certificate) is not valid yet (\(detail))"
        case .unknownAuthority(let detail):
            "\(certificate) is not signed by a trusted authority"
                + "\(names.trust.map { " in \($0)" } ?? "") (\(detail))"
        case .wrongHost(let expected, let presented) where presented.contains(expected):
            "\(certificate) has \(expected) only as its common name, not as an alternative name (SAN)"
        case .wrongHost(let expected, let presented):
            "\(certificate) is not for \(expected) but for "
                + (presented.isEmpty ? "no host" : presented.joined(separator: ", "))
        case .certificateRevoked(let detail): "\(certificate) is revoked (\(detail))"
        case .certificateUnacceptable(let detail): "\(certificate) does not verify (\(detail))"
        case .clientCertificateMissing: "\(names.remote) sent no certificate, and one is required"
        default: nil
        }
    }

    private var remoteCertificateAdvice: String? {
        switch self {
        case .certificateExpired: "its owner must renew it, or this machine's clock is wrong"
        case .certificateNotYetValid: "check the clocks of both machines"
        case .unknownAuthority: "if it is the right one, trust the certificate of its authority"
        case .wrongHost(let expected, let presented) where presented.contains(expected):
            "issue one with alternative names, or, for an old gateway, allow the common name"
        case .wrongHost: "connect by a name that the certificate contains"
        case .certificateRevoked: "its owner must get a new one"
        case .certificateUnacceptable: "its owner must replace it"
        case .clientCertificateMissing: "configure the client with a certificate and its key"
        default: nil
        }
    }
}

// MARK: - Alerts

extension TLSError {
    /// Numbers of alerts (RFC 8446, 6; RFC 6066, 4).
    private enum Alert {
        static let handshakeFailure: UInt8 = 40
        static let insufficientSecurity: UInt8 = 71
        static let unrecognizedName: UInt8 = 112
        static let certificateRequired: UInt8 = 116
    }

    /// What servers send for a certificate that is not for clients: bad, unsupported and unknown certificate.
    private static let purposeAlerts: Set<UInt8> = [42, 43, 46]

    /// Why the remote side rejected this side's certificate, and what to do, based on the alert.
    private static func refusal(_ alert: UInt8, _ names: TLSErrorNames) -> (reason: String, advice: String) {
        switch alert {
        case _ where names.otherKind == .server && Self.purposeAlerts.contains(alert):
            ("it is a certificate for servers", "give the provider's certificate, which is for clients")
        case _ where names.otherKind == .authority && Self.purposeAlerts.contains(alert):
            ("it is the certificate of an authority", "give the provider's certificate")
        case 42: ("bad certificate", "check that it is the right certificate for this server and environment")
        case 43: ("unsupported certificate", "get one of a common type, such as RSA with 2048 bits, for clients")
        case 44: ("revoked", "get a new certificate")
        case 45: ("expired", "renew it, or check the clocks of both machines")
        case 48:
            (
                "unknown authority",
                "get one from an authority that the server trusts, and put the intermediate certificates into the file"
            )
        case 49: ("access denied", "check that it is for this server and environment")
        case 51: ("its signature does not verify", "check that certificate and key belong together")
        default: ("certificate unknown", "check that it is the right certificate for this server and environment")
        }
    }

    private func alertFact(_ names: TLSErrorNames) -> String? {
        switch self {
        case .ownCertificateRefused(let alert, _) where alert == Alert.certificateRequired || names.isAnonymous:
            "\(names.remote) requires a client certificate"
        case .ownCertificateRefused(let alert, _):
            "\(names.remote) refused \(names.ownCertificate): \(Self.refusal(alert, names).reason)"
        case .handshakeRefused(Alert.unrecognizedName, _):
            "\(names.remote) does not serve the requested host name (TLS alert: unrecognized name)"
        case .handshakeRefused(Alert.insufficientSecurity, _):
            "\(names.remote) refused the TLS handshake (alert: insufficient security)"
        case .handshakeRefused(Alert.handshakeFailure, _) where names.isAnonymous:
            "\(names.remote) refused the TLS handshake without a client certificate"
        case .handshakeRefused: "\(names.remote) refused the TLS handshake (alert: handshake failure)"
        case .versionRefused: "no TLS version in common with \(names.remote)"
        case .noCommonCipher(let detail): "no cipher or signature algorithm in common with \(names.remote) (\(detail))"
        case .noCommonApplicationProtocol: "no application protocol (ALPN) in common with \(names.remote)"
        case .alert(let number, let detail):
            "\(names.remote) ended the connection with TLS alert \(number) (\(detail))"
        default: nil
        }
    }

    private func alertAdvice(_ names: TLSErrorNames) -> String? {
        switch self {
        case .ownCertificateRefused(let alert, _) where alert == Alert.certificateRequired || names.isAnonymous:
            "give a certificate and its key"
        case .ownCertificateRefused(let alert, _): Self.refusal(alert, names).advice
        case .handshakeRefused(Alert.unrecognizedName, _): "connect by the name in its certificate"
        case .handshakeRefused(Alert.handshakeFailure, _) where names.isAnonymous:
            "give a certificate and its key"
        case .handshakeRefused: "it has no cipher in common, or refuses the client certificate; see its log"
        case .versionRefused: "allow more versions; an old one needs a minimum of 1.0 or 1.1"
        case .noCommonCipher: "an old one needs a minimum version of 1.0 or 1.1, which lowers the security level"
        case .noCommonApplicationProtocol: "check the port and the protocol"
        case .alert: "see its log"
        default: nil
        }
    }
}

// MARK: - The connection

extension TLSError {
    private func connectionFact(_ names: TLSErrorNames) -> String {
        switch self {
        case .notTLS(let detail): "\(names.remote) does not speak TLS (\(detail))"
        case .handshakeTimedOut: "\(names.remote) did not complete the TLS handshake in time"
        case .closedDuringHandshake(let detail):
            "\(names.remote) closed the connection during the TLS handshake"
                + (detail.isEmpty ? "" : " (\(detail))")
        case .truncated: "\(names.remote) closed the connection without TLS close_notify"
        case .protocolFailure(let detail): "the TLS connection to \(names.remote) failed (\(detail))"
        default: "TLS failed"
        }
    }

    private var connectionAdvice: String? {
        switch self {
        case .notTLS: "check host and port"
        case .handshakeTimedOut: "check that the port speaks TLS"
        case .closedDuringHandshake: "check that the port speaks TLS, and see its log: it may refuse the certificate"
        case .truncated: "data may be missing"
        case .protocolFailure: "try again; if it happens again, something on the way changes the data"
        default: nil
        }
    }
}

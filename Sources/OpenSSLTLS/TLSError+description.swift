// SPDX-License-Identifier: Apache-2.0

extension TLSError: CustomStringConvertible {
    /// What happened and what to do about it, in one or two sentences.
    public var description: String {
        self.identityDescription ?? self.peerCertificateDescription ?? self.peerDescription
            ?? self.connectionDescription
    }

    private var identityDescription: String? {
        switch self {
        case .fileUnreadable(let path, let detail):
            "Cannot read \(path): \(detail). Check the path and its permissions."
        case .identityMalformed(let detail):
            "The certificate or key is neither PEM nor PKCS#12 nor DER (\(detail)). Export it again."
        case .certificateMissing:
            "No certificate was found. Give a PEM file with the certificate, or a .p12 file that holds it."
        case .keyMissing:
            "No private key was found. Give the key's file too, or a .p12 file that holds certificate and key."
        case .passphraseMissing:
            "The private key is encrypted. Give its passphrase."
        case .passphraseWrong:
            "The passphrase does not decrypt the private key. Give the one chosen when the file was exported."
        case .keyMismatch:
            "The private key does not match the certificate. Give the key the certificate was requested with."
        case .legacyProviderMissing(let detail):
            """
            The file is encrypted with an old cipher, such as RC2-40, for which OpenSSL's legacy provider could not \
            be loaded (\(detail)). Install the provider, or encrypt the file anew where it is installed: \
            openssl pkcs12 -legacy -in OLD -nodes | openssl pkcs12 -export -out NEW
            """
        case .keyDerivationTooLong(let count, let most):
            """
            The file wants \(count == .max ? "countless" : String(count)) iterations to derive its keys, and \(most) \
            are allowed. Export it again with fewer, such as openssl pkcs12 -export -iter 100000.
            """
        case .identityTooWeak(let detail):
            """
            OpenSSL's security level refuses the own certificate (\(detail)). Renew it with a stronger key or \
            signature, or allow a TLS version below 1.2, which lowers the level.
            """
        case .trustUnusable(let detail):
            "The trusted certificates cannot be used (\(detail)). Give a file of PEM certificates."
        case .configurationUnusable(let detail):
            "The TLS configuration cannot work: \(detail)."
        case .serverNameInvalid(let name):
            "\"\(name)\" cannot be verified as a server's name. Give a host name or an IP address."
        default: nil
        }
    }

    private var peerCertificateDescription: String? {
        switch self {
        case .certificateExpired(let detail):
            "The peer's certificate has expired (\(detail)). Its owner must renew it; check this machine's clock too."
        case .certificateNotYetValid(let detail):
            "The peer's certificate is not valid yet (\(detail)). Check this machine's clock."
        case .unknownAuthority(let detail):
            """
            The peer's certificate was issued by an authority that is not trusted here (\(detail)). If it is the \
            right peer, add its authority's certificate to the trusted ones.
            """
        case .wrongHost(let expected, let presented):
            """
            The server's certificate is not for \(expected) but for \
            \(presented.isEmpty ? "no host" : presented.joined(separator: ", ")). Connect by a name that it is for.
            """
        case .certificateRevoked(let detail):
            "The peer's certificate was revoked (\(detail)). Its owner must get a new one."
        case .certificateUnacceptable(let detail):
            "The peer's certificate does not verify (\(detail)). Its owner must replace it."
        case .clientCertificateMissing:
            "The client sent no certificate, and one is required. Configure the client with one."
        default: nil
        }
    }

    private var peerDescription: String? {
        switch self {
        case .ownCertificateRefused(116, let detail):
            "The peer wants a certificate and was given none (\(detail)). Configure a certificate and its key."
        case .ownCertificateRefused(45, let detail):
            "The peer says that this end's certificate has expired (\(detail)). Renew it."
        case .ownCertificateRefused(44, let detail):
            "The peer says that this end's certificate was revoked (\(detail)). Get a new one."
        case .ownCertificateRefused(48, let detail):
            """
            The peer does not trust the authority of this end's certificate (\(detail)). Check that certificate and \
            peer belong to the same environment, and that the intermediate certificates are given too.
            """
        case .ownCertificateRefused(_, let detail):
            """
            The peer refused this end's certificate (\(detail)). Check that it is the right one for this peer and \
            environment, and neither expired nor revoked.
            """
        case .handshakeRefused(_, let detail):
            """
            The peer refused the handshake (\(detail)). Usual reasons: it wants a client certificate and got none, \
            it does not serve this host name, or it has no cipher in common with this end.
            """
        case .versionRefused(let detail):
            """
            This end and the peer have no TLS version in common (\(detail)). Widen the range of versions; old peers \
            need a minimum of 1.0 or 1.1.
            """
        case .noCommonCipher(let detail):
            """
            This end and the peer have no cipher or signature algorithm in common (\(detail)). Old peers need a \
            minimum version of 1.0 or 1.1, which lowers the security level.
            """
        case .noCommonApplicationProtocol:
            "This end and the peer have no application protocol (ALPN) in common. Check the port and the protocol."
        case .alert(let number, let detail):
            "The peer ended the connection with TLS alert \(number) (\(detail)). Its log may say more."
        default: nil
        }
    }

    private var connectionDescription: String {
        switch self {
        case .peerDoesNotSpeakTLS(let detail):
            "The peer does not speak TLS (\(detail)). Check host and port, and whether a proxy is in between."
        case .handshakeTimedOut:
            "The peer did not finish the TLS handshake in time. Check host and port, and the network in between."
        case .closedDuringHandshake(let detail):
            """
            The peer closed the connection during the TLS handshake (\(detail)). Check host and port; some \
            peers do so when they refuse the client's certificate.
            """
        case .truncated:
            "The connection ended without TLS close_notify: it was cut, and data may be missing."
        case .protocolFailure(let detail):
            "The TLS connection failed (\(detail)). Try again; if it happens again, something in between changes data."
        default: "TLS failed."
        }
    }
}

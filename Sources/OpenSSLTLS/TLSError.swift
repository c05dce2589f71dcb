// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// What went wrong with a certificate, a key, a handshake or a connection.
///
/// The description says what happened and what to do about it. `detail` is OpenSSL's own reason or a fact about
/// the certificate; no case carries a key or a passphrase.
///
/// There may be more in later versions.
@nonexhaustive
public enum TLSError: Error, Hashable, Sendable {
    // MARK: Files and identities

    /// A file could not be read.
    case fileUnreadable(path: String, detail: String)
    /// The certificate or key is in no known form.
    case identityMalformed(detail: String)
    /// No certificate was found in what was given.
    case certificateMissing
    /// No private key was found in what was given.
    case keyMissing
    /// The key is encrypted and no passphrase was given.
    case passphraseMissing
    /// The passphrase does not decrypt the key.
    case passphraseWrong
    /// No certificate given belongs to the key.
    case keyMismatch
    /// The file uses ciphers, such as RC2-40, that only OpenSSL's legacy provider has, and that is not there.
    case legacyProviderMissing(detail: String)
    /// Deriving the keys of an encrypted file would take so many iterations, more than there may be.
    case keyDerivationTooLong(iterationCount: Int, iterationCountMax: Int)
    /// A file has more certificates and keys than there may be.
    case tooManyParts(countMax: Int)
    /// The own certificate is too weak for OpenSSL's security level.
    case identityTooWeak(detail: String)
    /// The trusted certificates could not be used.
    case trustUnusable(detail: String)

    // MARK: Configuration

    /// The configuration cannot work.
    case configurationUnusable(detail: String)
    /// The server name is not one that can be asked for or verified.
    case serverNameInvalid(String)

    // MARK: The peer's certificate

    /// The peer's certificate, or one in its chain, has expired.
    case certificateExpired(detail: String)
    /// The peer's certificate, or one in its chain, is not valid yet.
    case certificateNotYetValid(detail: String)
    /// The peer's chain leads to no trusted authority.
    case unknownAuthority(detail: String)
    /// The server's certificate is for other names.
    case wrongHost(expected: String, presented: [String])
    /// The peer's certificate was revoked.
    case certificateRevoked(detail: String)
    /// The peer's certificate does not verify for another reason.
    case certificateUnacceptable(detail: String)
    /// The client sent no certificate although one is required.
    case clientCertificateMissing

    // MARK: What the peer said

    /// The peer refused this end's certificate, or wants one. Under TLS 1.3 this comes after the handshake.
    case ownCertificateRefused(alert: UInt8, detail: String)
    /// The peer refused the handshake.
    case handshakeRefused(alert: UInt8, detail: String)
    /// The two ends have no protocol version in common.
    case versionRefused(detail: String)
    /// The two ends have no cipher or signature algorithm in common.
    case noCommonCipher(detail: String)
    /// The two ends have no application protocol in common.
    case noCommonApplicationProtocol
    /// The peer sent another fatal alert.
    case alert(UInt8, detail: String)

    // MARK: The connection

    /// The peer does not speak TLS.
    case peerDoesNotSpeakTLS(detail: String)
    /// The handshake took too long.
    case handshakeTimedOut
    /// The peer closed the connection during the handshake.
    case closedDuringHandshake(detail: String)
    /// The connection ended without the peer's close_notify, so data may be missing.
    case truncated
    /// The peer broke the protocol, or bytes were changed under way.
    case protocolFailure(detail: String)
}

extension TLSError {
    /// Whether trying again with the same configuration would fail the same way, as far as one can tell.
    public var isPermanent: Bool {
        switch self {
        case .handshakeTimedOut, .closedDuringHandshake, .truncated, .alert, .protocolFailure: false
        default: true
        }
    }
}

// MARK: - From OpenSSL

extension TLSError {
    /// Turns what OpenSSL reported about a connection into an error that says what to do.
    ///
    /// - Parameters:
    ///   - queue: The errors of the failed call.
    ///   - isHandshaking: Whether the handshake had not completed.
    ///   - verification: What is wrong with the peer's certificate, if verification failed.
    init(_ queue: OpenSSLQueue, isHandshaking: Bool, verification: TLSError?) {
        if let alert = queue.alert {
            self = Self.received(alert, detail: queue.text)
            return
        }
        for reason in queue.tlsReasons {
            if let error = Self.local(reason, queue: queue, isHandshaking: isHandshaking, verification: verification) {
                self = error
                return
            }
        }
        self = .protocolFailure(detail: queue.text)
    }

    /// An alert that the peer sent.
    ///
    /// - SeeAlso: RFC 8446, section 6.
    private static func received(_ alert: UInt8, detail: String) -> TLSError {
        switch alert {
        case 41...46, 48, 49, 51, 116: .ownCertificateRefused(alert: alert, detail: detail)
        case 40, 71, 112: .handshakeRefused(alert: alert, detail: detail)
        case 70: .versionRefused(detail: detail)
        case 120: .noCommonApplicationProtocol
        default: .alert(alert, detail: detail)
        }
    }

    private static func local(
        _ reason: Int32,
        queue: OpenSSLQueue,
        isHandshaking: Bool,
        verification: TLSError?
    ) -> TLSError? {
        switch reason {
        case SSL_R_CERTIFICATE_VERIFY_FAILED:
            verification ?? .certificateUnacceptable(detail: queue.text)
        case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
            .clientCertificateMissing
        case SSL_R_WRONG_VERSION_NUMBER, SSL_R_HTTP_REQUEST, SSL_R_HTTPS_PROXY_REQUEST, SSL_R_PACKET_LENGTH_TOO_LONG,
            SSL_R_RECORD_LENGTH_MISMATCH, SSL_R_BAD_RECORD_TYPE, SSL_R_ENCRYPTED_LENGTH_TOO_LONG:
            isHandshaking ? .peerDoesNotSpeakTLS(detail: queue.text) : nil
        case SSL_R_UNSUPPORTED_PROTOCOL, SSL_R_UNSUPPORTED_SSL_VERSION, SSL_R_WRONG_SSL_VERSION,
            SSL_R_VERSION_TOO_LOW, SSL_R_VERSION_TOO_HIGH, SSL_R_NO_PROTOCOLS_AVAILABLE, SSL_R_UNKNOWN_PROTOCOL:
            .versionRefused(detail: queue.text)
        case SSL_R_NO_SHARED_CIPHER, SSL_R_NO_CIPHERS_AVAILABLE, SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM,
            SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS, SSL_R_LEGACY_SIGALG_DISALLOWED_OR_UNSUPPORTED,
            SSL_R_WRONG_SIGNATURE_TYPE, SSL_R_DH_KEY_TOO_SMALL, SSL_R_NO_SUITABLE_GROUPS, SSL_R_NO_SUITABLE_KEY_SHARE,
            SSL_R_WRONG_CIPHER_RETURNED, SSL_R_UNKNOWN_CIPHER_RETURNED:
            .noCommonCipher(detail: queue.text)
        case SSL_R_NO_APPLICATION_PROTOCOL:
            .noCommonApplicationProtocol
        default:
            nil
        }
    }

    /// What the verification of a peer's chain found, given OpenSSL's `X509_V_ERR_` code, or `nil` if nothing is wrong.
    static func verification(_ result: Int, of certificate: TLSCertificate?, host: String?) -> TLSError? {
        guard result != Int(X509_V_OK) else { return nil }
        var detail = unsafe String(cString: X509_verify_cert_error_string(result))
        if let certificate { detail += ": subject \(certificate.subject), issuer \(certificate.issuer)" }
        switch Int32(result) {
        case X509_V_ERR_CERT_HAS_EXPIRED:
            return .certificateExpired(detail: detail)
        case X509_V_ERR_CERT_NOT_YET_VALID:
            return .certificateNotYetValid(detail: detail)
        case X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH:
            return .wrongHost(expected: host ?? "", presented: certificate?.hostNames ?? [])
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
            X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN,
            X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, X509_V_ERR_CERT_UNTRUSTED, X509_V_ERR_CERT_SIGNATURE_FAILURE:
            return .unknownAuthority(detail: detail)
        case X509_V_ERR_CERT_REVOKED:
            return .certificateRevoked(detail: detail)
        default:
            return .certificateUnacceptable(detail: detail)
        }
    }
}

// MARK: - Description

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
        case .tooManyParts(let countMax):
            "There are more than \(countMax) certificates and keys in the file. Give one with those that are needed."
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

// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// An error of a certificate, a key, a handshake or a connection.
///
/// The description is one line: what failed, then what to do about it. `detail` is OpenSSL's reason or a fact about the
/// certificate; no case contains a key or a passphrase.
///
/// Later versions may add cases.
@nonexhaustive
public enum TLSError: Error, Hashable, Sendable {
    // MARK: Files and identities

    /// A file could not be read.
    case fileUnreadable(path: String, detail: String)
    /// The certificate or key has an unknown format.
    case identityMalformed(detail: String)
    /// The input contains no certificate.
    case certificateMissing
    /// The input contains no private key.
    case keyMissing
    /// The key is encrypted and no passphrase was given.
    case passphraseMissing
    /// The passphrase does not decrypt the key.
    case passphraseWrong
    /// No given certificate belongs to the key.
    case keyMismatch
    /// The file is encrypted with a cipher, such as RC2-40, that needs OpenSSL's legacy provider, which is missing.
    case legacyProviderMissing(detail: String)
    /// Deriving the keys of an encrypted file needs more iterations than the limit.
    case keyDerivationTooLong(iterationCount: Int, iterationCountMax: Int)
    /// A file contains more certificates and keys than the limit.
    case tooManyParts(countMax: Int)
    /// This side's certificate is too weak for OpenSSL's security level.
    case identityTooWeak(detail: String)
    /// The trusted certificates cannot be used.
    case trustUnusable(detail: String)

    // MARK: Configuration

    /// The configuration cannot work.
    case configurationUnusable(detail: String)
    /// The server name cannot be requested or verified.
    case serverNameInvalid(String)

    // MARK: The certificate of the remote side

    /// The remote side's certificate, or one in its chain, has expired.
    case certificateExpired(detail: String)
    /// The remote side's certificate, or one in its chain, is not valid yet.
    case certificateNotYetValid(detail: String)
    /// The remote side's certificate is not signed by a trusted authority.
    case unknownAuthority(detail: String)
    /// The server's certificate is for other names.
    case wrongHost(expected: String, presented: [String])
    /// The remote side's certificate is revoked.
    case certificateRevoked(detail: String)
    /// The remote side's certificate does not verify for another reason.
    case certificateUnacceptable(detail: String)
    /// The client sent no certificate, and one is required.
    case clientCertificateMissing

    // MARK: Alerts of the remote side

    /// The remote side rejected this side's certificate, or requires one. In TLS 1.3, this happens after the handshake.
    case ownCertificateRefused(alert: UInt8, detail: String)
    /// The remote side rejected the handshake.
    case handshakeRefused(alert: UInt8, detail: String)
    /// The two sides have no TLS version in common.
    case versionRefused(detail: String)
    /// The two sides have no cipher or signature algorithm in common.
    case noCommonCipher(detail: String)
    /// The two sides have no application protocol (ALPN) in common.
    case noCommonApplicationProtocol
    /// The remote side sent another fatal alert.
    case alert(UInt8, detail: String)

    // MARK: The connection

    /// The remote side does not speak TLS.
    case notTLS(detail: String)
    /// The handshake did not complete in time.
    case handshakeTimedOut
    /// The remote side closed the connection during the handshake.
    case closedDuringHandshake(detail: String)
    /// The connection ended without close_notify, so data may be missing.
    case truncated
    /// The remote side violated the protocol, or data was changed in transit.
    case protocolFailure(detail: String)
}

extension TLSError {
    /// Whether another attempt with the same configuration would probably fail in the same way.
    public var isPermanent: Bool {
        switch self {
        case .handshakeTimedOut, .closedDuringHandshake, .truncated, .alert, .protocolFailure: false
        default: true
        }
    }
}

// MARK: - From OpenSSL

extension TLSError {
    /// Converts OpenSSL's errors about a connection.
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

    /// An alert that the remote side sent.
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
            isHandshaking ? .notTLS(detail: queue.text) : nil
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

    /// The problem of a chain, based on OpenSSL's `X509_V_ERR_` code; `nil` if there is none.
    static func verification(_ result: Int, of certificate: TLSCertificate?, host: String?) -> TLSError? {
        guard result != Int(X509_V_OK) else { return nil }
        let reason = unsafe String(cString: X509_verify_cert_error_string(result))
        let names = certificate.map { "subject \($0.subject), issuer \($0.issuer)" }
        let detail = names.map { "\(reason): \($0)" } ?? reason
        switch Int32(result) {
        case X509_V_ERR_CERT_HAS_EXPIRED:
            return .certificateExpired(detail: names ?? reason)
        case X509_V_ERR_CERT_NOT_YET_VALID:
            return .certificateNotYetValid(detail: names ?? reason)
        case X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH:
            return .wrongHost(expected: host ?? "", presented: certificate?.hostNames ?? [])
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
            X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN,
            X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, X509_V_ERR_CERT_UNTRUSTED, X509_V_ERR_CERT_SIGNATURE_FAILURE:
            return .unknownAuthority(detail: detail)
        case X509_V_ERR_CERT_REVOKED:
            return .certificateRevoked(detail: names ?? reason)
        default:
            return .certificateUnacceptable(detail: detail)
        }
    }
}

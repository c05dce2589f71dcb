// SPDX-License-Identifier: Apache-2.0

import COpenSSL

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
        var detail = String(cString: X509_verify_cert_error_string(result))
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

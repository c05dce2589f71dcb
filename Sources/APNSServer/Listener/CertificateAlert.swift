// SPDX-License-Identifier: Apache-2.0

import OpenSSLTLS

/// A TLS alert with which a provider rejects the certificate of the listener.
///
/// - SeeAlso: RFC 5246, section 7.2.2.
enum CertificateAlert: UInt8, CaseIterable {
    case badCertificate = 42
    case unsupportedCertificate = 43
    case certificateRevoked = 44
    case certificateExpired = 45
    case certificateUnknown = 46
    case unknownAuthority = 48

    /// Extracts the alert from a handshake error; `nil` for any other error.
    init?(_ error: any Error) {
        guard case .ownCertificateRefused(let alert, _)? = error as? TLSError else { return nil }
        self.init(rawValue: alert)
    }

    /// The name in the standard.
    var name: String {
        switch self {
        case .badCertificate: "bad_certificate"
        case .unsupportedCertificate: "unsupported_certificate"
        case .certificateRevoked: "certificate_revoked"
        case .certificateExpired: "certificate_expired"
        case .certificateUnknown: "certificate_unknown"
        case .unknownAuthority: "unknown_ca"
        }
    }

    /// The remedy, which fits into a value of the log.
    var remedy: String {
        switch self {
        case .unsupportedCertificate, .certificateRevoked, .certificateExpired:
            "replace the certificate of this listener (server.certificate)"
        case .badCertificate, .certificateUnknown, .unknownAuthority:
            "on the provider's machine, install the certificate of the authority that issued this listener's "
                + "certificate; PHP: cafile in the stream context or openssl.cafile in php.ini; Java: keytool "
                + "-importcert -cacerts; .NET: Trusted Root Certification Authorities of the machine; Node.js: ca, or "
                + "NODE_EXTRA_CA_CERTS; Go, Python, Ruby and others with OpenSSL: SSL_CERT_FILE. Check that the "
                + "certificate contains the host name that the provider connects to, and has not expired"
        }
    }
}

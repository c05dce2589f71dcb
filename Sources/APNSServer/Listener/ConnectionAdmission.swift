// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import APNSWire
import Logging
import NIOConcurrencyHelpers
import NIOCore
import OpenSSLTLS

/// Admits connections at a listener up to its limits, and records refusals.
final class ConnectionAdmission: Sendable {
    /// Why a connection is refused, as named in metrics.
    enum Cause: String, CaseIterable, Sendable {
        /// The listener has the maximum number of connections.
        case full
        /// The address has the maximum number of unauthenticated connections.
        case address
        /// The provider has the maximum number of connections.
        case share
        /// The handshake failed.
        case handshake
        /// The provider rejects the certificate of the listener.
        case untrusted
        /// The provider is not admitted.
        case provider
    }

    private let registry: ConnectionRegistry
    let metrics = ListenerMetrics()
    /// For messages about admitted providers.
    let refusals: RefusalLog
    /// For messages about others, which cannot displace those about admitted providers.
    private let unadmitted: RefusalLog
    /// The issuer of the listener's certificate.
    private let issuer = NIOLockedValueBox("?")

    init(_ registry: ConnectionRegistry, logger: Logger) {
        self.registry = registry
        self.refusals = RefusalLog(logger)
        self.unadmitted = RefusalLog(logger)
    }

    /// Sets the current certificate of the listener.
    func setCertificate(_ certificate: TLSCertificate) { self.issuer.withLockedValue { $0 = certificate.issuer } }

    /// Returns the number of the connection.
    ///
    /// - Throws: if there is no room for it, and it has to be closed.
    func enter(_ channel: any Channel) throws -> UInt64 {
        switch self.registry.add(channel) {
        case .added(let number): return number
        case .full:
            self.refuse(channel, .full, "connection limit reached, \(self.registry.countMax)")
        case .addressFull:
            let sentence = "limit of unauthenticated connections per address reached"
            self.refuse(channel, .address, "\(sentence), \(self.registry.unauthenticatedCountMax)")
        case .closed: break
        }
        throw ChannelError.operationUnsupported
    }

    /// Records that a connection's provider is admitted.
    func admit(_ number: UInt64) { self.registry.admit(number) }

    /// Records that a connection failed in its handshake.
    func handshakeFailed(_ channel: any Channel, _ error: any Error) {
        if let alert = CertificateAlert(error) { return self.untrusted(channel, alert) }
        var isClosed = false
        if case .closedDuringHandshake? = error as? TLSError { isClosed = true }
        // Port probes are not worth a warning.
        self.refuse(channel, .handshake, Self.handshakeFailure(error), isQuiet: isClosed)
    }

    /// Why a handshake failed.
    static func handshakeFailure(_ error: any Error) -> String {
        if let alert = CertificateAlert(error) {
            return "\(alert.reason): it must trust the authority of the certificate"
        }
        return (error as? TLSError)?.text(TLSErrorNames(remote: "the provider")) ?? IOError.reason(error)
    }

    /// Records that a provider has the maximum number of connections.
    func providerIsFull(_ channel: any Channel, countMax: Int) {
        self.refuse(channel, .share, "connection limit of its provider reached, \(countMax)")
    }

    /// Records that a provider is not admitted, which was logged where it was decided.
    func refused() { self.metrics.connectionRefused(.provider) }

    /// Records that a provider rejects the certificate of the listener.
    private func untrusted(_ channel: any Channel, _ alert: CertificateAlert) {
        self.metrics.connectionRefused(.untrusted)
        self.unadmitted.log(
            "provider does not trust this listener",
            Self.metadata(channel).merging([
                LogKey.refusalReason: "\(alert.reason)",
                LogKey.remedy: "\(alert.remedy)", LogKey.issuer: "\(self.issuer.withLockedValue { $0 })",
            ]) { _, new in new }
        )
    }

    private func refuse(_ channel: any Channel, _ cause: Cause, _ reason: String, isQuiet: Bool = false) {
        self.metrics.connectionRefused(cause)
        self.unadmitted.log(
            "connection refused",
            level: isQuiet ? .info : .warning,
            Self.metadata(channel).merging([LogKey.refusalReason: "\(reason)"]) { _, new in new }
        )
    }

    /// The remote address and local port of a refused connection.
    private static func metadata(_ channel: any Channel) -> Logger.Metadata {
        var metadata: Logger.Metadata = [
            LogKey.remoteAddress: "\(Self.address(of: channel))", LogKey.isAdmitted: "false",
        ]
        if let port = channel.localAddress?.port { metadata[LogKey.localPort] = "\(port)" }
        return metadata
    }

    /// The remote address, such as "192.0.2.1:40000" or "[2001:db8::1]:40000".
    static func address(of channel: any Channel) -> String { channel.remoteAddress?.hostAndPort ?? "?" }
}

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

    /// What the provider did.
    var reason: String { "the provider ended the handshake with the TLS alert \(self.name)" }

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

// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import APNSWire
import Logging
import NIOConcurrencyHelpers
import NIOCore
import OpenSSLTLS

/// Where connections come in at a listener: lets no more in than there may be, and notes who is refused.
final class ConnectionAdmission: Sendable {
    /// Why a connection is refused, in the words of metrics.
    enum Cause: String, CaseIterable, Sendable {
        /// There are as many connections as there may be.
        case full
        /// There are as many of its address that have not proved who they are.
        case address
        /// Its provider has as many connections as it may have.
        case share
        /// There was no handshake.
        case handshake
        /// The provider does not accept the certificate of the listener.
        case untrusted
        /// The provider is not let in.
        case provider
    }

    private let registry: ConnectionRegistry
    let metrics = ListenerMetrics()
    /// For what providers do that are let in.
    let refusals: RefusalLog
    /// For those that are not, which cannot fill the log of the others.
    private let unadmitted: RefusalLog
    /// The issuer of the listener's certificate.
    private let issuer = NIOLockedValueBox("?")

    init(_ registry: ConnectionRegistry, logger: Logger) {
        self.registry = registry
        self.refusals = RefusalLog(logger)
        self.unadmitted = RefusalLog(logger)
    }

    /// Takes the certificate that the listener shows from now on.
    func setCertificate(_ certificate: TLSCertificate) { self.issuer.withLockedValue { $0 = certificate.issuer } }

    /// - Returns: the number of the connection.
    /// - Throws: where there is no room for it; then it is to be closed.
    func enter(_ channel: any Channel) throws -> UInt64 {
        switch self.registry.add(channel) {
        case .taken(let number): return number
        case .full:
            self.refuse(channel, .full, "there are as many connections as there may be, \(self.registry.countMax)")
        case .addressFull:
            let sentence = "there are as many of its address that proved nothing as there may be"
            self.refuse(channel, .address, "\(sentence), \(self.registry.unauthenticatedCountMax)")
        case .closed: break
        }
        throw ChannelError.operationUnsupported
    }

    /// Notes that a connection's provider is let in.
    func admit(_ number: UInt64) { self.registry.admit(number) }

    /// Notes that a connection failed in its handshake.
    func handshakeFailed(_ channel: any Channel, _ error: any Error) {
        if let alert = CertificateAlert(error) { return self.untrusted(channel, alert) }
        var isClosed = false
        if case .closedDuringHandshake? = error as? TLSError { isClosed = true }
        // Those who look whether the port is open are no reason for a warning.
        let names = TLSErrorNames(remote: "the provider")
        let reason = (error as? TLSError)?.text(names) ?? IOError.reason(error)
        self.refuse(channel, .handshake, reason, isQuiet: isClosed)
    }

    /// Notes that a provider has as many connections as it may have.
    func shareIsTaken(_ channel: any Channel, countMax: Int) {
        self.refuse(channel, .share, "its provider has as many connections as it may have, \(countMax)")
    }

    /// Notes that a provider is not let in; who decided that has logged it.
    func refused() { self.metrics.connectionRefused(.provider) }

    /// Notes that a provider does not accept the certificate of the listener.
    private func untrusted(_ channel: any Channel, _ alert: CertificateAlert) {
        self.metrics.connectionRefused(.untrusted)
        self.unadmitted.log(
            "provider does not trust this listener",
            Self.metadata(channel).merging([
                LogKey.refusalReason: "the provider ended the handshake with the TLS alert \(alert.name)",
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

    /// Where a connection comes from that is not let in, and where to.
    private static func metadata(_ channel: any Channel) -> Logger.Metadata {
        var metadata: Logger.Metadata = [
            LogKey.remoteAddress: "\(Self.address(of: channel))", LogKey.isAdmitted: "false",
        ]
        if let port = channel.localAddress?.port { metadata[LogKey.localPort] = "\(port)" }
        return metadata
    }

    /// Where a connection comes from, such as "192.0.2.1:40000" or "[2001:db8::1]:40000".
    static func address(of channel: any Channel) -> String { channel.remoteAddress?.hostAndPort ?? "?" }
}

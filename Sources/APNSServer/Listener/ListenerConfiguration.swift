// SPDX-License-Identifier: Apache-2.0

package import NIOCore
public import OpenSSLTLS

/// The address, admission rules and limits that the listeners of all protocols share.
public struct ListenerConfiguration: Sendable {
    package static let connectionCountMaxDefault = 1024
    package static let handshakeTimeoutDefault = Duration.seconds(10)
    package static let shutdownTimeoutDefault = Duration.seconds(30)

    /// The address to listen on; by default loopback.
    public var host = "127.0.0.1"

    /// The port to listen on; 0 for any free port.
    ///
    /// By default 2195 for the binary protocol, 2196 for the feedback service, and 0 for HTTP/2.
    public var port: Int

    /// The listener's certificate and key.
    public var identity: TLSIdentity

    /// The authorities that a provider's certificate must chain to; others are refused.
    ///
    /// A provider without a certificate is refused as well, unless it may use provider tokens over HTTP/2.
    public var clientTrust: TLSTrust

    /// Whether certificates that do not chain to ``clientTrust`` are checked after the handshake; by default the
    /// handshake refuses them.
    ///
    /// The backend or the store then has to verify ``ProviderConnection/certificate``. Sessions are not resumed, so
    /// that the whole chain is always available.
    public var admitsUnverified = false

    /// The minimum TLS version; by default 1.2.
    public var versionMin: TLSVersion = .tls1_2

    /// The maximum TLS version; by default 1.2, since old clients lose the error response under 1.3; for HTTP/2 1.3.
    public var versionMax: TLSVersion = .tls1_2

    /// The cipher suites of TLS 1.2 and older, in OpenSSL's notation; by default OpenSSL's own choice.
    public var cipherList: String?

    /// The maximum number of connections; further ones are closed.
    ///
    /// By default 1024, and 256 for the feedback service.
    public var connectionCountMax = ListenerConfiguration.connectionCountMaxDefault

    /// The maximum number of unauthenticated connections of one IPv4 address or /64 network of IPv6; further ones are
    /// closed.
    ///
    /// Over HTTP/2, where a provider token may follow later, only connections in the TLS handshake count.
    ///
    /// `nil`, the default, for a quarter of ``connectionCountMax``, so that no client can lock out all others.
    public var unauthenticatedPerAddressCountMax: Int?

    /// The time limit of a handshake; by default 10 seconds.
    public var handshakeTimeout = ListenerConfiguration.handshakeTimeoutDefault

    /// The size of the receive buffer of each connection, in bytes; the system may double it.
    ///
    /// It limits what a connection holds that the listener has not read. `nil`, the default, for the system's choice.
    public var receiveBufferByteCount: Int?

    /// The time limit of a graceful shutdown; by default 30 seconds, and 10 for HTTP/2.
    ///
    /// Then connections are cut.
    public var shutdownTimeout = ListenerConfiguration.shutdownTimeoutDefault

    /// Called with each connection and its number, on its event loop, when its pipeline is complete: the socket,
    /// `RawCloseHandler`, `TLSHandler`, and the handlers of the protocol.
    ///
    /// The simulator adds its handlers here; `nil`, the default, adds none.
    package var configurePipeline: (@Sendable (any Channel, _ number: UInt64) throws -> Void)?

    /// Observes connections after their handshake; `nil`, the default, for none.
    package var connectionObserver: (any ConnectionObserver)?

    /// Further TLS settings; `nil` for the defaults of a server.
    private var tls: TLSConfiguration?

    init(identity: TLSIdentity, clientTrust: TLSTrust, port: Int) {
        self.identity = identity
        self.clientTrust = clientTrust
        self.port = port
    }

    var unauthenticatedCountMax: Int { self.unauthenticatedPerAddressCountMax ?? max(1, self.connectionCountMax / 4) }

    /// Applies a TLS configuration.
    ///
    /// The protocol determines whether clients are asked for certificates, and the application protocols.
    package mutating func setTLS(_ tls: TLSConfiguration, identity: TLSIdentity) {
        self.identity = identity
        self.clientTrust = tls.trust
        self.admitsUnverified = tls.acceptsUnverifiedClientCertificates
        self.versionMin = tls.versionMin
        self.versionMax = tls.versionMax
        self.cipherList = tls.cipherList
        self.handshakeTimeout = tls.handshakeTimeout
        var own = TLSConfiguration.server(identity: identity)
        own.resumesSessions = tls.resumesSessions
        own.ticketCount = tls.ticketCount
        own.shutdownTimeout = tls.shutdownTimeout
        self.tls = own
    }

    /// Returns the TLS context of connections.
    ///
    /// - Throws: ``ServerError/tls(_:)``.
    func tlsContext(_ change: (inout TLSConfiguration) -> Void) throws(ServerError) -> TLSContext {
        var tls = self.tls ?? .server(identity: self.identity)
        tls.identity = self.identity
        tls.clientCertificates = .required
        tls.trust = self.clientTrust
        tls.versionMin = self.versionMin
        tls.versionMax = self.versionMax
        tls.cipherList = self.cipherList
        tls.handshakeTimeout = self.handshakeTimeout
        tls.acceptsUnverifiedClientCertificates = self.admitsUnverified
        tls.resumesSessions = tls.resumesSessions && !self.admitsUnverified
        change(&tls)
        do { return try TLSContext(tls) } catch { throw .tls(error) }
    }
}

extension ListenerConfiguration: CustomStringConvertible, CustomReflectable {
    /// The address, in one line.
    public var description: String { "\(self.host) port \(self.port)" }

    /// Only ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

// SPDX-License-Identifier: Apache-2.0

package import NIOCore
public import OpenSSLTLS

/// Where a listener listens, whom it lets in, and its limits: what the protocols have in common.
public struct ListenerConfiguration: Sendable {
    /// The address to listen on; by default loopback.
    public var host = "127.0.0.1"

    /// The port to listen on; 0 for any that is free.
    ///
    /// By default 2195 for the binary protocol, 2196 for the feedback service, and 0 for HTTP/2.
    public var port: Int

    /// The listener's certificate and key.
    public var identity: TLSIdentity

    /// The authorities that a provider's certificate must lead to; a provider with another one is refused.
    ///
    /// A provider without a certificate is refused as well, unless it may come with provider tokens over HTTP/2.
    public var clientTrust: TLSTrust

    /// Whether certificates that do not lead to ``clientTrust`` are decided about behind the handshake; by default they
    /// are refused in it.
    ///
    /// The backend or the store then has to verify ``ProviderConnection/certificate``, and sessions are not resumed, so
    /// that it always has the whole chain.
    public var admitsUnverified = false

    /// The oldest TLS version that is spoken; by default 1.2.
    public var minimumVersion: TLSVersion = .tls1_2

    /// The newest TLS version that is spoken; by default 1.2, since old clients lose the error response under 1.3, and
    /// 1.3 for HTTP/2.
    public var maximumVersion: TLSVersion = .tls1_2

    /// The ciphers of TLS 1.2 and older, in OpenSSL's notation; by default OpenSSL's own choice.
    public var cipherList: String?

    /// How many connections there may be; more are closed as they come.
    ///
    /// By default 1024, and 256 for the feedback service.
    public var connectionCountMax = 1024

    /// How many connections of one address, or of one /64 network of IPv6, may be there that have not proved who they
    /// are; more are closed as they come.
    ///
    /// Over HTTP/2, where a provider token may come later, those count whose TLS handshake has not ended.
    ///
    /// `nil`, the default, for a quarter of ``connectionCountMax``: so nobody keeps all others out by connecting alone.
    public var unauthenticatedCountMaxPerAddress: Int?

    /// How long a handshake may take; by default 10 seconds.
    public var handshakeTimeout = Duration.seconds(10)

    /// How long a graceful shutdown may take before connections are cut; by default 30 seconds, and 10 for HTTP/2.
    public var shutdownDuration = Duration.seconds(30)

    /// Is called with each connection and its number, on its event loop, when its pipeline is complete: the socket,
    /// `RawCloseHandler`, `TLSHandler`, and the handlers of the protocol.
    ///
    /// A simulator adds handlers of its own; `nil`, the default, adds none.
    package var configurePipeline: (@Sendable (any Channel, _ number: UInt64) throws -> Void)?

    /// Is told of connections that have done their handshake; `nil`, the default, for nobody.
    package var connectionObserver: (any ConnectionObserver)?

    /// What TLS is configured with besides; `nil` for the defaults of a server.
    private var tls: TLSConfiguration?

    init(identity: TLSIdentity, clientTrust: TLSTrust, port: Int) {
        self.identity = identity
        self.clientTrust = clientTrust
        self.port = port
    }

    var unauthenticatedCountMax: Int { self.unauthenticatedCountMaxPerAddress ?? max(1, self.connectionCountMax / 4) }

    /// Takes over what a TLS configuration says.
    ///
    /// Whether clients are asked for certificates and which application protocols there are is said by the protocol.
    ///
    /// - Parameters:
    ///   - tls: of a server.
    ///   - identity: its certificate and key.
    package mutating func setTLS(_ tls: TLSConfiguration, identity: TLSIdentity) {
        self.identity = identity
        self.clientTrust = tls.trust
        self.admitsUnverified = tls.acceptsUnverifiedClientCertificates
        self.minimumVersion = tls.minimumVersion
        self.maximumVersion = tls.maximumVersion
        self.cipherList = tls.cipherList
        self.handshakeTimeout = tls.handshakeTimeout
        var own = TLSConfiguration.server(identity: identity)
        own.resumesSessions = tls.resumesSessions
        own.ticketCount = tls.ticketCount
        own.shutdownTimeout = tls.shutdownTimeout
        self.tls = own
    }

    /// - Parameter change: what is different for a protocol.
    /// - Returns: what the connections begin with.
    /// - Throws: ``ServerError/tls(_:)``.
    func tlsContext(_ change: (inout TLSConfiguration) -> Void) throws(ServerError) -> TLSContext {
        var tls = self.tls ?? .server(identity: self.identity)
        tls.identity = self.identity
        tls.clientCertificates = .required
        tls.trust = self.clientTrust
        tls.minimumVersion = self.minimumVersion
        tls.maximumVersion = self.maximumVersion
        tls.cipherList = self.cipherList
        tls.handshakeTimeout = self.handshakeTimeout
        tls.acceptsUnverifiedClientCertificates = self.admitsUnverified
        tls.resumesSessions = tls.resumesSessions && !self.admitsUnverified
        change(&tls)
        do { return try TLSContext(tls) } catch { throw .tls(error) }
    }
}

extension ListenerConfiguration: CustomStringConvertible, CustomReflectable {
    /// Where it listens, in one line.
    public var description: String { "\(self.host) port \(self.port)" }

    /// Nothing that is not in ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

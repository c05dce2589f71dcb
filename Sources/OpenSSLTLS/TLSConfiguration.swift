// SPDX-License-Identifier: Apache-2.0

/// The behavior of one side of TLS connections.
///
/// Create it with ``client(identity:trust:verification:)``, ``server(identity:trust:)`` or
/// ``server(identity:clientCertificates:trust:)``, then change single properties.
public struct TLSConfiguration: Sendable {
    /// How much of a server's identity a client verifies.
    @frozen
    public enum Verification: Hashable, Sendable {
        /// The certificate chain and the host name.
        case full
        /// The certificate chain, but not the host name.
        case chainOnly
        /// Nothing. Anyone in the network path can then read and change the data.
        case none
    }

    /// Whether a server asks its clients for certificates.
    @frozen
    public enum ClientCertificates: Hashable, Sendable {
        /// No certificate is requested.
        case none
        /// A certificate is requested; clients without one are accepted.
        case optional
        /// A certificate is requested; clients without one are rejected.
        case required
    }

    enum Role: Hashable, Sendable {
        case client
        case server
    }

    let role: Role

    /// The certificate of this side, with its key.
    ///
    /// Default for clients: none. Servers need one.
    public var identity: TLSIdentity?

    /// The authorities that verify the peer's certificate.
    ///
    /// Default: ``TLSTrust/system``.
    public var trust: TLSTrust

    /// How much of the server's identity is verified; only for clients.
    ///
    /// Default: ``Verification/full``.
    public var verification: Verification = .full

    /// Whether the common name of a certificate without DNS names in its alternative names (SAN) may be the host name;
    /// only for clients.
    ///
    /// Default: `false`, as RFC 9525 requires. Some gateways of the time before 2017 have such a certificate.
    public var acceptsCommonName = false

    /// Whether clients are asked for a certificate; only for servers.
    ///
    /// Default: ``ClientCertificates/required`` after ``server(identity:trust:)`` with a trust, and otherwise
    /// ``ClientCertificates/none``.
    public var clientCertificates: ClientCertificates = .none

    /// Whether a server accepts a client certificate even if its chain does not verify; only for servers.
    ///
    /// Default: `false`.
    ///
    /// The client still proves that it has the certificate's key. The caller must decide based on
    /// ``TLSHandler/peerCertificate`` and ``TLSHandler/peerVerificationProblem``.
    public var acceptsUnverifiedClientCertificates = false

    /// The oldest version allowed.
    ///
    /// Default: 1.2. Below 1.2, OpenSSL's security level is lowered to 0.
    public var versionMin: TLSVersion = .tls1_2

    /// The newest version allowed.
    ///
    /// Default: 1.3 for clients, 1.2 for servers.
    public var versionMax: TLSVersion

    /// The application protocols (ALPN) that are offered or accepted, in order of preference.
    ///
    /// Default: none.
    ///
    /// Each has 1 to 255 bytes. A server with a list rejects a client that offers only others, and accepts a client
    /// that offers none.
    public var applicationProtocols: [String] = []

    /// The ciphers of TLS 1.2 and older, in OpenSSL's notation.
    ///
    /// Default: OpenSSL's own choice. A server uses the first cipher in its own order that the client offers.
    public var cipherList: String?

    /// Whether a client resumes its newest session with the same server, and whether a server allows that.
    ///
    /// Default: `true`.
    ///
    /// In a resumed session, the client does not send its certificate again, and only the leaf certificate is known.
    public var resumesSessions = true

    /// The number of session tickets that a server sends after a TLS 1.3 handshake.
    ///
    /// Default: 0. With tickets, a client that writes to a TLS 1.3 server and closes without reading loses the server's
    /// last data, and some clients hang.
    public var ticketCount = 0

    /// Whether the end of the peer's stream without close_notify counts as close_notify.
    ///
    /// It needs a channel that allows remote half closure; ``TLSHandler/isTruncated`` is then true.
    ///
    /// Default: `false`; such an end is then ``TLSError/truncated`` and closes the channel.
    public var acceptsTruncation = false

    /// The time limit for a handshake.
    ///
    /// Default: 10 seconds.
    public var handshakeTimeout: Duration = .seconds(10)

    /// The time limit for a close, which waits until flushed data is sent and the peer's close_notify arrives.
    ///
    /// Default: 5 seconds.
    public var shutdownTimeout: Duration = .seconds(5)

    /// A client that verifies the server's chain and host name and speaks TLS 1.2 and 1.3.
    ///
    /// - Parameters:
    ///   - identity: the client's certificate and key, for servers that request one.
    ///   - trust: The authorities that verify the server's chain.
    ///   - verification: How much of the server's identity is verified.
    /// - Returns: The configuration, which can be changed further.
    public static func client(
        identity: TLSIdentity? = nil,
        trust: TLSTrust = .system,
        verification: Verification = .full
    ) -> Self {
        var configuration = Self(role: .client, identity: identity, trust: trust, versionMax: .tls1_3)
        configuration.verification = verification
        return configuration
    }

    /// A server that speaks TLS 1.2; with a trust, it rejects clients without a certificate that the trust verifies.
    ///
    /// - Parameters:
    ///   - identity: the server's certificate and key.
    ///   - trust: The authorities that verify a client's chain; their names are sent to clients. `nil`, the default, to
    ///     ask for no certificate.
    /// - Returns: The configuration, which can be changed further.
    public static func server(identity: TLSIdentity, trust: TLSTrust? = nil) -> Self {
        .server(identity: identity, clientCertificates: trust == nil ? .none : .required, trust: trust ?? .system)
    }

    /// A server that speaks TLS 1.2.
    ///
    /// - Parameters:
    ///   - identity: the server's certificate and key.
    ///   - clientCertificates: Whether clients are asked for a certificate.
    ///   - trust: The authorities that verify a client's chain; their names are sent to clients.
    /// - Returns: The configuration, which can be changed further.
    public static func server(
        identity: TLSIdentity,
        clientCertificates: ClientCertificates,
        trust: TLSTrust = .system
    ) -> Self {
        var configuration = Self(role: .server, identity: identity, trust: trust, versionMax: .tls1_2)
        configuration.clientCertificates = clientCertificates
        return configuration
    }

    private init(role: Role, identity: TLSIdentity?, trust: TLSTrust, versionMax: TLSVersion) {
        self.role = role
        self.identity = identity
        self.trust = trust
        self.versionMax = versionMax
    }
}

extension TLSConfiguration: CustomStringConvertible, CustomReflectable {
    /// The role and the certificate, in one line.
    public var description: String {
        "TLS of a \(self.role)" + (self.identity.map { " with \($0)" } ?? " without a certificate")
    }

    /// An empty mirror, so that `dump` prints only ``description``.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

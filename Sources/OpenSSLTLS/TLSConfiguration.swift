// SPDX-License-Identifier: Apache-2.0

/// How one end of TLS connections behaves; made by ``client(identity:trust:verification:)`` or
/// ``server(identity:clientCertificates:trust:)``, then changed field by field.
public struct TLSConfiguration: Sendable {
    /// How much of a server's identity a client verifies.
    @frozen
    public enum Verification: Hashable, Sendable {
        /// The certificate chain and the host name.
        case full
        /// The certificate chain, but not the host name.
        case chainOnly
        /// Nothing. The connection is then open to anyone in between.
        case none
    }

    /// Whether a server asks its clients for certificates.
    @frozen
    public enum ClientCertificates: Hashable, Sendable {
        /// No certificate is requested.
        case none
        /// A certificate is requested; clients without one are accepted.
        case optional
        /// A certificate is requested; clients without one are refused.
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

    /// The authorities a peer's certificate is verified against.
    ///
    /// Default: ``TLSTrust/system``.
    public var trust: TLSTrust

    /// How much of the server's identity is verified; only for clients.
    ///
    /// Default: ``Verification/full``.
    public var verification: Verification = .full

    /// Whether clients are asked for a certificate; only for servers.
    ///
    /// Default: ``ClientCertificates/none``.
    public var clientCertificates: ClientCertificates = .none

    /// Whether a server lets a client certificate in although its chain does not verify; only for servers.
    ///
    /// Default: `false`.
    ///
    /// The client still proves that it holds the certificate's key. The caller must decide by the facts of
    /// ``TLSHandler/peerCertificate`` and by ``TLSHandler/peerVerificationProblem``.
    public var acceptsUnverifiedClientCertificates = false

    /// The oldest version that is spoken.
    ///
    /// Default: 1.2. Below 1.2 OpenSSL's security level is lowered to 0.
    public var minimumVersion: TLSVersion = .tls1_2

    /// The newest version that is spoken.
    ///
    /// Default: 1.3 for clients, 1.2 for servers.
    public var maximumVersion: TLSVersion

    /// The application protocols (ALPN) that are offered or accepted, the preferred one first.
    ///
    /// Default: none.
    ///
    /// Each has 1 to 255 bytes. A server with a list refuses a client that offers only others, and accepts a client
    /// that offers none.
    public var applicationProtocols: [String] = []

    /// The ciphers of TLS 1.2 and older, in OpenSSL's notation.
    ///
    /// Default: OpenSSL's own choice. A server takes the first in its own order that the client offers.
    public var cipherList: String?

    /// Whether a client resumes its newest session with the same server, and whether a server lets it.
    ///
    /// Default: `true`.
    ///
    /// In a resumed session the client's certificate is not sent again, and only the certificate itself is known.
    public var resumesSessions = true

    /// How many session tickets a server sends after a TLS 1.3 handshake.
    ///
    /// Default: 0, because clients that
    /// write to a TLS 1.3 server and close without reading lose what the server said, and some hang.
    public var ticketCount = 0

    /// Whether an end of the peer's stream without close_notify is taken as close_notify is, where the channel allows
    /// remote half closure; then ``TLSHandler/isTruncated`` tells.
    ///
    /// Default: `false`, which makes it ``TLSError/truncated`` and closes the channel.
    public var acceptsTruncation = false

    /// How long a handshake may take.
    ///
    /// Default: 10 seconds.
    public var handshakeTimeout: Duration = .seconds(10)

    /// How long a close may wait for what was flushed to leave and for the peer's close_notify.
    ///
    /// Default: 5 seconds.
    public var shutdownTimeout: Duration = .seconds(5)

    /// A client that verifies the server's chain and host name and speaks TLS 1.2 and 1.3.
    ///
    /// - Parameters:
    ///   - identity: the client's certificate and key, for servers that request one.
    ///   - trust: The authorities the server's chain must lead to.
    ///   - verification: How much of the server's identity is verified.
    /// - Returns: The configuration, to be changed further.
    public static func client(
        identity: TLSIdentity? = nil,
        trust: TLSTrust = .system,
        verification: Verification = .full
    ) -> Self {
        var configuration = Self(role: .client, identity: identity, trust: trust, maximumVersion: .tls1_3)
        configuration.verification = verification
        return configuration
    }

    /// A server that speaks TLS 1.2.
    ///
    /// - Parameters:
    ///   - identity: the server's certificate and key.
    ///   - clientCertificates: Whether clients are asked for a certificate.
    ///   - trust: The authorities a client's chain must lead to; their names are sent to clients.
    /// - Returns: The configuration, to be changed further.
    public static func server(
        identity: TLSIdentity,
        clientCertificates: ClientCertificates = .none,
        trust: TLSTrust = .system
    ) -> Self {
        var configuration = Self(role: .server, identity: identity, trust: trust, maximumVersion: .tls1_2)
        configuration.clientCertificates = clientCertificates
        return configuration
    }

    private init(role: Role, identity: TLSIdentity?, trust: TLSTrust, maximumVersion: TLSVersion) {
        self.role = role
        self.identity = identity
        self.trust = trust
        self.maximumVersion = maximumVersion
    }
}

extension TLSConfiguration: CustomStringConvertible, CustomReflectable {
    /// Which end it is for, and whose certificate it has, in one line.
    public var description: String {
        "TLS of a \(self.role)" + (self.identity.map { " with \($0)" } ?? " without a certificate")
    }

    /// Nothing that is not in ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

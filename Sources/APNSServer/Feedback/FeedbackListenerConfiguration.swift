// SPDX-License-Identifier: Apache-2.0

package import NIOCore
public import OpenSSLTLS

/// Where a feedback listener listens, whom it lets in, and how it delivers.
public struct FeedbackListenerConfiguration: Sendable {
    /// The address to listen on; by default loopback.
    public var host = "127.0.0.1"

    /// The port to listen on; 0 for any that is free; by default 2196.
    public var port = 2196

    /// The service's certificate and key.
    public var identity: TLSIdentity

    /// The authorities that a provider's certificate must lead to; a provider without such a one is refused.
    public var clientTrust: TLSTrust

    /// Whether the store decides about certificates that do not lead to ``clientTrust``; by default they are refused in
    /// the handshake.
    ///
    /// The store then has to verify ``ProviderConnection/certificate``.
    public var admitsUnverified = false

    /// The oldest TLS version that is spoken; by default 1.2.
    public var minimumVersion: TLSVersion = .tls1_2

    /// The newest TLS version that is spoken; by default 1.2.
    public var maximumVersion: TLSVersion = .tls1_2

    /// The ciphers of TLS 1.2 and older, in OpenSSL's notation; by default OpenSSL's own choice.
    public var cipherList: String?

    /// Whether the connection is closed behind the last tuple, also where there is none; by default it is.
    ///
    /// Otherwise it stays open until the provider closes it. The service was seen to do either.
    public var closesBehindList = true

    /// How long to wait between the last tuple and close_notify; by default 300 ms, since some clients lose the last
    /// tuple otherwise.
    public var closingPause = Duration.milliseconds(300)

    /// Whether entries leave the list only when the provider has sent close_notify; by default an end of stream does
    /// as well, since many clients never send it.
    ///
    /// A reset never does.
    public var requiresCloseNotify = false

    /// How long a provider may take to read the list, and then to close; by default 10 minutes.
    public var connectionDurationMax = Duration.seconds(600)

    /// How many connections there may be; more are closed as they come.
    ///
    /// By default 256.
    public var connectionCountMax = 256

    /// How many connections one provider may have, by its certificate; more are refused.
    ///
    /// By default 8. So one provider that lets its connections stand keeps no other one out.
    public var connectionCountMaxPerProvider = 8

    /// How long a provider may take nothing of what is written to it, and how long it may take to close where the list
    /// is closed behind; then the connection is cut, and the list stays as it is.
    ///
    /// By default 60 seconds.
    public var progressTimeout = Duration.seconds(60)

    /// How many connections of one address, or of one /64 network of IPv6, may be there that have not proved who they
    /// are; more are closed as they come.
    ///
    /// `nil`, the default, for a quarter of ``connectionCountMax``: so nobody keeps all others out by connecting alone.
    public var unauthenticatedCountMaxPerAddress: Int?

    /// How long a handshake may take; by default 10 seconds.
    public var handshakeTimeout = Duration.seconds(10)

    /// How long connections may go on at a graceful shutdown; by default 30 seconds.
    public var shutdownDuration = Duration.seconds(30)

    /// Is called with each connection and its number, on its event loop, when its pipeline is complete: the socket,
    /// `RawCloseHandler`, `TLSHandler`, and the handler of the protocol, which is the last.
    ///
    /// A simulator adds handlers of its own; `nil`, the default, adds none.
    package var configurePipeline: (@Sendable (any Channel, _ number: UInt64) throws -> Void)?

    /// Makes a configuration with the defaults.
    ///
    /// - Parameters:
    ///   - identity: the service's certificate and key.
    ///   - clientTrust: the authorities that a provider's certificate must lead to.
    public init(identity: TLSIdentity, clientTrust: TLSTrust) {
        self.identity = identity
        self.clientTrust = clientTrust
    }

    var unauthenticatedCountMax: Int {
        ConnectionAdmission.unauthenticatedCountMax(self.unauthenticatedCountMaxPerAddress, of: self.connectionCountMax)
    }

    func tlsContext() throws(ServerError) -> TLSContext {
        var tls = TLSConfiguration.server(
            identity: self.identity,
            clientCertificates: .required,
            trust: self.clientTrust
        )
        tls.minimumVersion = self.minimumVersion
        tls.maximumVersion = self.maximumVersion
        tls.cipherList = self.cipherList
        tls.handshakeTimeout = self.handshakeTimeout
        tls.acceptsUnverifiedClientCertificates = self.admitsUnverified
        tls.resumesSessions = !self.admitsUnverified
        do { return try TLSContext(tls) } catch { throw .tls(error) }
    }
}

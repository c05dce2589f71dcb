// SPDX-License-Identifier: Apache-2.0

public import APNSSession
public import APNSWire
public import OpenSSLTLS

/// Where and how a provider sends.
public struct ProviderConfiguration: Sendable {
    /// Where the gateway listens.
    public var endpoint: Endpoint

    /// The name that the gateway's certificate must bear; `nil` for the endpoint's host.
    package var serverName: String?

    /// Identity, trust and versions of TLS; made with `TLSConfiguration.client(...)`.
    public var tls: TLSConfiguration

    /// The format of the frames; command 1 by default.
    public var command = Command.enhanced

    /// How many connections send at a time; 1 by default, at most 64.
    ///
    /// Order is kept on each connection, not among them.
    public var connectionCount = 1

    /// The numbers by which each connection's session decides.
    public var limits = ProviderLimits()

    /// The longest payload, in bytes, 1 to ``NotificationBatch/payloadByteCountMax``; 2048 by default.
    public var payloadByteCountMax = WireLimits.payloadByteCountMax

    /// The most memory for frames whose fate is not proved, in bytes, for all connections together; 24 MiB by default.
    public var storeByteCountMax = 24 << 20

    /// A proxy to go through; `nil` by default.
    public var proxy: Proxy?

    /// How long opening a TCP connection may take, proxy included; 10 s by default.
    ///
    /// The handshake has its own limit in ``tls``.
    public var connectDurationMax = Duration.seconds(10)

    /// After how long without traffic TCP begins to ask whether the other end is there, so that NAT keeps idle
    /// connections; 60 s by default, `nil` for never.
    public var keepaliveDelay: Duration? = .seconds(60)

    /// For how long a client sends nothing to a token that was rejected with status 8, and reports it as suppressed;
    /// 1 h by default, `nil` for not at all.
    public var suppressionDuration: Duration? = .seconds(3600)

    /// How long a notification may wait in a client for its turn, where there is no connection or no room on it; 30 s
    /// by default, `nil` for as long as the client runs.
    ///
    /// Then it is unsent.
    public var queueDurationMax: Duration? = .seconds(30)

    /// Whether sending ends where another try would fail the same way, as with a certificate that has expired; by
    /// default it does.
    ///
    /// Otherwise a client connects again after the pauses of ``limits``.
    public var endsWhenRefused = true

    /// Makes a configuration with the defaults.
    ///
    /// - Parameters:
    ///   - endpoint: where the gateway listens.
    ///   - tls: identity, trust and versions of TLS.
    public init(endpoint: Endpoint, tls: TLSConfiguration) {
        self.endpoint = endpoint
        self.tls = tls
    }

    /// The greatest ``connectionCount``.
    public static let connectionCountMax = 64

    /// The numbers of a session, as the command demands.
    var sessionLimits: ProviderLimits {
        var limits = self.limits
        limits.hasNoIdentifiers = self.command == .simple
        return limits
    }
}

extension ProviderConfiguration: CustomStringConvertible, CustomReflectable {
    /// The protocol, and where it sends to, in one line.
    public var description: String { "binary protocol to \(self.endpoint)" }

    /// Nothing that is not in ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

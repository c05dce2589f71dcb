// SPDX-License-Identifier: Apache-2.0

public import APNSSession
package import APNSTransport
public import APNSWire
public import OpenSSLTLS

/// The gateway and the options of a provider.
public struct BinaryConfiguration: Sendable {
    /// The address of the gateway.
    public var endpoint: Endpoint

    /// The name that the gateway's certificate must contain; `nil` for the endpoint's host.
    package var serverName: String?

    /// How the addresses of the gateway are found; by default, each client asks the system.
    package var addresses: ServiceAddresses?

    /// Identity, trust and TLS versions; make it with `TLSConfiguration.client(...)`.
    public var tls: TLSConfiguration

    /// The format of the frames; command 1 by default.
    public var command = Command.enhanced

    /// The number of concurrent connections; 1 by default, at most 64.
    ///
    /// The order of notifications is kept on each connection, but not between connections.
    public var connectionCount = 1

    /// The limits of each connection's session.
    public var limits = BinaryLimits()

    /// The maximum length of a payload, in bytes, 1 to ``NotificationBatch/payloadByteCountMax``; 2048 by default.
    public var payloadByteCountMax = WireLimits.payloadByteCountMax

    /// The maximum memory for frames without a verified outcome, in bytes, for all connections together; 24 MiB by
    /// default.
    public var storeByteCountMax = 24 << 20

    /// The proxy; `nil` by default.
    public var proxy: Proxy?

    /// The maximum time to open a TCP connection, including the proxy; 10 s by default.
    ///
    /// The handshake has its own limit in ``tls``.
    public var connectTimeout = Duration.seconds(10)

    /// The time without traffic after which TCP sends keepalive probes, so that NAT does not drop idle connections; 60
    /// s by default, `nil` for never.
    public var keepaliveDelay: Duration? = .seconds(60)

    /// How long a client suppresses notifications to a token that was rejected with status 8; 1 h by default, `nil` to
    /// not suppress any.
    public var suppressionDuration: Duration? = .seconds(3600)

    /// The clock that measures ``suppressionDuration``; by default the continuous clock.
    ///
    /// A test can advance the `ManualClock` of `APNSTestKit` instead of waiting.
    public var suppressionClock: any Clock<Duration> = ContinuousClock()

    /// The maximum time that a notification waits in a client if there is no connection or no room on it; 30 s by
    /// default, `nil` for no limit.
    ///
    /// After that it is unsent. While the gateway's name cannot be resolved, a notification waits only for
    /// ``connectTimeout`` if that is shorter.
    public var queueTimeout: Duration? = .seconds(30)

    /// Whether sending ends if another attempt would fail the same way, for example because a certificate has expired;
    /// by default it does.
    ///
    /// Otherwise a client reconnects after the delays of ``limits``.
    public var endsWhenRefused = true

    /// Creates a configuration with the defaults.
    ///
    /// - Parameters:
    ///   - endpoint: the address of the gateway.
    ///   - tls: identity, trust and TLS versions.
    public init(endpoint: Endpoint, tls: TLSConfiguration) {
        self.endpoint = endpoint
        self.tls = tls
    }

    /// The maximum ``connectionCount``.
    public static let connectionCountMax = 64

    /// The limits of a session, adapted to the command.
    var sessionLimits: BinaryLimits {
        var limits = self.limits
        limits.hasNoIdentifiers = self.command == .simple
        return limits
    }
}

extension BinaryConfiguration: CustomStringConvertible, CustomReflectable {
    /// The protocol and the address, in one line.
    public var description: String { "binary protocol to \(self.endpoint)" }

    /// Empty, so that `dump` prints only the ``description``.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

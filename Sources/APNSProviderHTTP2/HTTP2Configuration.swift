// SPDX-License-Identifier: Apache-2.0

package import APNSTransport
import APNSProvider
public import APNSSession
public import APNSWire
import NIOCore
public import OpenSSLTLS

/// The service and the options of a client.
public struct HTTP2Configuration: Sendable {
    /// The address of the service.
    public var endpoint: HTTP2Endpoint

    /// Identity, trust and TLS versions; make it with `TLSConfiguration.client(...)`.
    ///
    /// If it contains no application protocols, `h2` is used.
    public var tls: TLSConfiguration

    /// The source of provider tokens; `nil` for authentication by the certificate of ``tls``.
    ///
    /// Clients that sign with the same key should share one.
    public var providerToken: ProviderTokenSource?

    /// The proxy; `nil` by default.
    ///
    /// TLS is end to end through the proxy.
    public var proxy: Proxy?

    /// The maximum number of concurrent connections, 1 to 64; 1 by default.
    ///
    /// Another one is opened when the open ones have no room.
    public var connectionCount = 1

    /// The maximum number of concurrent requests on one connection, if the service allows as many; 1000 by default.
    public var streamCountMax = 1000

    /// The maximum number of requests without an outcome, including those that wait; 10,000 by default.
    ///
    /// At this number, no more are accepted.
    public var requestCountMax = 10_000

    /// The maximum length of a payload in bytes; 4096 by default, at most 16,384, the size of one frame.
    public var payloadByteCountMax = WireLimits.payloadByteCountMaxHTTP2

    /// The maximum length of a payload of push type voip, in bytes; 5120 by default.
    public var voipPayloadByteCountMax = WireLimits.payloadByteCountMaxVoIP

    /// The maximum time that a request waits to be sent; 60 s by default, `nil` for no limit.
    ///
    /// After that it is unsent. While the service's name cannot be resolved, a request waits only for
    /// ``connectTimeout`` if that is shorter.
    public var queueTimeout: Duration? = .seconds(60)

    /// How long a `PushClient` suppresses notifications to a token that was rejected; 1 h by default, `nil` to not
    /// suppress any.
    public var suppressionDuration: Duration? = .seconds(3600)

    /// The clock that measures ``suppressionDuration``; by default the continuous clock.
    ///
    /// A test can advance the `ManualClock` of `APNSTestKit` instead of waiting.
    public var suppressionClock: any Clock<Duration> = ContinuousClock()

    /// The maximum time for an answer; 30 s by default.
    ///
    /// After that, the request is indeterminate, or is sent again on another connection if the service did not read it
    /// completely. The same limit applies to the time that a connection with pending requests can neither send nor
    /// receive an answer. Such a connection is given up, and so is one that did not answer its first requests in time;
    /// it counts as failed unless it accepted something before.
    public var responseTimeout = Duration.seconds(30)

    /// The maximum time to open a connection, including the proxy, and again to receive the service's settings; 10 s
    /// each.
    public var connectTimeout = Duration.seconds(10)

    /// The maximum number of streams on which a request is written if the service verifiably did not process it; 5 by
    /// default.
    public var attemptCountMax = 5

    /// Whether requests that may have been processed are sent again, flagged as possible duplicates; by default they
    /// are reported as indeterminate.
    public var resendsUnknown = false

    /// The delays before reconnecting after consecutive failures; 100 ms to 30 s by default.
    public var backoff = Backoff(first: .milliseconds(100), max: .seconds(30))

    /// The number of consecutive connection failures after which the client ends; `nil`, the default, for no limit.
    public var connectFailureCountMax: Int?

    /// Whether the client ends if the service rejects it or is not the expected one; by default it does.
    ///
    /// Otherwise waiting requests are unsent because they are not permitted, and the client reconnects after the delays
    /// of ``backoff`` for later ones.
    public var endsWhenRefused = true

    /// The time without input on an idle connection after which a PING frame is sent; 1 h by default.
    public var idlePingDelay = Duration.seconds(3600)

    /// The same while answers are due; 10 s by default.
    public var waitingPingDelay = Duration.seconds(10)

    /// The maximum time for the answer to a PING frame before the connection is given up; 10 s by default.
    public var pingTimeout = Duration.seconds(10)

    /// Called on an event loop when a connection could not be opened or ended before its first answer, with the reason;
    /// by default `nil`.
    public var onConnectFailure: (@Sendable (ConnectionFailure) -> Void)?

    /// Called on an event loop when a connection received its first answer, or the first answer after
    /// ``onConnectFailure`` was called for another connection; by default `nil`.
    public var onFirstAnswer: (@Sendable () -> Void)?

    /// How the addresses of the service are found; by default, each client asks the system.
    package var addresses: ServiceAddresses?

    /// Whether responses may be as long as a list of channels, instead of a reason.
    var keepsLongResponses = false

    /// Creates a configuration with the defaults and authentication by a certificate.
    ///
    /// - Parameters:
    ///   - endpoint: the address of the service.
    ///   - identity: the certificate and its key.
    ///   - trust: the authorities of the service's certificate; those of the system by default.
    public init(endpoint: HTTP2Endpoint, identity: TLSIdentity, trust: TLSTrust = .system) {
        self.endpoint = endpoint
        self.tls = .client(identity: identity, trust: trust)
    }

    /// Creates a configuration with the defaults and authentication by provider tokens.
    ///
    /// - Parameters:
    ///   - endpoint: the address of the service.
    ///   - providerToken: the source of the tokens.
    ///   - trust: the authorities of the service's certificate; those of the system by default.
    public init(endpoint: HTTP2Endpoint, providerToken: ProviderTokenSource, trust: TLSTrust = .system) {
        self.endpoint = endpoint
        self.tls = .client(trust: trust)
        self.providerToken = providerToken
    }

    /// How much less than ``queueTimeout`` a request waits during an outage: while the service's name cannot be
    /// resolved, it waits for ``connectTimeout``, because the name is most likely wrong.
    func queueDurationCut(_ outage: ConnectionFailure?) -> TimeAmount {
        guard outage?.kind == .nameNotResolved, let limit = self.queueTimeout else { return .zero }
        return TimeAmount(max(.zero, limit - self.connectTimeout))
    }

    /// The maximum ``connectionCount``.
    public static let connectionCountMax = 64

    /// The upper bound of the payload limits: the size of one frame, unless the service permits larger ones.
    private static let payloadLimit = 16_384

    /// The time without traffic after which TCP sends keepalive probes; HTTP/2 sends its own PING frames.
    private static let keepaliveDelay = Duration.seconds(7200)

    /// The name of HTTP/2 in ALPN.
    static let applicationProtocol = "h2"

    /// The longest payload of a push type.
    struct PayloadLimits: Sendable {
        fileprivate let usual: Int
        fileprivate let voip: Int

        func byteCountMax(of type: PushType?) -> Int { type == .voip ? self.voip : self.usual }
    }

    var payloadLimits: PayloadLimits {
        PayloadLimits(
            usual: self.payloadByteCountMax,
            voip: max(self.payloadByteCountMax, self.voipPayloadByteCountMax)
        )
    }

    /// Validates the values, and makes an opener for connections.
    func makeOpener() throws(ProviderError) -> ConnectionOpener {
        try ProviderError.check([
            ("connectionCount", self.connectionCount, 1...Self.connectionCountMax),
            ("streamCountMax", self.streamCountMax, 1...100_000),
            ("requestCountMax", self.requestCountMax, 1...10_000_000),
            ("payloadByteCountMax", self.payloadByteCountMax, 1...Self.payloadLimit),
            ("voipPayloadByteCountMax", self.voipPayloadByteCountMax, 1...Self.payloadLimit),
            ("attemptCountMax", self.attemptCountMax, 1...1000),
            ("endpoint.port", self.endpoint.port, 1...65535),
        ])
        var tls = self.tls
        if tls.applicationProtocols.isEmpty { tls.applicationProtocols = [Self.applicationProtocol] }
        do {
            return try ConnectionOpener(
                endpoint: self.endpoint.address,
                role: .service,
                proxy: self.proxy,
                tls: tls,
                connectTimeout: self.connectTimeout,
                keepaliveDelay: Self.keepaliveDelay,
                addresses: self.addresses ?? ServiceAddresses()
            )
        } catch {
            throw .tls(error, TLSErrorNames(remote: RemoteRole.service.name(self.endpoint.address), tls))
        }
    }
}

extension HTTP2Configuration: CustomStringConvertible, CustomReflectable {
    /// The protocol and the address, in one line.
    public var description: String { "HTTP/2 to \(self.endpoint)" }

    /// Empty, so that `dump` prints only the ``description``.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

// SPDX-License-Identifier: Apache-2.0

import APNSProvider
public import APNSSession
public import APNSWire
public import OpenSSLTLS

/// Where and how a client sends.
public struct PushConfiguration: Sendable {
    /// Where the service listens.
    public var endpoint: Endpoint

    /// Identity, trust and versions of TLS; made with `TLSConfiguration.client(...)`.
    ///
    /// Where its application protocols are not named, `h2` is.
    public var tls: TLSConfiguration

    /// Where provider tokens come from; `nil` where the certificate of ``tls`` is the proof.
    ///
    /// Clients that sign with the same key should share one.
    public var providerToken: ProviderTokenSource?

    /// A proxy to go through; `nil` by default.
    ///
    /// TLS goes through it end to end.
    public var proxy: Proxy?

    /// How many connections there may be at a time, 1 to 64; 1 by default.
    ///
    /// Another one is opened while those that are open have no room.
    public var connectionCount = 1

    /// How many requests may wait for answers on one connection, where the service allows as many; 1000 by default.
    public var streamCountMax = 1000

    /// How many requests may be without an outcome, those that wait for their turn among them; 10,000 by default.
    ///
    /// When so many are, no more are taken.
    public var requestCountMax = 10_000

    /// The longest payload in bytes; 4096 by default, at most 16,384, which is what one frame holds.
    public var payloadByteCountMax = WireLimits.payloadByteCountMaxHTTP2

    /// The longest payload of the push type voip in bytes; 5120 by default.
    public var voipPayloadByteCountMax = WireLimits.payloadByteCountMaxVoIP

    /// How long a request may wait for its turn; 60 s by default, `nil` for as long as the client runs.
    ///
    /// Then it is unsent.
    public var queueDurationMax: Duration? = .seconds(60)

    /// For how long a `PushClient` sends nothing to a token that was rejected, and reports it as suppressed; 1 h by
    /// default, `nil` for not at all.
    public var suppressionDuration: Duration? = .seconds(3600)

    /// How long an answer may take; 30 s by default.
    ///
    /// Then the request is indeterminate, or, where the service did not take the whole of it, is sent again on another
    /// connection. For as long a connection may let nothing be sent and answer nothing while requests wait. Such a
    /// connection is given up, and so is one that has not answered its first requests in time; it counts as one that
    /// failed unless it accepted something before.
    public var answerDurationMax = Duration.seconds(30)

    /// How long opening a connection may take, proxy included, and then the service's first word; 10 s each.
    public var connectDurationMax = Duration.seconds(10)

    /// On how many streams a request is written at most, where it is proved each time that it was not processed; 5 by
    /// default.
    public var attemptCountMax = 5

    /// Whether requests whose fate is unknown are sent again, flagged as possible duplicates; by default they are
    /// reported as indeterminate.
    public var resendsUnknown = false

    /// The pauses before connecting again after failures in a row; 100 ms to 30 s by default.
    public var backoff = Backoff(first: .milliseconds(100), max: .seconds(30))

    /// After how many failures in a row to connect the client ends; `nil`, the default, for never.
    public var connectFailureCountMax: Int?

    /// Whether the client ends where the service does not let it in or is not the one that it should be; by default it
    /// does.
    ///
    /// Otherwise what waits is unsent because it is not permitted, and the client connects again, after the pauses of
    /// ``backoff``, for what comes later.
    public var endsWhenRefused = true

    /// After how long without a word on an idle connection the service is asked whether it is there; 1 h by default.
    public var idlePingDelay = Duration.seconds(3600)

    /// The same while answers are waited for; 10 s by default.
    public var waitingPingDelay = Duration.seconds(10)

    /// How long the answer to that may take before the connection is given up; 10 s by default.
    public var pingDurationMax = Duration.seconds(10)

    /// Is told, on an event loop, why a connection could not be opened or ended before it answered anything; by default
    /// nobody.
    public var onConnectFailure: (@Sendable (ConnectionFailure) -> Void)?

    /// Is told, on an event loop, that a connection answered for the first time; by default nobody.
    public var onFirstAnswer: (@Sendable () -> Void)?

    /// Makes a configuration with the defaults for a client that proves itself by its certificate.
    ///
    /// - Parameters:
    ///   - endpoint: where the service listens.
    ///   - identity: the certificate and its key.
    ///   - trust: the authorities of the service's certificate; those of the system by default.
    public init(endpoint: Endpoint, identity: TLSIdentity, trust: TLSTrust = .system) {
        self.endpoint = endpoint
        self.tls = .client(identity: identity, trust: trust)
    }

    /// Makes a configuration with the defaults for a client that proves itself by provider tokens.
    ///
    /// - Parameters:
    ///   - endpoint: where the service listens.
    ///   - providerToken: where the tokens come from.
    ///   - trust: the authorities of the service's certificate; those of the system by default.
    public init(endpoint: Endpoint, providerToken: ProviderTokenSource, trust: TLSTrust = .system) {
        self.endpoint = endpoint
        self.tls = .client(trust: trust)
        self.providerToken = providerToken
    }

    /// The greatest ``connectionCount``.
    public static let connectionCountMax = 64

    /// What the longest payload may be set to: what one frame holds where the service does not ask for longer ones.
    private static let payloadLimit = 16_384

    /// After how long without traffic TCP asks whether the service is there; HTTP/2 asks by itself, as configured.
    private static let keepaliveDelay = Duration.seconds(7200)

    /// The name of HTTP/2 in ALPN.
    static let applicationProtocol = "h2"

    /// The longest payload of a push type.
    func payloadByteCountMax(of type: PushType?) -> Int {
        type == .voip ? max(self.payloadByteCountMax, self.voipPayloadByteCountMax) : self.payloadByteCountMax
    }

    /// Checks the values, and prepares to open connections.
    func makeOpener() throws(ProviderError) -> ConnectionOpener {
        let counts: [(String, Int, ClosedRange<Int>)] = [
            ("connectionCount", self.connectionCount, 1...Self.connectionCountMax),
            ("streamCountMax", self.streamCountMax, 1...100_000),
            ("requestCountMax", self.requestCountMax, 1...10_000_000),
            ("payloadByteCountMax", self.payloadByteCountMax, 1...Self.payloadLimit),
            ("voipPayloadByteCountMax", self.voipPayloadByteCountMax, 1...Self.payloadLimit),
            ("attemptCountMax", self.attemptCountMax, 1...1000),
            ("endpoint.port", self.endpoint.port, 1...65535),
        ]
        for (name, count, range) in counts where !range.contains(count) {
            throw .configuration("\(name) is \(range.lowerBound) to \(range.upperBound), not \(count).")
        }
        var tls = self.tls
        if tls.applicationProtocols.isEmpty { tls.applicationProtocols = [Self.applicationProtocol] }
        do {
            return try ConnectionOpener(
                endpoint: self.endpoint,
                role: .service,
                proxy: self.proxy,
                tls: tls,
                connectDurationMax: self.connectDurationMax,
                keepaliveDelay: Self.keepaliveDelay
            )
        } catch {
            throw .tls(error, TLSErrorNames(remote: RemoteRole.service.name(self.endpoint), tls))
        }
    }
}

extension Endpoint {
    /// The port of the HTTP/2 provider API.
    public static let pushServicePort = 443

    /// The port that Apple offers to networks which let 443 through for browsers only.
    public static let pushServiceAlternatePort = 2197

    /// Apple's service of the HTTP/2 provider API.
    ///
    /// - Parameter environment: which of the two.
    /// - Returns: where it listens.
    /// - SeeAlso: "Sending notification requests to APNs".
    public static func pushService(_ environment: Environment) -> Endpoint {
        switch environment {
        case .production: Endpoint(host: "api.push.apple.com", port: self.pushServicePort)
        case .sandbox: Endpoint(host: "api.sandbox.push.apple.com", port: self.pushServicePort)
        }
    }

    /// Host and port as `:authority` has them; in there, an IPv6 address stands in brackets.
    var authority: String {
        let host = self.host.contains(":") ? "[\(self.host)]" : self.host
        return self.port == Self.pushServicePort ? host : "\(host):\(self.port)"
    }
}

extension PushConfiguration: CustomStringConvertible, CustomReflectable {
    /// The protocol, and where it sends to, in one line.
    public var description: String { "HTTP/2 to \(self.endpoint)" }

    /// Nothing that is not in ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

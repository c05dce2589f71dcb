// SPDX-License-Identifier: Apache-2.0

package import APNSTransport
public import APNSWire
public import OpenSSLTLS

/// The service and the options of one list of dead tokens.
public struct FeedbackConfiguration: Sendable {
    /// The address of the feedback service.
    public var endpoint: Endpoint

    /// Identity, trust and TLS versions; make it with `TLSConfiguration.client(...)`.
    public var tls: TLSConfiguration

    /// The app and environment of the service's list for this identity.
    public var scope: TokenScope

    /// The proxy; `nil` by default.
    public var proxy: Proxy?

    /// How the addresses of the service are found; by default, each drain asks the system.
    package var addresses: ServiceAddresses?

    /// The time without a byte after which the list is complete, for services that keep the connection open; 5 s by
    /// default, `nil` to wait for the service to close it.
    public var idleTimeout: Duration? = .seconds(5)

    /// Whether the service must end its list with TLS's close_notify; `true` by default.
    ///
    /// The end of a connection without it is then a failure, since anyone on the network path can cause it, and the
    /// list may be incomplete. With `false` it counts as a close, for services that never send close_notify. A reset is
    /// a failure in either case, and so is an end before the first byte, which looks like a rejected certificate; an
    /// incomplete tuple at the end is set aside.
    public var requiresCloseNotify = true

    /// The maximum time for reading the list; 10 minutes by default.
    public var readTimeout = Duration.seconds(600)

    /// The maximum number of bytes to read, for a service that never ends its list; 256 MiB by default.
    ///
    /// That is 7 million tokens of 32 bytes. What was read until then is delivered.
    public var byteCountMax = FeedbackConfiguration.byteCountMaxDefault

    /// Called with the number of bytes of each read, on an event loop; by default not set.
    package var onRead: (@Sendable (Int) -> Void)?

    /// Acquires the lease of the list, if several hosts may read it; by default not set.
    package var lease: FeedbackLease.Acquisition?

    /// How long a lease lasts: longer than reading can take, from the renewal until the connection is closed.
    var leaseDuration: Duration {
        self.connectTimeout + self.tls.handshakeTimeout + self.readTimeout + Self.leaseMargin
    }

    /// How long before the end of a lease no connection is opened any more, and more.
    private static let leaseMargin = Duration.seconds(60)

    /// The default of ``byteCountMax``.
    public static let byteCountMaxDefault: UInt64 = 268_435_456

    /// The maximum time to open a TCP connection, including the proxy; 10 s by default.
    public var connectTimeout = Duration.seconds(10)

    /// The maximum number of tokens of a ``DeadTokenPage``; 10,000 by default.
    ///
    /// Most stores process many tokens faster in one transaction than in many. `.max` makes one page of everything in
    /// the spool. A page is in memory while it is used; a million tokens need about 50 MB.
    public var pageTokenCountMax = 10_000

    /// Creates a configuration with the defaults.
    ///
    /// - Parameters:
    ///   - host: the feedback service: the name in its certificate, or an IP address.
    ///   - port: 2196 by default.
    ///   - tls: identity, trust and TLS versions.
    ///   - scope: the app and environment of the identity.
    public init(host: String, port: Int = Endpoint.feedbackPort, tls: TLSConfiguration, scope: TokenScope) {
        self.endpoint = Endpoint(host: host, port: port)
        self.tls = tls
        self.scope = scope
    }

    /// Creates a configuration with the defaults, for the app named in a certificate.
    ///
    /// - Parameters:
    ///   - host: the feedback service: the name in its certificate, or an IP address.
    ///   - port: 2196 by default.
    ///   - identity: the push certificate, with its key.
    ///   - trust: the authorities of the service's certificate; those of the system by default.
    ///   - topic: the app; `nil` (default) for the first topic of the certificate.
    ///   - environment: the environment of the tokens; `nil` (default) for production, unless the certificate is only
    ///     for the sandbox.
    /// - Throws: ``FeedbackError/topicMissing``, ``FeedbackError/topicForeign(_:certificate:)``,
    ///   ``FeedbackError/topicUnusable(_:)``.
    public init(
        host: String,
        port: Int = Endpoint.feedbackPort,
        identity: TLSIdentity,
        trust: TLSTrust = .system,
        topic: String? = nil,
        environment: PushEnvironment? = nil
    ) throws(FeedbackError) {
        let scope = try TokenScope(of: identity.certificate, topic: topic, environment: environment)
        self.init(host: host, port: port, tls: .client(identity: identity, trust: trust), scope: scope)
    }
}

extension FeedbackConfiguration: CustomStringConvertible, CustomReflectable {
    /// The list and its service.
    public var description: String { "feedback of \(self.scope) at \(self.endpoint)" }

    /// Empty, so that `dump` prints only the ``description``.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

extension Endpoint {
    /// The port of the feedback service.
    public static let feedbackPort = 2196

    /// Apple's feedback service for production until 2021; your own service may have replaced it.
    public static let productionFeedback = Endpoint(host: "feedback.push.apple.com", port: feedbackPort)

    /// Apple's feedback service for the sandbox until 2021; your own service may have replaced it.
    public static let sandboxFeedback = Endpoint(host: "feedback.sandbox.push.apple.com", port: feedbackPort)

    /// Apple's feedback service of an environment until 2021.
    ///
    /// - Parameter environment: the environment.
    /// - Returns: ``productionFeedback`` or ``sandboxFeedback``.
    public static func feedback(_ environment: PushEnvironment) -> Endpoint {
        switch environment {
        case .production: .productionFeedback
        case .sandbox: .sandboxFeedback
        }
    }
}

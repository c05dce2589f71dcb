// SPDX-License-Identifier: Apache-2.0

public import APNSWire
public import OpenSSLTLS

/// Where one list of dead tokens is read, how, and in which portions it is handed over.
public struct FeedbackConfiguration: Sendable {
    /// Where the feedback service listens.
    public var endpoint: Endpoint

    /// Identity, trust and versions of TLS; made with `TLSConfiguration.client(...)`.
    public var tls: TLSConfiguration

    /// The app and environment whose dead tokens the service lists for this identity.
    public var scope: TokenScope

    /// A proxy to go through; `nil` by default.
    public var proxy: Proxy?

    /// After how long without a byte there is nothing more, for services that keep the connection open; 5 s by
    /// default, `nil` to wait for the service's close.
    public var silence: Duration? = .seconds(5)

    /// Whether the service must end its list with TLS's close_notify; `true` by default.
    ///
    /// Then a connection that just ends is a failure, since anyone on the way can end one, and the list may have been
    /// longer. With `false` it is as good as a close, for services that never say close_notify. A reset is a failure
    /// all the same, and so is an end before any byte, which is what a refusal of the certificate looks like; what
    /// there is of a tuple without its end is set aside.
    public var requiresCloseNotify = true

    /// How long reading may take in all; 10 minutes by default.
    public var deadline = Duration.seconds(600)

    /// How many bytes are read at most, for a service that never ends; 256 MiB by default.
    ///
    /// That is 7 million tokens of 32 bytes. What was read by then is recorded.
    public var byteCountMax = FeedbackConfiguration.byteCountMaxDefault

    /// Is given the number of bytes of each read, on an event loop; by default nothing is.
    package var onRead: (@Sendable (Int) -> Void)?

    /// The default of ``byteCountMax``.
    public static let byteCountMaxDefault: UInt64 = 268_435_456

    /// How long opening a TCP connection may take, proxy included; 10 s by default.
    public var connectDurationMax = Duration.seconds(10)

    /// The most tokens of a ``DeadTokenPage``; 10,000 by default.
    ///
    /// A store takes many tokens faster in one transaction than in many. `.max` makes one page of all that is in the
    /// spool when tokens are handed over.
    public var pageTokenCountMax = 10_000

    /// Makes a configuration with the defaults.
    ///
    /// - Parameters:
    ///   - host: where the feedback service listens: the name that its certificate bears, or an IP address.
    ///   - port: 2196 by default.
    ///   - tls: identity, trust and versions of TLS.
    ///   - scope: the app and environment that the identity is for.
    public init(host: String, port: Int = Endpoint.feedbackPort, tls: TLSConfiguration, scope: TokenScope) {
        self.endpoint = Endpoint(host: host, port: port)
        self.tls = tls
        self.scope = scope
    }

    /// Makes a configuration with the defaults, for the app that a certificate names.
    ///
    /// - Parameters:
    ///   - host: where the feedback service listens: the name that its certificate bears, or an IP address.
    ///   - port: 2196 by default.
    ///   - identity: the push certificate, with its key.
    ///   - trust: the authorities that the service's certificate must lead to; by default those of the system.
    ///   - topic: the app; `nil` (default) for the first that the certificate names.
    ///   - environment: where the tokens are from; `nil` (default) for production, unless the certificate is for the
    ///     sandbox alone.
    /// - Throws: ``FeedbackError/topicMissing``, ``FeedbackError/topicForeign(_:certificate:)``,
    ///   ``FeedbackError/topicUnusable(_:)``.
    public init(
        host: String,
        port: Int = Endpoint.feedbackPort,
        identity: TLSIdentity,
        trust: TLSTrust = .system,
        topic: String? = nil,
        environment: Environment? = nil
    ) throws(FeedbackError) {
        let scope = try TokenScope(of: identity.certificate, topic: topic, environment: environment)
        self.init(host: host, port: port, tls: .client(identity: identity, trust: trust), scope: scope)
    }
}

extension FeedbackConfiguration: CustomStringConvertible, CustomReflectable {
    /// Whose list it is and where it is read.
    public var description: String { "feedback of \(self.scope) at \(self.endpoint)" }

    /// Nothing that is not in ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

extension Endpoint {
    /// The port of the feedback service.
    public static let feedbackPort = 2196

    /// Where Apple's feedback service for production was until 2021, and where one of one's own may be in its place.
    public static let productionFeedback = Endpoint(host: "feedback.push.apple.com", port: feedbackPort)

    /// Where Apple's feedback service for the sandbox was until 2021, and where one of one's own may be in its place.
    public static let sandboxFeedback = Endpoint(host: "feedback.sandbox.push.apple.com", port: feedbackPort)

    /// Where Apple's feedback service of an environment was until 2021.
    ///
    /// - Parameter environment: which of the two.
    /// - Returns: ``productionFeedback`` or ``sandboxFeedback``.
    public static func feedback(_ environment: Environment) -> Endpoint {
        switch environment {
        case .production: .productionFeedback
        case .sandbox: .sandboxFeedback
        }
    }
}

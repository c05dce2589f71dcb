// SPDX-License-Identifier: Apache-2.0

public import APNSWire
public import OpenSSLTLS

/// Where one list of dead tokens is read, and how.
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

    /// The default of ``byteCountMax``.
    public static let byteCountMaxDefault: UInt64 = 268_435_456

    /// How long opening a TCP connection may take, proxy included; 10 s by default.
    public var connectDurationMax = Duration.seconds(10)

    /// Makes a configuration with the defaults.
    ///
    /// - Parameters:
    ///   - endpoint: where the feedback service listens.
    ///   - tls: identity, trust and versions of TLS.
    ///   - scope: the app and environment that the identity is for.
    public init(endpoint: Endpoint, tls: TLSConfiguration, scope: TokenScope) {
        self.endpoint = endpoint
        self.tls = tls
        self.scope = scope
    }
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

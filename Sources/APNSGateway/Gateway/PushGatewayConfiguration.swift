// SPDX-License-Identifier: Apache-2.0

public import APNSProviderHTTP2
public import APNSServer
public import APNSSession
public import APNSWire
public import OpenSSLTLS

/// The addresses and options of a gateway.
public struct PushGatewayConfiguration: Sendable {
    /// The listener of the binary protocol, by default on port 2195 of the loopback address.
    public var listener: BinaryListenerConfiguration

    /// The listener of the feedback service, by default on port 2196 of the loopback address; `nil` for none.
    public var feedback: FeedbackListenerConfiguration?

    /// The environment of the device tokens; by default production.
    public var environment = PushEnvironment.production

    /// How push type, priority and expiry are determined; the topic is that of the provider.
    public var requests = RequestRules(topic: nil)

    /// How delivery is retried.
    public var retries = RetryRules()

    /// How rejections that concern only one notification are handled; by default they are reported to the provider.
    public var rejections = RejectionPolicy.report

    /// The time limit of a decision about a provider; by default 10 seconds.
    public var admissionTimeout = Duration.seconds(10)

    /// How many decisions about providers may be pending, including those that go on after their time limit; by default
    /// 1024.
    ///
    /// Further providers are refused.
    public var admissionCountMax = 1024

    /// How many notifications are delivered at a time before providers are no longer read; by default 1000.
    public var deliveryCountMax = 1000

    /// Creates a configuration with defaults.
    ///
    /// - Parameters:
    ///   - identity: the gateway's certificate and key.
    ///   - clientTrust: the authorities that a provider's certificate must chain to.
    ///   - port: the port for notifications; by default 2195, and a free one with 0.
    ///   - feedbackPort: the port for dead tokens; by default 2196, and a free one with 0.
    public init(identity: TLSIdentity, clientTrust: TLSTrust, port: Int = 2195, feedbackPort: Int = 2196) {
        var listener = BinaryListenerConfiguration(identity: identity, clientTrust: clientTrust)
        listener.listener.port = port
        self.listener = listener
        var feedback = FeedbackListenerConfiguration(identity: identity, clientTrust: clientTrust)
        feedback.listener.port = feedbackPort
        self.feedback = feedback
    }
}

extension PushGatewayConfiguration: CustomStringConvertible, CustomReflectable {
    /// The listener, in one line.
    public var description: String { "gateway with a \(self.listener)" }

    /// Empty, so that `dump` prints only the ``description``.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

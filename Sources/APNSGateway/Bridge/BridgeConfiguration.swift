// SPDX-License-Identifier: Apache-2.0

public import APNSProviderHTTP2
public import APNSSession
public import APNSWire

/// One of the providers of a bridge: its identity, and how its notifications are delivered.
public struct BridgeConfiguration: Sendable {
    /// The default limit for notifications of one provider in flight.
    public static let inFlightCountMaxDefault = 10_000

    /// The default duration for which notifications are remembered that were delivered after a rejected one.
    package static let rememberedDurationDefault = Duration.seconds(120)

    package static let rememberedCountMaxDefault = 100_000
    package static let payloadByteCountMaxDefault = 2048
    package static let spoolByteCountMaxDefault = 1 << 30
    package static let spoolAgeMaxDefault = Duration.seconds(3 * 86_400)

    /// The name in logs and metrics; unique within a backend.
    public var name: String

    /// The certificates to admit.
    public var admission: AdmissionRule

    /// The environment of its device tokens.
    public var environment: PushEnvironment

    /// How notifications become requests; the topic is set per connection.
    public var requests = RequestRules(topic: nil)

    /// How delivery is retried.
    public var retries = RetryRules()

    /// The longest payload in bytes; by default 2048.
    public var payloadByteCountMax = BridgeConfiguration.payloadByteCountMaxDefault

    /// How many notifications of all its connections may be in flight, including those that wait for a retry; by
    /// default 10,000.
    ///
    /// At the limit, its connections are not read.
    public var inFlightCountMax = BridgeConfiguration.inFlightCountMaxDefault

    /// How rejections by the service that concern only one notification are handled; by default they are reported.
    public var rejections = RejectionPolicy.report

    /// Whether a rejected token is added to the feedback list, like a dead one; by default it is not.
    ///
    /// It applies only with `RejectionPolicy.ignore`, since otherwise the provider receives an error response. A
    /// service of the other environment rejects every token.
    public var listsRejectedTokens = false

    /// How many notifications that were delivered after a rejected one are remembered; by default 100,000.
    ///
    /// If there is no room, the connection is closed without an error response: the provider then does not know which
    /// notifications were delivered, but none is delivered twice that it believes was discarded.
    public var rememberedCountMax = BridgeConfiguration.rememberedCountMaxDefault

    /// How long they are remembered; by default two minutes.
    ///
    /// The time starts again when the gateway starts, since no provider can resend while it is down.
    public var rememberedDuration = BridgeConfiguration.rememberedDurationDefault

    /// Stores its notifications until the service has an answer for them; `nil`, the default, if that is left to the
    /// provider.
    ///
    /// It applies only with `RejectionPolicy.ignore`.
    package var spool: NotificationSpool?

    /// The most bytes in the spool; by default 1 GiB.
    package var spoolByteCountMax = BridgeConfiguration.spoolByteCountMaxDefault

    /// The age at which a spooled notification without an expiry is dropped; by default three days.
    package var spoolAgeMax = BridgeConfiguration.spoolAgeMaxDefault

    /// Where the requests are sent.
    public var upstream: any Upstream

    /// Creates a configuration with defaults.
    ///
    /// - Parameters:
    ///   - name: the name in logs and metrics.
    ///   - admission: the certificates to admit.
    ///   - environment: the environment of the service.
    ///   - upstream: where the requests are sent.
    public init(name: String, admission: AdmissionRule, environment: PushEnvironment, upstream: any Upstream) {
        self.name = name
        self.admission = admission
        self.environment = environment
        self.upstream = upstream
    }
}

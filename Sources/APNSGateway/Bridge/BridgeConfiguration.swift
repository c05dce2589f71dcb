// SPDX-License-Identifier: Apache-2.0

public import APNSProviderHTTP2
public import APNSSession
public import APNSWire

/// One of the providers that a bridge serves: who it is, and what becomes of its notifications.
public struct BridgeConfiguration: Sendable {
    /// How many notifications of one provider may be under way by default.
    public static let inFlightCountMaxDefault = 10_000

    /// What the provider is called in logs and metrics; unique within a backend.
    public var name: String

    /// Which certificates are let in.
    public var admission: AdmissionRule

    /// Which service its tokens are of.
    public var environment: Environment

    /// How notifications become requests; the topic is set for each connection.
    public var requests = RequestRules(topic: nil)

    /// How long is tried to deliver.
    public var retries = RetryRules()

    /// The longest payload in bytes; by default 2048.
    public var payloadByteCountMax = 2048

    /// How many notifications of all its connections may be under way, those that wait for another try among them; by
    /// default 10,000.
    ///
    /// Where there are as many, its connections are not read from.
    public var inFlightCountMax = BridgeConfiguration.inFlightCountMaxDefault

    /// What is done about a notification that the service refuses for a reason of its own; by default it is reported.
    public var rejections = RejectionPolicy.report

    /// Whether a token that the service refuses goes to the feedback list, as a dead one does; by default not.
    ///
    /// It holds with `RejectionPolicy.ignore` only, since a provider that is told needs no other word. A service of
    /// the other environment refuses each token.
    public var listsRejectedTokens = false

    /// How many notifications that were delivered behind a rejection are remembered; by default 100,000.
    ///
    /// Where there is no room, the provider is told nothing and its connection is closed: what it wrote is then in
    /// doubt for it, but nothing is delivered twice that it believes was thrown away.
    public var rememberedCountMax = 100_000

    /// How long they are remembered; by default two minutes.
    ///
    /// It begins anew when the gateway starts, since no provider can send again while it is not there.
    public var rememberedDuration = Duration.seconds(120)

    /// Where the requests go.
    public var upstream: any Upstream

    /// Makes a configuration with the defaults.
    ///
    /// - Parameters:
    ///   - name: what the provider is called in logs and metrics.
    ///   - admission: which certificates are let in.
    ///   - environment: which of the two services.
    ///   - upstream: where the requests go.
    public init(name: String, admission: AdmissionRule, environment: Environment, upstream: any Upstream) {
        self.name = name
        self.admission = admission
        self.environment = environment
        self.upstream = upstream
    }
}

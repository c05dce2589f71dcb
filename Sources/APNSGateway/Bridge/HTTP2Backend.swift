// SPDX-License-Identifier: Apache-2.0

public import APNSServer
public import APNSSession
import APNSWire
public import Logging
import NIOConcurrencyHelpers
public import NIOCore
public import NIOPosix

/// Delivers the notifications of a binary listener over the HTTP/2 provider API.
///
/// Each provider is admitted by its own ``AdmissionRule``. Several notifications of a connection are in flight at a
/// time. Those delivered after a rejected one are remembered in a `ResendStore`, and are not delivered again when the
/// provider resends them.
public final class HTTP2Backend: DeliveryBackend {
    private struct Providers: Sendable {
        var bridges: [Bridge] = []
        var closed: [ClosedProvider] = []
        /// Providers that were removed from the configuration, until their notifications are completed.
        var retired: [Bridge] = []
        /// Providers of which only the names are known, since an admission of the gateway's author returns them.
        var byName: [String: Bridge] = [:]
        var all: [Bridge] { self.bridges + self.retired + self.byName.values }
        var lastConnection: UInt64 = 0
        var certificates = AdmittedCertificates()
        /// The number of open connections by provider and by how their rejections are handled.
        var openCounts: [String: [RejectionPolicy: Int]] = [:]

        /// The open connections whose rejections are handled in another way than new ones.
        func outdatedCount(_ configuration: BridgeConfiguration) -> Int {
            self.openCounts[configuration.name, default: [:]].reduce(0) {
                $0 + ($1.key == configuration.rejections ? 0 : $1.value)
            }
        }
    }

    /// A provider whose configuration cannot be used: it is refused, and belongs to no provider after it.
    package struct ClosedProvider: Sendable {
        /// The name in logs.
        package var name: String
        /// The certificates to refuse, as far as they are known.
        package var admission: AdmissionRule
        /// How many usable providers are before it.
        package var position: Int

        /// Creates a value.
        package init(name: String, admission: AdmissionRule, position: Int) {
            self.name = name
            self.admission = admission
            self.position = position
        }
    }

    private let recorder: any FeedbackRecorder
    private let resends: any ResendStore
    private let outcomes: (any OutcomeRecorder)?
    private let clock: BridgeClock
    private let rules: BridgeRules
    private let group: any EventLoopGroup
    private let logger: Logger
    private let refusals: RefusalLog
    /// For refused providers, whose messages cannot displace those about admitted ones.
    private let unadmitted: RefusalLog
    private let providers = NIOLockedValueBox(Providers())
    /// Called with each admitted provider and its name, on event loops.
    private let onAdmitted: (@Sendable (ProviderConnection, String) -> Void)?

    /// Creates a backend.
    ///
    /// - Parameters:
    ///   - configurations: the providers. A certificate belongs to the first provider whose rule admits it.
    ///   - recorder: records dead tokens.
    ///   - resends: stores expected resends of notifications that were already delivered; by default they are forgotten
    ///     when the process ends.
    ///   - eventLoopGroup: the event loops; by default NIO's singleton.
    ///   - logger: receives refusals and failed deliveries.
    public convenience init(
        _ configurations: [BridgeConfiguration],
        recorder: any FeedbackRecorder,
        resends: any ResendStore = VolatileResendStore(),
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current
    ) {
        self.init(
            configurations,
            recorder: recorder,
            resends: resends,
            clock: .system,
            eventLoopGroup: eventLoopGroup,
            logger: logger
        )
    }

    /// Creates a backend without providers, which reports each admission.
    package convenience init(
        recorder: any FeedbackRecorder,
        resends: any ResendStore,
        outcomes: (any OutcomeRecorder)?,
        logger: Logger,
        onAdmitted: @escaping @Sendable (_ provider: ProviderConnection, _ name: String) -> Void
    ) {
        self.init(
            [],
            recorder: recorder,
            resends: resends,
            outcomes: outcomes,
            clock: .system,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: logger,
            onAdmitted: onAdmitted
        )
    }

    init(
        _ configurations: [BridgeConfiguration],
        recorder: any FeedbackRecorder,
        resends: any ResendStore,
        outcomes: (any OutcomeRecorder)? = nil,
        clock: BridgeClock,
        rules: BridgeRules = .exact,
        eventLoopGroup: any EventLoopGroup,
        logger: Logger,
        onAdmitted: (@Sendable (ProviderConnection, String) -> Void)? = nil
    ) {
        self.onAdmitted = onAdmitted
        self.recorder = recorder
        self.resends = resends
        self.outcomes = outcomes
        self.clock = clock
        self.rules = rules
        self.group = eventLoopGroup
        self.logger = logger
        self.refusals = RefusalLog(logger)
        self.unadmitted = RefusalLog(logger)
        self.reload(configurations)
    }

    /// Applies new configurations to future connections.
    ///
    /// Open connections keep theirs until `Listener.readmit()` ends those whose provider was removed or changed.
    ///
    /// Expected resends are kept by the name of the provider.
    ///
    /// - Parameter configurations: the providers.
    public func reload(_ configurations: [BridgeConfiguration]) { self.reload(configurations, closed: []) }

    /// Applies new configurations, as ``reload(_:)`` does, and refuses further providers.
    package func reload(_ configurations: [BridgeConfiguration], closed: [ClosedProvider]) {
        // The store reads from the disk, which must not delay connecting providers.
        let known = Set(self.providers.withLockedValue(\.all).map(\.configuration.name))
        let new = configurations.filter { !known.contains($0.name) }
        let made = Dictionary(new.map { ($0.name, self.makeState($0)) }) { first, _ in first }
        let outdated = self.providers.withLockedValue { providers in
            let states = Dictionary(providers.all.map { ($0.configuration.name, $0.state) }) { first, _ in first }
            let names = Set(configurations.map(\.name))
            providers.retired.removeAll { !$0.state.withLockedValue(\.isBusy) }
            providers.retired = (providers.bridges + providers.retired).filter {
                !names.contains($0.configuration.name)
            }
            providers.bridges = configurations.map { configuration in
                let state = states[configuration.name]
                state?.withLockedValue { $0.apply(configuration) }
                return Bridge(
                    configuration,
                    state: state ?? made[configuration.name] ?? NIOLockedValueBox(BridgeState(configuration)),
                    recorder: self.recorder,
                    resends: self.resends,
                    outcomes: self.outcomes,
                    group: self.group,
                    clock: self.clock,
                    logger: self.logger
                )
            }
            providers.closed = closed
            return configurations.map { ($0.name, providers.outdatedCount($0)) }.filter { $0.1 > 0 }
        }
        for (name, count) in outdated {
            self.logger.notice(
                "open connections keep the old rejections until they close",
                metadata: [LogKey.provider: "\(name)", LogKey.count: "\(count)"]
            )
        }
    }

    /// Creates the state of a provider that is new to this process; an earlier process may have stored resends for it.
    private func makeState(_ configuration: BridgeConfiguration) -> NIOLockedValueBox<BridgeState> {
        var state = BridgeState(configuration, rules: self.rules)
        let resends = self.resends.resends(of: configuration.name, for: configuration.rememberedDuration)
        if !resends.isEmpty {
            state.expect(resends.suffix(configuration.rememberedCountMax), now: self.clock.now())
            self.logger.info(
                "resends expected",
                metadata: [
                    LogKey.provider: "\(configuration.name)", LogKey.count: "\(state.deduplicator.count)",
                ]
            )
        }
        return NIOLockedValueBox(state)
    }

    /// The number of expected resends of each provider that did not arrive in time.
    public var expiredResendCounts: [String: UInt64] { self.byProvider(\.deduplicator.expiredCount) }

    /// The number of delivered notifications of each provider that equal an expected resend in all but the expiry.
    public var possibleResendCounts: [String: UInt64] { self.byProvider(\.deduplicator.possibleCount) }

    /// The number of notifications in flight of each provider, including removed ones.
    public var inFlightCounts: [String: Int] { self.byProvider(\.inFlightCount) }

    private func byProvider<Value>(_ value: (BridgeState) -> Value) -> [String: Value] {
        let bridges = self.providers.withLockedValue(\.all)
        return Dictionary(bridges.map { ($0.configuration.name, $0.state.withLockedValue { value($0) }) }) { first, _ in
            first
        }
    }

    /// The number of notifications that ended without being accepted, and that were not reported to a provider.
    public var unreportedCount: UInt64 {
        self.providers.withLockedValue(\.all).reduce(0) { $0 + $1.state.withLockedValue(\.unreportedCount) }
    }

    /// Calls `body` once nothing is in flight, including notifications that wait for a retry.
    ///
    /// The caller ensures that no further notifications arrive.
    ///
    /// - Parameters:
    ///   - names: the providers to wait for, including removed ones; by default all.
    ///   - body: called once, from any thread, possibly immediately.
    public func whenIdle(_ names: Set<String>? = nil, _ body: @escaping @Sendable () -> Void) {
        let bridges = self.providers.withLockedValue(\.all)
        Self.whenIdle(bridges.filter { names?.contains($0.configuration.name) ?? true }[...], body)
    }

    private static func whenIdle(_ bridges: ArraySlice<Bridge>, _ body: @escaping @Sendable () -> Void) {
        guard let first = bridges.first else { return body() }
        first.whenIdle { Self.whenIdle(bridges.dropFirst(), body) }
    }

    /// Finds the provider and topic of a certificate.
    ///
    /// Returns the name of the provider and its topic; `nil` if no provider matches, which is logged.
    func list(of provider: ProviderConnection) -> TokenScope? {
        self.find(provider).map { self.list(of: provider, $0.bridge, topic: $0.topic) }
    }

    /// Records that a provider of the feedback service is admitted.
    func list(of provider: ProviderConnection, _ bridge: Bridge, topic: String) -> TokenScope {
        let name = bridge.configuration.name
        var metadata = Self.metadata(of: provider, topic)
        metadata[LogKey.provider] = "\(name)"
        metadata[LogKey.connection] = "\(provider.number)"
        self.logger.info("feedback provider admitted", metadata: metadata)
        _ = self.providers.withLockedValue { $0.certificates.record(provider, of: name, now: Int64(self.clock.date())) }
        self.onAdmitted?(provider, name)
        return TokenScope(topic: topic, environment: bridge.configuration.environment)
    }

    /// Whether a connection belongs to this provider and list.
    func admits(_ provider: ProviderConnection, to name: String, _ list: TokenScope) -> Bool {
        guard let (bridge, topic) = self.find(provider), bridge.configuration.name == name else { return false }
        return list == TokenScope(topic: topic, environment: bridge.configuration.environment)
    }

    /// Finds the provider and the topic of a certificate; a refusal is logged.
    func find(_ provider: ProviderConnection) -> (bridge: Bridge, topic: String)? {
        let (bridges, closed) = self.providers.withLockedValue { ($0.bridges, $0.closed) }
        let now = Int64(self.clock.date())
        var reasons: [String] = []
        search: for position in 0...bridges.count {
            for other in closed where other.position == position {
                guard case .admitted = other.admission.check(provider, now: now) else { continue }
                reasons = ["\(other.name): its configuration cannot be used, see the last start or reload in the log"]
                break search
            }
            guard position < bridges.count else { break }
            let bridge = bridges[position]
            switch bridge.configuration.admission.check(provider, now: now) {
            case .admitted(let topic): return (bridge, topic)
            case .refused(let reason?): reasons.append("\(bridge.configuration.name): \(reason)")
            case .refused(nil): break
            }
        }
        if reasons.isEmpty {
            let reason = "no provider of the configuration has this certificate or its authority"
            reasons = ["\(reason); \(AdmissionRule.advice)"]
        }
        self.logRefusal(of: provider, reasons.joined(separator: "; "))
        return nil
    }

    /// Logs that a provider is refused, and why.
    func logRefusal(of provider: ProviderConnection, level: Logger.Level = .warning, _ reason: String) {
        self.unadmitted.log(
            "provider refused",
            level: level,
            [
                LogKey.remoteAddress: "\(provider.remoteAddress)",
                LogKey.localPort: "\(provider.localPort.map { "\($0)" } ?? "?")",
                LogKey.refusalReason: "\(reason)",
                LogKey.fingerprint: "\(provider.identity.fingerprint)", LogKey.subject: "\(provider.identity.subject)",
                LogKey.isAdmitted: "false",
            ]
        )
    }

    /// Returns the provider with the name of a configuration, which is added if it is new; `nil` if there are already
    /// ``providerCountMax``.
    ///
    /// Its notifications are sent as the configuration of the first call requires.
    func bridge(_ configuration: BridgeConfiguration) -> Bridge? {
        if let bridge = self.providers.withLockedValue({ $0.byName[configuration.name] }) { return bridge }
        let bridge = Bridge(
            configuration,
            state: self.makeState(configuration),
            recorder: self.recorder,
            resends: self.resends,
            outcomes: self.outcomes,
            group: self.group,
            clock: self.clock,
            logger: self.logger
        )
        return self.providers.withLockedValue { providers in
            if let other = providers.byName[configuration.name] { return other }
            guard providers.byName.count < Self.providerCountMax else { return nil }
            providers.byName[configuration.name] = bridge
            return bridge
        }
    }

    /// The maximum number of providers whose names an admission returns, each of which keeps its state.
    static let providerCountMax = 100_000

    /// The log metadata of an admitted provider.
    private static func metadata(of provider: ProviderConnection, _ topic: String) -> Logger.Metadata {
        var metadata: Logger.Metadata = [
            LogKey.remoteAddress: "\(provider.remoteAddress)", LogKey.topic: "\(topic)",
        ]
        if let version = provider.tlsVersion { metadata[LogKey.tlsVersion] = "\(version)" }
        if let port = provider.localPort { metadata[LogKey.localPort] = "\(port)" }
        return metadata
    }

    /// Records that a connection with this certificate has closed.
    func closed(_ certificate: AdmittedCertificates.Key, _ rejections: RejectionPolicy) {
        self.providers.withLockedValue { providers in
            providers.certificates.close(certificate, now: Int64(self.clock.date()))
            providers.openCounts[certificate.provider]?[rejections, default: 0] -= 1
        }
    }

    /// The certificates of recently admitted providers.
    package var certificates: [AdmittedCertificates.Certificate] {
        self.providers.withLockedValue { $0.certificates.all(now: Int64(self.clock.date())) }
    }

    /// The number of notifications in flight, and the number completed since the process started.
    package var deliveryCounts: (inFlight: Int, settled: UInt64) {
        self.providers.withLockedValue(\.all).reduce(into: (0, 0)) { counts, bridge in
            let (inFlight, settled) = bridge.state.withLockedValue { ($0.inFlightCount, $0.settledCount) }
            counts.inFlight += inFlight
            counts.settled += settled
        }
    }

    /// Admits a configured provider.
    ///
    /// If it is in a cooldown after a fault, its connection is not read for a while.
    ///
    /// - Parameter provider: the connection.
    /// - Returns: the decision.
    public func admit(_ provider: ProviderConnection) -> Admission {
        guard let (bridge, topic) = self.find(provider) else { return .refused }
        return self.admit(provider, bridge, topic: topic)
    }

    /// Admits a provider for a topic.
    func admit(_ provider: ProviderConnection, _ bridge: Bridge, topic: String) -> Admission {
        var logger = self.logger
        logger[metadataKey: LogKey.provider] = "\(bridge.configuration.name)"
        logger[metadataKey: LogKey.connection] = "\(provider.number)"
        let name = bridge.configuration.name
        let (number, certificate) = self.providers.withLockedValue { providers in
            providers.lastConnection += 1
            providers.openCounts[name, default: [:]][bridge.configuration.rejections, default: 0] += 1
            let now = Int64(self.clock.date())
            return (providers.lastConnection, providers.certificates.open(provider, of: name, now: now))
        }
        self.onAdmitted?(provider, name)
        bridge.state.withLockedValue { $0.open(number) }
        var metadata = Self.metadata(of: provider, topic)
        metadata[LogKey.bridgeConnection] = "\(number)"
        logger.info("provider admitted", metadata: metadata)
        let key = ProviderCooldown.Key(fingerprint: provider.identity.fingerprint, topic: topic)
        let connection = BridgeConnection(
            bridge,
            self,
            number: number,
            key: key,
            certificate: certificate,
            logger: logger
        )
        if let delay = connection.readingDelay {
            self.refusals.log(
                "provider delayed after a fault",
                [
                    LogKey.provider: "\(bridge.configuration.name)", LogKey.remoteAddress: "\(provider.remoteAddress)",
                    LogKey.refusalDuration: "\(delay)",
                ]
            )
        }
        return .admitted(connection)
    }
}

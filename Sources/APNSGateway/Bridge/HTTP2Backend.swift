// SPDX-License-Identifier: Apache-2.0

public import APNSServer
public import APNSSession
import APNSWire
public import Logging
import NIOConcurrencyHelpers
public import NIOCore
public import NIOPosix

/// Delivers what a binary listener takes over the HTTP/2 provider API.
///
/// Each provider is let in by its own ``AdmissionRule``; nobody else is. Several notifications of a connection are
/// under way at a time; what was delivered behind one that is rejected is remembered in a `ResendStore`, and not
/// delivered again when the provider sends it again.
public final class HTTP2Backend: DeliveryBackend {
    private struct Providers: Sendable {
        var bridges: [Bridge] = []
        /// Those that are configured no more, until all that they took is settled.
        var retired: [Bridge] = []
        var all: [Bridge] { self.bridges + self.retired }
        var lastConnection: UInt64 = 0
        var certificates = AdmittedCertificates()
    }

    private let recorder: any FeedbackRecorder
    private let resends: any ResendStore
    private let clock: BridgeClock
    private let rules: BridgeRules
    private let group: any EventLoopGroup
    private let logger: Logger
    private let refusals: RefusalLog
    /// For those that are not let in, which cannot fill the log of the others.
    private let unadmitted: RefusalLog
    private let providers = NIOLockedValueBox(Providers())

    /// Makes a backend.
    ///
    /// - Parameters:
    ///   - configurations: the providers; the first whose rule lets a certificate in gets it.
    ///   - recorder: keeps what is learned of dead tokens.
    ///   - resends: keeps what was delivered although its provider was told to send it again; by default it is
    ///     forgotten when the process ends.
    ///   - eventLoopGroup: by default NIO's own.
    ///   - logger: is told of refusals and of what was not delivered.
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

    init(
        _ configurations: [BridgeConfiguration],
        recorder: any FeedbackRecorder,
        resends: any ResendStore,
        clock: BridgeClock,
        rules: BridgeRules = .exact,
        eventLoopGroup: any EventLoopGroup,
        logger: Logger
    ) {
        self.recorder = recorder
        self.resends = resends
        self.clock = clock
        self.rules = rules
        self.group = eventLoopGroup
        self.logger = logger
        self.refusals = RefusalLog(logger)
        self.unadmitted = RefusalLog(logger)
        self.reload(configurations)
    }

    /// Takes other configurations, for connections to come; those that are open keep theirs, until
    /// `Listener.readmit()` ends those whose provider is gone or another.
    ///
    /// What is remembered of a provider stays, by its name.
    ///
    /// - Parameter configurations: the providers.
    public func reload(_ configurations: [BridgeConfiguration]) {
        // The store reads from the disk, for which nobody who connects is to wait.
        let known = Set(self.providers.withLockedValue(\.all).map(\.configuration.name))
        let new = configurations.filter { !known.contains($0.name) }
        let made = Dictionary(new.map { ($0.name, self.makeState($0)) }) { first, _ in first }
        self.providers.withLockedValue { providers in
            let states = Dictionary(providers.all.map { ($0.configuration.name, $0.state) }) { first, _ in first }
            let names = Set(configurations.map(\.name))
            providers.retired.removeAll { !$0.state.withLockedValue(\.isBusy) }
            providers.retired = providers.all.filter { !names.contains($0.configuration.name) }
            providers.bridges = configurations.map { configuration in
                let state = states[configuration.name]
                state?.withLockedValue { $0.take(configuration) }
                return Bridge(
                    configuration,
                    state: state ?? made[configuration.name] ?? NIOLockedValueBox(BridgeState(configuration)),
                    recorder: self.recorder,
                    resends: self.resends,
                    group: self.group,
                    clock: self.clock,
                    logger: self.logger
                )
            }
        }
    }

    /// The state of a provider that is new to this process, which may have had another one before.
    private func makeState(_ configuration: BridgeConfiguration) -> NIOLockedValueBox<BridgeState> {
        var state = BridgeState(configuration, rules: self.rules)
        let keys = self.resends.keys(of: configuration.name, for: configuration.rememberedDuration)
        if !keys.isEmpty {
            state.expect(keys.suffix(configuration.rememberedCountMax), now: self.clock.now())
            self.logger.info(
                "resends expected",
                metadata: [
                    LogKey.provider: "\(configuration.name)", LogKey.count: "\(state.deduplicator.count)",
                ]
            )
        }
        return NIOLockedValueBox(state)
    }

    /// How many resends of each provider were expected and did not come in time.
    public var expiredResendCounts: [String: UInt64] {
        let bridges = self.providers.withLockedValue(\.all)
        return Dictionary(
            bridges.map { ($0.configuration.name, $0.state.withLockedValue(\.deduplicator.expiredCount)) }
        ) { first, _ in first }
    }

    /// How many notifications of each provider are under way, those included that are configured no more.
    public var inFlightCounts: [String: Int] {
        let bridges = self.providers.withLockedValue(\.all)
        return Dictionary(
            bridges.map { ($0.configuration.name, $0.state.withLockedValue(\.inFlightCount)) }
        ) { first, _ in first }
    }

    /// Calls as soon as nothing is under way, those that wait for another try included.
    ///
    /// The caller sees to it that nothing more comes.
    ///
    /// - Parameters:
    ///   - names: of these providers, which may be configured no more; by default of all.
    ///   - body: is called once, from any thread, also at once.
    public func whenIdle(_ names: Set<String>? = nil, _ body: @escaping @Sendable () -> Void) {
        let bridges = self.providers.withLockedValue(\.all)
        Self.whenIdle(bridges.filter { names?.contains($0.configuration.name) ?? true }[...], body)
    }

    private static func whenIdle(_ bridges: ArraySlice<Bridge>, _ body: @escaping @Sendable () -> Void) {
        guard let first = bridges.first else { return body() }
        first.whenIdle { Self.whenIdle(bridges.dropFirst(), body) }
    }

    /// Finds the provider that a certificate belongs to, and its topic.
    ///
    /// - Parameter provider: who is connected.
    /// - Returns: the name of the provider and its topic, or `nil` where it is let in nowhere; that is logged.
    func list(of provider: ProviderConnection) -> TokenScope? {
        guard let (bridge, topic) = self.find(provider) else { return nil }
        let name = bridge.configuration.name
        var metadata = Self.metadata(of: provider, topic)
        metadata[LogKey.provider] = "\(name)"
        metadata[LogKey.connection] = "\(provider.number)"
        self.logger.info("feedback provider admitted", metadata: metadata)
        _ = self.providers.withLockedValue { $0.certificates.note(provider, of: name, now: Int64(self.clock.date())) }
        return TokenScope(topic: topic, environment: bridge.configuration.environment)
    }

    /// Whether a provider belongs to the configuration of this name and to this list.
    func admits(_ provider: ProviderConnection, to name: String, _ list: TokenScope) -> Bool {
        guard let (bridge, topic) = self.find(provider), bridge.configuration.name == name else { return false }
        return list == TokenScope(topic: topic, environment: bridge.configuration.environment)
    }

    private func find(_ provider: ProviderConnection) -> (bridge: Bridge, topic: String)? {
        let bridges = self.providers.withLockedValue(\.bridges)
        var reasons: [String] = []
        for bridge in bridges {
            switch bridge.configuration.admission.check(provider, now: Int64(self.clock.date())) {
            case .admitted(let topic): return (bridge, topic)
            case .refused(let reason?): reasons.append("\(bridge.configuration.name): \(reason)")
            case .refused(nil): break
            }
        }
        if reasons.isEmpty { reasons = ["no provider of the configuration has this certificate or its authority"] }
        self.unadmitted.log(
            "provider refused",
            [
                LogKey.remoteAddress: "\(provider.remoteAddress)",
                LogKey.localPort: "\(provider.localPort.map { "\($0)" } ?? "?")",
                LogKey.refusalReason: "\(reasons.joined(separator: "; "))",
                LogKey.fingerprint: "\(provider.identity.fingerprint)", LogKey.subject: "\(provider.identity.subject)",
                LogKey.isAdmitted: "false",
            ]
        )
        return nil
    }

    /// What the log has of a provider that is let in.
    private static func metadata(of provider: ProviderConnection, _ topic: String) -> Logger.Metadata {
        var metadata: Logger.Metadata = [
            LogKey.remoteAddress: "\(provider.remoteAddress)", LogKey.topic: "\(topic)",
        ]
        if let version = provider.tlsVersion { metadata[LogKey.tlsVersion] = "\(version)" }
        if let port = provider.localPort { metadata[LogKey.localPort] = "\(port)" }
        return metadata
    }

    /// Notes that a connection is gone that was let in with this certificate.
    func closed(_ certificate: AdmittedCertificates.Key) {
        self.providers.withLockedValue { $0.certificates.close(certificate, now: Int64(self.clock.date())) }
    }

    /// The certificates of providers that were let in lately, for their expiry.
    package var certificates: [AdmittedCertificates.Certificate] {
        self.providers.withLockedValue { $0.certificates.all(now: Int64(self.clock.date())) }
    }

    /// How many notifications are under way, and how many were settled since this process began.
    package var deliveryCounts: (inFlight: Int, settled: UInt64) {
        self.providers.withLockedValue(\.all).reduce(into: (0, 0)) { counts, bridge in
            let (inFlight, settled) = bridge.state.withLockedValue { ($0.inFlightCount, $0.settledCount) }
            counts.inFlight += inFlight
            counts.settled += settled
        }
    }

    /// Lets a provider in that is configured; where a fault of before is to be waited out, nothing is read from it for
    /// a while.
    ///
    /// - Parameter provider: who it is.
    /// - Returns: what to do.
    public func admit(_ provider: ProviderConnection) -> Admission {
        guard let (bridge, topic) = self.find(provider) else { return .refused }
        var logger = self.logger
        logger[metadataKey: LogKey.provider] = "\(bridge.configuration.name)"
        logger[metadataKey: LogKey.connection] = "\(provider.number)"
        let name = bridge.configuration.name
        let (number, certificate) = self.providers.withLockedValue { providers in
            providers.lastConnection += 1
            let now = Int64(self.clock.date())
            return (providers.lastConnection, providers.certificates.open(provider, of: name, now: now))
        }
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
                "provider has to wait",
                [
                    LogKey.provider: "\(bridge.configuration.name)", LogKey.remoteAddress: "\(provider.remoteAddress)",
                    LogKey.refusalDuration: "\(delay)",
                ]
            )
        }
        return .admitted(connection)
    }
}

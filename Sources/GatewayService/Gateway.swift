// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSProviderHTTP2
import APNSServer
import APNSSession
import APNSTransport
import APNSWire
import CoreMetrics
import FileSupport
import Glibc
import HummingbirdCore
package import Logging
import NIOConcurrencyHelpers
package import NIOCore
import OpenSSLTLS
import ServiceSupport
import TokenStore
import CNGHTTP2
import COpenSSL
import GRDBSQLite

/// The gateway process.
package final class Gateway: Sendable {
    /// A command for a running gateway.
    package enum Request: Sendable {
        /// Reload certificates, keys and providers.
        case reload
        /// Accept nothing more, deliver what was accepted, and end. A second request ends the gateway immediately.
        case end
    }

    /// The addresses of a gateway.
    package struct Addresses: Sendable {
        /// The address of the binary protocol.
        package var gateway: SocketAddress
        /// The address of the feedback service.
        package var feedback: SocketAddress
        /// The address for health checks and metrics; `nil` if it is off.
        package var admin: SocketAddress?

        /// All addresses, in one line for people.
        package var text: String {
            "gateway \(self.gateway.hostAndPort), feedback \(self.feedback.hostAndPort), "
                + "admin \(self.admin?.hostAndPort ?? "off")"
        }
    }

    /// A change of state that is reported to the caller.
    package enum Change: Sendable {
        /// All listeners are open.
        case ready(Addresses)
        /// The gateway is reloading the configuration.
        case reloading
        /// The gateway has reloaded the configuration, except for these parts.
        case reloaded(refusals: [String])
        /// The gateway has kept the old configuration because of this failure.
        case notReloaded(failure: String)
        /// The gateway was asked to end, which takes at most this long.
        case ending(durationMax: Duration)
    }

    private struct Upstreams: Sendable {
        var configuration: ResolvedConfiguration
        var reloadable: [String: ReloadableUpstream] = [:]
        var clients: [HTTP2Upstream] = []
        /// By their folders, also those of providers that were removed.
        var spools: [String: NotificationSpool] = [:]
        var isEnding = false
        var unreportedCountBeforeEnd: UInt64 = 0
        /// Whether the last reload failed before any part was read.
        var hasFailed = false
    }

    private let reread: @Sendable (_ running: ResolvedConfiguration) throws -> ResolvedConfiguration
    /// The configuration at the start; its addresses and limits stay in effect.
    private let file: GatewayFile
    private let upstreams: NIOLockedValueBox<Upstreams>
    private let health: UpstreamHealth
    private let metrics: GatewayMetrics
    private let process = ProcessMetrics()
    /// The program's version.
    private let version: String
    private let progress: NIOLockedValueBox<DeliveryProgress>
    private let logger: Logger
    /// Locked until the process ends.
    private let databaseLock: FileLock?
    private let store: SQLiteGatewayStore
    /// What other gateways behind the balancer have, too.
    private let shared: (any SharedGatewayStore)?
    /// The counters of the shared store, which are 0 without one.
    private let storeCounters = ["apns.legacy.store.failures", "apns.legacy.connections.unchecked"].map {
        Counter(label: $0)
    }
    /// Where outcomes are recorded for other programs; `nil` if they are not.
    private let outcomes: OutcomeLog?
    private let webhook: OutcomeWebhook?
    private let backend: HTTP2Backend
    private let listener: Listener
    private let feedbackListener: Listener

    /// Creates a gateway that does not listen yet.
    ///
    /// - Throws: ``GatewayFailure/inUse(path:)``, `GatewayStoreError` if the database cannot be used, or
    ///   `ProviderError` if a client cannot be created.
    package init(
        _ configuration: ResolvedConfiguration,
        openFileCountMax: Int,
        metrics: GatewayMetrics,
        version: String,
        logger: Logger,
        reread: @escaping @Sendable (_ running: ResolvedConfiguration) throws -> ResolvedConfiguration
    ) throws {
        self.reread = reread
        self.file = configuration.file
        self.logger = logger
        self.metrics = metrics
        self.version = version
        self.progress = NIOLockedValueBox(DeliveryProgress(stallDurationMax: configuration.file.limits.outcome * 2))
        Self.logRefusals(of: configuration, logger)
        Self.logFindings(of: configuration, logger)
        self.health = UpstreamHealth(logger: logger)
        let clients = try configuration.makeClients(self.health, logger: logger)
        self.upstreams = NIOLockedValueBox(Upstreams(configuration: configuration, clients: clients))
        self.databaseLock = try Self.lock(configuration.file.feedback)
        let store = try SQLiteGatewayStore(path: configuration.file.feedback, logger: logger)
        self.store = store
        self.shared = Self.sharedStore(configuration.file, local: store, logger)
        let (recorder, resends): (any FeedbackRecorder, any ResendStore) = (shared ?? store, shared ?? store)
        let outcomes = try configuration.file.outcomes.map { try OutcomeLog($0, logger: logger) }
        self.outcomes = outcomes
        do throws(GatewayFailure) {
            self.webhook = try configuration.file.outcomes?.webhook.map { webhook throws(GatewayFailure) in
                try OutcomeWebhook(webhook, version: version, logger: logger)
            }
        } catch {
            throw error.preceded(by: "outcomes.webhook")
        }
        self.backend = HTTP2Backend(recorder: recorder, resends: resends, outcomes: outcomes, logger: logger) {
            provider,
            name in
            store.recordAdmission(of: provider.identity.fingerprint, by: name) {
                (provider.certificate.map { [$0] } ?? []).map(\.der) + provider.intermediates.map(\.der)
            }
        }
        let sharedBackend = self.shared.map { [backend] in SharedBackend(backend, $0, logger: logger) }
        self.listener = Listener(
            Self.listener(configuration, openFileCountMax, logger),
            backend: sharedBackend ?? self.backend,
            logger: logger
        )
        self.feedbackListener = Listener(
            Self.feedbackListener(configuration),
            store: sharedBackend ?? BridgeFeedback(backend: self.backend, store: self.store),
            logger: logger
        )
    }

    private static func sharedStore(
        _ file: GatewayFile,
        local: SQLiteGatewayStore,
        _ logger: Logger
    ) -> (any SharedGatewayStore)? {
        #if PostgreSQL
        file.store.map { PostgreSQLGatewayStore($0, local: local, logger: logger) }
        #else
        nil
        #endif
    }

    static func listener(
        _ configuration: ResolvedConfiguration,
        _ openFileCountMax: Int,
        _ logger: Logger
    ) -> BinaryListenerConfiguration {
        var listener = BinaryListenerConfiguration(
            identity: configuration.identity,
            clientTrust: configuration.clientTrust
        )
        let limits = configuration.file.limits
        listener.connectionCountMax = Self.connectionCount(configuration.file, openFileCountMax, logger)
        // As in the file, it is less than the total number of connections.
        let shareMax = listener.connectionCountMax - 1
        Self.configure(&listener.listener, configuration.file, port: configuration.file.listen.port, shareMax: shareMax)
        listener.inFlightCountMax = limits.inFlightPerConnection
        listener.outcomeTimeout = limits.outcome
        listener.idleTimeout = limits.idle
        listener.drainTimeout = limits.drain
        listener.drainIdleTimeout = limits.drainIdle
        let isSpooled = configuration.providers.allSatisfy { $0.file.spool != nil }
        listener.listener.receiveBufferByteCount =
            isSpooled ? NotificationSpool.receiveBufferByteCount : Self.receiveBufferByteCount
        // The backend applies each provider's own limit, which a reload may raise.
        let payloadByteCountMax = GatewayFile.Provider.payloadLimits.upperBound
        listener.limits.payloadByteCountMax = payloadByteCountMax
        listener.rules.payloadByteCountMaxEnhanced = payloadByteCountMax
        listener.rules.payloadByteCountMaxItems = payloadByteCountMax
        return listener
    }

    static func feedbackListener(_ configuration: ResolvedConfiguration) -> FeedbackListenerConfiguration {
        var listener = FeedbackListenerConfiguration(
            identity: configuration.identity,
            clientTrust: configuration.clientTrust
        )
        // A quarter of limits.connections, of which the feedback port has fewer.
        let (port, shareMax) = (configuration.file.listen.feedbackPort, listener.connectionCountMax / 4)
        Self.configure(&listener.listener, configuration.file, port: port, shareMax: shareMax)
        return listener
    }

    /// Applies the settings that both listeners share.
    private static func configure(
        _ listener: inout ListenerConfiguration,
        _ file: GatewayFile,
        port: Int,
        shareMax: Int
    ) {
        listener.host = file.listen.host
        listener.port = port
        listener.versionMin = file.listen.tlsMinimum
        listener.versionMax = file.listen.tlsMaximum
        listener.cipherList = file.listen.ciphers
        listener.admitsUnverified = true
        listener.unauthenticatedPerAddressCountMax = file.limits.unauthenticatedPerAddress.map {
            min($0, max(1, shareMax))
        }
        listener.handshakeTimeout = file.limits.handshake
        listener.shutdownTimeout = file.limits.shutdown
    }

    /// Locks the database against other gateways: a second one would not know which resends this one expects while it
    /// still completes accepted notifications.
    private static func lock(_ path: String) throws -> FileLock? {
        do throws(FileLock.Failure) {
            return try FileLock(path: path + ".lock")
        } catch {
            // If no lock file can be created, neither can the database, whose error gives the reason.
            guard case .held = error else { return nil }
            throw GatewayFailure.inUse(path: path)
        }
    }

    // MARK: Lifecycle

    private enum Event: Sendable {
        case request(Request)
        /// No provider is connected, and the listeners are closed.
        case listenersEnded((any Error)?)
        /// No notification is in flight.
        case idle
        case clientEnded
        /// Requests not yet sent to the service are given up, so that providers can still receive error responses.
        case givingUp
        /// The time limit for ending has passed.
        case overdue
    }

    /// The receive buffer of a provider's connection, in bytes, which Linux doubles.
    ///
    /// What a provider has written and the gateway has not read is lost if either of them ends. 256 KiB are enough for
    /// 2.5 MB a second over a connection with 100 ms of latency.
    private static let receiveBufferByteCount = 128 * 1024

    /// Open files beyond the connections of providers: for feedback, operators and the service.
    private static let otherFileCountMax = 512

    /// How long after ``GatewayFile/Limits/shutdown`` the gateway ends at the latest.
    private static let endingMargin = Duration.seconds(1)

    /// Runs until it is asked to end, or fails.
    ///
    /// Returns the number of notifications whose outcome is unknown, or that were not accepted without their provider
    /// being told.
    ///
    /// - Throws: `ServerError` if an address cannot be listened on.
    package func run(
        requests: some AsyncSequence<Request, Never> & Sendable,
        onChange: @escaping @Sendable (Change) -> Void
    ) async throws -> Int {
        var failure: (any Error)?
        if let admin = self.file.admin {
            let names = admin.names + HostNames.ofThisMachine(host: admin.host)
            let responder = self.adminResponder(HostNames(host: admin.host, names: names, setting: "admin.names"))
            let listener = HTTPListener(
                host: admin.host,
                port: admin.port,
                limits: AdminResponder.limits,
                logger: self.logger
            ) { request, _ in responder.respond(to: request.head) }
            failure = try await listener.withRunning { await self.deliver($0, requests, onChange) }
        } else {
            failure = await self.deliver(nil, requests, onChange)
        }
        let lostCount = self.backend.unreportedCount - self.upstreams.withLockedValue(\.unreportedCountBeforeEnd)
        let unsettled = self.backend.inFlightCounts.values.reduce(0, +) + Int(lostCount)
        for spool in self.spools.values {
            spool.stop()
            await spool.flush()
        }
        await self.shared?.flush()
        await self.store.flush()
        // A dead token has its outcome when it is listed, and leaves its spool when the outcome is on the disk.
        await self.outcomes?.flush()
        for spool in self.spools.values { await spool.flush() }
        if let failure { throw failure }
        return unsettled
    }

    /// Returns why the gateway ended unasked; `nil` if it was asked to end.
    private func deliver(
        _ admin: SocketAddress?,
        _ requests: some AsyncSequence<Request, Never> & Sendable,
        _ onChange: @escaping @Sendable (Change) -> Void
    ) async -> (any Error)? {
        let (events, source) = AsyncStream.makeStream(of: Event.self)
        return await withTaskGroup(of: Void.self) { group in
            self.start(self.upstreams.withLockedValue(\.configuration), self.clients, source, &group)
            group.addTask {
                var failure: (any Error)?
                do { try await self.serve() } catch { failure = error }
                source.yield(.listenersEnded(failure))
            }
            group.addTask { for await request in requests { source.yield(.request(request)) } }
            group.addTask { await self.reportAddresses(admin, onChange) }
            if let webhook, let outcomes { group.addTask { await webhook.run(outcomes) } }
            let failure = await self.react(to: events, source, &group, onChange)
            group.cancelAll()
            return failure
        }
    }

    /// Returns how many connections of providers to admit.
    ///
    /// Each connection is an open file. If the limit of open files is too low, fewer connections are admitted, so that
    /// some files remain for the service, the feedback database and operators.
    private static func connectionCount(_ file: GatewayFile, _ openFileCountMax: Int, _ logger: Logger) -> Int {
        let (allowed, wanted) = (openFileCountMax, file.limits.connections)
        let other = Self.otherFileCountMax + file.upstreamConnectionCount
        guard allowed - other < wanted else { return wanted }
        let count = max(1, min(wanted, max(allowed - other, allowed / 4)))
        logger.warning(
            "open file limit too low for limits.connections; admitting fewer connections",
            metadata: [
                LogKey.allowedFiles: "\(allowed)", LogKey.neededFiles: "\(wanted + other)",
                LogKey.allowedConnections: "\(count)",
            ]
        )
        return count
    }

    private func serve() async throws {
        try await withThrowingTaskGroup(of: Void.self) { listeners in
            listeners.addTask { try await self.listener.run() }
            listeners.addTask { try await self.feedbackListener.run() }
            while let () = try await listeners.next() {}
        }
    }

    private func reportAddresses(_ admin: SocketAddress?, _ onChange: @Sendable (Change) -> Void) async {
        // If there is no address, the end of the listener gives the reason.
        guard let gateway = try? await self.listener.socketAddress,
            let feedback = try? await self.feedbackListener.socketAddress
        else { return }
        self.logger.notice(
            "gateway ready",
            metadata: [
                LogKey.gatewayAddress: "\(gateway.hostAndPort)", LogKey.feedbackAddress: "\(feedback.hostAndPort)",
                LogKey.adminAddress: "\(admin?.hostAndPort ?? "off")",
            ]
        )
        onChange(.ready(Addresses(gateway: gateway, feedback: feedback, admin: admin)))
    }

    /// Returns why the gateway ended unasked; `nil` if it was asked to end.
    private func react(
        to events: AsyncStream<Event>,
        _ source: AsyncStream<Event>.Continuation,
        _ group: inout TaskGroup<Void>,
        _ onChange: @Sendable (Change) -> Void
    ) async -> (any Error)? {
        var clientCount = self.clients.count
        var (isEnding, isServing) = (false, true)
        for await event in events {
            switch event {
            case .request(.reload):
                guard !isEnding else {
                    self.logger.notice("not reloaded: the gateway is stopping")
                    continue
                }
                onChange(.reloading)
                let result = await self.reload(source, &group)
                clientCount += result.clientCount
                onChange(result.change)
            case .request(.end):
                guard !isEnding else { return nil }
                isEnding = true
                let limits = self.file.limits
                onChange(.ending(durationMax: limits.shutdownDelay + limits.shutdown + Self.endingMargin))
                self.end(source, &group)
            case .listenersEnded(let failure?): return failure
            case .listenersEnded(nil):
                // Notifications that wait for a retry still need a client.
                self.backend.whenIdle { source.yield(.idle) }
            case .idle:
                isServing = false
                for spool in self.spools.values { spool.stop() }
                let spooled = Set(self.spoolStatuses.map(\.provider))
                for (name, client) in self.namedClients {
                    // What was not written to the service stays in the spool.
                    if spooled.contains(name) { client.abandon() } else { client.finish() }
                }
            case .clientEnded: clientCount -= 1
            case .givingUp:
                for client in self.clients { client.abandon() }
            case .overdue: return nil
            }
            if !isServing, clientCount == 0 { return nil }
        }
        return nil
    }

    private func end(_ source: AsyncStream<Event>.Continuation, _ group: inout TaskGroup<Void>) {
        self.logger.notice("stopping: delivering what was accepted; a second signal stops at once")
        let unreportedCount = self.backend.unreportedCount
        self.upstreams.withLockedValue { upstreams in
            upstreams.isEnding = true
            upstreams.unreportedCountBeforeEnd = unreportedCount
        }
        let (delay, shutdown) = (self.file.limits.shutdownDelay, self.file.limits.shutdown)
        group.addTask {
            // Health checks fail already, so that a load balancer chooses other gateways.
            if delay > .zero { try? await Task.sleep(for: delay) }
            self.feedbackListener.stop()
            self.listener.stop()
            try? await Task.sleep(for: shutdown * 4 / 5)
            source.yield(.givingUp)
            try? await Task.sleep(for: shutdown / 5 + Self.endingMargin)
            source.yield(.overdue)
        }
    }

    // MARK: Certificates

    private var clients: [HTTP2Upstream] { self.upstreams.withLockedValue(\.clients) }

    /// Starts the clients of the service, and switches to them.
    private func start(
        _ configuration: ResolvedConfiguration,
        _ clients: [HTTP2Upstream],
        _ source: AsyncStream<Event>.Continuation,
        _ group: inout TaskGroup<Void>
    ) {
        for (provider, client) in zip(configuration.providers, clients)
        where !configuration.kept.contains(provider.file.name) {
            group.addTask {
                do { try await client.run() } catch {
                    self.logger.error(
                        "service unusable; correct the credentials and reload the configuration",
                        metadata: [LogKey.provider: "\(provider.file.name)", LogKey.failure: "\(error)"]
                    )
                }
                source.yield(.clientEnded)
            }
        }
        let (bridges, removed) = self.upstreams.withLockedValue { upstreams in
            let before = upstreams.configuration.providers.compactMap(\.file.spool)
            upstreams.configuration = configuration
            upstreams.clients = clients
            let bridges = zip(configuration.providers, clients).map { provider, client in
                let present = upstreams.reloadable[provider.file.name] ?? ReloadableUpstream(client)
                present.replace(with: client)
                upstreams.reloadable[provider.file.name] = present
                let spool = provider.file.spool.map { upstreams.spools[$0] ?? self.makeSpool(provider.file.name, $0) }
                if let spool { upstreams.spools[spool.path] = spool }
                return provider.bridge(present, spool)
            }
            let folders = Set(configuration.providers.compactMap(\.file.spool))
            return (bridges, before.filter { !folders.contains($0) }.compactMap { upstreams.spools[$0] })
        }
        self.backend.reload(bridges, closed: configuration.closed)
        for spool in removed { self.end(spool) }
    }

    private var spools: [String: NotificationSpool] { self.upstreams.withLockedValue(\.spools) }

    private func makeSpool(_ provider: String, _ folder: String) -> NotificationSpool {
        self.store.record(StoredSpool(folder: folder, provider: provider))
        return NotificationSpool(provider: provider, path: folder) { try SQLiteNotificationSpool(folder: folder) }
    }

    /// Ends the deliveries from a spool that the configuration does not name any more.
    private func end(_ spool: NotificationSpool) {
        spool.stop()
        let count = spool.status.count
        guard count > 0 else { return }
        self.logger.error(
            "spool removed from the configuration, its notifications are not delivered",
            metadata: [LogKey.spool: "\(spool.path)", LogKey.spooled: "\(count)"]
        )
    }

    /// Reads everything before it changes anything, and applies the parts that are no worse than the running ones.
    ///
    /// Revocations apply even if the configuration file cannot be used.
    ///
    /// Returns the number of clients that were started, and the result.
    private func reload(
        _ source: AsyncStream<Event>.Continuation,
        _ group: inout TaskGroup<Void>
    ) async -> (clientCount: Int, change: Change) {
        let running = self.upstreams.withLockedValue(\.configuration)
        do {
            let configuration = try self.reread(running)
            let clientCount = try await self.apply(configuration, source, &group)
            self.upstreams.withLockedValue { $0.hasFailed = false }
            Self.logFindings(of: configuration, isRunning: true, self.logger)
            self.logCertificates(keptOutBy: configuration, running)
            self.logKeysForRestart(configuration.file)
            guard !configuration.refusals.isEmpty else {
                self.logger.notice("configuration reloaded")
                return (clientCount, .reloaded(refusals: []))
            }
            Self.logRefusals(of: configuration, self.logger)
            self.logger.error(
                "configuration only partly reloaded",
                metadata: [LogKey.refusedParts: "\(configuration.refusals.count)"]
            )
            return (clientCount, .reloaded(refusals: configuration.refusals.map(\.description)))
        } catch {
            self.upstreams.withLockedValue { $0.hasFailed = true }
            self.logger.error("configuration not reloaded", metadata: [LogKey.configurationFailure: "\(error)"])
            guard let revoked = running.revoking(now: Int64(time(nil))),
                let clientCount = try? await self.apply(revoked, source, &group)
            else { return (0, .notReloaded(failure: "\(error)")) }
            self.logger.notice("revocation lists reloaded")
            self.logCertificates(keptOutBy: revoked, running)
            return (clientCount, .notReloaded(failure: "\(error)"))
        }
    }

    /// Switches to a configuration.
    ///
    /// Returns the number of clients that were started.
    ///
    /// - Throws: an error before anything is changed.
    private func apply(
        _ configuration: ResolvedConfiguration,
        _ source: AsyncStream<Event>.Continuation,
        _ group: inout TaskGroup<Void>
    ) async throws -> Int {
        let old = self.namedClients
        let running = Dictionary(old.map { ($0.name, $0.client) }) { first, _ in first }
        let clients = try configuration.makeClients(self.health, running: running, logger: self.logger)
        try self.listener.reload(identity: configuration.identity, clientTrust: configuration.clientTrust)
        try self.feedbackListener.reload(identity: configuration.identity, clientTrust: configuration.clientTrust)
        self.start(configuration, clients, source, &group)
        await self.finish(old, behind: configuration)
        return clients.count - configuration.kept.count
    }

    private static func logRefusals(of configuration: ResolvedConfiguration, _ logger: Logger) {
        for refusal in configuration.refusals {
            let message: Logger.Message =
                refusal.provider == nil
                ? "server certificate not reloaded, the old one stays in effect"
                : refusal.hasOld
                    ? "provider not reloaded, its old configuration stays in effect"
                    : "provider kept out"
            var metadata: Logger.Metadata = [LogKey.configurationProblem: "\(refusal)"]
            if let provider = refusal.provider { metadata[LogKey.provider] = "\(provider)" }
            logger.error(message, metadata: metadata)
        }
    }

    private static func logFindings(
        of configuration: ResolvedConfiguration,
        isRunning: Bool = false,
        _ logger: Logger
    ) {
        for finding in configuration.findings(now: Int64(time(nil)), isRunning: isRunning) {
            logger.warning("configuration problem", metadata: [LogKey.configurationProblem: "\(finding)"])
        }
    }

    /// Logs the certificates of providers that were admitted before a reload and are not any more.
    private func logCertificates(keptOutBy new: ResolvedConfiguration, _ running: ResolvedConfiguration) {
        do {
            let database = self.file.feedback
            let checked = try new.checkStoredCertificates(now: Int64(time(nil)), running: running, database: database)
            for problem in checked?.problems ?? [] {
                self.logger.warning(
                    "certificate of a provider not admitted any more",
                    metadata: [LogKey.configurationProblem: "\(problem)"]
                )
            }
        } catch {
            self.logger.warning("stored certificates not read", metadata: [LogKey.failure: "\(error)"])
        }
    }

    /// Logs the changes in a reloaded configuration that require a restart.
    private func logKeysForRestart(_ file: GatewayFile) {
        let keys = file.keysForRestart(since: self.file)
        guard !keys.isEmpty else { return }
        self.logger.warning(
            "configuration changes require a restart; old values stay in effect",
            metadata: [LogKey.unappliedKeys: "\(keys.joined(separator: ", "))"]
        )
    }

    private var namedClients: [(name: String, client: HTTP2Upstream)] {
        self.upstreams.withLockedValue { Array(zip($0.configuration.providers.map(\.file.name), $0.clients)) }
    }

    /// Ends clients that are not kept: immediately if a new client replaces the old one; if the provider was
    /// removed, after its connections have ended and their notifications are completed.
    ///
    /// It returns when connections of removed providers accept nothing more, so that the message "configuration
    /// reloaded" comes after that.
    private func finish(
        _ old: [(name: String, client: HTTP2Upstream)],
        behind configuration: ResolvedConfiguration
    ) async {
        let names = Set(configuration.providers.map(\.file.name))
        for (name, client) in old where names.contains(name) && !configuration.kept.contains(name) { client.finish() }
        let leaving = old.filter { !names.contains($0.name) }
        await self.listener.readmit()
        self.backend.whenIdle(Set(leaving.map(\.name))) {
            for (_, client) in leaving { client.finish() }
        }
    }

    // MARK: Operators

    /// Whether notifications in flight complete: some have to within twice the time limit of one notification.
    package var isDelivering: Bool {
        let (inFlightCount, settledCount) = self.backend.deliveryCounts
        let now = Duration.nanoseconds(Int64(clamping: NIODeadline.now().uptimeNanoseconds))
        return self.progress.withLockedValue {
            $0.isMoving(inFlightCount: inFlightCount, settledCount: settledCount, now: now)
        }
    }

    private func adminResponder(_ hosts: HostNames) -> AdminResponder {
        AdminResponder(
            hosts: hosts,
            problem: {
                if self.upstreams.withLockedValue(\.isEnding) { return "ending" }
                return self.store.problem.map { "the feedback database cannot be written: \($0)" }
            },
            unreachable: {
                let problem = self.shared?.problem.map { "the shared database does not answer: \($0)" }
                let spools = self.spoolStatuses.flatMap { provider, status in
                    ([status.problem].compactMap(\.self) + status.held).map { "provider \(provider): \($0)" }
                }
                return [problem].compactMap(\.self) + spools
                    + self.outages.map { "provider \($0.provider): \($0.outage.text)" }
            },
            metrics: { self.metrics.text(with: self.samples) },
            settled: { self.metrics.counts(of: "apns.legacy.notifications.settled") }
        )
    }

    /// The providers for which the service is unreachable now.
    private var outages: [(provider: String, outage: UpstreamHealth.Outage)] {
        self.upstreams.withLockedValue(\.configuration.providers).compactMap { provider in
            self.health.currentOutage(provider.file.name).map { (provider.file.name, $0) }
        }
    }

    /// The state of the spool of each provider that has one.
    private var spoolStatuses: [(provider: String, status: NotificationSpool.Status)] {
        let (providers, spools) = self.upstreams.withLockedValue { ($0.configuration.providers, $0.spools) }
        return providers.compactMap { provider in
            provider.file.spool.flatMap { spools[$0] }.map { (provider.file.name, $0.status) }
        }
    }

    private func addSpools(to samples: inout [GatewayMetrics.Sample]) {
        for (provider, status) in self.spoolStatuses {
            let dimensions: KeyValuePairs = ["provider": provider]
            samples.add("apns_legacy_spool_notifications", status.count, dimensions)
            samples.add("apns_legacy_spool_bytes", status.byteCount, dimensions)
            samples.add("apns_legacy_spool_oldest_age_seconds", status.oldestAge, dimensions)
            samples.add("apns_legacy_spool_held", status.held.isEmpty ? 0 : 1, dimensions)
            samples.add("apns_legacy_spool_writable", status.problem == nil ? 1 : 0, dimensions)
        }
    }

    private var samples: [GatewayMetrics.Sample] {
        let (configuration, hasFailed) = self.upstreams.withLockedValue { ($0.configuration, $0.hasFailed) }
        var samples = self.process.samples + [BuildInformation.sample(version: self.version)]
        samples.add("apns_legacy_connections", self.listener.connectionCount)
        samples.add("apns_legacy_feedback_connections", self.feedbackListener.connectionCount)
        samples.add("apns_legacy_feedback_writable", self.store.problem == nil ? 1 : 0)
        samples.add("apns_legacy_store_reached", self.shared?.problem == nil ? 1 : 0)
        for (name, count) in self.backend.expiredResendCounts {
            samples.add("apns_legacy_resends_expired_total", count, ["provider": name], kind: .counter)
        }
        for (name, count) in self.backend.possibleResendCounts {
            samples.add("apns_legacy_resends_possible_total", count, ["provider": name], kind: .counter)
        }
        for name in configuration.providers.map(\.file.name) {
            guard let isReached = self.health.isReached(name) else { continue }
            let start = self.health.outage(name)?.start ?? 0
            samples.add("apns_legacy_upstream_reached", isReached ? 1 : 0, ["provider": name])
            samples.add("apns_legacy_upstream_unreachable_since_timestamp_seconds", start, ["provider": name])
        }
        // Whether the last configuration is in effect; of no provider: the gateway's certificate.
        let refused = Set(configuration.refusals.map { $0.provider ?? "" })
        for name in [""] + configuration.providers.map(\.file.name) + configuration.closed.map(\.name) {
            let isCurrent = !hasFailed && !refused.contains(name)
            samples.add("apns_legacy_configuration_current", isCurrent ? 1 : 0, ["provider": name])
        }
        for (list, count) in self.shared?.counts ?? self.store.counts {
            let dimensions: KeyValuePairs = ["topic": list.topic, "environment": list.environment.rawValue]
            samples.add("apns_legacy_feedback_backlog", count, dimensions)
        }
        self.addSpools(to: &samples)
        if let status = self.outcomes?.status { self.add(status, to: &samples) }
        self.addCertificates(configuration, to: &samples)
        return samples
    }

    private func add(_ outcomes: OutcomeLog.Status, to samples: inout [GatewayMetrics.Sample]) {
        samples.add("apns_legacy_outcomes_stored_bytes", outcomes.byteCount)
        samples.add("apns_legacy_outcomes_writable", outcomes.isWritable ? 1 : 0)
        guard self.webhook != nil else { return }
        samples.add("apns_legacy_outcomes_webhook_waiting", outcomes.lastNumber - outcomes.position)
        let since = outcomes.waitingSince ?? 0
        samples.add("apns_legacy_outcomes_webhook_waiting_since_timestamp_seconds", since)
    }

    private func addCertificates(_ configuration: ResolvedConfiguration, to samples: inout [GatewayMetrics.Sample]) {
        func add(_ kind: String, _ provider: String, _ fingerprint: String, _ end: Int64) {
            samples.add(
                "apns_legacy_certificate_expiry_timestamp_seconds",
                end,
                ["kind": kind, "provider": provider, "fingerprint": fingerprint]
            )
        }
        let server = configuration.identity.certificate
        add("server", "", server.fingerprint, server.notAfter)
        for provider in configuration.providers {
            guard let certificate = provider.push.tls.identity?.certificate else { continue }
            add("upstream", provider.file.name, certificate.fingerprint, certificate.notAfter)
        }
        for client in self.backend.certificates { add("client", client.provider, client.fingerprint, client.notAfter) }
    }
}

extension [GatewayMetrics.Sample] {
    fileprivate mutating func add(
        _ name: String,
        _ value: some BinaryInteger,
        _ dimensions: KeyValuePairs<String, String> = [:],
        kind: GatewayMetrics.Kind = .gauge
    ) {
        let dimensions = dimensions.map { ($0.key, $0.value) }
        self.append(GatewayMetrics.Sample(name: name, kind: kind, dimensions: dimensions, value: Double(value)))
    }
}

/// The versions of the program and of the system libraries it uses.
enum BuildInformation {
    /// Returns the metric with the versions as labels.
    static func sample(version: String) -> GatewayMetrics.Sample {
        let dimensions = [
            ("version", version), ("openssl", unsafe String(cString: OpenSSL_version(OPENSSL_VERSION_STRING))),
            ("nghttp2", unsafe String(cString: nghttp2_version(0).pointee.version_str)),
            ("sqlite", unsafe String(cString: sqlite3_libversion())),
        ]
        return GatewayMetrics.Sample(name: "apns_legacy_build_info", dimensions: dimensions, value: 1)
    }
}

/// Detects a stalled delivery: while notifications are in flight, some have to complete.
struct DeliveryProgress {
    /// How long no notification may complete while some are in flight.
    private let stallDurationMax: Duration
    private var settledCount: UInt64 = 0
    /// The time of the last progress.
    private var stalledSince: Duration?

    init(stallDurationMax: Duration) { self.stallDurationMax = stallDurationMax }

    /// Updates the counts.
    ///
    /// Returns whether the delivery makes progress.
    mutating func isMoving(inFlightCount: Int, settledCount: UInt64, now: Duration) -> Bool {
        guard inFlightCount > 0, settledCount == self.settledCount, let since = self.stalledSince else {
            self.settledCount = settledCount
            self.stalledSince = inFlightCount > 0 ? now : nil
            return true
        }
        return now - since <= self.stallDurationMax
    }
}

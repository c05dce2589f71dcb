// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSProviderHTTP2
import APNSServer
import APNSSession
import APNSTransport
import APNSWire
import FileSystemSupport
import Glibc
package import Logging
import NIOConcurrencyHelpers
package import NIOCore
import NIOPosix
import OpenSSLTLS
import TokenStore

/// The gateway from start to end.
package final class Gateway: Sendable {
    /// What a running gateway is asked to do.
    package enum Request: Sendable {
        /// Reload certificates, keys and providers.
        case reload
        /// Take nothing more, deliver what was taken, and end; asked twice, end at once.
        case end
    }

    /// Where a gateway listens.
    package struct Addresses: Sendable {
        /// The address of the binary protocol.
        package var gateway: SocketAddress
        /// The address of the feedback service.
        package var feedback: SocketAddress
        /// The operators' address; `nil` where there is none.
        package var admin: SocketAddress?

        /// All of them, in one line for people.
        package var text: String {
            "gateway \(self.gateway.hostAndPort), feedback \(self.feedback.hostAndPort), "
                + "admin \(self.admin?.hostAndPort ?? "off")"
        }
    }

    /// What a running gateway tells who runs it.
    package enum Change: Sendable {
        /// It listens everywhere.
        case ready(Addresses)
        /// It reloads the configuration.
        case reloading
        /// It has reloaded the configuration, or left everything as it was for this reason.
        case reloaded(failure: String?)
        /// It was asked to end, which takes so long at most.
        case ending(durationMax: Duration)
    }

    private struct Upstreams: Sendable {
        var configuration: ResolvedConfiguration
        var reloadable: [String: ReloadableUpstream] = [:]
        var clients: [RequestClient] = []
        var isEnding = false
    }

    private let reread: @Sendable () throws -> ResolvedConfiguration
    /// As it was at the start, which is what holds of addresses and limits.
    private let file: GatewayFile
    private let upstreams: NIOLockedValueBox<Upstreams>
    private let health: UpstreamHealth
    private let metrics: GatewayMetrics
    private let process = ProcessMetrics()
    /// Of the program.
    private let version: String
    private let progress: NIOLockedValueBox<DeliveryProgress>
    private let logger: Logger
    /// Held until the process ends.
    private let databaseLock: FileLock?
    private let store: SQLiteFeedbackStore
    private let resends: SQLiteResendStore
    private let backend: HTTP2Backend
    private let listener: Listener
    private let feedbackListener: Listener

    /// Makes a gateway that does not listen yet.
    ///
    /// - Parameters:
    ///   - configuration: what it is made of.
    ///   - openFileCountMax: how many files the process may have open.
    ///   - metrics: what the metrics of this process go to; served to operators.
    ///   - version: of the program.
    ///   - logger: for all that is logged.
    ///   - reread: reads the configuration again.
    /// - Throws: ``GatewayFailure/databaseInUse(path:)``, `GatewayStoreError` where the database cannot be used, or
    ///   `ProviderError` where a client cannot be made.
    package init(
        _ configuration: ResolvedConfiguration,
        openFileCountMax: Int,
        metrics: GatewayMetrics,
        version: String,
        logger: Logger,
        reread: @escaping @Sendable () throws -> ResolvedConfiguration
    ) throws {
        self.reread = reread
        self.file = configuration.file
        self.logger = logger
        self.metrics = metrics
        self.version = version
        self.progress = NIOLockedValueBox(DeliveryProgress(stallDurationMax: configuration.file.limits.verdict * 2))
        Self.logFindings(of: configuration, logger)
        self.health = UpstreamHealth(logger: logger)
        let clients = try configuration.makeClients(self.health, logger: logger)
        self.upstreams = NIOLockedValueBox(Upstreams(configuration: configuration, clients: clients))
        self.databaseLock = try Self.lock(configuration.file.feedback)
        self.store = try SQLiteFeedbackStore(path: configuration.file.feedback, logger: logger)
        self.resends = try SQLiteResendStore(path: configuration.file.feedback, logger: logger)
        self.backend = HTTP2Backend([], recorder: self.store, resends: self.resends, logger: logger)
        self.listener = Listener(
            Self.listener(configuration, openFileCountMax, logger),
            backend: self.backend,
            logger: logger
        )
        self.feedbackListener = Listener(
            Self.feedbackListener(configuration),
            store: BridgeFeedback(backend: self.backend, store: self.store),
            logger: logger
        )
    }

    private static func listener(
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
        // As in the file, it is less than there may be in all.
        let shareMax = listener.connectionCountMax - 1
        Self.configure(&listener.listener, configuration.file, port: configuration.file.listen.port, shareMax: shareMax)
        listener.inFlightCountMax = limits.inFlightPerConnection
        listener.outcomeTimeout = limits.verdict
        listener.idleTimeout = limits.idle
        listener.drainDuration = limits.drain
        listener.drainIdleDuration = limits.drainIdle
        // Each provider's own limit holds behind the listener, and may be raised while that runs.
        let payloadByteCountMax = GatewayFile.Provider.payloadLimits.upperBound
        listener.limits.payloadByteCountMax = payloadByteCountMax
        listener.rules.payloadByteCountMaxEnhanced = payloadByteCountMax
        listener.rules.payloadByteCountMaxItems = payloadByteCountMax
        return listener
    }

    private static func feedbackListener(_ configuration: ResolvedConfiguration) -> FeedbackListenerConfiguration {
        var listener = FeedbackListenerConfiguration(
            identity: configuration.identity,
            clientTrust: configuration.clientTrust
        )
        // It is a share of limits.connections, of which there are fewer here.
        let (port, shareMax) = (configuration.file.listen.feedbackPort, listener.connectionCountMax / 4)
        Self.configure(&listener.listener, configuration.file, port: port, shareMax: shareMax)
        return listener
    }

    /// Sets what both listeners have in common.
    private static func configure(
        _ listener: inout ListenerConfiguration,
        _ file: GatewayFile,
        port: Int,
        shareMax: Int
    ) {
        listener.host = file.listen.host
        listener.port = port
        listener.minimumVersion = file.listen.tlsMinimum
        listener.maximumVersion = file.listen.tlsMaximum
        listener.cipherList = file.listen.ciphers
        listener.admitsUnverified = true
        listener.unauthenticatedCountMaxPerAddress = file.limits.unprovedPerAddress.map { min($0, max(1, shareMax)) }
        listener.handshakeTimeout = file.limits.handshake
        listener.shutdownDuration = file.limits.shutdown
    }

    /// Keeps other gateways off the database: one that starts while another still settles what it took would not know
    /// what that one tells its providers to send again.
    private static func lock(_ path: String) throws -> FileLock? {
        do throws(FileLock.Failure) {
            return try FileLock(path: path + ".lock")
        } catch {
            // Where there can be no lock, there can be no database, which says why.
            guard case .held = error else { return nil }
            throw GatewayFailure.databaseInUse(path: path)
        }
    }

    // MARK: Its life

    private enum Event: Sendable {
        case request(Request)
        /// No connection of a provider is left, and none can come.
        case listenersEnded((any Error)?)
        /// Nothing of what providers sent is under way.
        case idle
        case clientEnded
        /// What the service has not been asked yet is not asked any more, so that providers can still be told.
        case givingUp
        /// The time for ending is over.
        case overdue
    }

    /// Files beside the connections of providers: those of the feedback service, of operators, to the service.
    private static let otherFileCountMax = 512

    /// How long after ``GatewayFile/Limits/shutdown`` it ends at the latest.
    private static let endingMargin = Duration.seconds(1)

    /// Runs until it is asked to end, or until it cannot go on.
    ///
    /// - Parameters:
    ///   - requests: what it is asked to do.
    ///   - onChange: is told what happens to it, from any thread.
    /// - Returns: of how many notifications it is not known what became of them.
    /// - Throws: ``GatewayFailure/unavailable(_:)``, or `ServerError` where an address cannot be listened on.
    package func run(
        requests: some AsyncSequence<Request, Never> & Sendable,
        onChange: @escaping @Sendable (Change) -> Void
    ) async throws -> Int {
        let (events, source) = AsyncStream.makeStream(of: Event.self)
        let failure: (any Error)? = await withTaskGroup(of: Void.self) { group in
            let admin: SocketAddress?
            do { admin = try await self.listenForOperators(&group) } catch { return error }
            self.start(self.upstreams.withLockedValue(\.configuration), self.clients, source, &group)
            group.addTask {
                var failure: (any Error)?
                do { try await self.serve() } catch { failure = error }
                source.yield(.listenersEnded(failure))
            }
            group.addTask { for await request in requests { source.yield(.request(request)) } }
            group.addTask { await self.reportAddresses(admin, onChange) }
            let failure = await self.react(to: events, source, &group, onChange)
            group.cancelAll()
            return failure
        }
        let unsettled = self.backend.inFlightCounts.values.reduce(0, +)
        await self.store.flush()
        await self.resends.flush()
        if let failure { throw failure }
        return unsettled
    }

    /// How many connections of providers are let in.
    ///
    /// Each is an open file. Where fewer may be open, fewer are let in, so that some are left for the service, the
    /// feedback database and operators.
    private static func connectionCount(_ file: GatewayFile, _ openFileCountMax: Int, _ logger: Logger) -> Int {
        let (allowed, wanted) = (openFileCountMax, file.limits.connections)
        let other = Self.otherFileCountMax + file.upstreamConnectionCount
        guard allowed - other < wanted else { return wanted }
        let count = max(1, min(wanted, max(allowed - other, allowed / 4)))
        logger.warning(
            "fewer files may be open than limits.connections needs, so fewer connections are let in",
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
        // Where there is no address, the listener's end says why.
        guard let gateway = try? await self.listener.boundAddress,
            let feedback = try? await self.feedbackListener.boundAddress
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

    /// - Returns: why it ended, where it was not told to.
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
                guard !isEnding else { continue }
                onChange(.reloading)
                let result = self.reload(source, &group)
                clientCount += result.clientCount
                onChange(.reloaded(failure: result.failure))
            case .request(.end):
                guard !isEnding else { return nil }
                isEnding = true
                onChange(.ending(durationMax: self.file.limits.shutdown + Self.endingMargin))
                self.end(source, &group)
            case .listenersEnded(let failure?): return failure
            case .listenersEnded(nil):
                // What waits for another try needs a client for it.
                self.backend.whenIdle { source.yield(.idle) }
            case .idle:
                isServing = false
                for client in self.clients { client.finish() }
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
        self.upstreams.withLockedValue { $0.isEnding = true }
        self.feedbackListener.stop()
        self.listener.stop()
        let shutdown = self.file.limits.shutdown
        group.addTask {
            try? await Task.sleep(for: shutdown * 4 / 5)
            source.yield(.givingUp)
            try? await Task.sleep(for: shutdown / 5 + Self.endingMargin)
            source.yield(.overdue)
        }
    }

    // MARK: Certificates

    private var clients: [RequestClient] { self.upstreams.withLockedValue(\.clients) }

    /// Starts the clients of the service, and sends through them from now on.
    private func start(
        _ configuration: ResolvedConfiguration,
        _ clients: [RequestClient],
        _ source: AsyncStream<Event>.Continuation,
        _ group: inout TaskGroup<Void>
    ) {
        for (provider, client) in zip(configuration.providers, clients) {
            group.addTask {
                do { try await client.run() } catch {
                    self.logger.error(
                        "service unusable until the configuration is reloaded",
                        metadata: [LogKey.provider: "\(provider.file.name)", LogKey.failure: "\(error)"]
                    )
                }
                source.yield(.clientEnded)
            }
        }
        let bridges = self.upstreams.withLockedValue { upstreams in
            upstreams.configuration = configuration
            upstreams.clients = clients
            return zip(configuration.providers, clients).map { provider, client in
                let present = upstreams.reloadable[provider.file.name] ?? ReloadableUpstream(client)
                present.replace(with: client)
                upstreams.reloadable[provider.file.name] = present
                return provider.bridge(present)
            }
        }
        self.backend.reload(bridges)
    }

    /// Reads everything before it changes anything, so that a fault leaves all as it was.
    ///
    /// - Returns: how many clients were started, and why none was.
    private func reload(
        _ source: AsyncStream<Event>.Continuation,
        _ group: inout TaskGroup<Void>
    ) -> (clientCount: Int, failure: String?) {
        do {
            let configuration = try self.reread()
            let old = self.namedClients
            let clients = try configuration.makeClients(self.health, logger: self.logger)
            try self.listener.reload(identity: configuration.identity, clientTrust: configuration.clientTrust)
            try self.feedbackListener.reload(identity: configuration.identity, clientTrust: configuration.clientTrust)
            self.start(configuration, clients, source, &group)
            self.finish(old, behind: configuration)
            Self.logFindings(of: configuration, self.logger)
            self.logKeysForRestart(configuration.file)
            self.logger.notice("configuration reloaded")
            return (clients.count, nil)
        } catch {
            self.logger.error("configuration not reloaded", metadata: [LogKey.configurationFailure: "\(error)"])
            return (0, "\(error)")
        }
    }

    private static func logFindings(of configuration: ResolvedConfiguration, _ logger: Logger) {
        for finding in configuration.findings(now: Int64(time(nil))) {
            logger.warning("configuration problem", metadata: [LogKey.configurationProblem: "\(finding)"])
        }
    }

    /// Says which changes of a configuration that was reloaded do not hold yet.
    private func logKeysForRestart(_ file: GatewayFile) {
        let keys = file.keysForRestart(since: self.file)
        guard !keys.isEmpty else { return }
        self.logger.warning(
            "configuration changed where it needs a restart; until then the old values hold",
            metadata: [LogKey.unappliedKeys: "\(keys.joined(separator: ", "))"]
        )
    }

    private var namedClients: [(name: String, client: RequestClient)] {
        self.upstreams.withLockedValue { Array(zip($0.configuration.providers.map(\.file.name), $0.clients)) }
    }

    /// Ends clients that are out of use: at once where another has taken the place; where the provider is gone, when
    /// its connections take nothing more and what they took is settled.
    private func finish(_ old: [(name: String, client: RequestClient)], behind configuration: ResolvedConfiguration) {
        let names = Set(configuration.providers.map(\.file.name))
        for (name, client) in old where names.contains(name) { client.finish() }
        let leaving = old.filter { !names.contains($0.name) }
        self.listener.readmit().whenComplete { [backend] _ in
            backend.whenIdle(Set(leaving.map(\.name))) {
                for (_, client) in leaving { client.finish() }
            }
        }
    }

    // MARK: What operators see

    /// Whether notifications that are under way come to their end, as far as can be told: within twice the time that
    /// one may be without a verdict, some have to.
    package var isDelivering: Bool {
        let (inFlightCount, settledCount) = self.backend.deliveryCounts
        let now = Duration.nanoseconds(Int64(clamping: NIODeadline.now().uptimeNanoseconds))
        return self.progress.withLockedValue {
            $0.isMoving(inFlightCount: inFlightCount, settledCount: settledCount, now: now)
        }
    }

    /// - Returns: the address, as soon as it listens there.
    private func listenForOperators(_ group: inout TaskGroup<Void>) async throws -> SocketAddress? {
        guard let admin = self.upstreams.withLockedValue(\.configuration.file.admin) else { return nil }
        let listener = AdminListener(
            problem: {
                if self.upstreams.withLockedValue(\.isEnding) { return "ending" }
                return self.store.problem.map { "the feedback database cannot be written: \($0)" }
            },
            metrics: { self.metrics.text(with: self.samples) }
        )
        let bound = MultiThreadedEventLoopGroup.singleton.any().makePromise(of: SocketAddress?.self)
        group.addTask { [logger] in
            do {
                try await listener.run(host: admin.host, port: admin.port, logger: logger) { bound.succeed($0) }
                bound.succeed(nil)
            } catch {
                bound.fail(error)
            }
        }
        do {
            return try await bound.futureResult.get()
        } catch {
            let reason = ListenError(error)
            throw GatewayFailure.unavailable("cannot listen on \(admin.host) port \(admin.port): \(reason)")
        }
    }

    private var samples: [GatewayMetrics.Sample] {
        typealias Sample = GatewayMetrics.Sample
        let configuration = self.upstreams.withLockedValue(\.configuration)
        var samples =
            self.process.samples + [
                BuildInformation.sample(version: self.version),
                Sample(name: "apns_legacy_connections", value: Double(self.listener.connectionCount)),
                Sample(name: "apns_legacy_feedback_connections", value: Double(self.feedbackListener.connectionCount)),
                Sample(name: "apns_legacy_feedback_writable", value: self.store.problem == nil ? 1 : 0),
            ]
        for (name, count) in self.backend.expiredResendCounts {
            let (kind, dimensions) = (GatewayMetrics.Kind.counter, [("provider", name)])
            samples.append(
                Sample(
                    name: "apns_legacy_resends_expired_total",
                    kind: kind,
                    dimensions: dimensions,
                    value: Double(count)
                )
            )
        }
        for provider in configuration.providers {
            guard let isReached = self.health.isReached(provider.file.name) else { continue }
            let dimensions = [("provider", provider.file.name)]
            let value: Double = isReached ? 1 : 0
            samples.append(Sample(name: "apns_legacy_upstream_reached", dimensions: dimensions, value: value))
        }
        for (list, count) in self.store.counts {
            let dimensions = [("topic", list.topic), ("environment", list.environment.rawValue)]
            samples.append(Sample(name: "apns_legacy_feedback_backlog", dimensions: dimensions, value: Double(count)))
        }
        return samples + self.certificateSamples(configuration)
    }

    private func certificateSamples(_ configuration: ResolvedConfiguration) -> [GatewayMetrics.Sample] {
        func sample(_ kind: String, _ provider: String, _ fingerprint: String, _ end: Int64) -> GatewayMetrics.Sample {
            GatewayMetrics.Sample(
                name: "apns_legacy_certificate_expiry_timestamp_seconds",
                dimensions: [("kind", kind), ("provider", provider), ("fingerprint", fingerprint)],
                value: Double(end)
            )
        }
        let server = configuration.identity.certificate
        var samples = [sample("server", "", server.fingerprint, server.notAfter)]
        for provider in configuration.providers {
            guard let certificate = provider.push.tls.identity?.certificate else { continue }
            samples.append(sample("upstream", provider.file.name, certificate.fingerprint, certificate.notAfter))
        }
        return samples
            + self.backend.certificates.map { sample("client", $0.provider, $0.fingerprint, $0.notAfter) }
    }
}

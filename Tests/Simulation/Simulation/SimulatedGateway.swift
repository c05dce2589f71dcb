// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSProviderHTTP2
import APNSServer
import APNSSession
import APNSWire
import CSimulatedKernel
import Glibc
import Logging
import NIOConcurrencyHelpers
import NIOCore
import OpenSSLTLS
import TokenStore

/// A gateway with its database on a machine; after a death or a stop, it begins again on the same port.
final class SimulatedGateway: Sendable {
    static let storeName = "/gateway.sqlite"
    static let environment = PushEnvironment.sandbox

    private static let quiet = Logger(label: "simulation") { _ in SwiftLogNoOpLogHandler() }

    private let materials: Materials
    private let servicePort: Int
    private let boundPort = NIOLockedValueBox(0)
    private let isFinished = NIOLockedValueBox(false)
    private let hasLostDatabase = NIOLockedValueBox(false)
    private let backends = NIOLockedValueBox<[HTTP2Backend]>([])
    private let inFlightCountMax = Chance.one(of: [1, 10, 1000])
    private let streamCountMax = Chance.one(of: [1, 10, 1000])
    private let retries: RetryRules
    /// A store of the gateway's author, which it then uses instead of its own.
    private let rows = Chance.once(in: 4) ? SimulatedRows() : nil
    let rejections = Chance.one(of: [RejectionPolicy.report, .report, .ignore])
    /// Whether it is stopped and started while the provider sends.
    let isRestarted = Chance.once(in: 3)

    init(_ materials: Materials, servicePort: Int) {
        self.materials = materials
        self.servicePort = servicePort
        var retries = RetryRules()
        retries.budget = Chance.one(of: [.zero, .seconds(1), .seconds(60)])
        retries.givesUpUnknownUnkept = Chance.once(in: 2)
        self.retries = retries
    }

    /// Waits until it listens for the first time.
    func port() async throws -> Int {
        while true {
            let port = self.boundPort.withLockedValue { $0 }
            if port > 0 { return port }
            try await SimulatedTime.pass(.milliseconds(10))
        }
    }

    /// The number of notifications that were not delivered, or may not be, and whose provider was not told.
    var unreportedCount: UInt64 { self.backends.withLockedValue { $0.reduce(0) { $0 + $1.unreportedCount } } }

    /// Whether it has begun without its database, which was damaged.
    var hasBegunAnew: Bool { self.hasLostDatabase.withLockedValue { $0 } }

    /// Ends it.
    func finish() { self.isFinished.withLockedValue { $0 = true } }

    /// Runs it on a machine, again after each death and failure.
    func run(on machine: Machine, _ troubles: [Machine.Trouble], _ history: History) async throws {
        while true {
            let isFinished = self.isFinished.withLockedValue { $0 }
            do {
                let hasEnded: Void? = try await machine.run(isFinished ? .none : Chance.one(of: troubles)) { process in
                    try await self.run(process, history)
                }
                if hasEnded != nil, isFinished { return }
            } catch let error as GatewayStoreError where machine.hasDamage {
                // What the message says, in the middle of a file for all that SQLite does not name so.
                history.note("the database is moved away: \(error.detail)")
                for suffix in ["", "-wal", "-shm"] { unlink(machine.folder + Self.storeName + suffix) }
                self.hasLostDatabase.withLockedValue { $0 = true }
            } catch {
                history.note("the gateway does not begin")
            }
            try await SimulatedTime.pass(Chance.duration(0...5000))
        }
    }

    private func run(_ process: Machine.Process, _ history: History) async throws {
        if let rows = self.rows {
            let store = CachedGatewayStore(SimulatedStore(rows, process), logger: Self.quiet)
            try await store.load(remembered: Self.rememberedDuration)
            async let _: Void = store.run()
            try await self.serve(process, store, history)
            await withCheckedContinuation { continuation in store.whenIdle { continuation.resume() } }
        } else {
            let store = try SQLiteGatewayStore(path: process.folder + Self.storeName, logger: Self.quiet)
            try await self.serve(process, store, history)
            await store.flush()
        }
    }

    /// The tokens on its feedback list.
    func listedTokens(_ folder: String, in list: TokenScope) async throws -> [DeviceToken] {
        let store: any FeedbackListStore
        if let rows = self.rows {
            let cached = CachedGatewayStore(SimulatedStore(rows, nil), logger: Self.quiet)
            try await cached.load(remembered: Self.rememberedDuration)
            store = cached
        } else {
            store = try SQLiteGatewayStore(path: folder + Self.storeName, logger: Self.quiet)
        }
        return store.page(of: list, from: 0, countMin: .max).buckets.flatMap(\.keys)
    }

    /// After the default of two minutes, a resend is a new notification.
    private static let rememberedDuration = Duration.seconds(86_400)

    private func serve(
        _ process: Machine.Process,
        _ store: any FeedbackListStore & ResendStore,
        _ history: History
    ) async throws {
        let upstream = try self.upstream(process.group)
        async let upstreamRun: Void = upstream.run()
        // Sometimes it is started with a configuration that refuses the provider.
        let refuses = Chance.once(in: 20)
        if refuses { history.note("the gateway refuses the provider") }
        let authority = refuses ? self.materials.otherAuthorityPEM : self.materials.authorityPEM
        var bridge = BridgeConfiguration(
            name: "shop",
            admission: AdmissionRule(verifier: try CertificateVerifier(authorities: authority)),
            environment: Self.environment,
            upstream: upstream
        )
        bridge.requests = RequestRules(topic: GatewayScenario.topic)
        bridge.rememberedDuration = Self.rememberedDuration
        bridge.retries = self.retries
        bridge.rejections = self.rejections
        let backend = HTTP2Backend(
            [bridge],
            recorder: store,
            resends: store,
            eventLoopGroup: process.group,
            logger: Self.quiet
        )
        self.backends.withLockedValue { $0.append(backend) }
        var listening = BinaryListenerConfiguration(
            identity: self.materials.serverIdentity,
            clientTrust: self.materials.server.trust
        )
        listening.listener.port = self.boundPort.withLockedValue { $0 }
        listening.inFlightCountMax = self.inFlightCountMax
        let listener = Listener(listening, backend: backend, eventLoopGroup: process.group, logger: Self.quiet)
        try await listener.withRunning { listener in
            let port = try await listener.boundAddress.port
            self.boundPort.withLockedValue { $0 = port }
            if self.isRestarted, Chance.once(in: 2) {
                return try await SimulatedTime.pass(Chance.duration(0...Chance.one(of: [100, 1000, 20_000])))
            }
            while !self.isFinished.withLockedValue({ $0 }) { try await SimulatedTime.pass(.milliseconds(500)) }
        }
        history.note("the gateway has stopped")
        upstream.finish()
        try await upstreamRun
    }

    private func upstream(_ group: any EventLoopGroup) throws -> HTTP2Upstream {
        var configuration = HTTP2Configuration(
            endpoint: HTTP2Endpoint(host: "localhost", port: self.servicePort),
            identity: self.materials.identity,
            trust: self.materials.client.trust
        )
        configuration.streamCountMax = self.streamCountMax
        configuration.queueTimeout = nil
        configuration.endsWhenRefused = false
        return try HTTP2Upstream(configuration, eventLoopGroup: group, logger: Self.quiet)
    }
}

/// The rows of a store of the gateway's author, on a host that does not fail.
final class SimulatedRows: Sendable {
    private let rows = NIOLockedValueBox<[String: String]>([:])

    var all: [String: String] { self.rows.withLockedValue { $0 } }

    func save(_ rows: some Sequence<(key: String, value: String?)>) {
        self.rows.withLockedValue { for (key, value) in rows { $0[key] = value } }
    }
}

/// A process's connection to these rows, which sometimes fails before or after some or all of a batch was stored.
private struct SimulatedStore: GatewayStore {
    private struct Failure: Error {}

    private let rows: SimulatedRows
    private let process: Machine.Process?

    init(_ rows: SimulatedRows, _ process: Machine.Process?) {
        self.rows = rows
        self.process = process
    }

    func load() -> [String: String] { self.rows.all }

    func save(_ rows: [String: String?]) async throws {
        let (latency, isFailing) = (Chance.one(of: [0, 10, 1000]), Chance.once(in: 10))
        try await SimulatedTime.pass(Chance.duration(0...latency))
        guard self.process?.isAlive == true else { throw Failure() }
        self.rows.save(rows.sorted { $0.key < $1.key }.prefix(isFailing ? Chance.number(0...rows.count) : rows.count))
        try await SimulatedTime.pass(Chance.duration(0...latency))
        if isFailing { throw Failure() }
    }
}

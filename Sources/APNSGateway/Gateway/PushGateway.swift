// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSession
import APNSTransport
public import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix

#if ServiceLifecycleSupport
public import ServiceLifecycle

extension PushGateway: Service {}
#endif

/// A gateway of the binary protocol whose admission, store and upstream are yours.
///
/// <doc:Running-your-own-gateway> has an example.
///
/// It listens while ``run()`` runs. On graceful shutdown and after ``stop()`` it accepts no more connections, tells
/// providers which notifications were accepted, and waits for deliveries in progress, within
/// `ListenerConfiguration.shutdownTimeout`. On cancellation it ends immediately.
public final class PushGateway: Sendable {
    /// The maximum number of rows in one call of ``GatewayStore/save(_:)``.
    public static let savedRowCountMax = 1000

    private let configuration: PushGatewayConfiguration
    private let backend: HTTP2Backend
    private let store: CachedGatewayStore
    private let deliveries: GatewayDeliveries
    private let listener: Listener
    private let feedbackListener: Listener?
    private let logger: Logger
    private let hasRun = NIOLockedValueBox(false)
    private let bound = MultiThreadedEventLoopGroup.singleton.any().makePromise(of: Ports.self)

    /// The ports of the listeners.
    private struct Ports {
        var port: Int
        var feedbackPort: Int?
    }

    /// Creates a gateway, which does not listen yet.
    ///
    /// - Parameters:
    ///   - configuration: the addresses and options.
    ///   - admission: decides which providers may use the gateway.
    ///   - store: stores what the gateway has to know after a restart.
    ///   - upstream: delivers the notifications.
    ///   - logger: receives connections, refusals with their reasons, and failures of the store.
    public convenience init(
        _ configuration: PushGatewayConfiguration,
        admission: any GatewayAdmission,
        store: any GatewayStore,
        upstream: any GatewayUpstream,
        logger: Logger = .current
    ) {
        let cached = CachedGatewayStore(store, logger: logger)
        self.init(configuration, admission: admission, store: cached, upstream: upstream, logger: logger)
    }

    init(
        _ configuration: PushGatewayConfiguration,
        admission: any GatewayAdmission,
        store: CachedGatewayStore,
        upstream: any GatewayUpstream,
        logger: Logger
    ) {
        self.configuration = configuration
        self.store = store
        self.deliveries = GatewayDeliveries(upstream, countMax: configuration.deliveryCountMax)
        self.backend = HTTP2Backend([], recorder: store, resends: store, logger: logger)
        let backend = GatewayBackend(
            configuration,
            self.backend,
            admission: admission,
            store: store,
            deliveries: self.deliveries
        )
        self.listener = Listener(configuration.listener, backend: backend, logger: logger)
        self.logger = logger
        self.feedbackListener = configuration.feedback.map { Listener($0, store: backend, logger: logger) }
    }

    deinit { self.bound.fail(ServerError.notListening) }

    /// The port of the binary protocol, once the gateway listens.
    ///
    /// - Throws: `ServerError` if it fails to listen, or the error of ``GatewayStore/load()``.
    public var port: Int { get async throws { try await self.bound.futureResult.get().port } }

    /// The port of the feedback service, once the gateway listens; `nil` if there is none.
    ///
    /// - Throws: `ServerError` if it fails to listen, or the error of ``GatewayStore/load()``.
    public var feedbackPort: Int? { get async throws { try await self.bound.futureResult.get().feedbackPort } }

    /// Ends ``run()`` like a graceful shutdown.
    public func stop() {
        self.listener.stop()
        self.feedbackListener?.stop()
    }

    /// Listens until graceful shutdown, ``stop()`` or cancellation.
    ///
    /// - Throws: `ServerError`, or the error of ``GatewayStore/load()``.
    public func run() async throws {
        try self.begin()
        try await self.runOnce()
    }

    /// Only the first run can listen.
    private func begin() throws(ServerError) {
        let isFirst = self.hasRun.withLockedValue { hasRun in
            defer { hasRun = true }
            return !hasRun
        }
        guard isFirst else { throw .ranAlready }
    }

    private func runOnce() async throws {
        do {
            try await self.store.load(remembered: BridgeConfiguration.rememberedDurationDefault)
        } catch {
            self.bound.fail(error)
            throw error
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await self.store.run() }
            group.addTask { await self.deliveries.run() }
            group.addTask { await self.reportPorts() }
            let result = await self.listen()
            await self.settle()
            self.deliveries.finish()
            group.cancelAll()
            try await group.waitForAll()
            try result.get()
        }
    }

    /// Runs while `body` runs, and ends before this method returns or throws.
    ///
    /// - Parameter body: called when the gateway listens, in the task and on the actor of the caller.
    /// - Returns: what `body` returns, also if the gateway ends with an error, which is logged.
    /// - Throws: the error of `body`, or that of ``run()`` if the gateway does not listen.
    public func withRunning<Value>(_ body: (PushGateway) async throws -> Value) async throws -> Value {
        try self.begin()
        return try await APNSTransport.withRunning(
            self.runOnce,
            logger: self.logger,
            ready: { _ = try await self.port },
            end: self.stop,
            operation: { try await body(self) }
        )
    }

    private func reportPorts() async {
        do {
            let port = try await self.listener.boundAddress.port
            self.bound.succeed(Ports(port: port, feedbackPort: try await self.feedbackListener?.boundAddress.port))
        } catch {
            self.bound.fail(error)
        }
    }

    /// Runs the listeners; if one cannot listen, the other ends as well.
    private func listen() async -> Result<Void, any Error> {
        await withTaskGroup(of: Result<Void, any Error>.self) { group in
            for listener in [self.listener, self.feedbackListener].compactMap(\.self) {
                group.addTask {
                    do { return .success(try await listener.run()) } catch { return .failure(error) }
                }
            }
            var first: Result<Void, any Error> = .success(())
            for await result in group {
                if case .success = first { first = result }
                self.stop()
            }
            return first
        }
    }

    /// Waits until nothing is in flight, and then until everything is stored, within the time of a shutdown.
    private func settle() async {
        guard !Task.isCancelled else { return }
        let idle = MultiThreadedEventLoopGroup.singleton.any().makePromise(of: Void.self)
        let timeout = TimeAmount(self.configuration.listener.shutdownTimeout)
        let timer = idle.futureResult.eventLoop.scheduleTask(in: timeout) { idle.succeed() }
        self.backend.whenIdle { self.store.whenIdle { idle.succeed() } }
        await withTaskCancellationHandler {
            try? await idle.futureResult.get()
        } onCancel: {
            idle.succeed()
        }
        timer.cancel()
    }
}

extension PushGateway: CustomStringConvertible, CustomReflectable {
    /// The configured address, in one line.
    public var description: String { "\(self.configuration)" }

    /// Empty, so that `dump` prints only the ``description``.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

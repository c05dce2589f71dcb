// SPDX-License-Identifier: Apache-2.0

public import Logging
import NIOConcurrencyHelpers
public import NIOCore
public import NIOPosix
public import OpenSSLTLS
public import ServiceLifecycle

/// A gateway of the binary protocol: takes notifications from providers over mutual TLS and gives them to a backend.
///
/// It listens from ``run()`` on. On graceful shutdown it takes no more connections, lets what is in flight be settled,
/// tells providers with status 10 (by option), and cuts what is left after
/// ``BinaryFrontConfiguration/shutdownDuration``. On cancellation it cuts all connections at once.
public final class BinaryFront: Service, Sendable {
    private let configuration: BinaryFrontConfiguration
    private let backend: any DeliveryBackend
    private let group: any EventLoopGroup
    private let logger: Logger
    private let registry: ConnectionRegistry
    private let bound: EventLoopPromise<SocketAddress>
    private let stopped: EventLoopPromise<Void>
    private let hasRun = NIOLockedValueBox(false)
    private let tls = NIOLockedValueBox<TLSContext?>(nil)

    /// Makes a front that does not listen yet.
    ///
    /// - Parameters:
    ///   - configuration: where it listens, whom it lets in, and what it puts up with.
    ///   - backend: where the notifications go.
    ///   - eventLoopGroup: by default NIO's own.
    ///   - logger: is told of connections, at debug level.
    public init(
        configuration: BinaryFrontConfiguration,
        backend: any DeliveryBackend,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current
    ) {
        self.configuration = configuration
        self.backend = backend
        self.group = eventLoopGroup
        self.logger = logger
        self.registry = ConnectionRegistry(countMax: configuration.connectionCountMax)
        self.bound = eventLoopGroup.any().makePromise()
        self.stopped = eventLoopGroup.any().makePromise()
    }

    deinit {
        self.bound.fail(GatewayError.notListening)
        self.stopped.succeed(())
    }

    /// The address it listens on, as soon as it does.
    ///
    /// - Throws: ``GatewayError`` where it never does.
    public var boundAddress: SocketAddress {
        get async throws { try await self.bound.futureResult.get() }
    }

    /// How many connections are open, in or after their handshake.
    public var connectionCount: Int { self.registry.count }

    /// Takes another certificate, and other authorities, for connections to come.
    ///
    /// - Parameters:
    ///   - identity: the certificate and key.
    ///   - clientTrust: the authorities of providers' certificates.
    /// - Throws: ``GatewayError/tls(_:)``; all stays as it was then.
    public func reload(identity: TLSIdentity, clientTrust: TLSTrust) throws(GatewayError) {
        var configuration = self.configuration
        configuration.identity = identity
        configuration.clientTrust = clientTrust
        let tls = try configuration.tlsContext()
        self.tls.withLockedValue { $0 = tls }
    }

    /// Ends ``run()`` as a graceful shutdown does.
    public func stop() { self.stopped.succeed(()) }

    /// Listens until graceful shutdown, ``stop()`` or cancellation.
    ///
    /// - Throws: ``GatewayError``.
    public func run() async throws {
        let isFirst = self.hasRun.withLockedValue { hasRun in
            defer { hasRun = true }
            return !hasRun
        }
        guard isFirst else { throw GatewayError.ranAlready }
        let listener: any Channel
        do {
            listener = try await self.listen()
        } catch {
            self.bound.fail(error)
            throw error
        }
        await withTaskCancellationHandler {
            await withGracefulShutdownHandler {
                try? await self.stopped.futureResult.get()
            } onGracefulShutdown: {
                self.stopped.succeed(())
            }
        } onCancel: {
            self.stopped.succeed(())
        }
        try? await listener.close()
        await self.endConnections(within: Task.isCancelled ? .zero : self.configuration.shutdownDuration)
    }

    private func listen() async throws -> any Channel {
        let first = try self.configuration.tlsContext()
        self.tls.withLockedValue { $0 = $0 ?? first }
        let observer = GatewayObserver()
        let bootstrap = ServerBootstrap(group: self.group)
            .serverChannelOption(.backlog, value: 256)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelOption(.socketOption(.so_keepalive), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: 65_536))
            .childChannelInitializer { [configuration, backend, registry, logger, tls = self.tls] channel in
                channel.eventLoop.makeCompletedFuture {
                    guard let number = registry.add(channel) else {
                        observer.connectionRefused()
                        throw ChannelError.operationUnsupported
                    }
                    let floor = SocketFloor()
                    let tls = try TLSHandler(serverContext: tls.withLockedValue { $0 ?? first })
                    let front = BinaryFrontHandler(
                        number: number,
                        configuration: configuration,
                        backend: backend,
                        observer: observer,
                        floor: floor,
                        tls: tls,
                        eventLoop: channel.eventLoop,
                        logger: logger
                    )
                    try channel.pipeline.syncOperations.addHandlers(floor, tls, front)
                }
            }
        let (host, port) = (self.configuration.host, self.configuration.port)
        do {
            let listener = try await bootstrap.bind(host: host, port: port).get()
            guard let address = listener.localAddress else { throw GatewayError.notListening }
            self.logger.debug("gateway listens", metadata: [LogKey.address: "\(address)"])
            self.bound.succeed(address)
            return listener
        } catch let error as GatewayError {
            throw error
        } catch {
            throw GatewayError.listen(host: host, port: port, detail: "\(error)")
        }
    }

    private func endConnections(within duration: Duration) async {
        let eventLoop = self.group.any()
        let emptied = eventLoop.makePromise(of: Void.self)
        self.registry.close(emptied)
        if duration > .zero {
            self.registry.send(BinaryFrontHandler.Shutdown(isAnnounced: self.configuration.announcesShutdown))
        }
        // Also cuts those that arrived while the shutdown was sent.
        let cut = eventLoop.scheduleTask(in: TimeAmount(duration)) { [registry] in
            registry.send(SocketFloor.Cut(isReset: false))
        }
        try? await emptied.futureResult.get()
        cut.cancel()
    }
}

extension BinaryFront {
    /// Lends a running front to `body`, and ends it on every way out.
    ///
    /// - Parameters:
    ///   - configuration: where it listens, whom it lets in, and what it puts up with.
    ///   - backend: where the notifications go.
    ///   - eventLoopGroup: by default NIO's own.
    ///   - logger: is told of connections, at debug level.
    ///   - body: is called when the front listens.
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws, or ``GatewayError`` where the front cannot listen.
    public static func withRunning<Value: Sendable>(
        _ configuration: BinaryFrontConfiguration,
        backend: any DeliveryBackend,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current,
        _ body: @escaping @Sendable (BinaryFront) async throws -> Value
    ) async throws -> Value {
        let front = BinaryFront(
            configuration: configuration,
            backend: backend,
            eventLoopGroup: eventLoopGroup,
            logger: logger
        )
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await front.run() }
            let result: Result<Value, any Error>
            do {
                _ = try await front.boundAddress
                result = .success(try await body(front))
            } catch {
                result = .failure(error)
            }
            front.stop()
            try await group.waitForAll()
            return try result.get()
        }
    }
}

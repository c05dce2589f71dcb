// SPDX-License-Identifier: Apache-2.0

import APNSTransport
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
/// ``BinaryListenerConfiguration/shutdownDuration``. On cancellation it cuts all connections at once.
public final class BinaryListener: Service, Sendable {
    private let configuration: BinaryListenerConfiguration
    private let backend: any DeliveryBackend
    private let group: any EventLoopGroup
    private let logger: Logger
    private let lifecycle: ListenerLifecycle
    private let metrics = ListenerMetrics()
    private let admission: ConnectionAdmission
    private let tls = NIOLockedValueBox<TLSContext?>(nil)

    /// Makes a listener that does not listen yet.
    ///
    /// - Parameters:
    ///   - configuration: where it listens, whom it lets in, and its limits.
    ///   - backend: where the notifications go.
    ///   - eventLoopGroup: by default NIO's own.
    ///   - logger: is told of connections, at debug level, and of refusals with their reasons.
    public init(
        configuration: BinaryListenerConfiguration,
        backend: any DeliveryBackend,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current
    ) {
        self.configuration = configuration
        self.backend = backend
        self.group = eventLoopGroup
        self.logger = logger
        let (count, unauthenticatedCount) = (configuration.connectionCountMax, configuration.unauthenticatedCountMax)
        self.lifecycle = ListenerLifecycle(
            group: eventLoopGroup,
            connectionCountMax: count,
            unauthenticatedCountMax: unauthenticatedCount,
            faults: ServerError.lifecycleFaults,
            acceptPaused: { ConnectionAdmission.logAcceptPause($0, logger) }
        )
        self.admission = ConnectionAdmission(
            self.lifecycle.registry,
            countMax: count,
            unauthenticatedCountMax: unauthenticatedCount,
            metrics: self.metrics,
            refusals: RefusalLog(logger)
        )
    }

    /// The address it listens on, as soon as it does.
    ///
    /// - Throws: ``ServerError`` where it never does.
    public var boundAddress: SocketAddress {
        get async throws { try await self.lifecycle.boundAddress }
    }

    /// How many connections are open, in or after their handshake.
    public var connectionCount: Int { self.lifecycle.registry.count }

    /// Takes another certificate, and other authorities, for connections to come.
    ///
    /// - Parameters:
    ///   - identity: the certificate and key.
    ///   - clientTrust: the authorities of providers' certificates.
    /// - Throws: ``ServerError/tls(_:)``; all stays as it was then.
    public func reload(identity: TLSIdentity, clientTrust: TLSTrust) throws(ServerError) {
        var configuration = self.configuration
        configuration.identity = identity
        configuration.clientTrust = clientTrust
        let tls = try configuration.tlsContext()
        self.tls.withLockedValue { $0 = tls }
    }

    /// Asks the backend about each provider anew; who is not let in any more as before is treated as at a graceful
    /// shutdown: nothing more is taken, and the connection ends when what is in flight is settled.
    ///
    /// - Returns: completes when nothing more is taken from those.
    /// - SeeAlso: ``DeliveryConnection/isAdmitted(_:)``.
    public func readmit() -> EventLoopFuture<Void> {
        self.lifecycle.registry.send(BinaryConnectionHandler.Readmission(), on: self.group.any())
    }

    /// Ends ``run()`` as a graceful shutdown does.
    public func stop() { self.lifecycle.stop() }

    /// Listens until graceful shutdown, ``stop()`` or cancellation.
    ///
    /// - Throws: ``ServerError``.
    public func run() async throws {
        try await self.lifecycle.run(
            host: self.configuration.host,
            port: self.configuration.port,
            within: self.configuration.shutdownDuration,
            farewell: BinaryConnectionHandler.Shutdown(isAnnounced: self.configuration.announcesShutdown),
            bind: self.bind
        )
    }

    private func bind() throws -> EventLoopFuture<any Channel> {
        let first = try self.configuration.tlsContext()
        self.tls.withLockedValue { $0 = $0 ?? first }
        return ServerBootstrap(group: self.group)
            .serverChannelOption(.backlog, value: 256)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelOption(.socketOption(.so_keepalive), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: 65_536))
            .childChannelInitializer {
                [configuration, backend, metrics, admission, logger, tls = self.tls] channel in
                channel.eventLoop.makeCompletedFuture {
                    let number = try admission.enter(channel)
                    let tls = try TLSHandler(serverContext: tls.withLockedValue { $0 ?? first })
                    let listener = BinaryConnectionHandler(
                        number: number,
                        configuration: configuration,
                        backend: backend,
                        metrics: metrics,
                        admission: admission,
                        tls: tls,
                        eventLoop: channel.eventLoop,
                        logger: logger
                    )
                    try channel.pipeline.syncOperations.addHandlers(RawCloseHandler(), tls, listener)
                    try configuration.configurePipeline?(channel, number)
                }
            }
            .bind(host: self.configuration.host, port: self.configuration.port)
    }
}

extension BinaryListener {
    /// Lends a running listener to `body`, and ends it on every way out.
    ///
    /// - Parameters:
    ///   - configuration: where it listens, whom it lets in, and its limits.
    ///   - backend: where the notifications go.
    ///   - eventLoopGroup: by default NIO's own.
    ///   - logger: is told of connections, at debug level.
    ///   - body: is called when the listener listens.
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws, or ``ServerError`` where the listener cannot listen.
    public static func withRunning<Value: Sendable>(
        _ configuration: BinaryListenerConfiguration,
        backend: any DeliveryBackend,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current,
        _ body: @escaping @Sendable (BinaryListener) async throws -> Value
    ) async throws -> Value {
        let listener = BinaryListener(
            configuration: configuration,
            backend: backend,
            eventLoopGroup: eventLoopGroup,
            logger: logger
        )
        return try await listener.lifecycle.lend(run: listener.run) { try await body(listener) }
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSTransport
public import Logging
import NIOConcurrencyHelpers
public import NIOCore
public import NIOPosix
public import OpenSSLTLS
public import ServiceLifecycle

/// The feedback service: gives each provider the list of its topic's dead tokens over mutual TLS.
///
/// Entries leave the ``FeedbackStore`` only when all of a list was written and the provider has closed in order; what
/// was cut short is delivered again. It listens from ``run()`` on, and ends on graceful shutdown, ``stop()`` or
/// cancellation.
public final class FeedbackListener: Service, Sendable {
    private let configuration: FeedbackListenerConfiguration
    private let store: any FeedbackStore
    private let group: any EventLoopGroup
    private let logger: Logger
    private let lifecycle: ListenerLifecycle
    private let admission: ConnectionAdmission
    private let connectionCounter: ProviderConnectionCounter
    private let tls = NIOLockedValueBox<TLSContext?>(nil)

    /// Makes a listener that does not listen yet.
    ///
    /// - Parameters:
    ///   - configuration: where it listens, whom it lets in, and how it delivers.
    ///   - store: where the tuples are from.
    ///   - eventLoopGroup: by default NIO's own.
    ///   - logger: is told of connections, at debug level, and of refusals with their reasons.
    public init(
        configuration: FeedbackListenerConfiguration,
        store: any FeedbackStore,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current
    ) {
        self.configuration = configuration
        self.store = store
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
        self.connectionCounter = ProviderConnectionCounter(countMax: configuration.connectionCountMaxPerProvider)
        self.admission = ConnectionAdmission(
            self.lifecycle.registry,
            countMax: count,
            unauthenticatedCountMax: unauthenticatedCount,
            metrics: ListenerMetrics(),
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
            farewell: FeedbackConnectionHandler.Shutdown(),
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
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer {
                [configuration, store, admission, connectionCounter, logger, tls = self.tls] channel in
                channel.eventLoop.makeCompletedFuture {
                    let number = try admission.enter(channel)
                    let tls = try TLSHandler(serverContext: tls.withLockedValue { $0 ?? first })
                    let handler = FeedbackConnectionHandler(
                        number: number,
                        configuration: configuration,
                        store: store,
                        admission: admission,
                        connectionCounter: connectionCounter,
                        tls: tls,
                        logger: logger
                    )
                    try channel.pipeline.syncOperations.addHandlers(RawCloseHandler(), tls, handler)
                    try configuration.configurePipeline?(channel, number)
                }
            }
            .bind(host: self.configuration.host, port: self.configuration.port)
    }
}

extension FeedbackListener {
    /// Lends a running listener to `body`, and ends it on every way out.
    ///
    /// - Parameters:
    ///   - configuration: where it listens, whom it lets in, and how it delivers.
    ///   - store: where the tuples are from.
    ///   - eventLoopGroup: by default NIO's own.
    ///   - logger: is told of connections, at debug level.
    ///   - body: is called when the listener listens.
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws, or ``ServerError`` where the listener cannot listen.
    public static func withRunning<Value: Sendable>(
        _ configuration: FeedbackListenerConfiguration,
        store: any FeedbackStore,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current,
        _ body: @escaping @Sendable (FeedbackListener) async throws -> Value
    ) async throws -> Value {
        let listener = FeedbackListener(
            configuration: configuration,
            store: store,
            eventLoopGroup: eventLoopGroup,
            logger: logger
        )
        return try await listener.lifecycle.lend(run: listener.run) { try await body(listener) }
    }
}

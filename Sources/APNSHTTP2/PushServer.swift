// SPDX-License-Identifier: Apache-2.0

public import Logging
import NIOConcurrencyHelpers
public import NIOCore
import NIOHTTP2
public import NIOPosix
import OpenSSLTLS
public import ServiceLifecycle

/// The service's end of the HTTP/2 provider API, as far as clients can tell.
///
/// It listens from ``run()`` on. On graceful shutdown it takes no more connections, tells the others that it goes away,
/// answers what it has, and cuts what is left after ``PushServerConfiguration/shutdownDuration``.
public final class PushServer: Service, Sendable {
    private struct Connections {
        var open: [UInt64: NIOLoopBound<PushServerHandler>] = [:]
        var channels: [UInt64: any Channel] = [:]
        var lastNumber: UInt64 = 0
        var isClosed = false
        var emptied: EventLoopPromise<Void>?
    }

    private let configuration: PushServerConfiguration
    private let service: any PushService
    private let group: any EventLoopGroup
    private let logger: Logger
    private let connections = NIOLockedValueBox(Connections())
    private let bound: EventLoopPromise<SocketAddress>
    private let stopped: EventLoopPromise<Void>
    private let hasRun = NIOLockedValueBox(false)

    /// How many control frames, or resets of streams, a client may send in a window of 30 s.
    private static let frameCountMax = 20_000

    /// Makes a server that does not listen yet.
    ///
    /// - Parameters:
    ///   - configuration: where it listens, whom it lets in, and how it behaves.
    ///   - service: where the requests go.
    ///   - eventLoopGroup: by default NIO's own.
    ///   - logger: is told of connections and refusals, at debug level.
    public init(
        configuration: PushServerConfiguration,
        service: any PushService,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current
    ) {
        self.configuration = configuration
        self.service = service
        self.group = eventLoopGroup
        self.logger = logger
        self.bound = eventLoopGroup.any().makePromise()
        self.stopped = eventLoopGroup.any().makePromise()
    }

    deinit {
        self.bound.fail(PushError.notListening)
        self.stopped.succeed(())
    }

    /// The address it listens on, as soon as it does.
    ///
    /// - Throws: ``PushError`` where it never does.
    public var boundAddress: SocketAddress {
        get async throws { try await self.bound.futureResult.get() }
    }

    /// How many connections are open, in or after their handshake.
    public var connectionCount: Int { self.connections.withLockedValue(\.channels.count) }

    /// Ends ``run()`` as a graceful shutdown does.
    public func stop() { self.stopped.succeed(()) }

    /// Listens until graceful shutdown, ``stop()`` or cancellation.
    ///
    /// - Throws: ``PushError``.
    public func run() async throws {
        let isFirst = self.hasRun.withLockedValue { hasRun in
            defer { hasRun = true }
            return !hasRun
        }
        guard isFirst else { throw PushError.alreadyRan }
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
        let tls = try self.configuration.tlsContext()
        let judge = ProviderTokenJudge(self.configuration)
        let bootstrap = ServerBootstrap(group: self.group)
            .serverChannelOption(.backlog, value: 256)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: 65_536))
            .childChannelInitializer { [weak self] channel in
                channel.eventLoop.makeCompletedFuture {
                    guard let self else { throw ChannelError.operationUnsupported }
                    try self.prepare(channel, tls, judge)
                }
            }
        let (host, port) = (self.configuration.host, self.configuration.port)
        do {
            let listener = try await bootstrap.bind(host: host, port: port).get()
            guard let address = listener.localAddress else { throw PushError.notListening }
            self.logger.debug("push server listens", metadata: [LogKey.address: "\(address)"])
            self.bound.succeed(address)
            return listener
        } catch let error as PushError {
            throw error
        } catch {
            throw PushError.listen(host: host, port: port, detail: "\(error)")
        }
    }

    private func prepare(_ channel: any Channel, _ context: TLSContext, _ judge: ProviderTokenJudge) throws {
        guard let number = self.add(channel) else { throw ChannelError.operationUnsupported }
        let tls = try TLSHandler(serverContext: context)
        let handler = PushServerHandler(
            number: number,
            configuration: self.configuration,
            service: self.service,
            judge: judge,
            tls: tls,
            logger: self.logger
        )
        let bound = NIOLoopBound(handler, eventLoop: channel.eventLoop)
        self.connections.withLockedValue { connections in
            if connections.channels[number] != nil { connections.open[number] = bound }
        }
        let sync = channel.pipeline.syncOperations
        try sync.addHandlers(ConnectionFloor(), tls, self.frameHandler(), handler)
    }

    private func frameHandler() -> NIOHTTP2Handler {
        var connection = NIOHTTP2Handler.ConnectionConfiguration()
        connection.initialSettings = [
            HTTP2Setting(parameter: .maxConcurrentStreams, value: self.configuration.streamCountFirst),
            HTTP2Setting(parameter: .maxHeaderListSize, value: 16_384),
        ]
        connection.controlFrameRateLimit.maximumCount = Self.frameCountMax
        var stream = NIOHTTP2Handler.StreamConfiguration()
        stream.streamResetFrameRateLimit.maximumCount = Self.frameCountMax
        stream.streamErrorRateLimit.maximumCount = Self.frameCountMax
        return NIOHTTP2Handler(mode: .server, connectionConfiguration: connection, streamConfiguration: stream)
    }

    // MARK: Connections

    private func add(_ channel: any Channel) -> UInt64? {
        let countMax = self.configuration.connectionCountMax
        let number = self.connections.withLockedValue { connections -> UInt64? in
            guard !connections.isClosed, connections.channels.count < countMax else { return nil }
            connections.lastNumber += 1
            connections.channels[connections.lastNumber] = channel
            return connections.lastNumber
        }
        guard let number else { return nil }
        channel.closeFuture.whenComplete { _ in self.remove(number) }
        return number
    }

    private func remove(_ number: UInt64) {
        let (emptied, handler) = self.connections.withLockedValue { connections in
            connections.channels[number] = nil
            let handler = connections.open.removeValue(forKey: number)
            guard connections.channels.isEmpty else { return (EventLoopPromise<Void>?.none, handler) }
            defer { connections.emptied = nil }
            return (connections.emptied, handler)
        }
        // Let go outside the lock, because that calls out.
        withExtendedLifetime(handler) {}
        emptied?.succeed(())
    }

    private func endConnections(within duration: Duration) async {
        let eventLoop = self.group.any()
        let emptied = eventLoop.makePromise(of: Void.self)
        let (handlers, isEmpty) = self.connections.withLockedValue { connections in
            connections.isClosed = true
            if !connections.channels.isEmpty { connections.emptied = emptied }
            return (connections.open, connections.channels.isEmpty)
        }
        if isEmpty { emptied.succeed(()) }
        let channels = self.connections.withLockedValue(\.channels)
        if duration > .zero {
            for (number, channel) in channels {
                guard let handler = handlers[number] else { continue }
                channel.eventLoop.execute { handler.value.goAway() }
            }
        }
        let cut = eventLoop.scheduleTask(in: TimeAmount(duration)) {
            for channel in self.connections.withLockedValue(\.channels).values {
                channel.triggerUserOutboundEvent(ConnectionFloor.Cut(), promise: nil)
            }
        }
        try? await emptied.futureResult.get()
        cut.cancel()
    }
}

extension PushServer {
    /// Lends a running server to `body`, and ends it on every way out.
    ///
    /// - Parameters:
    ///   - configuration: where it listens, whom it lets in, and how it behaves.
    ///   - service: where the requests go.
    ///   - eventLoopGroup: by default NIO's own.
    ///   - logger: is told of connections and refusals, at debug level.
    ///   - body: is called when the server listens.
    /// - Returns: what `body` returns.
    /// - Throws: what `body` throws, or ``PushError`` where the server cannot listen.
    public static func withRunning<Value: Sendable>(
        _ configuration: PushServerConfiguration,
        service: any PushService,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
        logger: Logger = .current,
        _ body: @escaping @Sendable (PushServer) async throws -> Value
    ) async throws -> Value {
        let server = PushServer(
            configuration: configuration,
            service: service,
            eventLoopGroup: eventLoopGroup,
            logger: logger
        )
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await server.run() }
            let result: Result<Value, any Error>
            do {
                _ = try await server.boundAddress
                result = .success(try await body(server))
            } catch {
                result = .failure(error)
            }
            server.stop()
            try await group.waitForAll()
            return try result.get()
        }
    }
}

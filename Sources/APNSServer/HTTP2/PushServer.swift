// SPDX-License-Identifier: Apache-2.0

import APNSTransport
public import Logging
public import NIOCore
import NIOHTTP2
public import NIOPosix
import OpenSSLTLS
public import ServiceLifecycle

/// The service's end of the HTTP/2 provider API, as far as clients can tell.
///
/// It checks a request in this order, and answers the first fault:
/// 1. headers: `apns-id` (a UUID in either letter case), none twice, method, topic, collapse identifier, priority,
///    expiration, push type, path;
/// 2. credentials: the certificate, or else the provider token, and whether they are for the topic;
/// 3. the device token is there; the payload is there; the device token has 1 to 100 bytes in hexadecimal digits; the
///    payload is not too long; it is a JSON object, where ``PushServerConfiguration/payloadCheck`` says so;
/// 4. whatever ``PushService/take(_:)`` checks, such as the device.
///
/// It listens from ``run()`` on. On graceful shutdown it takes no more connections, tells the others that it goes away,
/// answers what it has, and cuts what is left after ``PushServerConfiguration/shutdownDuration``.
public final class PushServer: Service, Sendable {
    private let configuration: PushServerConfiguration
    private let service: any PushService
    private let group: any EventLoopGroup
    private let logger: Logger
    private let lifecycle: ListenerLifecycle

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
        self.lifecycle = ListenerLifecycle(
            group: eventLoopGroup,
            connectionCountMax: configuration.connectionCountMax,
            faults: ServerError.lifecycleFaults,
            acceptPaused: {
                logger.error("no connection accepted for a while", metadata: [LogKey.failure: "\($0)"])
            }
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
            farewell: PushServerHandler.GoAway(),
            bind: self.bind
        )
    }

    private func bind() throws -> EventLoopFuture<any Channel> {
        let tls = try self.configuration.tlsContext()
        let validator = ProviderTokenValidator(self.configuration)
        return ServerBootstrap(group: self.group)
            .serverChannelOption(.backlog, value: 256)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: 65_536))
            .childChannelInitializer { [weak self] channel in
                channel.eventLoop.makeCompletedFuture {
                    guard let self else { throw ChannelError.operationUnsupported }
                    try self.prepare(channel, tls, validator)
                }
            }
            .bind(host: self.configuration.host, port: self.configuration.port)
    }

    private func prepare(_ channel: any Channel, _ context: TLSContext, _ validator: ProviderTokenValidator) throws {
        guard case .taken(let number) = self.lifecycle.registry.add(channel) else {
            throw ChannelError.operationUnsupported
        }
        let tls = try TLSHandler(serverContext: context)
        let handler = PushServerHandler(
            number: number,
            configuration: self.configuration,
            service: self.service,
            validator: validator,
            tls: tls,
            logger: self.logger
        )
        try channel.pipeline.syncOperations.addHandlers(RawCloseHandler(), tls, self.frameHandler(), handler)
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
    /// - Throws: what `body` throws, or ``ServerError`` where the server cannot listen.
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
        return try await server.lifecycle.lend(run: server.run) { try await body(server) }
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSServer
import HTTPTypes
import HummingbirdCore
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOHTTPTypes
import NIOPosix
import ServiceLifecycle

/// Answers `/healthz` and `/metrics`, for operators on the same machine.
struct AdminListener: Sendable {
    /// How many connections there may be; for one more, the oldest of those that have sent no request is closed.
    static let connectionCountMax = 64

    /// Why the gateway is not well; `nil` where it is.
    var problem: @Sendable () -> String?
    /// The metrics in Prometheus' text format.
    var metrics: @Sendable () -> String

    /// Listens until its task is cancelled.
    ///
    /// - Parameters:
    ///   - host: the address to listen on.
    ///   - port: the port to listen on; 0 for any that is free.
    ///   - logger: is told of what goes wrong.
    ///   - onListening: is called once, with the address; not where it cannot listen.
    /// - Throws: why it cannot listen.
    func run(
        host: String,
        port: Int,
        logger: Logger,
        onListening: @escaping @Sendable (SocketAddress?) -> Void
    ) async throws {
        let connections = NIOLockedValueBox<[AdminConnectionHandler.Connection]>([])
        // A connection is closed behind its answer, so that it has one request.
        let configuration = HTTP1Channel.Configuration(
            additionalChannelHandlers: [AdminConnectionHandler(connections, countMax: Self.connectionCountMax)]
        )
        let server = try HTTPServerBuilder.http1(configuration: configuration).buildServer(
            configuration: ServerConfiguration(address: .hostname(host, port: port)),
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: Self.quiet(logger),
            responder: { request, writer, _ in try await self.answer(request.head, writer) },
            onServerRunning: { channel in
                try? await AcceptPauseHandler.add(to: channel, logger).get()
                onListening(channel.localAddress)
            }
        )
        try await server.run()
    }

    /// The gateway's own lines say where it listens, and that it ends, which the server takes for an error.
    private static func quiet(_ logger: Logger) -> Logger {
        var logger = logger
        logger.logLevel = .critical
        return logger
    }

    @concurrent
    private func answer(_ request: HTTPRequest, _ writer: consuming ResponseWriter) async throws {
        let (status, text) = self.answer(request)
        let fields: HTTPFields = [
            .contentType: "text/plain; version=0.0.4; charset=utf-8", .contentLength: "\(text.utf8.count)",
            .connection: "close",
        ]
        try await writer.write(
            response: HTTPResponse(status: status, headerFields: fields),
            body: request.method == .head ? ResponseBody() : ResponseBody(byteBuffer: ByteBuffer(string: text))
        )
    }

    private func answer(_ request: HTTPRequest) -> (HTTPResponse.Status, String) {
        if request.headerFields[.transferEncoding] != nil || request.headerFields[.contentLength] ?? "0" != "0" {
            return (.contentTooLarge, "a request with a body is not accepted\n")
        }
        guard request.method == .get || request.method == .head else { return (.methodNotAllowed, "only GET\n") }
        switch request.path {
        case "/healthz": return self.problem().map { (.serviceUnavailable, $0 + "\n") } ?? (.ok, "ok\n")
        case "/metrics": return (.ok, self.metrics())
        default: return (.notFound, "here are /healthz and /metrics\n")
        }
    }
}

/// Bounds a connection of an operator: its request is its head, and it is closed behind the answer; it closes another
/// one where there are too many.
final class AdminConnectionHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    struct Connection: Sendable {
        var channel: any Channel
        var hasRequested = false
    }

    /// How long a connection may take until its request is read, and until its answer is sent.
    private static let requestDurationMax = TimeAmount.seconds(5)
    private static let connectionDurationMax = TimeAmount.seconds(10)

    /// In the order in which they came.
    private let connections: NIOLockedValueBox<[Connection]>
    private let countMax: Int
    private var hasRequested = false

    init(_ connections: NIOLockedValueBox<[Connection]>, countMax: Int) {
        self.connections = connections
        self.countMax = countMax
    }

    func handlerAdded(context: ChannelHandlerContext) {
        let (channel, connections) = (context.channel, self.connections)
        let oldest = connections.withLockedValue { open -> Connection? in
            open.append(Connection(channel: channel))
            guard open.count > self.countMax else { return nil }
            return open.remove(at: open.firstIndex { !$0.hasRequested } ?? 0)
        }
        oldest?.channel.close(promise: nil)
        let loop = context.eventLoop.assumeIsolated()
        let request = loop.scheduleTask(in: Self.requestDurationMax) { [weak self] in
            if self?.hasRequested == false { channel.close(promise: nil) }
        }
        let whole = loop.scheduleTask(in: Self.connectionDurationMax) { channel.close(promise: nil) }
        channel.closeFuture.whenComplete { _ in
            request.cancel()
            whole.cancel()
            connections.withLockedValue { $0.removeAll { $0.channel === channel } }
        }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // Nothing that follows the head is wanted, however long it is.
        guard !self.hasRequested, case .head = self.unwrapInboundIn(data) else { return }
        self.hasRequested = true
        self.connections.withLockedValue { open in
            guard let index = open.firstIndex(where: { $0.channel === context.channel }) else { return }
            open[index].hasRequested = true
        }
        try? context.channel.syncOptions?.setOption(.autoRead, value: false)
        context.fireChannelRead(data)
        context.fireChannelRead(self.wrapInboundOut(.end(nil)))
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard case .end = self.unwrapOutboundIn(data) else { return context.write(data, promise: promise) }
        let channel = context.channel
        context.writeAndFlush(data).whenComplete { _ in channel.close(promise: promise) }
    }
}

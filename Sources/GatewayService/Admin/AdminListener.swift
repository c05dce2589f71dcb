// SPDX-License-Identifier: Apache-2.0

import APNSServer
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOHTTP1
import NIOPosix

/// Answers `/healthz` and `/metrics`, for operators on the same machine.
struct AdminListener: Sendable {
    /// What is answered.
    struct Answers: Sendable {
        /// Why the gateway is not well; `nil` where it is.
        var problem: @Sendable () -> String?
        /// The metrics in Prometheus' text format.
        var metrics: @Sendable () -> String
    }

    /// How long a connection may take until its request is read, and until its answer is sent.
    private static let requestDurationMax = TimeAmount.seconds(5)
    private static let connectionDurationMax = TimeAmount.seconds(10)

    /// How many connections there may be; for one more, the oldest of those that have sent no request is closed.
    static let connectionCountMax = 64

    private let channel: any Channel

    /// The address it listens on.
    var address: SocketAddress? { self.channel.localAddress }

    /// Listens.
    static func listen(
        host: String,
        port: Int,
        group: any EventLoopGroup,
        logger: Logger,
        answers: Answers
    ) async throws -> AdminListener {
        let connections = AdminConnections(countMax: Self.connectionCountMax)
        let bootstrap = ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 256)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    connections.add(channel)?.close(promise: nil)
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(
                        AdminHandler(answers, onRequest: { connections.setRequested(channel) })
                    )
                    Self.limit(channel, connections)
                }
            }
        let channel = try await bootstrap.bind(host: host, port: port).get()
        try await AcceptPauseHandler.add(to: channel, logger).get()
        return AdminListener(channel: channel)
    }

    private static func limit(_ channel: any Channel, _ connections: AdminConnections) {
        let request = channel.eventLoop.scheduleTask(in: Self.requestDurationMax) {
            if !connections.hasRequested(channel) { channel.close(promise: nil) }
        }
        let whole = channel.eventLoop.scheduleTask(in: Self.connectionDurationMax) { channel.close(promise: nil) }
        channel.closeFuture.whenComplete { _ in
            request.cancel()
            whole.cancel()
            connections.remove(channel)
        }
    }

    /// Listens no more.
    func close() async { try? await self.channel.close() }
}

/// The open connections of operators, in the order in which they came.
private final class AdminConnections: Sendable {
    private struct Open {
        var channel: any Channel
        var hasRequested = false
    }

    private let open = NIOLockedValueBox<[Open]>([])
    private let countMax: Int

    init(countMax: Int) { self.countMax = countMax }

    /// Takes a connection in.
    ///
    /// - Returns: the one that is to be closed for it, the oldest without a request or else the oldest; `nil` for none.
    func add(_ channel: any Channel) -> (any Channel)? {
        self.open.withLockedValue { open in
            open.append(Open(channel: channel))
            guard open.count > self.countMax else { return nil }
            return open.remove(at: open.firstIndex { !$0.hasRequested } ?? 0).channel
        }
    }

    func remove(_ channel: any Channel) {
        self.open.withLockedValue { $0.removeAll { $0.channel === channel } }
    }

    func setRequested(_ channel: any Channel) {
        self.open.withLockedValue { open in
            guard let index = open.firstIndex(where: { $0.channel === channel }) else { return }
            open[index].hasRequested = true
        }
    }

    func hasRequested(_ channel: any Channel) -> Bool {
        self.open.withLockedValue { $0.contains { $0.channel === channel && $0.hasRequested } }
    }
}

/// Answers the only request of one connection as soon as its head is there; what follows is not read.
private final class AdminHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let answers: AdminListener.Answers
    private let onRequest: () -> Void
    private var isAnswered = false

    init(_ answers: AdminListener.Answers, onRequest: @escaping () -> Void) {
        self.answers = answers
        self.onRequest = onRequest
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !self.isAnswered, case .head(let head) = self.unwrapInboundIn(data) else { return }
        self.isAnswered = true
        self.onRequest()
        if Self.announcesBody(head) {
            // Nothing of it is wanted, however long it is.
            try? context.channel.syncOptions?.setOption(.autoRead, value: false)
            self.answer(.payloadTooLarge, "a request with a body is not accepted\n", head, context)
        } else {
            let (status, text) = self.answer(head)
            self.answer(status, text, head, context)
        }
    }

    private static func announcesBody(_ head: HTTPRequestHead) -> Bool {
        head.headers.contains(name: "transfer-encoding")
            || head.headers["content-length"].contains { $0 != "0" }
    }

    private func answer(
        _ status: HTTPResponseStatus,
        _ text: String,
        _ head: HTTPRequestHead,
        _ context: ChannelHandlerContext
    ) {
        var headers = HTTPHeaders()
        headers.add(name: "content-type", value: "text/plain; version=0.0.4; charset=utf-8")
        headers.add(name: "content-length", value: "\(text.utf8.count)")
        headers.add(name: "connection", value: "close")
        let response = HTTPResponseHead(version: head.version, status: status, headers: headers)
        context.write(self.wrapOutboundOut(.head(response)), promise: nil)
        if head.method != .HEAD {
            context.write(self.wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: text)))), promise: nil)
        }
        let channel = context.channel
        context.writeAndFlush(self.wrapOutboundOut(.end(nil))).whenComplete { _ in channel.close(promise: nil) }
    }

    private func answer(_ head: HTTPRequestHead) -> (HTTPResponseStatus, String) {
        guard head.method == .GET || head.method == .HEAD else { return (.methodNotAllowed, "only GET\n") }
        switch head.uri {
        case "/healthz":
            return self.answers.problem().map { (.serviceUnavailable, $0 + "\n") } ?? (.ok, "ok\n")
        case "/metrics": return (.ok, self.answers.metrics())
        default: return (.notFound, "here are /healthz and /metrics\n")
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}

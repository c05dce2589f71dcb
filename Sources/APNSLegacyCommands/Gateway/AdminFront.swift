// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers
import NIOCore
import NIOHTTP1
import NIOPosix

/// Answers `/healthz` and `/metrics`, for operators on the same machine.
struct AdminFront: Sendable {
    /// What is answered.
    struct Answers: Sendable {
        /// Why the gateway is not well; `nil` where it is.
        var problem: @Sendable () -> String?
        /// The metrics in Prometheus' text format.
        var metrics: @Sendable () -> String
    }

    /// How long a request may take, its connection included.
    private static let connectionDurationMax = TimeAmount.seconds(10)

    /// How many connections there may be; more are closed as they come.
    static let connectionCountMax = 64

    private let channel: any Channel

    /// The address it listens on.
    var address: SocketAddress? { self.channel.localAddress }

    /// Listens.
    static func listen(host: String, port: Int, group: any EventLoopGroup, answers: Answers) async throws -> AdminFront
    {
        let count = NIOLockedValueBox(0)
        let bootstrap = ServerBootstrap(group: group)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let isFull = count.withLockedValue { count in
                        count += 1
                        return count > Self.connectionCountMax
                    }
                    channel.closeFuture.whenComplete { _ in count.withLockedValue { $0 -= 1 } }
                    guard !isFull else { throw ChannelError.operationUnsupported }
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(AdminHandler(answers))
                    let cut = channel.eventLoop.scheduleTask(in: Self.connectionDurationMax) {
                        channel.close(promise: nil)
                    }
                    channel.closeFuture.whenComplete { _ in cut.cancel() }
                }
            }
        return AdminFront(channel: try await bootstrap.bind(host: host, port: port).get())
    }

    /// Listens no more.
    func close() async { try? await self.channel.close() }
}

/// Answers the requests of one connection.
private final class AdminHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let answers: AdminFront.Answers
    private var head: HTTPRequestHead?

    init(_ answers: AdminFront.Answers) { self.answers = answers }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch self.unwrapInboundIn(data) {
        case .head(let head): self.head = head
        case .body: break
        case .end:
            guard let head = self.head else { return }
            self.head = nil
            self.answer(head, context)
        }
    }

    private func answer(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        let (status, text) = self.answer(head)
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

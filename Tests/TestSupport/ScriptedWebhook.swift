// SPDX-License-Identifier: Apache-2.0

package import APNSTestKit
import NIOConcurrencyHelpers
package import NIOCore
package import NIOHTTP1
import NIOPosix

/// A webhook that answers each request as a script says, and records what it received.
package final class ScriptedWebhook: Sendable {
    package enum Answer: Sendable {
        case status(Int, retryAfter: Int? = nil)
        /// The head of an answer with status 200, and a part of its body.
        case cut
        /// Nothing, while the connection stays open.
        case stall
        /// The connection is closed before the request is read.
        case refuse
        /// The connection is not read.
        case deaf
    }

    package struct Request: Sendable {
        package var head: HTTPRequestHead
        package var body: [UInt8]
        package var isAccepted: Bool
    }

    package let requests = ObservedValue<[Request]>([])
    private let answers: NIOLockedValueBox<[Answer]>
    private let channel = NIOLockedValueBox<(any Channel)?>(nil)

    /// - Parameter answers: the answers in order; all further ones are 200.
    package init(_ answers: [Answer] = []) { self.answers = NIOLockedValueBox(answers) }

    /// The identifiers of all accepted outcomes, in order.
    package var accepted: [Int] {
        self.requests.current.filter(\.isAccepted).flatMap { Self.identifiers(in: $0.body) }
    }

    package func script(_ answers: [Answer]) { self.answers.withLockedValue { $0 = answers } }

    /// Waits until outcomes with all of these identifiers were accepted.
    package func wait(for identifiers: ClosedRange<Int>) async throws {
        try await self.requests.wait(until: { requests in
            let found = requests.filter(\.isAccepted).flatMap { Self.identifiers(in: $0.body) }
            return Set(found).isSuperset(of: identifiers)
        }) { Overdue(description: "\($0.count) requests") }
    }

    /// The identifiers of the notifications in outcomes, in order.
    package static func identifiers(in bytes: [UInt8]) -> [Int] {
        String(decoding: bytes, as: UTF8.self).matches(of: #/"identifier":(?<number>\d+)/#)
            .compactMap { Int($0.number) }
    }

    fileprivate func take() -> Answer {
        self.answers.withLockedValue { $0.isEmpty ? .status(200) : $0.removeFirst() }
    }

    /// Runs the webhook, and passes its port to `body`.
    package func run<Value>(
        tls: (@Sendable () throws -> any ChannelHandler)? = nil,
        port: Int = 0,
        _ body: (Int) async throws -> Value
    ) async throws -> Value {
        let server = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let answer = self.take()
                    if case .refuse = answer { return channel.close(promise: nil) }
                    if case .deaf = answer {
                        try channel.syncOptions?.setOption(.autoRead, value: false)
                        return
                    }
                    if let tls { try channel.pipeline.syncOperations.addHandler(tls()) }
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(Handler(self, answer))
                }
            }
            .bind(host: "127.0.0.1", port: port).get()
        let result: Result<Value, any Error>
        do { result = .success(try await body(server.localAddress?.port ?? 0)) } catch { result = .failure(error) }
        try await server.close().get()
        return try result.get()
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = HTTPServerRequestPart
        typealias OutboundOut = HTTPServerResponsePart

        private let webhook: ScriptedWebhook
        private let answer: Answer
        private var head: HTTPRequestHead?
        private var body: [UInt8] = []

        init(_ webhook: ScriptedWebhook, _ answer: Answer) { (self.webhook, self.answer) = (webhook, answer) }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            switch self.unwrapInboundIn(data) {
            case .head(let head): self.head = head
            case .body(let piece): self.body += piece.readableBytesView
            case .end: self.respond(context)
            }
        }

        private func respond(_ context: ChannelHandlerContext) {
            guard let head else { return }
            var isAccepted = false
            if case .status(200...299, _) = self.answer { isAccepted = true }
            let request = Request(head: head, body: self.body, isAccepted: isAccepted)
            self.webhook.requests.change { $0.append(request) }
            switch self.answer {
            case .status(let status, let retryAfter):
                var headers: HTTPHeaders = ["content-length": "2"]
                if let retryAfter { headers.add(name: "retry-after", value: "\(retryAfter)") }
                let code = HTTPResponseStatus(statusCode: status)
                self.write(context, code, headers, "ok")
                context.writeAndFlush(self.wrapOutboundOut(.end(nil)), promise: nil)
            case .cut:
                let headers: HTTPHeaders = ["content-length": "100"]
                self.write(context, .ok, headers, "o")
                context.flush()
                context.close(promise: nil)
            case .stall, .refuse, .deaf: break
            }
        }

        private func write(
            _ context: ChannelHandlerContext,
            _ status: HTTPResponseStatus,
            _ headers: HTTPHeaders,
            _ body: String
        ) {
            let head = HTTPResponseHead(version: .http1_1, status: status, headers: headers)
            context.write(self.wrapOutboundOut(.head(head)), promise: nil)
            context.write(self.wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: body)))), promise: nil)
        }
    }
}

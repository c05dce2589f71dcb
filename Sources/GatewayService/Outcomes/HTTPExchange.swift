// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import APNSWire
import NIOConcurrencyHelpers
import NIOCore
import NIOHTTP1
import NIOPosix
import OpenSSLTLS

/// Sends a request over HTTP/1.1 on a connection of its own, and returns the complete answer.
struct HTTPExchange: Sendable {
    /// An answer.
    struct Response: Sendable {
        var status: Int
        var headers: HTTPHeaders
        var body = ByteBuffer()
    }

    /// Why there is no answer.
    enum Failure: Error, Hashable, CustomStringConvertible {
        case timeout(Duration)
        case closed
        case tooLong

        var description: String {
            switch self {
            case .timeout(let duration): "no complete answer within \(duration)"
            case .closed: "the connection was closed before the answer was complete"
            case .tooLong: "the answer is too long"
            }
        }
    }

    let endpoint: Endpoint
    /// Opens connections with TLS; `nil` for connections without.
    var opener: ConnectionOpener?
    /// The time from the beginning to the end of the answer.
    var timeout: Duration
    /// The maximum size of the answer's body, in bytes.
    var bodyByteCountMax: Int

    /// Sends a request; if the task is cancelled, the connection is closed.
    ///
    /// - Throws: ``Failure``, or why the connection could not be opened or failed.
    func response(
        _ method: HTTPMethod,
        _ path: String,
        headers: HTTPHeaders = [:],
        body: ByteBuffer? = nil
    ) async throws -> Response {
        var headers = headers
        headers.replaceOrAdd(name: "connection", value: "close")
        if let body { headers.replaceOrAdd(name: "content-length", value: "\(body.readableBytes)") }
        let head = HTTPRequestHead(version: .http1_1, method: method, uri: path, headers: headers)
        let eventLoop = MultiThreadedEventLoopGroup.singleton.next()
        let promise = eventLoop.makePromise(of: Response.self)
        let (byteCountMax, open) = (self.bodyByteCountMax, NIOLockedValueBox<(any Channel)?>(nil))
        @Sendable func begin(_ channel: any Channel) throws {
            try channel.pipeline.syncOperations.addHTTPClientHandlers()
            try channel.pipeline.syncOperations.addHandler(ResponseHandler(promise, byteCountMax: byteCountMax))
            channel.write(HTTPClientRequestPart.head(head), promise: nil)
            if let body { channel.write(HTTPClientRequestPart.body(.byteBuffer(body)), promise: nil) }
            channel.writeAndFlush(HTTPClientRequestPart.end(nil), promise: nil)
        }
        let timeout = self.timeout
        let deadline = eventLoop.scheduleTask(in: TimeAmount(timeout)) { promise.fail(Failure.timeout(timeout)) }
        promise.futureResult.whenComplete { _ in
            deadline.cancel()
            open.withLockedValue { $0 }?.close(promise: nil)
        }
        self.connect(eventLoop, adopt: { channel in open.withLockedValue { $0 = channel } }, finish: begin)
            .whenFailure { promise.fail($0) }
        return try await withTaskCancellationHandler {
            try await promise.futureResult.get()
        } onCancel: {
            promise.fail(CancellationError())
        }
    }

    private func connect(
        _ eventLoop: any EventLoop,
        adopt: @escaping @Sendable (any Channel) -> Void,
        finish: @escaping @Sendable (any Channel) throws -> Void
    ) -> EventLoopFuture<Void> {
        if let opener {
            return opener.open(on: eventLoop, adopt: adopt) { channel, tls in
                try channel.pipeline.syncOperations.addHandlers(RawCloseHandler(), tls)
                try finish(channel)
            }
        }
        return ClientBootstrap(group: eventLoop)
            .connectTimeout(TimeAmount(self.timeout))
            .channelInitializer { channel in channel.eventLoop.makeCompletedFuture { adopt(channel) } }
            .connect(host: self.endpoint.host, port: self.endpoint.port)
            .flatMapThrowing { try finish($0) }
    }
}

/// Collects an answer.
private final class ResponseHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart

    private let promise: EventLoopPromise<HTTPExchange.Response>
    private let byteCountMax: Int
    private var response: HTTPExchange.Response?

    init(_ promise: EventLoopPromise<HTTPExchange.Response>, byteCountMax: Int) {
        (self.promise, self.byteCountMax) = (promise, byteCountMax)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch self.unwrapInboundIn(data) {
        // An interim answer is followed by another one.
        case .head(let head) where head.status.code < 200: break
        case .head(let head):
            self.response = HTTPExchange.Response(status: Int(head.status.code), headers: head.headers)
        case .body(var piece):
            self.response?.body.writeBuffer(&piece)
            guard let count = self.response?.body.readableBytes, count > self.byteCountMax else { return }
            self.promise.fail(HTTPExchange.Failure.tooLong)
        case .end:
            guard let response else { return }
            self.promise.succeed(response)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.promise.fail(error)
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) { self.promise.fail(HTTPExchange.Failure.closed) }
}

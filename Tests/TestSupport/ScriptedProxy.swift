// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers
package import NIOCore
import NIOPosix

/// A proxy on loopback with scripted responses, which connects both ends if the response permits.
package final class ScriptedProxy: Sendable {
    /// The response to a request.
    package enum Answer: Sendable {
        /// Opens the tunnel.
        case open
        /// Sends this and closes.
        case say(String)
        /// Sends nothing.
        case hang
        /// Closes immediately.
        case close
    }

    package enum Kind: Sendable {
        case http
        case socks5
    }

    package let port: Int
    /// Succeeds with the first request; fails if the proxy is stopped before, or after 20 seconds.
    package let asked: EventLoopFuture<Void>
    private let first: EventLoopPromise<Void>
    private let listener: any Channel
    private let seen: NIOLockedValueBox<[String]>

    private init(listener: any Channel, seen: NIOLockedValueBox<[String]>, first: EventLoopPromise<Void>) {
        self.listener = listener
        self.first = first
        self.asked = first.futureResult
        self.port = listener.localAddress?.port ?? 0
        self.seen = seen
    }

    /// The requests, as text.
    package var requests: [String] { self.seen.withLockedValue { $0 } }

    /// Starts a proxy; its tunnels lead to the port `upstream` on loopback, whatever is requested.
    package static func start(_ kind: Kind, _ answer: Answer, upstream: Int) async throws -> ScriptedProxy {
        let seen = NIOLockedValueBox<[String]>([])
        let first = MultiThreadedEventLoopGroup.singleton.next().makePromise(of: Void.self)
        let timer = first.futureResult.eventLoop.scheduleTask(in: .seconds(20)) {
            first.fail(ChannelError.connectTimeout(.seconds(20)))
        }
        first.futureResult.whenComplete { _ in timer.cancel() }
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        ProxyPeer(kind: kind, answer: answer, upstream: upstream, seen: seen, first: first)
                    )
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        return ScriptedProxy(listener: listener, seen: seen, first: first)
    }

    package func stop() async throws {
        self.first.fail(ChannelError.ioOnClosedChannel)
        try await self.listener.close()
    }
}

/// A connection of a scripted proxy.
final class ProxyPeer: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let kind: ScriptedProxy.Kind
    private let answer: ScriptedProxy.Answer
    private let upstream: Int
    private let seen: NIOLockedValueBox<[String]>
    private let first: EventLoopPromise<Void>
    private var bytes = ByteBuffer()
    private var hasGreeted = false
    private var isAsked = false
    private var other: (any Channel)?

    init(
        kind: ScriptedProxy.Kind,
        answer: ScriptedProxy.Answer,
        upstream: Int,
        seen: NIOLockedValueBox<[String]>,
        first: EventLoopPromise<Void>
    ) {
        self.first = first
        self.kind = kind
        self.answer = answer
        self.upstream = upstream
        self.seen = seen
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var arrived = self.unwrapInboundIn(data)
        if let other = self.other {
            other.writeAndFlush(arrived, promise: nil)
            return
        }
        self.bytes.writeBuffer(&arrived)
        guard !self.isAsked else { return }
        switch self.kind {
        case .http: self.readRequest(context)
        case .socks5: self.readSOCKS(context)
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.other?.close(promise: nil)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }

    private func readRequest(_ context: ChannelHandlerContext) {
        let text = String(buffer: self.bytes)
        guard text.hasSuffix("\r\n\r\n") else { return }
        self.asked(text, opened: Array("HTTP/1.1 200 Connection established\r\n\r\n".utf8), context)
    }

    private func readSOCKS(_ context: ChannelHandlerContext) {
        let bytes = Array(self.bytes.readableBytesView)
        if !self.hasGreeted {
            guard bytes.count >= 2, bytes.count >= 2 + Int(bytes[1]) else { return }
            self.bytes.clear()
            self.hasGreeted = true
            context.writeAndFlush(self.wrapOutboundOut(ByteBuffer(bytes: [5, 0])), promise: nil)
            return
        }
        let count: Int
        switch bytes.dropFirst(3).first {
        case 1: count = 10
        case 3: count = 7 + Int(bytes.dropFirst(4).first ?? 0)
        case 4: count = 22
        default: return
        }
        guard bytes.count >= count else { return }
        let name = bytes[3] == 3 ? String(decoding: bytes[5..<(count - 2)], as: UTF8.self) : "address"
        self.asked(name, opened: [5, 0, 0, 1, 127, 0, 0, 1, 0, 0], context)
    }

    private func asked(_ text: String, opened: [UInt8], _ context: ChannelHandlerContext) {
        self.isAsked = true
        self.seen.withLockedValue { $0.append(text) }
        self.first.succeed(())
        switch self.answer {
        case .open: self.open(context, opened: opened)
        case .say(let text):
            context.writeAndFlush(self.wrapOutboundOut(ByteBuffer(string: text)), promise: nil)
            context.close(promise: nil)
        case .hang: break
        case .close: context.close(promise: nil)
        }
    }

    private func open(_ context: ChannelHandlerContext, opened: [UInt8]) {
        let near = context.channel
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        ClientBootstrap(group: context.eventLoop)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(FarEnd(near: near))
                }
            }
            .connect(host: "127.0.0.1", port: self.upstream)
            .whenComplete { result in
                guard case .success(let far) = result else { return near.close(promise: nil) }
                bound.value.other = far
                near.writeAndFlush(ByteBuffer(bytes: opened), promise: nil)
            }
    }
}

/// The gateway's end of a tunnel through a scripted proxy.
final class FarEnd: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let near: any Channel

    init(near: any Channel) { self.near = near }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        self.near.writeAndFlush(self.unwrapInboundIn(data), promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) { self.near.close(promise: nil) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}

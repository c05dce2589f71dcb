// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import APNSWire
import NIOCore
import NIOEmbedded
import NIOTLS
import OpenSSLTLS

@testable import APNSGateway
@testable import APNSServer

/// The socket of a walk's connection: records the listener's actions, and lets the walk control reads.
final class WalkSocket: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer

    private(set) var isReadWanted = false
    private(set) var isOutputClosed = false
    /// The bytes that the listener wrote.
    private(set) var output = ByteBuffer()

    func read(context: ChannelHandlerContext) { self.isReadWanted = true }

    func takeRead() { self.isReadWanted = false }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        var bytes = self.unwrapOutboundIn(data)
        self.output.writeBuffer(&bytes)
        promise?.succeed(())
    }

    func flush(context: ChannelHandlerContext) {}

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        self.isOutputClosed = true
        guard mode == .output else { return context.close(mode: mode, promise: promise) }
        promise?.succeed(())
    }

    func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
        guard event is RawCloseHandler.Cut else {
            return context.triggerUserOutboundEvent(event, promise: promise)
        }
        self.isOutputClosed = true
        context.close(promise: promise)
    }
}

/// The TLS properties for the listener, without TLS.
final class WalkTLS: TLSFacts {
    let peerCertificate: TLSCertificate?
    let peerIntermediates: [TLSCertificate] = []
    let negotiatedVersion: TLSVersion? = nil
    var isTruncated = false

    init(_ certificate: TLSCertificate) { self.peerCertificate = certificate }
}

/// A connection of a walk's provider to the gateway's real handler.
final class WalkConnection {
    /// The number of the connection at the provider.
    let number: UInt64
    let channel: EmbeddedChannel
    let socket = WalkSocket()
    private let tls: WalkTLS
    /// The bytes that the gateway has not read.
    private(set) var unread = ByteBuffer()
    /// The provider's number of the last notification on it.
    private(set) var last: UInt64?
    private(set) var isOver = false

    init(
        _ number: UInt64,
        certificate: TLSCertificate,
        loop: EmbeddedEventLoop,
        makeHandler: (WalkTLS) -> BinaryConnectionHandler
    ) throws {
        self.number = number
        self.tls = WalkTLS(certificate)
        self.channel = EmbeddedChannel(loop: loop)
        let handler = makeHandler(self.tls)
        try self.channel.pipeline.syncOperations.addHandlers(self.socket, handler)
        self.channel.connect(to: try SocketAddress(ipAddress: "127.0.0.1", port: 2195), promise: nil)
        self.channel.pipeline.fireUserInboundEventTriggered(TLSUserEvent.handshakeCompleted(negotiatedProtocol: nil))
        self.channel.pipeline.read()
        loop.run()
    }

    /// The provider writes a frame.
    func write(_ frame: NotificationFrame, number: UInt64?) throws {
        try frame.write(into: &self.unread)
        if let number { self.last = number }
    }

    /// The gateway reads available bytes, if it wants to.
    func read(byteCountMax: Int) {
        guard self.channel.isActive, self.socket.isReadWanted, self.unread.readableBytes > 0,
            let bytes = self.unread.readSlice(length: min(byteCountMax, self.unread.readableBytes))
        else { return }
        self.socket.takeRead()
        self.channel.pipeline.fireChannelRead(bytes)
        self.channel.pipeline.fireChannelReadComplete()
        self.channel.embeddedEventLoop.run()
        // Like automatic reading.
        self.channel.pipeline.read()
    }

    /// Whether the provider sees the end of its connection.
    var isEndDue: Bool { self.socket.isOutputClosed || !self.channel.isActive }

    /// The bytes that the provider reads at the end.
    func answer() throws -> ErrorResponse? {
        var output = self.socket.output
        return try ErrorResponse(parsing: &output)
    }

    /// The provider closes; what it wrote may still arrive.
    func close(arrivesWhole: Bool) {
        guard !self.isOver else { return }
        self.isOver = true
        guard self.channel.isActive else { return }
        if arrivesWhole {
            self.tls.isTruncated = true
            self.read(byteCountMax: .max)
            self.channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
            self.channel.embeddedEventLoop.run()
        } else {
            self.channel.close(promise: nil)
        }
    }

    /// The process of the gateway died.
    func kill() {
        guard self.channel.isActive else { return }
        self.channel.close(promise: nil)
    }
}

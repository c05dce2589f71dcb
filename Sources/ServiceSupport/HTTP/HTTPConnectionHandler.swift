// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import NIOCore
import NIOHTTPTypes

/// Limits the time that a connection waits for its client: for a request, and until a response is read.
final class HTTPConnectionHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    /// How long a client may leave sent data unread.
    private static let unreadDurationMax = TimeAmount.seconds(30)
    /// The time limit of a response to a client that has closed its side.
    private static let halfClosedDurationMax = TimeAmount.seconds(2)

    private let connections: HTTPConnections
    private let limits: HTTPListener.Limits
    /// Closes the connection unless cancelled.
    private var deadline: Scheduled<Void>?
    private var unreadDeadline: Scheduled<Void>?
    /// The number of requests without a complete response.
    private var requestCount = 0
    /// Whether a head has arrived.
    private var hasHead = false
    /// Whether a request has started and is incomplete.
    private var isReceiving = false
    /// Whether bytes of a head have arrived, but not all.
    private var isHeadIncomplete = false
    /// Whether the current read contains a part of a request.
    private var hasReadPart = false
    private var isInputClosed = false

    init(_ connections: HTTPConnections, _ limits: HTTPListener.Limits) {
        self.connections = connections
        self.limits = limits
    }

    func handlerAdded(context: ChannelHandlerContext) {
        guard self.connections.add(context.channel) else { return context.channel.close(promise: nil) }
        self.close(context, in: self.limits.idleDuration)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.deadline?.cancel()
        self.unreadDeadline?.cancel()
    }

    private func close(_ context: ChannelHandlerContext, in delay: TimeAmount) {
        self.deadline?.cancel()
        let channel = context.channel
        self.deadline = context.eventLoop.scheduleTask(in: delay) { channel.close(promise: nil) }
    }

    /// Waits for the next request if none is open.
    ///
    /// The deadline of a request that was answered before its end stays.
    private func beginIdling(_ context: ChannelHandlerContext) {
        guard self.isBetweenRequests, !self.isInputClosed else { return }
        self.close(context, in: self.limits.idleDuration)
    }

    /// Whether no request is open, so that the next bytes begin one.
    private var isBetweenRequests: Bool { self.requestCount == 0 && !self.isReceiving }

    private func recordState(_ context: ChannelHandlerContext) {
        let isAnswering = self.requestCount > 0 && !self.isReceiving
        self.connections.set(context.channel, waits: !isAnswering || !context.channel.isWritable)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let part = self.unwrapInboundIn(data)
        guard self.limits.servesOneRequest else { return self.receive(part, context) }
        // Bytes after the head are ignored, and not read.
        guard !self.hasHead, case .head = part else { return }
        self.hasHead = true
        try? context.channel.syncOptions?.setOption(.autoRead, value: false)
        self.receive(part, context)
        self.receive(.end(nil), context)
    }

    private func receive(_ part: HTTPRequestPart, _ context: ChannelHandlerContext) {
        self.hasReadPart = true
        self.isHeadIncomplete = false
        switch part {
        case .head:
            self.requestCount += 1
            self.isReceiving = true
            self.close(context, in: self.limits.requestDuration)
        case .body: break
        case .end:
            self.isReceiving = false
            self.deadline?.cancel()
            self.beginIdling(context)
        }
        self.recordState(context)
        context.fireChannelRead(self.wrapInboundOut(part))
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        // Bytes arrived, but no head.
        if !self.hasReadPart, !self.isHeadIncomplete, self.isBetweenRequests, !self.isInputClosed {
            self.isHeadIncomplete = true
            self.close(context, in: self.limits.requestDuration)
        }
        self.hasReadPart = false
        context.fireChannelReadComplete()
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if case .end = self.unwrapOutboundIn(data) {
            self.requestCount -= 1
            self.beginIdling(context)
            self.recordState(context)
            if self.limits.servesOneRequest {
                let channel = context.channel
                return context.writeAndFlush(data).whenComplete { _ in channel.close(promise: promise) }
            }
        }
        context.write(data, promise: promise)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        self.unreadDeadline?.cancel()
        self.recordState(context)
        if !context.channel.isWritable {
            let channel = context.channel
            self.unreadDeadline = context.eventLoop.scheduleTask(in: Self.unreadDurationMax) {
                channel.close(promise: nil)
            }
        }
        context.fireChannelWritabilityChanged()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        // A client that has gone cannot be told apart at first; it must not occupy a connection for its whole wait.
        if case .inputClosed? = event as? ChannelEvent {
            self.isInputClosed = true
            self.close(context, in: Self.halfClosedDurationMax)
        }
        context.fireUserInboundEventTriggered(event)
    }
}

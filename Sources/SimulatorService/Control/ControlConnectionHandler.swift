// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import NIOConcurrencyHelpers
import NIOCore
import NIOHTTPTypes

/// Limits a connection to the control listener: the time for a request to arrive and for a response to be read, and
/// the number of connections.
final class ControlConnectionHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    /// The maximum number of connections; further ones are closed immediately.
    static let connectionCountMax = 512
    /// The time limit for a request, from its head to its end.
    static let requestDurationMax = TimeAmount.seconds(10)
    /// The time limit for a connection without a request.
    static let idleDurationMax = TimeAmount.seconds(60)
    /// How long a client may leave sent data unread.
    private static let unreadDurationMax = TimeAmount.seconds(30)
    /// The time limit of a response to a client that has closed its side.
    private static let halfClosedDurationMax = TimeAmount.seconds(2)

    private let connectionCount: NIOLockedValueBox<Int>
    private let onRefused: @Sendable () -> Void
    /// Closes the connection unless cancelled.
    private var deadline: Scheduled<Void>?
    private var unreadDeadline: Scheduled<Void>?
    /// The number of requests without a complete response.
    private var requestCount = 0
    /// Whether a request has started and is incomplete.
    private var isReceiving = false
    private var isInputClosed = false

    init(_ connectionCount: NIOLockedValueBox<Int>, onRefused: @escaping @Sendable () -> Void) {
        self.connectionCount = connectionCount
        self.onRefused = onRefused
    }

    func handlerAdded(context: ChannelHandlerContext) {
        let connectionCount = self.connectionCount
        let isRefused = connectionCount.withLockedValue { count in
            count += 1
            return count > Self.connectionCountMax
        }
        context.channel.closeFuture.whenComplete { _ in connectionCount.withLockedValue { $0 -= 1 } }
        guard !isRefused else {
            self.onRefused()
            return context.channel.close(promise: nil)
        }
        self.close(context, in: Self.idleDurationMax)
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
        guard self.requestCount == 0, !self.isReceiving, !self.isInputClosed else { return }
        self.close(context, in: Self.idleDurationMax)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch self.unwrapInboundIn(data) {
        case .head:
            self.requestCount += 1
            self.isReceiving = true
            self.close(context, in: Self.requestDurationMax)
        case .body: break
        case .end:
            self.isReceiving = false
            self.deadline?.cancel()
            self.beginIdling(context)
        }
        context.fireChannelRead(data)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if case .end = self.unwrapOutboundIn(data) {
            self.requestCount -= 1
            self.beginIdling(context)
        }
        context.write(data, promise: promise)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        self.unreadDeadline?.cancel()
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

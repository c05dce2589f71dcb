// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import NIOCore

/// A handler below TLS that holds the close of a connection until the system of the provider shows whether the provider
/// has read everything.
///
/// A system closes a socket without unread bytes with the end of its stream (FIN), and one with unread bytes with a
/// reset (RST). But the end of a stream can also mean that only the sending side was closed. So:
/// - If the stream has ended before close_notify is sent, a reset as the answer means that the socket was closed, and
///   so without unread bytes; an acknowledgement, that it is open, whether or not the provider reads.
/// - If only close_notify has arrived, the end of the stream means that everything was read, and a reset that it was
///   not.
final class FeedbackCloseHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer

    /// What is known about the provider.
    enum Result {
        case read
        case unread
        case unclear
    }

    /// How long to wait for the answer to close_notify.
    private static let answerTimeout = TimeAmount.seconds(1)

    /// The time between two checks whether close_notify is acknowledged.
    ///
    /// A provider that closes with unread bytes between the last check and the acknowledgement counts as one that read
    /// them.
    private static let pollInterval = TimeAmount.milliseconds(5)

    private var onEnd: ((Result) -> Void)?
    private var closePromise: EventLoopPromise<Void>?
    /// Whether the close is held.
    private(set) var isHolding = false
    /// Whether the provider's stream has ended, while the connection could still be written to.
    private var isInputClosed = false
    private var isOutputClosed = false
    private var hasFailed = false
    private var timer: Scheduled<Void>?

    /// Holds the next close of the connection.
    ///
    /// Called when the provider's system has acknowledged all bytes before close_notify; `onEnd` is called once, before
    /// the connection is inactive.
    func hold(_ onEnd: @escaping (Result) -> Void) { self.onEnd = onEnd }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        if case .output = mode { self.isOutputClosed = true }
        guard self.onEnd != nil, !self.isHolding, case .all = mode else {
            // Another close ends the connection before the answer is known.
            if self.isHolding, case .all = mode { self.report(.unclear) }
            context.close(mode: mode, promise: promise)
            return
        }
        self.isHolding = true
        self.closePromise = promise
        if self.isInputClosed {
            self.poll(context, until: context.eventLoop.now + Self.answerTimeout)
        } else if !self.isOutputClosed {
            self.isOutputClosed = true
            context.close(mode: .output, promise: nil)
        }
    }

    private func poll(_ context: ChannelHandlerContext, until deadline: NIODeadline) {
        let count = SocketBytes.unacknowledgedCount(of: context.channel) ?? 0
        guard count > 0, context.eventLoop.now < deadline else { return self.end(context, .unclear) }
        self.timer = context.eventLoop.assumeIsolated().scheduleTask(in: Self.pollInterval) {
            self.poll(context, until: deadline)
        }
    }

    private func end(_ context: ChannelHandlerContext, _ result: Result) {
        self.report(result)
        context.close(promise: self.closePromise)
        self.closePromise = nil
    }

    private func report(_ result: Result) {
        self.timer?.cancel()
        self.onEnd?(result)
        self.onEnd = nil
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .inputClosed? = event as? ChannelEvent {
            if self.isHolding, !self.isInputClosed { return self.end(context, .read) }
            self.isInputClosed = true
        }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.hasFailed = true
        context.fireErrorCaught(error)
    }

    /// Does not mistake the end of a connection that is cut for the provider's.
    func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
        if event is RawCloseHandler.Cut {
            if self.isHolding { self.report(.unclear) }
            self.hasFailed = true
        }
        context.triggerUserOutboundEvent(event, promise: promise)
    }

    /// The answer of the provider: a reset if its stream had ended before, otherwise the end of its stream, which both
    /// close the channel without an error.
    func channelInactive(context: ChannelHandlerContext) {
        self.report(self.isHolding && !self.hasFailed ? .read : .unread)
        self.closePromise?.succeed(())
        self.closePromise = nil
        context.fireChannelInactive()
    }
}

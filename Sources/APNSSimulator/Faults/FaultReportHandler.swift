// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import Glibc
import NIOCore

/// Placed between TLS and the handler of the binary protocol; ends a connection as a ``FaultReport`` specifies.
final class FaultReportHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private var context: ChannelHandlerContext?
    private var report: FaultReport?
    private var isReadingOn = false
    private var isRefusing = false

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    /// Ends the connection as a report specifies, from now on.
    func begin(_ report: FaultReport, end: @escaping @Sendable () -> Void) {
        self.report = report
        if report.isCoalesced, let options = self.context?.channel.syncOptions {
            // With this option, the kernel holds partial segments until the stream ends.
            try? options.setOption(.tcpOption(NIOBSDSocket.Option(rawValue: TCP_CORK)), value: 1)
        }
        guard report.delay > .zero, let context = self.context else { return end() }
        // During the delay, the protocol's handler reads and discards further input, like a service that finds an error
        // late.
        self.isReadingOn = true
        context.read()
        context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(report.delay)) {
            self.isReadingOn = false
            end()
        }
    }

    /// Ends the connection, which is refused, as a report specifies, instead of with a reset.
    func refuse(_ report: FaultReport) {
        (self.report, self.isRefusing) = (report, true)
    }

    /// Calls a closure on the connection's event loop after a delay, unless the connection has closed.
    func schedule(in delay: Duration, _ body: @escaping () -> Void) {
        guard let context = self.context else { return }
        context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(delay)) {
            if self.context != nil { body() }
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        context.fireChannelReadComplete()
        if self.isReadingOn { context.read() }
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard self.report?.isSplit == true else { return context.write(data, promise: promise) }
        var bytes = self.unwrapOutboundIn(data)
        while bytes.readableBytes > 1, let byte = bytes.readSlice(length: 1) {
            context.writeAndFlush(self.wrapOutboundOut(byte), promise: nil)
        }
        context.write(self.wrapOutboundOut(bytes), promise: promise)
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        (self.report?.ending ?? .orderly).end(context, mode: mode, promise: promise)
    }

    func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
        guard self.isRefusing, event is RawCloseHandler.Cut else {
            return context.triggerUserOutboundEvent(event, promise: promise)
        }
        self.close(context: context, mode: .all, promise: promise)
    }
}

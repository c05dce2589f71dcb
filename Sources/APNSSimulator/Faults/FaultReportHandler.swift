// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import Glibc
import NIOCore

/// Lies between TLS and the handler of the binary protocol, and ends a connection as a ``FaultReport`` says.
final class FaultReportHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private var context: ChannelHandlerContext?
    private var report: FaultReport?
    private var isReadingOn = false

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    /// Ends the connection as a report says, from now on.
    ///
    /// - Parameters:
    ///   - report: how the response goes out, and what is done to the socket.
    ///   - end: writes the response and closes; called when the delay of the report is over.
    func begin(_ report: FaultReport, end: @escaping @Sendable () -> Void) {
        self.report = report
        if report.isCoalesced, let options = self.context?.channel.syncOptions {
            // The kernel holds back what is no whole segment until the stream ends.
            try? options.setOption(.tcpOption(NIOBSDSocket.Option(rawValue: TCP_CORK)), value: 1)
        }
        guard report.delay > .zero, let context = self.context else { return end() }
        // A service that finds a fault late has taken what came meanwhile; the protocol's handler discards it.
        self.isReadingOn = true
        context.read()
        context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(report.delay)) {
            self.isReadingOn = false
            end()
        }
    }

    /// Does something later on the connection's event loop, unless the connection is gone by then.
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
        switch self.report?.ending {
        case .orderly, nil: context.close(mode: mode, promise: promise)
        case .abrupt:
            context.close(mode: .output, promise: nil)
            context.triggerUserOutboundEvent(RawCloseHandler.Cut(), promise: promise)
        case .fin: context.triggerUserOutboundEvent(RawCloseHandler.Cut(), promise: promise)
        case .reset: context.triggerUserOutboundEvent(RawCloseHandler.Cut(isReset: true), promise: promise)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import NIOCore

/// Lies between TLS and the handler of the feedback protocol, and delivers as a ``FeedbackFault`` says.
///
/// The handler above it writes a portion when the one before is done, so there is one portion at a time.
final class FeedbackFaultHandler: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let fault: FeedbackFault
    private var context: ChannelHandlerContext?
    private var portion = ByteBuffer()
    private var promise: EventLoopPromise<Void>?
    private var writtenByteCount = 0

    init(_ fault: FeedbackFault) { self.fault = fault }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        self.promise?.fail(ChannelError.ioOnClosedChannel)
        self.promise = nil
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let bytes = self.unwrapOutboundIn(data)
        guard bytes.readableBytes > 0 else { return context.write(data, promise: promise) }
        self.portion = bytes
        self.promise = promise ?? context.eventLoop.makePromise()
        self.writeNext(context)
    }

    private func writeNext(_ context: ChannelHandlerContext) {
        let left = self.fault.cutByteCount.map { max(0, $0 - self.writtenByteCount) } ?? .max
        let count = min(self.portion.readableBytes, self.fault.dripByteCount ?? .max, left)
        let isCut = count == left
        let bytes = self.portion.readSlice(length: count) ?? ByteBuffer()
        self.writtenByteCount += count
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        context.writeAndFlush(self.wrapOutboundOut(bytes)).whenSuccess {
            bound.eventLoop.execute { bound.value.left(isCut: isCut) }
        }
    }

    /// The kernel has taken what was written.
    private func left(isCut: Bool) {
        guard let context = self.context else { return }
        if isCut { return self.cut(context) }
        guard self.fault.dripByteCount != nil else { return self.proceed(context) }
        let pause = TimeAmount.milliseconds(Int64(self.fault.dripMilliseconds))
        context.eventLoop.assumeIsolated().scheduleTask(in: pause) {
            if let context = self.context { self.proceed(context) }
        }
    }

    private func proceed(_ context: ChannelHandlerContext) {
        guard self.portion.readableBytes == 0 else { return self.writeNext(context) }
        let promise = self.promise
        self.promise = nil
        promise?.succeed(())
    }

    private func cut(_ context: ChannelHandlerContext) {
        switch self.fault.cut {
        case .orderly: context.close(promise: nil)
        case .abrupt: context.triggerUserOutboundEvent(RawCloseHandler.Cut(), promise: nil)
        case .reset: context.triggerUserOutboundEvent(RawCloseHandler.Cut(isReset: true), promise: nil)
        }
    }
}

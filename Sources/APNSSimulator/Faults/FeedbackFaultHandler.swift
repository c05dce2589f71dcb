// SPDX-License-Identifier: Apache-2.0

import NIOCore

/// Placed between TLS and the handler of the feedback protocol; writes a list slowly or incompletely.
///
/// The handler above writes a portion after the previous one is done, so there is one portion at a time.
final class FeedbackFaultHandler: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private var pace: TransferPace?
    private var cut: (byteCount: Int, ending: FaultReport.Ending)?
    private var context: ChannelHandlerContext?
    private var portion = ByteBuffer()
    private var promise: EventLoopPromise<Void>?
    private var writtenByteCount = 0

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        self.promise?.fail(ChannelError.ioOnClosedChannel)
        self.promise = nil
    }

    /// Writes at this rate from now on.
    func setPace(_ pace: TransferPace) { self.pace = pace }

    /// Ends the connection after this many bytes.
    func cut(behind byteCount: Int, _ ending: FaultReport.Ending) { self.cut = (byteCount, ending) }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let bytes = self.unwrapOutboundIn(data)
        guard bytes.readableBytes > 0, self.pace != nil || self.cut != nil else {
            return context.write(data, promise: promise)
        }
        self.portion = bytes
        self.promise = promise ?? context.eventLoop.makePromise()
        self.writeNext(context)
    }

    private func writeNext(_ context: ChannelHandlerContext) {
        let left = self.cut.map { max(0, $0.byteCount - self.writtenByteCount) } ?? .max
        let count = min(self.portion.readableBytes, self.pace?.byteCount ?? .max, left)
        let isCut = count == left
        let bytes = self.portion.readSlice(length: count) ?? ByteBuffer()
        self.writtenByteCount += count
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        context.writeAndFlush(self.wrapOutboundOut(bytes)).whenSuccess {
            bound.eventLoop.execute { bound.value.sent(isCut: isCut) }
        }
    }

    /// Called when the kernel has accepted the written bytes.
    private func sent(isCut: Bool) {
        guard let context = self.context else { return }
        if isCut, let cut = self.cut { return cut.ending.end(context.channel) }
        guard let pace = self.pace else { return self.proceed(context) }
        context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(pace.interval)) {
            if let context = self.context { self.proceed(context) }
        }
    }

    private func proceed(_ context: ChannelHandlerContext) {
        guard self.portion.readableBytes == 0 else { return self.writeNext(context) }
        let promise = self.promise
        self.promise = nil
        promise?.succeed(())
    }
}

// SPDX-License-Identifier: Apache-2.0

import NIOCore

/// Placed below TLS; slows down the reading of a connection on request.
final class ReadThrottleHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private var context: ChannelHandlerContext?
    private var pace: TransferPace?
    private var isWaiting = false
    private var isReadHeld = false

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    /// Reads at this rate from now on.
    func setPace(_ pace: TransferPace) {
        self.pace = pace
        guard let channel = self.context?.channel else { return }
        let allocator = FixedSizeRecvByteBufferAllocator(capacity: pace.byteCount)
        channel.setOption(.recvAllocator, value: allocator)
            .and(channel.setOption(.maxMessagesPerRead, value: 1))
            .whenFailure { _ in channel.close(promise: nil) }
    }

    func read(context: ChannelHandlerContext) {
        guard self.pace == nil || !self.isWaiting else {
            self.isReadHeld = true
            return
        }
        context.read()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if let pace = self.pace, !self.isWaiting {
            self.isWaiting = true
            let context = NIOLoopBound(context, eventLoop: context.eventLoop)
            context.value.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(pace.interval)) {
                self.isWaiting = false
                guard self.isReadHeld else { return }
                self.isReadHeld = false
                context.value.read()
            }
        }
        context.fireChannelRead(data)
    }
}

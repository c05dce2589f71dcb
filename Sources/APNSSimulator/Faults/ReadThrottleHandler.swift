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

    /// The bytes of one read before the end of the handshake.
    ///
    /// Providers send their first notifications together with the end of their handshake; those that are in the same
    /// read are exempt from the pace.
    private static let handshakeByteCount = 512
    /// How the channel reads without a pace.
    private var reading: (allocator: any RecvByteBufferAllocator, messageCountMax: UInt)?

    /// Reads in small steps until ``setPace(_:)``.
    func awaitPace(_ options: any NIOSynchronousChannelOptions) throws {
        self.reading = (try options.getOption(.recvAllocator), try options.getOption(.maxMessagesPerRead))
        try Self.limit(Self.handshakeByteCount, options)
    }

    /// Reads at this rate from now on; without one, like a connection that has no faults.
    func setPace(_ pace: TransferPace?) {
        self.pace = pace
        guard let channel = self.context?.channel, let options = channel.syncOptions else { return }
        do {
            if let pace {
                try Self.limit(pace.byteCount, options)
            } else if let reading {
                try options.setOption(.recvAllocator, value: reading.allocator)
                try options.setOption(.maxMessagesPerRead, value: reading.messageCountMax)
            }
        } catch {
            channel.close(promise: nil)
        }
    }

    private static func limit(_ byteCount: Int, _ options: any NIOSynchronousChannelOptions) throws {
        try options.setOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: byteCount))
        try options.setOption(.maxMessagesPerRead, value: 1)
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

// SPDX-License-Identifier: Apache-2.0

import NIOCore
import NIOPosix

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// Lies below TLS, where it can cut a connection without the courtesy of TLS, and slow its reading down.
final class SocketFloor: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// Asks for the socket to be closed now.
    struct Cut {
        /// Whether by a reset (RST) instead of an end of stream (FIN).
        var isReset: Bool
    }

    private var pace: ReadingPace?
    private var isWaiting = false
    private var isReadHeld = false

    /// Slows reading down from now on.
    func setPace(_ pace: ReadingPace, channel: any Channel) {
        self.pace = pace
        let allocator = FixedSizeRecvByteBufferAllocator(capacity: pace.octetCount)
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
            context.value.eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(Int64(pace.intervalMilliseconds))) {
                self.isWaiting = false
                guard self.isReadHeld else { return }
                self.isReadHeld = false
                context.value.read()
            }
        }
        context.fireChannelRead(data)
    }

    func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
        guard let cut = event as? Cut else {
            context.triggerUserOutboundEvent(event, promise: promise)
            return
        }
        if cut.isReset {
            let abort = linger(l_onoff: 1, l_linger: 0)
            _ = (context.channel as? any SocketOptionProvider)?.setSoLinger(abort)
        }
        context.close(promise: promise)
    }
}

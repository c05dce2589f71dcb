// SPDX-License-Identifier: Apache-2.0

#if Proxy
import NIOCore
import NIOSOCKS

/// Waits until the SOCKS proxy has opened the tunnel, or the time limit has passed.
final class SOCKSHandshakeHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer

    private let opened: EventLoopPromise<Void>
    private let deadline: NIODeadline
    private var timer: Scheduled<Void>?

    init(opened: EventLoopPromise<Void>, deadline: NIODeadline) {
        self.opened = opened
        self.deadline = deadline
    }

    func handlerAdded(context: ChannelHandlerContext) {
        let opened = self.opened
        self.timer = context.eventLoop.scheduleTask(deadline: self.deadline) {
            opened.fail(ChannelError.connectTimeout(.zero))
        }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.timer?.cancel()
        self.opened.fail(ChannelError.ioOnClosedChannel)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event is SOCKSProxyEstablishedEvent {
            self.timer?.cancel()
            self.opened.succeed(())
        } else {
            context.fireUserInboundEventTriggered(event)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.opened.fail(error)
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.opened.fail(ChannelError.eof)
        context.fireChannelInactive()
    }
}
#endif

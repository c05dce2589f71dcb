// SPDX-License-Identifier: Apache-2.0

import NIOCore

/// Lies below TLS, where it can cut a connection without the courtesy of TLS.
final class ConnectionFloor: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer

    /// Asks for the socket to be closed now.
    struct Cut: Sendable {}

    func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
        guard event is Cut else {
            context.triggerUserOutboundEvent(event, promise: promise)
            return
        }
        context.close(promise: promise)
    }
}

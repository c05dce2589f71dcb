// SPDX-License-Identifier: Apache-2.0

import Glibc
package import NIOCore
import NIOPosix

/// A handler below TLS that can close a connection without close_notify.
package final class RawCloseHandler: ChannelOutboundHandler {
    package typealias OutboundIn = ByteBuffer

    /// Closes the socket immediately, without a close_notify for the peer.
    package struct Cut: Sendable {
        /// Whether to reset the connection (RST) instead of ending the stream (FIN).
        let isReset: Bool
        /// Whether the peer may still send.
        let keepsInput: Bool

        package init(isReset: Bool = false, keepsInput: Bool = false) {
            self.isReset = isReset
            self.keepsInput = keepsInput
        }
    }

    package init() {}

    package func triggerUserOutboundEvent(
        context: ChannelHandlerContext,
        event: Any,
        promise: EventLoopPromise<Void>?
    ) {
        guard let cut = event as? Cut else {
            context.triggerUserOutboundEvent(event, promise: promise)
            return
        }
        if cut.isReset {
            let abort = linger(l_onoff: 1, l_linger: 0)
            _ = (context.channel as? any SocketOptionProvider)?.setSoLinger(abort)
        }
        context.close(mode: cut.keepsInput ? .output : .all, promise: promise)
    }
}

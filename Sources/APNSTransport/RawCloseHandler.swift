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

    /// Whether the connection is reset if the process ends while it is open.
    ///
    /// The system would end its stream, which a peer can take for an end that the process decided on.
    private let resetsOnExit: Bool
    /// Whether a close resets the connection, whoever closes it.
    private var isResetting = false

    package init(resetsOnExit: Bool = false) { self.resetsOnExit = resetsOnExit }

    package func handlerAdded(context: ChannelHandlerContext) {
        self.setReset(self.resetsOnExit, context)
    }

    package func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        if mode != .input { self.setReset(false, context) }
        context.close(mode: mode, promise: promise)
    }

    private func setReset(_ isReset: Bool, _ context: ChannelHandlerContext) {
        guard isReset != self.isResetting else { return }
        self.isResetting = isReset
        let linger = linger(l_onoff: isReset ? 1 : 0, l_linger: 0)
        _ = (context.channel as? any SocketOptionProvider)?.setSoLinger(linger)
    }

    package func triggerUserOutboundEvent(
        context: ChannelHandlerContext,
        event: Any,
        promise: EventLoopPromise<Void>?
    ) {
        guard let cut = event as? Cut else {
            context.triggerUserOutboundEvent(event, promise: promise)
            return
        }
        self.setReset(cut.isReset, context)
        context.close(mode: cut.keepsInput ? .output : .all, promise: promise)
    }
}

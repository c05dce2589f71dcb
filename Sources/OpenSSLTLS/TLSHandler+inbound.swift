// SPDX-License-Identifier: Apache-2.0

public import NIOCore

extension TLSHandler {
    /// How many bytes of plaintext are delivered at a time.
    private static let deliveryByteCountMax = 65_536

    /// Decrypts what arrived and delivers it.
    public func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .ended = self.phase { return }
        // What follows close_notify means nothing (RFC 8446, 6.1).
        if self.isInputClosed { return }
        self.connection.receive(self.unwrapInboundIn(data))
        if case .handshaking = self.phase { self.shakeHands(context) }
        self.deliver(context)
    }

    /// Passes it on, and reads more if nothing could be delivered although something is wanted.
    public func channelReadComplete(context: ChannelHandlerContext) {
        let hasDelivered = self.hasDelivered
        self.hasDelivered = false
        context.fireChannelReadComplete()
        guard !hasDelivered else { return }
        switch self.phase {
        case .handshaking: context.read()
        case .open where self.isReadWanted || self.isClosingAll: context.read()
        case .idle, .open, .ended: break
        }
    }

    /// Remembers that something is wanted.
    public func read(context: ChannelHandlerContext) {
        self.isReadWanted = true
        context.read()
    }

    /// Takes the end of the channel's input for what it means to TLS.
    public func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard let event = event as? ChannelEvent, event == .inputClosed else {
            context.fireUserInboundEventTriggered(event)
            return
        }
        switch self.phase {
        case .handshaking:
            self.fail(TLSError.closedDuringHandshake(detail: "without a reason"), context: context)
        case .open where self.isInputClosed:
            // Already sent on when close_notify came.
            break
        case .open where self.isClosingAll:
            self.finishClosing(context)
        case .open where self.configuration.acceptsTruncation:
            self.isTruncated = true
            self.peerClosed(context)
        case .open:
            self.fail(TLSError.truncated, context: context)
        case .idle, .ended:
            break
        }
    }

    /// Decrypts and delivers everything that arrived.
    ///
    /// Calls out; when called again meanwhile, that call delivers what follows, in order.
    private func deliver(_ context: ChannelHandlerContext) {
        while case .open = self.phase, !self.isInputClosed {
            let (plaintext, end) = self.connection.decrypt(
                byteCountMax: Self.deliveryByteCountMax,
                allocator: context.channel.allocator
            )
            self.collectCiphertext()
            if let plaintext {
                self.hasDelivered = true
                self.isReadWanted = false
                context.fireChannelRead(self.wrapInboundOut(plaintext))
            }
            switch end {
            case .limitReached:
                continue
            case .drained:
                self.send(context)
                // Encryption may have waited for what arrived.
                self.encryptFlushed(context)
                return
            case .closeNotify:
                self.peerClosed(context)
                return
            case .failed(let error):
                self.fail(error, context: context)
                return
            }
        }
    }
}

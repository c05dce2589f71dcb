// SPDX-License-Identifier: Apache-2.0

public import NIOCore
import NIOTLS

extension TLSHandler {
    /// Closes the connection or one side of it, with close_notify where TLS has one.
    public func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        switch (self.phase, mode) {
        case (.ended, _):
            context.close(mode: mode, promise: promise)
        case (_, .input):
            self.isInputClosed = true
            context.close(mode: .input, promise: promise)
        case (.idle, .all), (.handshaking, .all):
            self.closePromises.append(promise)
            self.finishClosing(context)
        case (.open, .all):
            self.closePromises.append(promise)
            self.closeAll(context)
        case (_, .output):
            self.closeOutput(context, promise: promise)
        }
    }

    private func closeOutput(_ context: ChannelHandlerContext, promise: EventLoopPromise<Void>?) {
        guard case .open = self.output else {
            promise?.fail(ChannelError.outputClosed)
            return
        }
        self.output = .closing
        self.outputPromises.append(promise)
        self.plaintext.takeUnflushed().fail(ChannelError.outputClosed)
        self.encryptFlushed(context)
    }

    private func closeAll(_ context: ChannelHandlerContext) {
        guard !self.isClosingAll else { return }
        self.isClosingAll = true
        self.startShutdownTimer(context)
        switch self.output {
        case .open:
            self.closeOutput(context, promise: nil)
        case .closing:
            break
        case .closed:
            if self.isInputClosed { self.finishClosing(context) }
        }
        // Without it, the peer's close_notify would not be read where reads are asked for one by one.
        if case .open = self.phase { context.read() }
    }

    /// Sends close_notify when closing was asked for and all that was flushed is encrypted.
    func closeOutputIfDue(_ context: ChannelHandlerContext) {
        guard case .open = self.phase, case .closing = self.output, !self.plaintext.hasFlushed else { return }
        guard self.sendCloseNotify(context), case .open = self.phase else { return }
        let promise = self.outputPromises.take().joined(on: context.eventLoop)
        if self.isInputClosed {
            self.closePromises.append(promise)
            context.fireUserInboundEventTriggered(TLSUserEvent.shutdownCompleted)
            self.finishClosing(context)
        } else if self.isClosingAll {
            self.closePromises.append(promise)
        } else {
            self.outgoing.append(.close(.output, promise))
            self.send(context)
        }
    }

    /// - Returns: Whether it was sent; if not, it must wait for more from the peer, or the connection failed.
    private func sendCloseNotify(_ context: ChannelHandlerContext) -> Bool {
        let step = self.connection.sendCloseNotify()
        switch step {
        case .complete:
            self.output = .closed
            self.collectCiphertext()
            self.send(context)
            return true
        case .wantsPeer:
            return false
        case .failed(let error):
            self.fail(error, context: context)
            return false
        }
    }

    /// Takes the peer's close_notify.
    func peerClosed(_ context: ChannelHandlerContext) {
        guard case .open = self.phase, !self.isInputClosed else { return }
        self.isInputClosed = true
        switch self.output {
        case .closed:
            context.fireUserInboundEventTriggered(TLSUserEvent.shutdownCompleted)
            self.finishClosing(context)
        case .closing:
            self.startShutdownTimer(context)
            self.encryptFlushed(context)
        case .open where self.allowsRemoteHalfClosure(context):
            context.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
        case .open:
            self.answerClose(context)
        }
    }

    private func allowsRemoteHalfClosure(_ context: ChannelHandlerContext) -> Bool {
        (try? context.channel.syncOptions?.getOption(.allowRemoteHalfClosure)) ?? false
    }

    /// Answers close_notify with one and closes; what has not been encrypted is not sent (RFC 5246, 7.2.1).
    private func answerClose(_ context: ChannelHandlerContext) {
        self.output = .closing
        self.plaintext.takeAll().fail(ChannelError.eof)
        guard case .open = self.phase, self.sendCloseNotify(context), case .open = self.phase else { return }
        context.fireUserInboundEventTriggered(TLSUserEvent.shutdownCompleted)
        self.finishClosing(context)
    }

    private func startShutdownTimer(_ context: ChannelHandlerContext) {
        guard self.shutdownTimer == nil else { return }
        self.shutdownTimer = context.eventLoop.assumeIsolated().scheduleTask(
            in: TimeAmount(self.configuration.shutdownTimeout)
        ) { [weak self] in
            guard let self, let context = self.context, case .open = self.phase else { return }
            self.finishClosing(context)
        }
    }

    /// Closes the channel; whatever still waits fails.
    func finishClosing(_ context: ChannelHandlerContext) {
        if case .ended = self.phase { return }
        let (writes, outputs, closes) = self.takePromises()
        writes.fail(ChannelError.ioOnClosedChannel)
        outputs.fail(ChannelError.ioOnClosedChannel)
        self.outgoing.append(.close(.all, closes.joined(on: context.eventLoop)))
        self.send(context)
    }
}

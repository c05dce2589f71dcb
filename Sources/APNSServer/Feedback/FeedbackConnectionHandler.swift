// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import APNSWire
import Logging
import NIOCore
import NIOTLS
import OpenSSLTLS

/// Delivers a list on one connection.
final class FeedbackConnectionHandler: ChannelDuplexHandler, TimedHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// Asks a connection to end that only waits for its provider.
    struct Shutdown {}

    private enum Phase {
        case handshaking
        case delivering
        /// The whole list was written to the kernel.
        case delivered
        case closed
    }

    /// The number of tuples read from the list at a time.
    private static let portionCount = 1000

    /// The size of a tuple whose token has the usual length.
    private static let tupleByteCountUsual = 6 + WireLimits.tokenByteCountUsual

    private let connection: Listener.Connection
    private let configuration: FeedbackListenerConfiguration
    private let store: any FeedbackStore
    private let counter: ProviderConnectionCounter

    private(set) var context: ChannelHandlerContext?
    private var phase = Phase.handshaking
    private var list: (any FeedbackList)?
    private var timer: Scheduled<Void>?
    private var pauseTimer: Scheduled<Void>?
    private var tokenCount = 0
    private var remoteAddress = "?"
    private var admittedAt: NIODeadline?
    private var isAcknowledged = false
    /// The key of the connection in its provider's quota; `nil` if it is not counted.
    private var shareFingerprint: String?
    private var progressTimer: Scheduled<Void>?

    init(
        _ connection: Listener.Connection,
        _ configuration: FeedbackListenerConfiguration,
        store: any FeedbackStore,
        counter: ProviderConnectionCounter
    ) {
        self.connection = connection
        self.configuration = configuration
        self.store = store
        self.counter = counter
    }

    private var admission: ConnectionAdmission { self.connection.admission }

    private var logger: Logger { self.connection.logger }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    // MARK: Events

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case TLSUserEvent.handshakeCompleted: self.admit(context)
        case ChannelEvent.inputClosed, TLSUserEvent.shutdownCompleted: self.inputClosed(context)
        default: break
        }
        context.fireUserInboundEventTriggered(event)
    }

    /// Discards input: the protocol has none.
    func channelRead(context: ChannelHandlerContext, data: NIOAny) {}

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if case .handshaking = self.phase { self.admission.handshakeFailed(context.channel, error) }
        self.logger.debug("feedback connection failed", metadata: [LogKey.failure: "\(error)"])
        if error as? TLSError == .truncated, !self.configuration.requiresCloseNotify { self.acknowledge() }
        self.phase = .closed
        // TLSHandler closes the connection after its own errors only.
        if !(error is TLSError) { context.close(promise: nil) }
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.phase = .closed
        for timer in [self.timer, self.pauseTimer, self.progressTimer] { timer?.cancel() }
        if let fingerprint = self.shareFingerprint { self.counter.giveBack(fingerprint) }
        self.shareFingerprint = nil
        self.logClosed(context)
        context.fireChannelInactive()
    }

    func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
        guard event is Shutdown else {
            context.triggerUserOutboundEvent(event, promise: promise)
            return
        }
        promise?.succeed(())
        switch self.phase {
        case .handshaking, .delivered: context.close(mode: .all, promise: nil)
        case .delivering, .closed: break
        }
    }

    private func admit(_ context: ChannelHandlerContext) {
        let address = ConnectionAdmission.address(of: context.channel)
        guard case .handshaking = self.phase, let provider = self.connection.provider(at: address) else {
            context.close(promise: nil)
            return
        }
        let identity = provider.identity
        let metadata: Logger.Metadata = [LogKey.remoteAddress: "\(address)", LogKey.topic: "\(identity.topic ?? "")"]
        guard let list = self.store.open(provider) else {
            self.admission.refused()
            self.logger.debug("feedback refused", metadata: metadata)
            self.refuse(context)
            return
        }
        guard self.counter.take(identity.fingerprint) else {
            self.admission.shareIsTaken(context.channel, countMax: self.counter.countMax)
            self.refuse(context)
            return
        }
        self.shareFingerprint = identity.fingerprint
        (self.remoteAddress, self.admittedAt) = (address, context.eventLoop.now)
        self.admission.admit(self.connection.number)
        self.logger.debug("feedback requested", metadata: metadata)
        self.list = list
        self.phase = .delivering
        self.timer = self.after(TimeAmount(self.configuration.connectionDurationMax)) { $0.cut($1) }
        self.deliver(context)
    }

    /// Ends the connection without close_notify, which would mean an empty list.
    private func refuse(_ context: ChannelHandlerContext) {
        self.phase = .closed
        self.timer = self.after(TimeAmount(self.configuration.handshakeTimeout)) { $0.cut($1) }
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        // An empty write completes when everything before it is sent, so that the provider gets its handshake first.
        context.writeAndFlush(self.wrapOutboundOut(ByteBuffer())).whenSuccess {
            bound.eventLoop.execute {
                guard let context = bound.value.context else { return }
                bound.value.cut(context)
            }
        }
    }

    // MARK: Delivering

    /// Writes the next portion.
    ///
    /// The following one is written when the kernel has accepted this one, in a later turn of the event loop.
    private func deliver(_ context: ChannelHandlerContext) {
        guard case .delivering = self.phase else { return }
        let tuples = self.list?.next(Self.portionCount) ?? []
        guard !tuples.isEmpty else { return self.delivered() }
        self.tokenCount += tuples.count
        var bytes = context.channel.allocator.buffer(capacity: tuples.count * Self.tupleByteCountUsual)
        for tuple in tuples { tuple.write(into: &bytes) }
        self.expectProgress()
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        context.writeAndFlush(self.wrapOutboundOut(bytes)).whenSuccess {
            bound.eventLoop.execute { bound.value.portionLeft() }
        }
    }

    /// Called when the kernel has accepted the written bytes.
    private func portionLeft() {
        self.progressTimer?.cancel()
        if let context = self.context { self.deliver(context) }
    }

    /// Cuts the connection if its provider neither reads nor closes in time.
    private func expectProgress() {
        self.progressTimer = self.after(TimeAmount(self.configuration.progressTimeout)) { handler, context in
            handler.logger.debug("feedback provider does not read its list or does not close")
            handler.cut(context)
        }
    }

    private func delivered() {
        self.phase = .delivered
        guard self.configuration.closesBehindList else { return }
        self.pauseTimer = self.after(TimeAmount(self.configuration.closingPause)) { handler, context in
            context.close(mode: .output, promise: nil)
            handler.expectProgress()
        }
    }

    // MARK: The end

    private func inputClosed(_ context: ChannelHandlerContext) {
        self.acknowledge()
        self.phase = .closed
        context.close(promise: nil)
    }

    private func acknowledge() {
        guard case .delivered = self.phase else { return }
        self.phase = .closed
        self.isAcknowledged = true
        self.list?.acknowledge()
        self.logger.debug("feedback delivered", metadata: [LogKey.tokens: "\(self.tokenCount)"])
    }

    /// Logs what an admitted provider read.
    private func logClosed(_ context: ChannelHandlerContext) {
        guard let admittedAt = self.admittedAt else { return }
        self.logger.info(
            "feedback connection closed",
            metadata: [
                LogKey.remoteAddress: "\(self.remoteAddress)", LogKey.tokens: "\(self.tokenCount)",
                LogKey.closeReason: self.isAcknowledged
                    ? "the provider read the whole list" : "closed before the whole list was read; the list is kept",
                LogKey.connectionDuration: "\(Duration(context.eventLoop.now - admittedAt))",
            ]
        )
    }

    /// Cuts the connection, so that a close reported by TLS does not count as the provider's.
    private func cut(_ context: ChannelHandlerContext) {
        self.phase = .closed
        context.triggerUserOutboundEvent(RawCloseHandler.Cut(), promise: nil)
    }
}

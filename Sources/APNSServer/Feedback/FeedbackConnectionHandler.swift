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
        /// The store decides about the provider.
        case deciding
        case delivering
        /// The whole list was written to the kernel.
        case delivered
        /// The list has arrived, and the end of the connection was sent.
        case ended
        case closed
    }

    /// What is known about a list at the end of its connection.
    private enum ListState: String {
        case unread = "closed before the whole list was read; the list is kept"
        case read = "the provider read the whole list"
        case unclear =
            "the provider closed only its sending side; whether it read the list is unknown; the list is kept"
        case unconfirmed = "the provider closed without close_notify; the list is kept"
    }

    /// The number of tuples read from the list at a time.
    private static let portionCount = 1000

    /// The size of a tuple whose token has the usual length.
    private static let tupleByteCountUsual = 6 + WireLimits.tokenByteCountUsual

    /// The time between two checks whether the list has arrived.
    private static let arrivalPollInterval = TimeAmount.milliseconds(20)

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
    private var listState = ListState.unread
    private let closeHandler = FeedbackCloseHandler()
    /// Whether the provider has closed its sending side.
    private var isInputClosed = false
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

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        let pipeline = context.pipeline.syncOperations
        do {
            try pipeline.addHandler(
                self.closeHandler,
                position: .after(pipeline.handler(type: RawCloseHandler.self))
            )
        } catch {
            context.fireErrorCaught(error)
            context.close(promise: nil)
        }
    }

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
        // The end of the provider's stream after the end of this one.
        if case .ended = self.phase, error as? TLSError == .truncated { self.providerRead(hasCloseNotify: false) }
        self.phase = .closed
        // TLSHandler closes the connection after its own errors only.
        if !(error is TLSError) { context.close(promise: nil) }
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.phase = .closed
        for timer in [self.timer, self.pauseTimer, self.progressTimer] { timer?.cancel() }
        if let fingerprint = self.shareFingerprint { self.counter.release(fingerprint) }
        self.shareFingerprint = nil
        self.logClosed(context)
        context.fireChannelInactive()
    }

    func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
        // What TLS reports about the end of a connection that is cut does not come from the provider.
        if event is RawCloseHandler.Cut { self.phase = .closed }
        guard event is Shutdown else {
            context.triggerUserOutboundEvent(event, promise: promise)
            return
        }
        promise?.succeed(())
        switch self.phase {
        // close_notify would mean an empty list.
        case .handshaking, .deciding: self.cut(context)
        case .ended: context.close(mode: .all, promise: nil)
        case .delivered:
            self.endConnection(context)
            if case .ended = self.phase { context.close(mode: .all, promise: nil) }
        case .delivering, .closed: break
        }
    }

    private func admit(_ context: ChannelHandlerContext) {
        let address = ConnectionAdmission.address(of: context.channel)
        guard case .handshaking = self.phase, let provider = self.connection.provider(at: address) else {
            return self.refuse(context)
        }
        guard let store = self.store as? any DeferredFeedback else {
            return self.admit(provider, address, self.store.open(provider), context)
        }
        self.phase = .deciding
        let decision = store.decideList(of: provider, until: context.channel.closeFuture)
        decision.assumeIsolated().whenComplete { [weak self] result in
            guard let self, let context = self.context, case .deciding = self.phase else { return }
            self.admit(provider, address, (try? result.get())?(), context)
        }
    }

    private func admit(
        _ provider: ProviderConnection,
        _ address: String,
        _ found: (any FeedbackList)?,
        _ context: ChannelHandlerContext
    ) {
        let identity = provider.identity
        let metadata: Logger.Metadata = [LogKey.remoteAddress: "\(address)", LogKey.topic: "\(identity.topic ?? "")"]
        guard let list = found else {
            self.admission.refused()
            self.logger.debug("feedback refused", metadata: metadata)
            self.refuse(context)
            return
        }
        guard self.counter.acquire(identity.fingerprint) else {
            self.admission.providerIsFull(context.channel, countMax: self.counter.countMax)
            self.refuse(context)
            return
        }
        self.shareFingerprint = identity.fingerprint
        (self.remoteAddress, self.admittedAt) = (address, context.eventLoop.now)
        self.admission.admit(self.connection.number)
        self.logger.debug("feedback requested", metadata: metadata)
        self.list = list
        self.phase = .delivering
        self.timer = self.after(TimeAmount(self.configuration.connectionTimeout)) { $0.cut($1) }
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
            bound.eventLoop.execute { bound.value.portionSent() }
        }
    }

    /// Called when the kernel has accepted the written bytes.
    private func portionSent() {
        self.progressTimer?.cancel()
        if let context = self.context { self.deliver(context) }
    }

    /// Cuts the connection if its provider neither reads nor closes in time.
    private func expectProgress() {
        self.progressTimer?.cancel()
        self.progressTimer = self.after(TimeAmount(self.configuration.progressTimeout)) { handler, context in
            handler.logger.debug("feedback provider does not read its list or does not close")
            handler.cut(context)
        }
    }

    private func delivered() {
        self.phase = .delivered
        if self.configuration.closesBehindList || self.isInputClosed { self.endAfterPause() }
    }

    // MARK: The end

    /// Ends the connection after ``FeedbackListenerConfiguration/closingPause``.
    ///
    /// A provider that closes without having read everything resets the connection in the meantime.
    private func endAfterPause() {
        self.expectProgress()
        self.pauseTimer?.cancel()
        self.pauseTimer = self.after(TimeAmount(self.configuration.closingPause)) { $0.endConnection($1) }
    }

    /// Sends the end of the connection once the provider's system has acknowledged the whole list.
    private func endConnection(_ context: ChannelHandlerContext, _ lastByteCount: Int = 0) {
        guard case .delivered = self.phase else { return }
        self.pauseTimer?.cancel()
        let byteCount = SocketBytes.unacknowledgedCount(of: context.channel) ?? 0
        guard byteCount == 0 else {
            if byteCount < lastByteCount { self.expectProgress() }
            self.pauseTimer = self.after(Self.arrivalPollInterval) { $0.endConnection($1, byteCount) }
            return
        }
        self.expectProgress()
        // After a reset, nothing is unacknowledged either, and TLS may report the end of the stream.
        guard !SocketBytes.isReset(context.channel) else { return self.cut(context) }
        guard self.isInputClosed else {
            self.phase = .ended
            let promise = context.eventLoop.makePromise(of: Void.self)
            let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
            promise.futureResult.whenFailure { _ in
                if case .ended = bound.value.phase { bound.value.phase = .closed }
            }
            context.close(mode: .output, promise: promise)
            return
        }
        self.hold()
        context.close(promise: nil)
    }

    /// Lets the next close wait until it is known whether the provider has read everything.
    private func hold() {
        self.phase = .closed
        self.closeHandler.hold { result in
            switch result {
            case .read: self.providerRead(hasCloseNotify: !self.connection.tls.isTruncated)
            case .unclear: self.listState = .unclear
            case .unread: break
            }
        }
    }

    private func inputClosed(_ context: ChannelHandlerContext) {
        self.isInputClosed = true
        switch self.phase {
        case .deciding, .delivering: break
        case .delivered: self.endAfterPause()
        case .ended:
            // A reset may follow close_notify.
            self.hold()
            context.close(promise: nil)
        case .closed where self.closeHandler.isHolding: break
        case .handshaking, .closed:
            self.phase = .closed
            context.close(promise: nil)
        }
    }

    /// Acknowledges the list.
    private func providerRead(hasCloseNotify: Bool) {
        guard hasCloseNotify || !self.configuration.requiresCloseNotify else {
            self.listState = .unconfirmed
            return
        }
        self.listState = .read
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
                LogKey.closeReason: "\(self.listState.rawValue)",
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

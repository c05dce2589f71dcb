// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSTransport
import APNSWire
import Logging
import NIOCore
import NIOTLS
import OpenSSLTLS

/// Executes the decisions of the ``/APNSSession/GatewaySession`` of one connection.
final class BinaryConnectionHandler: ChannelDuplexHandler, TimedHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// Asks a connection to end once its notifications in flight are completed.
    struct Shutdown {
        var isAnnounced: Bool
    }

    /// Asks a connection to end in the same way if its provider is no longer admitted.
    struct Readmission {}

    private enum Phase {
        case handshaking
        /// The backend decides about the provider; what arrives meanwhile waits.
        case deciding
        case receiving(any DeliveryConnection)
        /// The end is decided, and waits for outcomes or the backend.
        case ending(any DeliveryConnection)
        /// The error response is sent; further bytes count against the limits.
        case draining(any DeliveryConnection)
        case closed
    }

    /// How many bytes are read after a request to stop: more than a receive buffer of the gateway holds, so everything
    /// that had arrived.
    static let stopByteCountMax = 512 * 1024
    /// How long a connection is read after a request to stop if its provider learns what to send again.
    private static let stopDuration = TimeAmount.seconds(1)
    /// How long nothing must have arrived until a provider that reads error responses counts as having written
    /// everything.
    private static let quietDuration = TimeAmount.milliseconds(100)
    /// How long, and how many bytes, a connection is read for the log before it is reset.
    private static let restDuration = TimeAmount.milliseconds(100)
    private static let restByteCountMax = 1024 * 1024

    let connection: Listener.Connection
    private let configuration: BinaryListenerConfiguration
    private let backend: any DeliveryBackend
    private let outcomes: OutcomeQueue
    /// The connection's logger, with the name of its provider.
    private(set) var logger: Logger

    private(set) var context: ChannelHandlerContext?
    private var phase = Phase.handshaking
    var dispatcher: FrameDispatcher
    private var isReadingStopped = false
    private var isReadHeld = false
    private var isInputClosed = false
    private(set) var remoteAddress = "?"
    var acceptedCountReported: UInt64 = 0
    private var lastReadAt: NIODeadline
    private var idleTimer: Scheduled<Void>?
    private var delayTimer: Scheduled<Void>?
    private var drainTimer: Scheduled<Void>?
    private var endTimer: Scheduled<Void>?
    private var outcomeTimer: Scheduled<Void>?
    /// How many more bytes are read after a request to stop; `nil` before one.
    private var remainingStopByteCount: Int?
    private var stopTimer: Scheduled<Void>?
    private var quietTimer: Scheduled<Void>?
    /// What ends the connection as soon as everything that has arrived is read and discarded.
    private var pendingEnds: [(BinaryConnectionHandler, ChannelHandlerContext) -> Void] = []
    /// How many more bytes are read to count them before the connection is reset; `nil` while it is not.
    private var remainingRestByteCount: Int?
    /// The message known to have waited longest for its outcome, and since when.
    private var oldest: (number: UInt64, since: NIODeadline)?
    /// Whether the error response names the message at fault; for command 0, only the log does.
    private(set) var isFaultReported = false
    /// Why notifications are discarded, for the log.
    private(set) var discardReason = "the connection closed before they were accepted"
    /// Why the connection ends, for the log.
    private(set) var closeReason: String?
    private(set) var admittedAt: NIODeadline
    /// Whether the provider did not close the connection after the error response.
    private(set) var isReset = false

    init(
        _ connection: Listener.Connection,
        _ configuration: BinaryListenerConfiguration,
        backend: any DeliveryBackend
    ) {
        self.connection = connection
        self.configuration = configuration
        self.backend = backend
        self.outcomes = OutcomeQueue(eventLoop: connection.eventLoop)
        self.logger = connection.logger
        self.lastReadAt = connection.eventLoop.now
        self.admittedAt = connection.eventLoop.now
        self.dispatcher = FrameDispatcher(configuration, requiresOrder: backend.requiresOrder)
    }

    var admission: ConnectionAdmission { self.connection.admission }

    var metrics: ListenerMetrics { self.connection.admission.metrics }

    private var tls: any TLSFacts { self.connection.tls }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        self.outcomes.deliver(to: self)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        self.outcomes.deliver(to: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        let timers = [
            self.idleTimer, self.endTimer, self.delayTimer, self.drainTimer, self.outcomeTimer, self.stopTimer,
            self.quietTimer,
        ]
        for timer in timers { timer?.cancel() }
        self.outcomes.deliver(to: nil)
        self.dispatcher.session.connectionLost()
        self.reportAccepted(byteCount: 0)
        let delivery = self.delivery
        if let delivery {
            self.discard(for: delivery)
            self.logDiscarded()
            self.logClosed()
        }
        self.phase = .closed
        delivery?.closed()
        self.metrics.connectionClosed()
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if case .handshaking = self.phase { self.admission.handshakeFailed(context.channel, error) }
        self.logger.debug("connection failed", metadata: [LogKey.failure: "\(error)"])
        self.recordCloseReason("connection failed: \(error)")
        // TLSHandler closes the connection after its own errors only.
        if !(error is TLSError) { context.close(promise: nil) }
    }

    var delivery: (any DeliveryConnection)? {
        switch self.phase {
        case .handshaking, .deciding, .closed: nil
        case .receiving(let delivery), .ending(let delivery), .draining(let delivery): delivery
        }
    }
}

// MARK: - What arrives

extension BinaryConnectionHandler {
    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case TLSUserEvent.handshakeCompleted: self.admit(context)
        case ChannelEvent.inputClosed: self.inputClosed(context)
        default: break
        }
        context.fireUserInboundEventTriggered(event)
    }

    private func admit(_ context: ChannelHandlerContext) {
        self.remoteAddress = ConnectionAdmission.address(of: context.channel)
        guard case .handshaking = self.phase, let provider = self.provider else { return self.refuse(context) }
        guard let backend = self.backend as? any DeferredAdmission else {
            return self.admit(provider, self.backend.admit(provider), context)
        }
        self.phase = .deciding
        self.isReadingStopped = true
        let decision = backend.decide(about: provider, until: context.channel.closeFuture)
        decision.assumeIsolated().whenComplete { [weak self] result in
            guard let self, let context = self.context, case .deciding = self.phase else { return }
            self.admit(provider, (try? result.get())?() ?? .refused, context)
            guard case .receiving(let delivery) = self.phase, self.delayTimer == nil else { return }
            self.resume(for: delivery, context: context)
        }
    }

    private func admit(_ provider: ProviderConnection, _ admission: Admission, _ context: ChannelHandlerContext) {
        let metadata: Logger.Metadata = [
            LogKey.remoteAddress: "\(self.remoteAddress)", LogKey.topic: "\(provider.identity.topic ?? "")",
        ]
        switch admission {
        case .admitted(let delivery):
            self.phase = .receiving(delivery)
            self.admittedAt = context.eventLoop.now
            self.dispatcher.session.rejectionPolicy = delivery.rejectionPolicy
            if let name = delivery.providerName { self.logger[metadataKey: LogKey.provider] = "\(name)" }
            if let byteCount = delivery.receiveBufferByteCount {
                // If it fails, the listener's stays.
                context.channel.setOption(.socketOption(.so_rcvbuf), value: byteCount).whenFailure { _ in }
            }
            self.delayReading(for: delivery, delivery.readingDelay)
            self.admission.admit(self.connection.number)
            self.metrics.connectionOpened()
            self.logger.debug("provider connected", metadata: metadata)
            self.watchForIdleness()
            self.watchForOutcomes()
        case .refused:
            self.admission.refused()
            self.logger.debug("provider refused", metadata: metadata)
            self.metrics.ended(nil)
            self.refuse(context)
        }
    }

    /// Resets the connection of a provider that is not admitted.
    ///
    /// It may have written already, and would take an orderly end for the acceptance of everything.
    private func refuse(_ context: ChannelHandlerContext) {
        self.phase = .closed
        self.endTimer = self.after(TimeAmount(self.configuration.handshakeTimeout)) { $0.reset($1) }
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        // An empty write completes when everything before it is sent, so that the provider gets its handshake first.
        context.writeAndFlush(self.wrapOutboundOut(ByteBuffer())).whenComplete { _ in
            if let context = bound.value.context { bound.value.reset(context) }
        }
    }

    private var provider: ProviderConnection? { self.connection.provider(at: self.remoteAddress) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let bytes = self.unwrapInboundIn(data)
        let byteCount = bytes.readableBytes
        self.lastReadAt = context.eventLoop.now
        switch self.phase {
        case .receiving(let delivery) where !self.pendingEnds.isEmpty:
            self.dispatcher.append(bytes)
            self.discard(for: delivery)
            if let left = self.remainingRestByteCount { self.remainingRestByteCount = left - byteCount }
            self.endAfterRest(context)
        case .receiving(let delivery):
            self.dispatcher.append(bytes)
            if let left = self.remainingStopByteCount { self.remainingStopByteCount = left - byteCount }
            if !self.isReadingStopped { self.dispatch(for: delivery, context: context) }
            self.reportAccepted(byteCount: byteCount)
            self.continueStop(context)
        case .ending(let delivery):
            self.dispatcher.append(bytes)
            self.discard(for: delivery)
        case .draining(let delivery):
            self.dispatcher.append(bytes)
            self.discard(for: delivery)
            if let left = self.remainingRestByteCount {
                self.remainingRestByteCount = left - byteCount
                return self.resetAfterRest(context)
            }
            self.watchDrain()
            self.run(self.dispatcher.session.discarded(byteCount: byteCount), "it kept sending", context)
        case .deciding: self.dispatcher.append(bytes)
        case .handshaking, .closed: break
        }
    }

    func read(context: ChannelHandlerContext) {
        if self.isReadingStopped {
            self.isReadHeld = true
        } else {
            context.read()
        }
    }

    /// Stops reading for as long as the backend requires.
    private func delayReading(for delivery: any DeliveryConnection, _ delay: Duration?) {
        guard let delay else { return }
        self.isReadingStopped = true
        // At least one timer tick, since the remaining delay may be shorter.
        let pause = TimeAmount(delay) + .milliseconds(1)
        self.delayTimer = self.after(pause) { handler, context in
            guard case .receiving(let delivery) = handler.phase else { return }
            handler.delayTimer = nil
            handler.isReadingStopped = false
            handler.delayReading(for: delivery, delivery.readingDelay)
            if !handler.isReadingStopped { handler.resume(for: delivery, context: context) }
        }
    }

    private func dispatch(for delivery: any DeliveryConnection, context: ChannelHandlerContext) {
        defer { self.logSkipped(delivery, context) }
        let stopReason = self.dispatcher.dispatch(for: delivery, outcomes: self.outcomes)
        delivery.deliverComplete()
        switch stopReason {
        case .drained: if self.isInputClosed { self.endInput(for: delivery, context: context) }
        case .stopped: self.isReadingStopped = true
        case .awaitsEarlier:
            self.logFault(context)
            self.awaitEarlier(for: delivery, context: context)
        case .finished(let ending):
            self.logFault(context)
            self.finish(ending, for: delivery, context: context)
        }
    }

    /// Discards and counts what was not accepted.
    private func discard(for delivery: any DeliveryConnection) {
        let count = self.dispatcher.discard()
        guard count > 0 else { return }
        self.metrics.discarded(messageCount: count)
        delivery.discarded(messageCount: count)
    }

    /// Records why the connection ends, unless a reason is known.
    private func recordCloseReason(_ reason: String) { self.closeReason = self.closeReason ?? reason }

    /// Handles the end of input.
    ///
    /// Bytes already received are still processed, since their sender may be gone.
    private func inputClosed(_ context: ChannelHandlerContext) {
        self.isInputClosed = true
        self.recordCloseReason(
            self.tls.isTruncated ? "closed by the provider without close_notify" : "closed by the provider"
        )
        switch self.phase {
        case .handshaking: context.close(promise: nil)
        case .receiving(let delivery): if !self.isReadingStopped { self.endInput(for: delivery, context: context) }
        case .ending, .draining:
            // The backend is still completing the end, which closes the connection.
            if self.dispatcher.session.inputClosed() == .close, self.isDraining {
                context.close(promise: nil)
            } else if self.tls.isTruncated {
                if self.isDraining { context.close(promise: nil) } else { self.reset(context) }
            }
        case .deciding, .closed: break
        }
    }

    /// Called when everything that arrived before the end of input is processed.
    private func endInput(for delivery: any DeliveryConnection, context: ChannelHandlerContext) {
        guard self.pendingEnds.isEmpty else {
            // What came before was discarded, and nothing more comes.
            self.remainingRestByteCount = 0
            self.endAfterRest(context)
            return self.inputClosed(context)
        }
        // A provider that sent no close_notify is gone, so no outcomes are reported to it. If it has only closed its
        // side, an orderly end would mean that everything is accepted.
        let isIncomplete = self.dispatcher.hasUnparsed
        guard !self.tls.isTruncated else {
            let isAccepted = self.dispatcher.session.inFlightCount == 0 && !self.dispatcher.hasDiscarded
            return isAccepted && !isIncomplete ? context.close(promise: nil) : self.reset(context)
        }
        switch self.dispatcher.session.inputClosed(isIncomplete: isIncomplete) {
        case .awaitEarlier: self.phase = .ending(delivery)
        case .close: context.close(promise: nil)
        case .reset: self.reset(context)
        case .none: break
        }
    }

    private var isDraining: Bool {
        if case .draining = self.phase { return true }
        return false
    }
}

// MARK: - Outcomes

extension BinaryConnectionHandler {
    /// Processes outcomes from the backend; on the event loop.
    func settle(_ entries: [OutcomeQueue.Entry]) {
        guard let context = self.context else { return }
        for entry in entries {
            if case .unsent = entry.outcome, self.dispatcher.session.isOutstanding(entry.number) {
                self.readRest(context) { handler, context in handler.settle(entry, context) }
            } else {
                self.settle(entry, context)
            }
        }
        self.reportAccepted(byteCount: 0)
        self.continueStop(context)
    }

    private func settle(_ entry: OutcomeQueue.Entry, _ context: ChannelHandlerContext) {
        guard let delivery = self.delivery else { return }
        self.dispatcher.counts.settle(entry.outcome)
        switch self.dispatcher.session.settle(entry.number, entry.outcome, isLast: entry.isLast) {
        case .none: break
        case .stopReading: self.isReadingStopped = true
        case .resumeReading:
            // A request to stop reads what has arrived, whatever the backend holds.
            if self.remainingStopByteCount == nil, self.delayTimer == nil {
                self.delayReading(for: delivery, delivery.resumingDelay)
            }
            if self.delayTimer == nil { self.resume(for: delivery, context: context) }
        case .awaitEarlier: self.awaitEarlier(for: delivery, context: context)
        case .finish(let ending): self.finish(ending, for: delivery, context: context)
        }
    }

    /// Reads and discards what has arrived, then ends the connection: an error response must not name a message that
    /// one of these could be mistaken for.
    private func readRest(
        _ context: ChannelHandlerContext,
        then end: @escaping (BinaryConnectionHandler, ChannelHandlerContext) -> Void
    ) {
        guard case .receiving(let delivery) = self.phase, self.dispatcher.session.rejectionPolicy == .report else {
            return end(self, context)
        }
        self.pendingEnds.append(end)
        guard self.pendingEnds.count == 1 else { return }
        self.delayTimer?.cancel()
        self.delayTimer = nil
        self.discard(for: delivery)
        self.remainingRestByteCount = self.isInputClosed ? 0 : Self.restByteCountMax
        self.stopTimer?.cancel()
        self.stopTimer = self.after(Self.restDuration) { handler, context in
            handler.remainingRestByteCount = 0
            handler.endAfterRest(context)
        }
        self.isReadingStopped = false
        self.releaseRead(context)
        self.endAfterRest(context)
    }

    private func endAfterRest(_ context: ChannelHandlerContext) {
        guard let left = self.remainingRestByteCount, left <= 0 || SocketBytes.unreadCount(of: context.channel) == 0
        else {
            return
        }
        self.stopTimer?.cancel()
        self.remainingRestByteCount = nil
        self.dispatcher.endDiscarding()
        let ends = self.pendingEnds
        self.pendingEnds = []
        for end in ends { end(self, context) }
        // The rest was discarded, so nothing more can be taken.
        if !ends.isEmpty, case .receiving = self.phase { self.reset(context) }
    }

    /// Periodically checks whether the oldest message has waited too long for its outcome.
    private func watchForOutcomes() {
        guard let timeout = self.configuration.outcomeTimeout.map(TimeAmount.init) else { return }
        let interval = TimeAmount.nanoseconds(max(1_000_000, timeout.nanoseconds / 4))
        self.outcomeTimer = self.after(interval) { handler, _ in
            handler.checkOldest(timeout)
            handler.watchForOutcomes()
        }
    }

    private func checkOldest(_ timeout: TimeAmount) {
        guard self.dispatcher.session.inFlightCount > 0, self.delivery?.resumingDelay == nil else {
            self.oldest = nil
            return
        }
        let (number, now) = (self.dispatcher.session.acceptedCount + 1, self.outcomes.eventLoop.now)
        guard let oldest = self.oldest, oldest.number == number else {
            self.oldest = (number, now)
            return
        }
        if now - oldest.since >= timeout { self.giveUp() }
    }

    /// Stops waiting for outcomes: notifications without one are reported as not accepted.
    private func giveUp() {
        // Outcomes that have already arrived are not overdue.
        self.outcomes.empty()
        guard self.context != nil else { return }
        let count = self.dispatcher.session.inFlightCount
        guard count > 0 else { return }
        self.logger.warning("outcomes overdue", metadata: [LogKey.count: "\(count)"])
        let number = self.dispatcher.session.acceptedCount + 1
        self.settle([OutcomeQueue.Entry(number: number, outcome: .unsent(.deadline))])
    }

    private func resume(for delivery: any DeliveryConnection, context: ChannelHandlerContext) {
        self.isReadingStopped = false
        self.dispatch(for: delivery, context: context)
        self.releaseRead(context)
    }

    private func releaseRead(_ context: ChannelHandlerContext) {
        guard self.isReadHeld, !self.isReadingStopped else { return }
        self.isReadHeld = false
        context.read()
    }
}

// MARK: - The end

extension BinaryConnectionHandler {
    func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
        switch event {
        case let shutdown as Shutdown: self.shutDown(isAnnounced: shutdown.isAnnounced, context)
        case is Readmission: self.readmit(context)
        default: return context.triggerUserOutboundEvent(event, promise: promise)
        }
        promise?.succeed(())
    }

    private func shutDown(isAnnounced: Bool, _ context: ChannelHandlerContext) {
        switch self.phase {
        // A provider may have written already.
        case .handshaking, .deciding: self.reset(context)
        case .receiving(let delivery):
            self.recordCloseReason(isAnnounced ? "listener shutting down" : "idle timeout")
            if isAnnounced { self.giveUpInTime() }
            // A provider that has closed its side cannot resend the rest, so it is processed while there is time.
            guard self.isInputClosed else {
                let isDelayed = self.delayTimer != nil && self.dispatcher.session.rejectionPolicy == .report
                guard isAnnounced, !isDelayed else {
                    return self.stopReceiving(for: delivery, isAnnounced: isAnnounced, context)
                }
                return self.beginStop(context)
            }
            // There is no time left for the delay.
            if let delayTimer = self.delayTimer {
                delayTimer.cancel()
                self.delayTimer = nil
                if self.isReadingStopped { self.resume(for: delivery, context: context) }
            }
        case .ending:
            if isAnnounced { self.giveUpInTime() }
        case .draining, .closed: break
        }
    }

    /// Reads what has arrived, so that as little as possible has to be sent again, and nothing of a provider that never
    /// reads is lost.
    private func beginStop(_ context: ChannelHandlerContext) {
        guard self.remainingStopByteCount == nil, self.pendingEnds.isEmpty else { return }
        self.remainingStopByteCount = Self.stopByteCountMax
        self.watchStop()
        if let delayTimer = self.delayTimer, case .receiving(let delivery) = self.phase {
            delayTimer.cancel()
            self.delayTimer = nil
            self.resume(for: delivery, context: context)
        }
        self.continueStop(context)
    }

    /// Limits the reading after a request to stop, unless what arrived from a provider that never reads still waits.
    private func watchStop() {
        self.stopTimer = self.after(Self.stopDuration) { handler, context in
            guard case .receiving(let delivery) = handler.phase, handler.pendingEnds.isEmpty else { return }
            if handler.dispatcher.session.rejectionPolicy == .report || !handler.isReadingStopped {
                handler.stopReceiving(for: delivery, isAnnounced: true, context)
            } else {
                handler.watchStop()
            }
        }
    }

    private func continueStop(_ context: ChannelHandlerContext) {
        guard case .receiving(let delivery) = self.phase, let remainingByteCount = self.remainingStopByteCount,
            self.pendingEnds.isEmpty
        else { return }
        if remainingByteCount > 0 {
            guard !self.dispatcher.hasUnparsed, SocketBytes.unreadCount(of: context.channel) == 0 else { return }
            // The next write of a provider that never reads fails after the reset, whatever is in flight.
            if self.dispatcher.session.rejectionPolicy == .report {
                guard self.dispatcher.session.inFlightCount == 0 else { return }
                guard self.isQuiet else { return self.continueStopWhenQuiet() }
            }
        }
        self.stopReceiving(for: delivery, isAnnounced: true, context)
    }

    private var isQuiet: Bool { self.lastReadAt + Self.quietDuration <= self.connection.eventLoop.now }

    private func continueStopWhenQuiet() {
        self.quietTimer?.cancel()
        let delay = self.lastReadAt + Self.quietDuration - self.connection.eventLoop.now
        self.quietTimer = self.after(delay) { handler, context in handler.continueStop(context) }
    }

    private func readmit(_ context: ChannelHandlerContext) {
        guard case .receiving(let delivery) = self.phase, let provider = self.provider, !delivery.isAdmitted(provider)
        else { return }
        self.recordCloseReason("provider no longer admitted")
        self.giveUpInTime()
        self.stopReceiving(for: delivery, isAnnounced: self.configuration.announcesShutdown, context)
    }

    private func stopReceiving(
        for delivery: any DeliveryConnection,
        isAnnounced: Bool,
        _ context: ChannelHandlerContext
    ) {
        self.readRest(context) { handler, context in
            switch handler.dispatcher.session.shutDown(isAnnounced: isAnnounced) {
            case .awaitEarlier: handler.awaitEarlier(for: delivery, context: context)
            case .finish(let ending): handler.finish(ending, for: delivery, context: context)
            case .none: break
            }
        }
    }

    /// Gives up early enough to send an error response before the connection is cut.
    private func giveUpInTime() {
        self.outcomeTimer?.cancel()
        let delay = TimeAmount(self.configuration.shutdownTimeout * 4 / 5)
        self.outcomeTimer = self.after(delay) { handler, _ in handler.giveUp() }
    }

    /// Stops accepting and reading, so that further bytes stay in the provider's send buffer, where they are not lost,
    /// until the error response is sent.
    private func awaitEarlier(for delivery: any DeliveryConnection, context: ChannelHandlerContext) {
        self.phase = .ending(delivery)
        self.isReadingStopped = true
        self.discard(for: delivery)
        if self.tls.isTruncated { self.reset(context) }
    }

    private func finish(_ ending: GatewayEnding, for delivery: any DeliveryConnection, context: ChannelHandlerContext) {
        self.awaitEarlier(for: delivery, context: context)
        guard !self.tls.isTruncated else { return }
        // A provider that has just written is probably still writing.
        let hasDiscarded =
            self.dispatcher.hasDiscarded || !self.isQuiet || SocketBytes.unreadCount(of: context.channel) > 0
        let ending = ending.carriedOut(hasDiscarded: hasDiscarded, isInputClosed: self.isInputClosed)
        self.watchEnd(for: delivery)
        let eventLoop = context.eventLoop
        delivery.close(for: ending) { [handler = NIOLoopBound(self, eventLoop: eventLoop)] ending in
            if eventLoop.inEventLoop {
                handler.value.end(ending)
            } else {
                eventLoop.execute { handler.value.end(ending) }
            }
        }
    }

    /// Closes the connection without an error response if the backend takes longer for the end than for an outcome.
    private func watchEnd(for delivery: any DeliveryConnection) {
        guard let timeout = self.configuration.outcomeTimeout.map(TimeAmount.init) else { return }
        self.endTimer = self.after(timeout) { handler, context in
            guard case .ending = handler.phase else { return }
            handler.logger.warning(
                "connection closed without an error response",
                metadata: [LogKey.refusalReason: "its end took longer than the time limit of an outcome"]
            )
            handler.phase = .draining(delivery)
            handler.recordCloseReason("its end took longer than the time limit of an outcome")
            // An orderly end would tell a provider that has closed its side that everything was accepted.
            handler.reset(context)
        }
    }

    private func end(_ ending: GatewayEnding) {
        self.endTimer?.cancel()
        guard let context = self.context, case .ending = self.phase else { return }
        self.discardReason = Self.reason(of: ending)
        if let status = ending.response?.status ?? ending.status {
            self.recordCloseReason("status \(status)\(ending.response == nil ? ", not sent" : "")")
        }
        self.isFaultReported = ending.status != nil && ending.number == self.dispatcher.faultNumber
        self.carryOut(ending.response, ending.closing, context: context)
    }

    /// Sends the response, and closes the connection.
    private func carryOut(_ response: ErrorResponse?, _ closing: GatewayEnding.Closing, context: ChannelHandlerContext)
    {
        if case .ending(let delivery) = self.phase { self.phase = .draining(delivery) }
        self.metrics.ended(response)
        if let response { self.write(response, context: context) }
        guard !self.isInputClosed || (response == nil && closing == .reset) else { return context.close(promise: nil) }
        // The backend may have a response of its own.
        switch response != nil && !closing.readsOn ? .drain : closing {
        case .orderly:
            // A provider may write into a connection that waits for its close_notify, and take that for success.
            context.close(mode: .output).whenComplete { [channel = context.channel] _ in
                channel.triggerUserOutboundEvent(RawCloseHandler.Cut(), promise: nil)
            }
        case .reset:
            self.recordCloseReason("reset by the gateway")
            self.reset(context)
        case .hold:
            self.endTimer = self.after(TimeAmount(self.configuration.drainIdleTimeout)) { handler, context in
                handler.readRest(context)
            }
            context.close(mode: .output, promise: nil)
        case .drain:
            self.startDraining()
            context.close(mode: .output, promise: nil)
            self.isReadingStopped = false
            self.releaseRead(context)
        }
    }

    /// Reads what the provider wrote before it could notice the response, for the log, and resets the connection.
    private func readRest(_ context: ChannelHandlerContext) {
        self.remainingRestByteCount = Self.restByteCountMax
        self.endTimer = self.after(Self.restDuration) { handler, context in
            handler.remainingRestByteCount = 0
            handler.resetAfterRest(context)
        }
        self.isReadingStopped = false
        self.releaseRead(context)
        self.resetAfterRest(context)
    }

    private func resetAfterRest(_ context: ChannelHandlerContext) {
        guard let left = self.remainingRestByteCount, left <= 0 || SocketBytes.unreadCount(of: context.channel) == 0
        else {
            return
        }
        self.run(self.dispatcher.session.drainDeadlinePassed(), "it did not close the connection", context)
    }

    private func write(_ response: ErrorResponse, context: ChannelHandlerContext) {
        self.logResponse(response)
        var bytes = context.channel.allocator.buffer(capacity: WireLimits.errorResponseByteCount)
        response.write(into: &bytes)
        context.writeAndFlush(self.wrapOutboundOut(bytes), promise: nil)
    }

    private func startDraining() {
        self.endTimer = self.after(TimeAmount(self.configuration.drainTimeout)) { handler, context in
            handler.run(handler.dispatcher.session.drainDeadlinePassed(), "it kept sending for too long", context)
        }
        self.watchDrain()
    }

    /// Resets the connection if the provider is silent for too long.
    private func watchDrain() {
        self.drainTimer?.cancel()
        self.drainTimer = self.after(TimeAmount(self.configuration.drainIdleTimeout)) { handler, context in
            guard handler.isDraining else { return }
            handler.run(handler.dispatcher.session.drainDeadlinePassed(), "it was idle for too long", context)
        }
    }

    private func run(_ action: GatewaySession.OnDrain, _ reason: String, _ context: ChannelHandlerContext) {
        guard action == .close else { return }
        self.logger.info(
            "connection reset",
            metadata: [LogKey.refusalReason: "after its end, \(reason)", LogKey.remoteAddress: "\(self.remoteAddress)"]
        )
        self.isReset = true
        // A reset makes the next write of a provider fail that does not read.
        self.reset(context)
    }

    private func reset(_ context: ChannelHandlerContext) {
        context.triggerUserOutboundEvent(RawCloseHandler.Cut(isReset: true), promise: nil)
    }

    private func watchForIdleness() {
        guard let timeout = self.configuration.idleTimeout.map(TimeAmount.init) else { return }
        let delay = self.lastReadAt + timeout - self.connection.eventLoop.now
        self.idleTimer = self.after(delay) { handler, context in
            guard case .receiving = handler.phase else { return }
            let now = context.eventLoop.now
            let isWaiting = handler.dispatcher.session.inFlightCount > 0 || handler.delayTimer != nil
            if handler.lastReadAt + timeout <= now, !isWaiting {
                handler.logger.debug("connection idle")
                handler.shutDown(isAnnounced: false, context)
            } else {
                handler.lastReadAt = max(handler.lastReadAt, now - timeout + .seconds(1))
                handler.watchForIdleness()
            }
        }
    }
}

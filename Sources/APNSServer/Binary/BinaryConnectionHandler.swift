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
        case taking(any DeliveryConnection)
        /// The end is decided, and waits for outcomes or the backend.
        case ending(any DeliveryConnection)
        /// The error response is sent; further bytes count against the limits.
        case draining(any DeliveryConnection)
        case closed
    }

    private let connection: Listener.Connection
    private let configuration: BinaryListenerConfiguration
    private let backend: any DeliveryBackend
    private let outcomes: OutcomeQueue
    /// The connection's logger, with the name of its provider.
    private var logger: Logger

    private(set) var context: ChannelHandlerContext?
    private var phase = Phase.handshaking
    private var dispatcher: FrameDispatcher
    private var isReadingStopped = false
    private var isReadHeld = false
    private var isInputClosed = false
    private var remoteAddress = "?"
    private var acceptedCountReported: UInt64 = 0
    private var lastReadAt: NIODeadline
    private var idleTimer: Scheduled<Void>?
    private var delayTimer: Scheduled<Void>?
    private var drainTimer: Scheduled<Void>?
    private var endTimer: Scheduled<Void>?
    private var outcomeTimer: Scheduled<Void>?
    /// The message known to have waited longest for its outcome, and since when.
    private var oldest: (number: UInt64, since: NIODeadline)?
    /// Whether the error response names the message at fault; for command 0, only the log does.
    private var isFaultReported = false
    /// Why notifications are discarded, for the log.
    private var discardReason = "the connection closed before they were accepted"
    /// Why the connection ends, for the log.
    private var closeReason: String?
    private var admittedAt: NIODeadline

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

    private var admission: ConnectionAdmission { self.connection.admission }

    private var metrics: ListenerMetrics { self.connection.admission.metrics }

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
        let timers = [self.idleTimer, self.endTimer, self.delayTimer, self.drainTimer, self.outcomeTimer]
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
        self.note("connection failed: \(error)")
        // TLSHandler closes the connection after its own errors only.
        if !(error is TLSError) { context.close(promise: nil) }
    }

    private var delivery: (any DeliveryConnection)? {
        switch self.phase {
        case .handshaking, .closed: nil
        case .taking(let delivery), .ending(let delivery), .draining(let delivery): delivery
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
        guard case .handshaking = self.phase, let provider = self.provider else {
            context.close(promise: nil)
            return
        }
        let metadata: Logger.Metadata = [
            LogKey.remoteAddress: "\(self.remoteAddress)", LogKey.topic: "\(provider.identity.topic ?? "")",
        ]
        switch self.backend.admit(provider) {
        case .admitted(let delivery):
            self.phase = .taking(delivery)
            self.admittedAt = context.eventLoop.now
            self.dispatcher.session.rejectionPolicy = delivery.rejectionPolicy
            if let name = delivery.providerName { self.logger[metadataKey: LogKey.provider] = "\(name)" }
            self.delayReading(for: delivery)
            self.admission.admit(self.connection.number)
            self.metrics.connectionOpened()
            self.logger.debug("provider connected", metadata: metadata)
            self.watchForIdleness()
            self.watchForOutcomes()
        case .refused:
            self.phase = .closed
            self.admission.refused()
            self.logger.debug("provider refused", metadata: metadata)
            self.metrics.ended(nil)
            context.close(promise: nil)
        }
    }

    private var provider: ProviderConnection? { self.connection.provider(at: self.remoteAddress) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let bytes = self.unwrapInboundIn(data)
        let byteCount = bytes.readableBytes
        self.lastReadAt = context.eventLoop.now
        switch self.phase {
        case .taking(let delivery):
            self.dispatcher.append(bytes)
            if !self.isReadingStopped { self.take(for: delivery, context: context) }
            self.reportAccepted(byteCount: byteCount)
        case .ending(let delivery):
            self.dispatcher.append(bytes)
            self.discard(for: delivery)
        case .draining(let delivery):
            self.dispatcher.append(bytes)
            self.discard(for: delivery)
            self.watchDrain()
            self.run(self.dispatcher.session.discarded(byteCount: byteCount), "it kept sending", context)
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
    private func delayReading(for delivery: any DeliveryConnection) {
        guard let delay = delivery.readingDelay else { return }
        self.isReadingStopped = true
        // At least one timer tick, since the remaining delay may be shorter.
        let pause = TimeAmount(delay) + .milliseconds(1)
        self.delayTimer = self.after(pause) { handler, context in
            guard case .taking(let delivery) = handler.phase else { return }
            handler.delayTimer = nil
            handler.isReadingStopped = false
            handler.delayReading(for: delivery)
            if !handler.isReadingStopped { handler.resume(for: delivery, context: context) }
        }
    }

    private func take(for delivery: any DeliveryConnection, context: ChannelHandlerContext) {
        defer { self.logSkipped(delivery, context) }
        let outcome = self.dispatcher.take(for: delivery, outcomes: self.outcomes)
        delivery.deliverComplete()
        switch outcome {
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

    private func logFault(_ context: ChannelHandlerContext) {
        if let fault = self.dispatcher.fault { self.logCut("bytes refused", "\(fault)", context) }
    }

    private func logCut(_ message: Logger.Message, _ reason: String, _ context: ChannelHandlerContext) {
        self.admission.refusals.log(
            message,
            [
                LogKey.connection: "\(self.connection.number)", LogKey.refusalReason: "\(reason)",
                LogKey.remoteAddress: "\(ConnectionAdmission.address(of: context.channel))",
            ]
        )
    }

    private func reportAccepted(byteCount: Int) {
        let count = self.dispatcher.session.acceptedCount
        self.metrics.received(byteCount: byteCount, acceptedCount: Int(count - self.acceptedCountReported))
        self.acceptedCountReported = count
    }

    private func logSkipped(_ delivery: any DeliveryConnection, _ context: ChannelHandlerContext) {
        guard let skipped = self.dispatcher.takeSkipped() else { return }
        self.metrics.discarded(messageCount: skipped.count)
        delivery.discarded(messageCount: skipped.count)
        var metadata = self.discardMetadata
        metadata[LogKey.dropped] = "\(skipped.count)"
        metadata[LogKey.errorStatus] = "\(skipped.status)"
        self.admission.refusals.log("notifications rejected, no error response sent", metadata)
    }

    /// Discards and counts what was not accepted.
    private func discard(for delivery: any DeliveryConnection) {
        let count = self.dispatcher.discard()
        guard count > 0 else { return }
        self.metrics.discarded(messageCount: count)
        delivery.discarded(messageCount: count)
    }

    /// Logs how much was discarded.
    private func logDiscarded() {
        if !self.isFaultReported, let delivery = self.delivery {
            let count = self.dispatcher.discardFault()
            if count > 0 {
                self.metrics.discarded(messageCount: count)
                delivery.discarded(messageCount: count)
            }
        }
        let (count, byteCount) = (self.dispatcher.discardedCount, self.dispatcher.unparsedByteCount)
        guard count > 0 || byteCount > 0 else { return }
        var metadata = self.discardMetadata
        metadata[LogKey.dropped] = "\(count)"
        metadata[LogKey.refusalReason] = "\(self.discardReason)"
        if byteCount > 0 { metadata[LogKey.unparsed] = "\(byteCount)" }
        self.admission.refusals.log("notifications discarded", metadata)
    }

    /// Records why the connection ends, unless a reason is known.
    private func note(_ reason: String) { self.closeReason = self.closeReason ?? reason }

    /// Logs how the connection ended, and its counts.
    private func logClosed() {
        let (counts, discardedCount) = (self.dispatcher.counts, self.dispatcher.discardedCount)
        // It counts as discarded if the end does not name it. A probe is not a notification.
        let faultCount: UInt64 = self.dispatcher.faultNumber == nil || self.dispatcher.isFaultProbe ? 0 : 1
        let duration = Duration(self.connection.eventLoop.now - self.admittedAt)
        var metadata: Logger.Metadata = [
            LogKey.remoteAddress: "\(self.remoteAddress)",
            LogKey.closeReason: "\(self.closeReason ?? "closed by the gateway")",
            LogKey.connectionDuration: "\(duration)",
            LogKey.received: "\(counts.taken + faultCount + UInt64(discardedCount))",
            LogKey.delivered: "\(counts.delivered)", LogKey.rejected: "\(counts.rejected + faultCount)",
            LogKey.listed: "\(counts.listed)", LogKey.dropped: "\(discardedCount)",
        ]
        if counts.resent > 0 { metadata[LogKey.resent] = "\(counts.resent)" }
        if counts.unsettled > 0 { metadata[LogKey.unsettled] = "\(counts.unsettled)" }
        self.logger.info("connection closed", metadata: metadata)
    }

    private var discardMetadata: Logger.Metadata {
        var metadata: Logger.Metadata = [
            LogKey.connection: "\(self.connection.number)", LogKey.remoteAddress: "\(self.remoteAddress)",
        ]
        if let name = self.delivery?.providerName { metadata[LogKey.provider] = "\(name)" }
        return metadata
    }

    /// Handles the end of input.
    ///
    /// Bytes already received are still processed, since their sender may be gone.
    private func inputClosed(_ context: ChannelHandlerContext) {
        self.isInputClosed = true
        self.note(self.tls.isTruncated ? "closed by the provider without close_notify" : "closed by the provider")
        switch self.phase {
        case .handshaking: context.close(promise: nil)
        case .taking(let delivery): if !self.isReadingStopped { self.endInput(for: delivery, context: context) }
        case .ending, .draining:
            // The backend is still completing the end, which closes the connection.
            let isOver = self.dispatcher.session.inputClosed() == .close && self.isDraining
            if isOver || self.tls.isTruncated { context.close(promise: nil) }
        case .closed: break
        }
    }

    /// Called when everything that arrived before the end of input is processed.
    private func endInput(for delivery: any DeliveryConnection, context: ChannelHandlerContext) {
        // A provider that sent no close_notify is gone, so no outcomes are reported to it.
        guard !self.tls.isTruncated else { return context.close(promise: nil) }
        switch self.dispatcher.session.inputClosed() {
        case .awaitEarlier: self.phase = .ending(delivery)
        case .close: context.close(promise: nil)
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
            guard let delivery = self.delivery else { return }
            self.dispatcher.counts.settle(entry.outcome)
            switch self.dispatcher.session.settle(entry.number, entry.outcome, isLast: entry.isLast) {
            case .none: break
            case .stopReading: self.isReadingStopped = true
            case .resumeReading: self.resume(for: delivery, context: context)
            case .awaitEarlier: self.awaitEarlier(for: delivery, context: context)
            case .finish(let ending): self.finish(ending, for: delivery, context: context)
            }
        }
        self.reportAccepted(byteCount: 0)
    }

    /// Periodically checks whether the oldest message has waited too long for its outcome.
    private func watchForOutcomes() {
        guard let timeout = self.configuration.outcomeTimeout.map(TimeAmount.init) else { return }
        let interval = TimeAmount.nanoseconds(max(1_000_000, timeout.nanoseconds / 4))
        self.outcomeTimer = self.after(interval) { handler, _ in
            handler.lookAtOldest(timeout)
            handler.watchForOutcomes()
        }
    }

    private func lookAtOldest(_ timeout: TimeAmount) {
        guard self.dispatcher.session.inFlightCount > 0 else {
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
        self.take(for: delivery, context: context)
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
        case .handshaking: context.close(promise: nil)
        case .taking(let delivery):
            self.note(isAnnounced ? "listener shutting down" : "idle timeout")
            if isAnnounced { self.giveUpInTime() }
            // A provider that has closed its side cannot resend the rest, so it is processed while there is time.
            guard self.isInputClosed else { return self.takeNoMore(for: delivery, isAnnounced: isAnnounced, context) }
            // There is no time left for the delay.
            if let delayTimer = self.delayTimer {
                delayTimer.cancel()
                self.delayTimer = nil
                if self.isReadingStopped, self.dispatcher.session.inFlightCount == 0 {
                    self.resume(for: delivery, context: context)
                }
            }
        case .ending:
            if isAnnounced { self.giveUpInTime() }
        case .draining, .closed: break
        }
    }

    private func readmit(_ context: ChannelHandlerContext) {
        guard case .taking(let delivery) = self.phase, let provider = self.provider, !delivery.isAdmitted(provider)
        else { return }
        self.note("provider no longer admitted")
        self.giveUpInTime()
        self.takeNoMore(for: delivery, isAnnounced: self.configuration.announcesShutdown, context)
    }

    private func takeNoMore(for delivery: any DeliveryConnection, isAnnounced: Bool, _ context: ChannelHandlerContext) {
        switch self.dispatcher.session.shutDown(isAnnounced: isAnnounced) {
        case .awaitEarlier: self.awaitEarlier(for: delivery, context: context)
        case .finish(let ending): self.finish(ending, for: delivery, context: context)
        case .none: break
        }
    }

    /// Gives up early enough to send an error response before the connection is cut.
    private func giveUpInTime() {
        self.outcomeTimer?.cancel()
        let delay = TimeAmount(self.configuration.shutdownDuration * 4 / 5)
        self.outcomeTimer = self.after(delay) { handler, _ in handler.giveUp() }
    }

    /// Stops accepting and reading, so that further bytes stay in the provider's send buffer, where they are not lost,
    /// until the error response is sent.
    private func awaitEarlier(for delivery: any DeliveryConnection, context: ChannelHandlerContext) {
        self.phase = .ending(delivery)
        self.isReadingStopped = true
        self.discard(for: delivery)
        if self.tls.isTruncated { context.close(promise: nil) }
    }

    private func finish(_ ending: GatewayEnding, for delivery: any DeliveryConnection, context: ChannelHandlerContext) {
        self.awaitEarlier(for: delivery, context: context)
        guard !self.tls.isTruncated else { return }
        self.watchEnd(for: delivery)
        let eventLoop = context.eventLoop
        delivery.close(for: ending) { [handler = NIOLoopBound(self, eventLoop: eventLoop)] response in
            if eventLoop.inEventLoop {
                handler.value.end(response, ending)
            } else {
                eventLoop.execute { handler.value.end(response, ending) }
            }
        }
    }

    private static func reason(of ending: GatewayEnding, told response: ErrorResponse?) -> String {
        switch (response?.status ?? ending.status, response) {
        case (.shutdown?, _): "an error response asked the provider to resend them (status 10)"
        case (let status?, _?):
            "they followed message \(ending.number), which was rejected with status \(status)"
        case (let status?, nil):
            "they followed message \(ending.number), which was rejected with status \(status) (not sent)"
        case (nil, _): "the connection closed before they were accepted"
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
            handler.note("its end took longer than the time limit of an outcome")
            context.close(promise: nil)
        }
    }

    private func end(_ response: ErrorResponse?, _ ending: GatewayEnding) {
        self.endTimer?.cancel()
        guard let context = self.context, case .ending = self.phase else { return }
        self.discardReason = Self.reason(of: ending, told: response)
        if let status = response?.status ?? ending.status {
            self.note("status \(status)\(response == nil ? ", not sent" : "")")
        }
        self.isFaultReported = ending.status != nil && ending.number == self.dispatcher.faultNumber
        self.carryOut(response, drains: ending.drains && !self.isInputClosed, context: context)
    }

    /// Sends the response, closes this side, and keeps reading within limits if the provider may still be sending.
    private func carryOut(_ response: ErrorResponse?, drains: Bool, context: ChannelHandlerContext) {
        if case .ending(let delivery) = self.phase { self.phase = .draining(delivery) }
        self.metrics.ended(response)
        if let response { self.write(response, context: context) }
        guard drains else { return context.close(promise: nil) }
        self.startDraining()
        context.close(mode: .output, promise: nil)
        self.isReadingStopped = false
        self.releaseRead(context)
    }

    private func write(_ response: ErrorResponse, context: ChannelHandlerContext) {
        self.logger.info(
            "error response sent",
            metadata: [
                LogKey.errorStatus: "\(response.status)", LogKey.identifier: "\(response.identifier)",
                LogKey.message: "\(self.dispatcher.session.acceptedCount + 1)",
                LogKey.dropped: "\(self.dispatcher.discardedCount)", LogKey.remoteAddress: "\(self.remoteAddress)",
            ]
        )
        var bytes = context.channel.allocator.buffer(capacity: WireLimits.errorResponseByteCount)
        response.write(into: &bytes)
        context.writeAndFlush(self.wrapOutboundOut(bytes), promise: nil)
    }

    private func startDraining() {
        self.endTimer = self.after(TimeAmount(self.configuration.drainDuration)) { handler, context in
            handler.run(handler.dispatcher.session.drainDeadlinePassed(), "it kept sending for too long", context)
        }
        self.watchDrain()
    }

    /// Resets the connection if the provider is silent for too long.
    private func watchDrain() {
        self.drainTimer?.cancel()
        self.drainTimer = self.after(TimeAmount(self.configuration.drainIdleDuration)) { handler, context in
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
        // A reset makes the next write of a provider fail that does not read.
        context.triggerUserOutboundEvent(RawCloseHandler.Cut(isReset: true), promise: nil)
    }

    private func watchForIdleness() {
        guard let timeout = self.configuration.idleTimeout.map(TimeAmount.init) else { return }
        let delay = self.lastReadAt + timeout - self.connection.eventLoop.now
        self.idleTimer = self.after(delay) { handler, context in
            guard case .taking = handler.phase else { return }
            let now = context.eventLoop.now
            if handler.lastReadAt + timeout <= now, handler.dispatcher.session.inFlightCount == 0 {
                handler.logger.debug("connection idle")
                handler.shutDown(isAnnounced: false, context)
            } else {
                handler.lastReadAt = max(handler.lastReadAt, now - timeout + .seconds(1))
                handler.watchForIdleness()
            }
        }
    }
}

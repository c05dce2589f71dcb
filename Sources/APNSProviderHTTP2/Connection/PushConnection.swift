// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSTransport
import APNSWire
import NIOCore
import NIOTLS
import OpenSSLTLS

/// One connection of a worker: it transfers bytes between the channel and ``PushConnectionStateMachine``, enforces the
/// deadlines, and reports the outcomes of its requests to the worker.
///
/// It is the last handler of its channel.
final class PushConnection: ChannelInboundHandler, WorkerConnection {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private weak var worker: HTTP2ConnectionWorker?
    private let observer: DeliveryObserver
    private var machine: PushConnectionStateMachine<PendingPush>
    private var context: ChannelHandlerContext?
    private var keepAlive: PushKeepAlive
    private var stall: StallDeadline
    private var failure: (any Error)?
    private var isHandshakeComplete = false
    private var isOver = false
    private var isClosing = false
    private var greetingTimer: Scheduled<Void>?
    private let greetingDurationMax: Duration

    /// The names that the texts of failures contain.
    private var names: TLSErrorNames { self.worker?.names ?? TLSErrorNames() }

    private(set) var hasAnswered = false
    private(set) var hasAccepted = false

    /// The TLS handler, once the channel has it.
    var tls: TLSHandler?

    private var socket: RetainedSocket?
    /// The number of bytes for the service that this system has sent, if the connection was reset, so that it sends no
    /// more; otherwise `nil`.
    private var finalByteCount: Int?

    init(configuration: HTTP2Configuration, worker: HTTP2ConnectionWorker, observer: DeliveryObserver) {
        self.worker = worker
        self.observer = observer
        self.machine = PushConnectionStateMachine(
            authority: configuration.endpoint.authority,
            streamCountMax: configuration.streamCountMax,
            startsWithOne: configuration.providerToken != nil,
            keepsLongResponses: configuration.keepsLongResponses
        )
        self.keepAlive = PushKeepAlive(
            idleDelay: configuration.idlePingDelay,
            waitingDelay: configuration.waitingPingDelay,
            durationMax: configuration.pingTimeout,
            now: .now()
        )
        self.stall = StallDeadline(durationMax: configuration.responseTimeout)
        self.greetingDurationMax = configuration.connectTimeout
    }

    /// The number of bytes to write at a time, so that a service that does not read is detected.
    private static let outputByteCountMax = 65_536

    var isGreeted: Bool { self.machine.isOpen }

    var goAwayReason: PushReason? { self.machine.goAwayReason }

    /// Whether no more requests can be written to this connection.
    var isRetired: Bool { self.isOver || self.machine.streams.isGoingAway || self.machine.streams.isUsedUp }

    /// The number of requests that can be written now.
    var room: Int {
        guard self.isGreeted, !self.isOver, !self.isClosing, self.context?.channel.isWritable == true else { return 0 }
        return self.machine.room
    }

    // MARK: Writing

    /// Writes a request.
    ///
    /// Returns whether there was room.
    func write(_ push: PendingPush, authorization: String?) -> Bool {
        guard !self.isOver, !self.isClosing else { return false }
        var push = push
        push.retries.begin()
        return self.machine.write(push, push.submission.request, authorization: authorization)
    }

    /// Sends what is pending, as long as the channel is writable.
    func flush() {
        guard self.isHandshakeComplete, let context = self.context else { return }
        while context.channel.isWritable, let bytes = self.machine.nextBytes(atMost: Self.outputByteCountMax) {
            context.writeAndFlush(self.wrapOutboundOut(bytes), promise: nil)
        }
        // Sending may have ended streams.
        self.performActions(context)
    }

    /// Opens no more streams; closes after the last answer.
    func retire() {
        self.machine.retire()
        self.closeWhenIdle()
    }

    private func closeWhenIdle() {
        guard self.machine.streams.isGoingAway, self.machine.streams.waiting.isEmpty, !self.isOver else { return }
        self.close()
    }

    /// Closes; requests without an answer are reported as lost.
    func close() {
        guard let context = self.context else { return self.end() }
        guard !self.isClosing else { return }
        self.isClosing = true
        self.machine.goAway()
        self.close(context)
    }

    /// Sends what is pending up to a GOAWAY frame, and closes.
    private func close(_ context: ChannelHandlerContext) {
        self.isClosing = true
        if self.isHandshakeComplete, let bytes = self.machine.nextBytes(atMost: .max) {
            context.writeAndFlush(self.wrapOutboundOut(bytes), promise: nil)
        }
        context.close(promise: nil)
    }

    // MARK: Deadlines

    /// Checks the deadlines; called periodically.
    ///
    /// Returns the requests whose answers took too long.
    func check(
        at now: NIODeadline,
        responseTimeout: Duration,
        isWanted: Bool
    ) -> PushConnectionStateMachine<PendingPush>.Unanswered {
        guard !self.isOver, !self.isClosing, self.isGreeted else { return .init() }
        self.machine.tick()
        // Nothing can be sent if bodies wait for flow control, or requests for streams.
        let isStalled = self.machine.isExhausted || isWanted && self.room == 0
        let limit = TimeAmount(responseTimeout)
        let overdue = self.machine.takeOverdue { now - $0.writtenAt >= limit }
        let isWaiting =
            !self.machine.streams.waiting.isEmpty || !overdue.unknown.isEmpty || !overdue.unprocessed.isEmpty
            || !overdue.accepting.isEmpty
        // A connection with earlier answers is not given up while it has room; its requests have their own deadlines.
        let isSilent = !self.hasAnswered && !overdue.unknown.isEmpty
        if self.isStallOver(at: now, isStalled: isStalled) || isSilent || !overdue.unprocessed.isEmpty {
            self.giveUp(.stalled(self.stall.durationMax, self.names))
        } else {
            switch self.keepAlive.step(at: now, isWaiting: isWaiting) {
            case .rest: break
            case .ping: self.machine.ping()
            case .giveUp: self.giveUp(.silent(self.names))
            }
        }
        self.flush()
        self.closeWhenIdle()
        return overdue
    }

    /// Whether nothing was answered and nothing could be sent for too long; the service may still answer every PING.
    private func isStallOver(at now: NIODeadline, isStalled: Bool) -> Bool {
        guard isStalled else {
            self.stall.end()
            return false
        }
        return now >= self.stall.deadline(at: now, progressCount: self.machine.progressCount)
    }

    private func giveUp(_ failure: ConnectionFailure) {
        self.failure = self.failure ?? failure
        self.close()
    }

    // MARK: Reading

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !self.isOver else { return }
        var bytes = self.unwrapInboundIn(data)
        self.worker?.readBegins()
        while bytes.readableBytes > 0, !self.isOver {
            let count = min(bytes.readableBytes, PushConnectionStateMachine<PendingPush>.inputByteCountMax)
            guard let part = bytes.readSlice(length: count) else { return }
            self.machine.receive(part)
            self.performActions(context)
            // Acknowledgements then count what the service does not read, not what arrived at once.
            if bytes.readableBytes > 0 { self.flush() }
        }
    }

    private func performActions(_ context: ChannelHandlerContext) {
        while !self.isOver, let action = self.machine.nextAction() { self.perform(action, context) }
    }

    private func perform(
        _ action: PushConnectionStateMachine<PendingPush>.Action,
        _ context: ChannelHandlerContext
    ) {
        switch action {
        case .opened:
            self.greetingTimer?.cancel()
            self.worker?.opened(self)
        case .answered(let push, let answer): self.answered(push, answer)
        case .unprocessed(let push): self.worker?.unprocessed([push])
        case .unknown(let push, let trouble): self.worker?.unknown([push], trouble)
        case .goingAway(let unanswered):
            self.worker?.goingAway(self, unprocessed: unanswered.unprocessed)
            self.worker?.unknown(unanswered.unknown, .streamReset(code: Int(HTTP2Failure.refusedStream)))
            self.worker?.unknown(unanswered.accepting, .acceptanceIncomplete)
            self.closeWhenIdle()
        case .failed(let failure):
            self.failure =
                self.failure
                ?? ConnectionFailure(.protocolViolation, "\(self.names.remote) violated HTTP/2: \(failure)")
            self.close(context)
        }
    }

    private func answered(_ push: PendingPush, _ answer: PushResponse) {
        if !self.hasAnswered {
            self.hasAnswered = true
            self.worker?.answersBegin()
        }
        if answer.isSuccess { self.hasAccepted = true }
        let channel = push.submission.request.channel
        guard !answer.isUndocumentedSuccess || channel.map({ $0.operation != .send }) == true else {
            self.worker?.answered(push, .indeterminate(.acceptanceIncomplete), answer.fields, on: self)
            return
        }
        if let channel {
            let (outcome, fields) = answer.outcome(channel)
            self.worker?.answered(push, outcome, fields, on: self)
        } else {
            self.worker?.answered(push, answer.outcome, answer.fields, on: self)
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        self.keepAlive.received(at: .now())
        // If the service has enlarged the window for waiting bodies, there is also room for requests.
        if self.machine.isExhausted { self.flush() }
        self.worker?.readComplete(self)
        self.flush()
        self.closeWhenIdle()
        context.fireChannelReadComplete()
    }

    // MARK: Lifecycle

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        self.socket = RetainedSocket(context.channel)
        if self.isOver { context.close(promise: nil) }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted(let name) = event as? TLSUserEvent { self.handshakeCompleted(name, context) }
        context.fireUserInboundEventTriggered(event)
    }

    private func handshakeCompleted(_ name: String?, _ context: ChannelHandlerContext) {
        guard name == HTTP2Configuration.applicationProtocol else {
            self.errorCaught(context: context, error: ConnectionFailure.notHTTP2(self.names))
            return
        }
        self.isHandshakeComplete = true
        self.observer.opened()
        self.flush()
        self.greetingTimer = context.eventLoop.assumeIsolated().scheduleTask(
            in: TimeAmount(self.greetingDurationMax)
        ) { [weak self] in
            guard let self, !self.isGreeted else { return }
            self.giveUp(.noGreeting(self.names))
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        let isALPN = error as? TLSError == .noCommonApplicationProtocol
        self.failure = self.failure ?? (isALPN ? ConnectionFailure.notHTTP2(self.names) : error)
        self.isClosing = true
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        // Bytes to a proxy come before those of TLS, so that the count may only be too large.
        if let count = self.socket?.release() { self.finalByteCount = self.tls?.plaintextByteCount(inFirst: count) }
        if self.isHandshakeComplete { self.observer.closed() }
        self.end()
        context.fireChannelInactive()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable, !self.isOver {
            self.flush()
            self.worker?.readComplete(self)
        }
        context.fireChannelWritabilityChanged()
    }

    /// Ends the connection, even if it has no channel yet; a channel that is opened later is closed.
    func end(_ error: (any Error)? = nil) {
        guard !self.isOver else { return }
        self.failure = self.failure ?? error
        self.isOver = true
        self.greetingTimer?.cancel()
        let lost = self.machine.takeLost(sentByteCount: self.finalByteCount)
        self.worker?.unknown(lost.accepting, .acceptanceIncomplete)
        self.worker?.ended(self, unknown: lost.unknown, unprocessed: lost.unprocessed, failure: self.failure)
    }
}

// Why this side gave a connection up.
extension ConnectionFailure {
    static func noGreeting(_ names: TLSErrorNames) -> Self {
        Self(.protocolViolation, "\(names.remote) sent no HTTP/2 settings", advice: "check the port")
    }

    static func silent(_ names: TLSErrorNames) -> Self {
        Self(.timedOut, "\(names.remote) did not answer a PING in time")
    }

    static func stalled(_ duration: Duration, _ names: TLSErrorNames) -> Self {
        Self(.stalled, "\(names.remote) answered no request and accepted no data for \(duration)")
    }

    static func notHTTP2(_ names: TLSErrorNames) -> Self {
        let advice = "check the port, for HTTP/2 usually 443 or 2197, and for a binary gateway 2195"
        return Self(.wrongProtocol, "\(names.remote) does not speak HTTP/2 (no ALPN protocol h2)", advice: advice)
    }
}

/// Determines when to send a PING frame, and when to give up the connection.
struct PushKeepAlive: Equatable {
    /// What to do now.
    enum Step: Equatable {
        /// Nothing.
        case rest
        /// Send a PING frame.
        case ping
        /// Close the connection: the last PING frame was not answered.
        case giveUp
    }

    let idleDelay: Duration
    let waitingDelay: Duration
    let durationMax: Duration
    private var receivedAt: NIODeadline
    private var askedAt: NIODeadline?

    init(idleDelay: Duration, waitingDelay: Duration, durationMax: Duration, now: NIODeadline) {
        self.idleDelay = idleDelay
        self.waitingDelay = waitingDelay
        self.durationMax = durationMax
        self.receivedAt = now
    }

    /// Records any input.
    mutating func received(at now: NIODeadline) {
        self.receivedAt = now
        self.askedAt = nil
    }

    /// Checks the deadlines; called periodically.
    ///
    /// Returns what to do.
    mutating func step(at now: NIODeadline, isWaiting: Bool) -> Step {
        if let askedAt = self.askedAt { return now - askedAt >= TimeAmount(self.durationMax) ? .giveUp : .rest }
        guard now - self.receivedAt >= TimeAmount(isWaiting ? self.waitingDelay : self.idleDelay) else { return .rest }
        self.askedAt = now
        return .ping
    }
}

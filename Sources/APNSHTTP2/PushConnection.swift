// SPDX-License-Identifier: Apache-2.0

import NIOCore
import NIOHPACK
import NIOHTTP2
import NIOTLS
import OpenSSLTLS

/// One connection of a lane: the last handler of its channel.
final class PushConnection: ChannelInboundHandler {
    typealias InboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    private weak var lane: PushLane?
    private let headers: PushHeaders
    private var context: ChannelHandlerContext?
    private var answers: [UInt32: PushAnswer] = [:]
    private var keepAlive: PushKeepAlive
    private var failure: (any Error)?
    private var isOver = false
    private var isClosing = false
    private var isFlushDue = false
    /// Octets of bodies that came since the service was last told that they were read.
    private var unreportedOctetCount = 0
    private var greetingTimer: Scheduled<Void>?
    private let greetingDurationMax: Duration

    private(set) var streams: StreamTable<PendingPush>
    /// Whether the service has sent its settings, behind which requests may go out.
    private(set) var isGreeted = false
    /// Whether any request was answered here.
    private(set) var hasAnswered = false
    /// Why the service is going away, where it said so.
    private(set) var goAwayReason: PushReason?

    /// The TLS below, once the channel has it.
    var tls: TLSHandler?

    init(configuration: PushConfiguration, lane: PushLane) {
        self.lane = lane
        self.headers = PushHeaders(authority: configuration.endpoint.authority)
        self.streams = StreamTable(
            countMax: configuration.streamCountMax,
            startsWithOne: configuration.providerToken != nil
        )
        self.keepAlive = PushKeepAlive(
            idleDelay: configuration.idlePingDelay,
            waitingDelay: configuration.waitingPingDelay,
            durationMax: configuration.pingDurationMax,
            now: .now()
        )
        self.greetingDurationMax = configuration.connectDurationMax
    }

    /// How many requests can be written now.
    var room: Int {
        guard self.isGreeted, !self.isOver, let context = self.context, context.channel.isWritable else { return 0 }
        return self.streams.room
    }

    /// Whether no more requests can ever be written here.
    var isRetired: Bool { self.isOver || self.streams.isGoingAway || self.streams.isUsedUp }

    // MARK: Writing

    /// Writes a request.
    ///
    /// - Returns: whether there was room.
    func write(_ push: PendingPush, authorization: String?) -> Bool {
        guard !self.isOver, self.streams.room > 0, let context = self.context else { return false }
        let request = push.submission.request
        var push = push
        push.attempts += 1
        let number = self.streams.open(push)
        let stream = HTTP2StreamID(Int(number))
        let headers = self.headers.headers(of: request, authorization: authorization)
        let head = HTTP2Frame.FramePayload.headers(.init(headers: headers, endStream: false))
        context.write(self.wrapOutboundOut(HTTP2Frame(streamID: stream, payload: head)), promise: nil)
        let body = HTTP2Frame.FramePayload.data(.init(data: .byteBuffer(request.payload), endStream: true))
        context.write(self.wrapOutboundOut(HTTP2Frame(streamID: stream, payload: body)), promise: nil)
        self.isFlushDue = true
        return true
    }

    func flush() {
        guard self.isFlushDue else { return }
        self.isFlushDue = false
        self.context?.flush()
    }

    private func send(_ payload: HTTP2Frame.FramePayload, stream: HTTP2StreamID = .rootStream) {
        guard let context = self.context else { return }
        context.write(self.wrapOutboundOut(HTTP2Frame(streamID: stream, payload: payload)), promise: nil)
        self.isFlushDue = true
    }

    /// Opens no more streams; closes when the last has its answer.
    func retire() {
        self.streams.retire()
        self.closeWhenIdle()
    }

    private func closeWhenIdle() {
        guard self.streams.isGoingAway, self.streams.waiting.isEmpty, !self.isOver else { return }
        self.close()
    }

    /// Closes; what has no answer is reported as lost.
    func close() {
        guard let context = self.context else { return self.end() }
        guard !self.isClosing else { return }
        self.isClosing = true
        if self.isGreeted { self.send(.goAway(lastStreamID: .rootStream, errorCode: .noError, opaqueData: nil)) }
        self.flush()
        context.close(promise: nil)
    }

    /// Looks after deadlines, from time to time.
    ///
    /// - Returns: the requests whose answers took too long.
    func check(at now: NIODeadline, answerDurationMax: Duration) -> [PendingPush] {
        guard !self.isOver, self.isGreeted else { return [] }
        let limit = TimeAmount(answerDurationMax)
        let overdue = self.streams.numbers { now - $0.writtenAt >= limit }.compactMap { number -> PendingPush? in
            self.send(.rstStream(.cancel), stream: HTTP2StreamID(Int(number)))
            self.answers[number] = nil
            return self.streams.ended(number)
        }
        switch self.keepAlive.step(at: now, isWaiting: !self.streams.waiting.isEmpty || !overdue.isEmpty) {
        case .rest: break
        case .ping: self.send(.ping(HTTP2PingData(withInteger: 1), ack: false))
        case .giveUp:
            self.failure = self.failure ?? PushConnectionError.silent
            self.close()
        }
        self.flush()
        self.closeWhenIdle()
        return overdue
    }

    // MARK: Reading

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = self.unwrapInboundIn(data)
        guard !self.isOver else { return }
        let number = UInt32(Int(frame.streamID))
        switch frame.payload {
        case .headers(let head): self.received(head, number)
        case .data(let body): self.received(body, number)
        case .rstStream(let code): self.received(code, number)
        case .settings(.settings(let settings)): self.received(settings)
        case .goAway(let last, _, let data): self.received(goAwayBehind: last, data)
        case .settings(.ack), .ping, .windowUpdate, .priority, .pushPromise, .alternativeService, .origin: break
        }
    }

    private func received(_ head: HTTP2Frame.FramePayload.Headers, _ number: UInt32) {
        if var answer = self.answers[number] {
            // Trailers, or the answer behind a provisional one.
            if let status = Self.status(head.headers) { answer.status = status }
            self.answers[number] = answer
            if head.endStream { self.finish(number, answer) }
            return
        }
        guard let status = Self.status(head.headers) else {
            self.fail(number, .streamReset(code: HTTP2ErrorCode.protocolError.networkCode))
            return
        }
        let answer = PushAnswer(status: status)
        if head.endStream { self.finish(number, answer) } else { self.answers[number] = answer }
    }

    private static func status(_ headers: HPACKHeaders) -> Int? {
        guard let text = headers.first(name: ":status"), let status = Int(text) else { return nil }
        return (100...599).contains(status) ? status : nil
    }

    private func received(_ body: HTTP2Frame.FramePayload.Data, _ number: UInt32) {
        if case .byteBuffer(let octets) = body.data {
            self.unreportedOctetCount += octets.readableBytes
            if !octets.readableBytesView.isEmpty { self.answers[number]?.append(octets) }
        }
        guard body.endStream, let answer = self.answers[number] else { return }
        self.finish(number, answer)
    }

    private func finish(_ number: UInt32, _ answer: PushAnswer) {
        self.answers[number] = nil
        self.hasAnswered = true
        guard let push = self.streams.answered(number, isSuccess: answer.status == 200) else { return }
        self.lane?.answered(push, answer.outcome, on: self)
    }

    private func received(_ code: HTTP2ErrorCode, _ number: UInt32) {
        if code == .refusedStream {
            self.answers[number] = nil
            guard let push = self.streams.ended(number) else { return }
            self.lane?.unprocessed([push])
        } else {
            self.fail(number, .streamReset(code: code.networkCode))
        }
    }

    private func fail(_ number: UInt32, _ trouble: PushTrouble) {
        self.answers[number] = nil
        guard let push = self.streams.ended(number) else { return }
        self.lane?.unknown([push], trouble)
    }

    private func received(_ settings: HTTP2Settings) {
        // The last of several values counts (RFC 9113, 6.5).
        let limit = settings.last { $0.parameter == .maxConcurrentStreams }
        self.streams.settings(countMax: limit?.value)
        guard !self.isGreeted else { return }
        self.isGreeted = true
        self.greetingTimer?.cancel()
        self.send(.windowUpdate(windowSizeIncrement: PushOpener.windowOctetCount))
        self.flush()
        self.lane?.opened(self)
    }

    private func received(goAwayBehind last: HTTP2StreamID, _ data: ByteBuffer?) {
        self.goAwayReason = PushAnswer.goAwayReason(data) ?? self.goAwayReason
        let unprocessed = self.streams.goAway(last: UInt32(Int(last)))
        self.lane?.goingAway(self, unprocessed: unprocessed)
        self.closeWhenIdle()
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        self.keepAlive.heard(at: .now())
        if self.unreportedOctetCount >= PushOpener.windowOctetCount / 2 {
            self.send(.windowUpdate(windowSizeIncrement: self.unreportedOctetCount))
            self.unreportedOctetCount = 0
        }
        self.lane?.readComplete(self)
        self.flush()
        self.closeWhenIdle()
        context.fireChannelReadComplete()
    }

    // MARK: Life

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        if self.isOver { context.close(promise: nil) }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted(let name) = event as? TLSUserEvent { self.shaken(name, context) }
        context.fireUserInboundEventTriggered(event)
    }

    private func shaken(_ name: String?, _ context: ChannelHandlerContext) {
        if let name, name != PushConfiguration.applicationProtocol {
            self.errorCaught(context: context, error: TLSError.noCommonApplicationProtocol)
            return
        }
        self.greetingTimer = context.eventLoop.assumeIsolated().scheduleTask(
            in: TimeAmount(self.greetingDurationMax)
        ) { [weak self] in
            guard let self, let context = self.context, !self.isGreeted else { return }
            self.errorCaught(context: context, error: PushConnectionError.noGreeting)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // Of single streams, which have been closed or will be.
        if error is NIOHTTP2Errors.StreamError { return }
        self.failure = self.failure ?? error
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.end()
        context.fireChannelInactive()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable, !self.isOver { self.lane?.readComplete(self) }
        context.fireChannelWritabilityChanged()
    }

    /// Ends, also where there is no channel yet; one that comes later is closed.
    ///
    /// - Parameter error: why no channel could be opened.
    func end(_ error: (any Error)? = nil) {
        guard !self.isOver else { return }
        self.failure = self.failure ?? error
        self.isOver = true
        self.greetingTimer?.cancel()
        self.lane?.ended(self, waiting: self.streams.lost(), failure: self.failure)
    }
}

/// Why a connection was given up by this end.
enum PushConnectionError: Error, CustomStringConvertible {
    case noGreeting
    case silent

    var description: String {
        switch self {
        case .noGreeting: "the other end did not send its HTTP/2 settings; is it a push service?"
        case .silent: "the other end did not answer a PING in time"
        }
    }
}

extension PushEndpoint {
    /// Host and port as `:authority` has them; in there, an IPv6 address stands in brackets.
    var authority: String {
        let host = self.host.contains(":") ? "[\(self.host)]" : self.host
        return self.port == 443 ? host : "\(host):\(self.port)"
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore
import NIOHPACK
import NIOTLS
import OpenSSLTLS

/// One connection of a worker, which speaks HTTP/2 as far as a client of this API needs it.
///
/// It is the last handler of its channel. A general implementation costs several times the CPU time of this;
/// `docs/http2.md` has the figures.
final class PushConnection: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private weak var worker: HTTP2ConnectionWorker?
    private var headers: PushHeaders
    private var context: ChannelHandlerContext?
    private var answers: [UInt32: PushAnswer] = [:]
    private var keepAlive: PushKeepAlive
    private var stall: StallDeadline
    private var failure: (any Error)?
    private var isOver = false
    private var isClosing = false
    private var reader = ServiceFrameReader()
    private var window = SendWindow()
    /// Frames that are to be sent.
    private var outgoing = ByteBuffer()
    /// Answers to PING and SETTINGS since the service last took something.
    private var answerCount = 0
    /// Bytes of bodies that came since the service was last told that they were read.
    private var unreportedByteCount = 0
    private var greetingTimer: Scheduled<Void>?
    private let greetingDurationMax: Duration

    private(set) var streams: StreamTable<PendingPush>
    /// Whether the service has sent its settings, behind which requests may go out.
    private(set) var isGreeted = false
    /// Whether any request was answered here.
    private(set) var hasAnswered = false
    /// Whether any request was accepted here.
    private(set) var hasAccepted = false
    /// Why the service is going away, where it said so.
    private(set) var goAwayReason: PushReason?

    /// The TLS below, once the channel has it.
    var tls: TLSHandler?

    init(configuration: PushConfiguration, worker: HTTP2ConnectionWorker) {
        self.worker = worker
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
        self.stall = StallDeadline(durationMax: configuration.answerDurationMax)
        self.greetingDurationMax = configuration.connectDurationMax
    }

    /// How many requests can be written now.
    var room: Int {
        guard self.isGreeted, !self.isOver, !self.isClosing, let context = self.context, context.channel.isWritable
        else { return 0 }
        return self.window.isExhausted ? 0 : self.streams.room
    }

    /// So many answers to PING and SETTINGS may wait for a service that does not read.
    private static let answerCountMax = 1000

    /// Whether no more requests can ever be written here.
    var isRetired: Bool { self.isOver || self.streams.isGoingAway || self.streams.isUsedUp }

    // MARK: Writing

    /// Writes a request.
    ///
    /// - Returns: whether there was room.
    func write(_ push: PendingPush, authorization: String?) -> Bool {
        guard !self.isOver, !self.isClosing, self.streams.room > 0, !self.window.isExhausted else { return false }
        var push = push
        push.attempts += 1
        let number = self.streams.open(push)
        let submission = push.submission
        self.headers.write(submission.request, authorization: authorization, stream: number, to: &self.outgoing)
        if self.window.begin(number, submission.request.payload) {
            self.stall.moved()
            self.outgoing.writeData(number, submission.request.payload, isEnd: true)
        } else {
            self.writePieces()
        }
        return true
    }

    private func writePieces() {
        for piece in self.window.advance() {
            if piece.isEnd { self.stall.moved() }
            self.outgoing.writeData(piece.stream, piece.bytes, isEnd: piece.isEnd)
        }
    }

    func flush() {
        guard let context = self.context, self.outgoing.readableBytes > 0 else { return }
        let bytes = self.outgoing
        self.outgoing = context.channel.allocator.buffer(capacity: min(bytes.readableBytes, 65_536))
        context.writeAndFlush(self.wrapOutboundOut(bytes), promise: nil)
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
        if self.isGreeted { self.outgoing.writeGoAway(code: HTTP2Bytes.Code.noError) }
        self.flush()
        context.close(promise: nil)
    }

    /// Requests whose answers took too long.
    struct Overdue {
        /// These left whole.
        var written: [PendingPush] = []
        /// Of these, some of the body has not left, so that they cannot have been processed.
        var unwritten: [PendingPush] = []
    }

    /// Looks after deadlines, from time to time.
    ///
    /// - Parameters:
    ///   - now: the time.
    ///   - answerDurationMax: how long an answer may take.
    ///   - isWanted: whether requests wait for room here.
    /// - Returns: the requests whose answers took too long.
    func check(at now: NIODeadline, answerDurationMax: Duration, isWanted: Bool) -> Overdue {
        guard !self.isOver, !self.isClosing, self.isGreeted else { return Overdue() }
        // Nothing can be sent where bodies wait for room, or requests for streams.
        let isStalled = self.window.isExhausted || isWanted && self.room == 0
        let overdue = self.takeOverdue(at: now, TimeAmount(answerDurationMax))
        let isWaiting = !self.streams.waiting.isEmpty || !overdue.written.isEmpty || !overdue.unwritten.isEmpty
        // One that has answered before is left to the deadlines of its requests while there is room on it.
        let isSilent = !self.hasAnswered && !overdue.written.isEmpty
        if self.stall.isOver(at: now, isStalled: isStalled) || isSilent || !overdue.unwritten.isEmpty {
            self.giveUp(.stalled(self.stall.durationMax))
        } else {
            switch self.keepAlive.step(at: now, isWaiting: isWaiting) {
            case .rest: break
            case .ping: self.outgoing.writePing(1, isAnswer: false)
            case .giveUp: self.giveUp(.silent)
            }
        }
        self.flush()
        self.closeWhenIdle()
        return overdue
    }

    private func takeOverdue(at now: NIODeadline, _ limit: TimeAmount) -> Overdue {
        let unfinished = Set(self.window.unfinished)
        var overdue = Overdue()
        for number in self.streams.numbers(where: { now - $0.writtenAt >= limit }) {
            self.outgoing.writeReset(number, code: HTTP2Bytes.Code.cancel)
            guard let push = self.ended(number) else { continue }
            if unfinished.contains(number) { overdue.unwritten.append(push) } else { overdue.written.append(push) }
        }
        return overdue
    }

    private func giveUp(_ error: PushConnectionError) {
        self.failure = self.failure ?? error
        self.close()
    }

    // MARK: Reading

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !self.isOver else { return }
        self.reader.append(self.unwrapInboundIn(data))
        self.worker?.readBegins()
        do throws(FrameFault) {
            while !self.isOver, let frame = try self.reader.next() { try self.received(frame) }
        } catch {
            self.outgoing.writeGoAway(code: error.code)
            self.flush()
            self.errorCaught(context: context, error: error)
        }
    }

    private func received(_ frame: ServiceFrame) throws(FrameFault) {
        switch frame {
        case .headers(let stream, let headers, let isEnd): self.received(headers, stream, isEnd: isEnd)
        case .data(let stream, let bytes, let byteCount, let isEnd):
            self.unreportedByteCount += byteCount
            self.received(bytes, stream, isEnd: isEnd)
        case .reset(let stream, let code): self.received(code: code, stream)
        case .settings(let settings): try self.received(settings)
        case .ping(let data):
            try self.answer()
            self.outgoing.writePing(data, isAnswer: true)
        case .goAway(let last, _, let data): self.received(goAwayBehind: last, data)
        case .windowUpdate(let stream, let byteCount):
            try self.window.widen(stream, by: byteCount)
            self.writePieces()
        case .other: break
        }
    }

    /// Counts an answer, which the service may have as many of as it reads.
    private func answer() throws(FrameFault) {
        if self.context?.channel.isWritable == true { self.answerCount = 0 }
        self.answerCount += 1
        guard self.answerCount <= Self.answerCountMax else {
            throw FrameFault(code: HTTP2Bytes.Code.enhanceYourCalm)
        }
    }

    private func received(_ headers: HPACKHeaders, _ number: UInt32, isEnd: Bool) {
        guard self.streams.waiting[number] != nil else { return }
        let status = Self.status(headers)
        guard var answer = self.answers[number] ?? status.map({ PushAnswer(status: $0) }) else {
            self.outgoing.writeReset(number, code: HTTP2Bytes.Code.protocolError)
            self.fail(number, .streamReset(code: Int(HTTP2Bytes.Code.protocolError)))
            return
        }
        // Behind a provisional answer comes the one that counts; trailers have no status.
        if let status { answer.status = status }
        if isEnd { self.finish(number, answer) } else { self.answers[number] = answer }
    }

    private static func status(_ headers: HPACKHeaders) -> Int? {
        guard let text = headers.first(name: ":status"), let status = Int(text) else { return nil }
        return (100...599).contains(status) ? status : nil
    }

    private func received(_ bytes: ByteBuffer, _ number: UInt32, isEnd: Bool) {
        if bytes.readableBytes > 0 { self.answers[number]?.append(bytes) }
        guard isEnd, let answer = self.answers[number] else { return }
        self.finish(number, answer)
    }

    private func finish(_ number: UInt32, _ answer: PushAnswer) {
        self.answers[number] = nil
        self.window.forget(number)
        self.stall.moved()
        if !self.hasAnswered {
            self.hasAnswered = true
            self.worker?.answersBegin()
        }
        if answer.status == 200 { self.hasAccepted = true }
        guard let push = self.streams.answered(number, isSuccess: answer.status == 200) else { return }
        self.worker?.answered(push, answer.outcome, on: self)
    }

    private func received(code: UInt32, _ number: UInt32) {
        if self.streams.waiting[number] != nil { self.stall.moved() }
        if code == HTTP2Bytes.Code.refusedStream {
            if let push = self.ended(number) { self.worker?.unprocessed([push]) }
        } else {
            self.fail(number, .streamReset(code: Int(code)))
        }
    }

    private func fail(_ number: UInt32, _ trouble: DeliveryOutcome.Reason) {
        if let push = self.ended(number) { self.worker?.unknown([push], trouble) }
    }

    /// Forgets a stream that has no answer.
    private func ended(_ number: UInt32) -> PendingPush? {
        self.answers[number] = nil
        self.window.forget(number)
        return self.streams.ended(number)
    }

    private func received(_ settings: [ServiceFrame.Setting]) throws(FrameFault) {
        try self.answer()
        var countMax: Int?
        for setting in settings {
            switch setting.name {
            case HTTP2Bytes.Setting.streamCountMax: countMax = Int(setting.value)
            case HTTP2Bytes.Setting.initialWindow: try self.window.setInitial(setting.value)
            case HTTP2Bytes.Setting.headerTableByteCount: self.headers.setTableByteCountMax(setting.value)
            default: break
            }
        }
        self.streams.settings(countMax: countMax)
        self.outgoing.writeSettingsAcknowledgement()
        self.writePieces()
        guard !self.isGreeted else { return }
        self.isGreeted = true
        self.greetingTimer?.cancel()
        self.worker?.opened(self)
    }

    private func received(goAwayBehind last: UInt32, _ data: ByteBuffer) {
        self.goAwayReason = PushAnswer.goAwayReason(data) ?? self.goAwayReason
        let unprocessed = self.streams.goAway(last: last)
        self.worker?.goingAway(self, unprocessed: unprocessed)
        self.closeWhenIdle()
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        self.keepAlive.heard(at: .now())
        if self.unreportedByteCount >= PushOpener.windowByteCount / 2 {
            self.outgoing.writeWindowUpdate(self.unreportedByteCount)
            self.unreportedByteCount = 0
        }
        self.worker?.readComplete(self)
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
        self.outgoing.writeBytes(HTTP2Bytes.preface)
        self.outgoing.writeSettings([
            (HTTP2Bytes.Setting.enablePush, 0),
            (HTTP2Bytes.Setting.headerListByteCountMax, UInt32(ServiceFrameReader.headerByteCountMax)),
        ])
        self.outgoing.writeWindowUpdate(PushOpener.windowByteCount)
        self.flush()
        self.greetingTimer = context.eventLoop.assumeIsolated().scheduleTask(
            in: TimeAmount(self.greetingDurationMax)
        ) { [weak self] in
            guard let self, let context = self.context, !self.isGreeted else { return }
            self.errorCaught(context: context, error: PushConnectionError.noGreeting)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.failure = self.failure ?? error
        self.isClosing = true
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.end()
        context.fireChannelInactive()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable, !self.isOver { self.worker?.readComplete(self) }
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
        let unwritten = self.window.unfinished.compactMap { self.streams.ended($0) }
        self.worker?.ended(self, waiting: self.streams.lost(), unwritten: unwritten, failure: self.failure)
    }
}

/// Why a connection was given up by this end.
enum PushConnectionError: Error, CustomStringConvertible {
    case noGreeting
    case silent
    case stalled(Duration)

    var description: String {
        switch self {
        case .noGreeting: "the other end did not send its HTTP/2 settings; is it a push service?"
        case .silent: "the other end did not answer a PING in time"
        case .stalled(let duration):
            "the other end answered no request and let none be sent for \(duration), though it is there"
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

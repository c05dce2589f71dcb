// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore
import APNSJSON

/// One connection to the service without its channel: it determines the outcome of each request from the service's
/// frames.
///
/// It does no I/O and has no clock. ``StreamTable`` tracks which requests wait for an answer, and what is known about
/// those that get none; each leaves it once.
struct PushConnectionStateMachine<Element> {
    /// What the owner of the connection must do.
    enum Action {
        /// Requests may be written.
        case opened
        /// A request has its answer.
        case answered(Element, PushResponse)
        /// A request was verified as not processed.
        case unprocessed(Element)
        /// It is unknown whether a request was processed; with the reason `acceptanceIncomplete`, do not repeat it.
        case unknown(Element, DeliveryOutcome.Reason)
        /// The service closes the connection gracefully, and does not answer these.
        case goingAway(Unanswered)
        /// Send what is pending, and close.
        case failed(HTTP2Failure)
    }

    /// Requests without an answer.
    typealias Unanswered = StreamTable<Element>.Unanswered

    private let session: HTTP2Session
    private var headers: HTTP2HeaderFields
    private let authority: String
    private let keepsLongResponses: Bool
    /// Incomplete answers by stream; most answers are complete with their first frame.
    private var answers: [UInt32: PushResponse] = [:]
    private var hasFailed = false

    private(set) var streams: StreamTable<Element>
    /// Whether the service has sent its settings, after which requests may be sent.
    private(set) var isOpen = false
    /// Why the service closes the connection, if it gave a reason.
    private(set) var goAwayReason: PushReason?
    /// The number of answers to requests.
    private var answerCount = 0

    init(authority: String, streamCountMax: Int, startsWithOne: Bool, keepsLongResponses: Bool = false) {
        // Long responses to all streams are progress, although none may be complete for some time.
        let idleFactor = keepsLongResponses ? streamCountMax + 1 : 1
        self.session = HTTP2Session(
            streamCountMax: streamCountMax,
            idleByteCountMax: HTTP2Session.idleByteCountMax * idleFactor
        )
        self.authority = authority
        self.keepsLongResponses = keepsLongResponses
        self.headers = HTTP2HeaderFields(authority: authority)
        self.streams = StreamTable(countMax: streamCountMax, startsWithOne: startsWithOne)
    }

    // MARK: Writing

    /// The number of requests that can be written now.
    var room: Int { self.session.isExhausted || self.hasFailed ? 0 : self.streams.room }

    /// Whether a body waits for flow control.
    var isExhausted: Bool { self.session.isExhausted }

    /// Changes whenever a request is sent completely, or answered.
    var progressCount: Int { self.session.wholeRequestCount &+ self.answerCount }

    /// Opens a stream for a request.
    ///
    /// Returns whether there was room.
    mutating func write(_ element: Element, _ request: PushRequest, authorization: String?) -> Bool {
        guard self.room > 0 else { return false }
        let number = self.streams.open(element)
        let submitted: UInt32?
        if let channel = request.channel {
            let fields = HTTP2HeaderFields(request, channel, authority: self.authority, authorization: authorization)
            submitted = self.session.submit(fields, body: request.payload)
        } else {
            self.headers.set(request, authorization: authorization)
            submitted = self.session.submit(self.headers, body: request.payload)
        }
        guard submitted == number else {
            self.streams.withdraw(number)
            self.session.fail(HTTP2Failure(code: HTTP2Failure.internalError))
            return false
        }
        return true
    }

    /// Bytes for the service.
    ///
    /// Returns `nil` if there is nothing to send.
    func nextBytes(atMost limit: Int) -> ByteBuffer? { self.session.nextBytes(atMost: limit) }

    /// Sends a PING frame.
    func ping() { self.session.ping() }

    /// Resets the input limits; called a few times per second.
    func tick() { self.session.resetInputCounts() }

    /// Opens no more streams.
    mutating func retire() { self.streams.retire() }

    /// Sends a GOAWAY frame to the service.
    mutating func goAway() {
        self.streams.retire()
        self.session.goAway()
    }

    /// Removes and returns the requests whose answers took too long.
    mutating func takeOverdue(where isOverdue: (Element) -> Bool) -> Unanswered {
        var overdue = Unanswered()
        let numbers = self.streams.numbers(where: isOverdue)
        guard !numbers.isEmpty else { return overdue }
        let unfinished = Set(self.session.unfinishedStreams)
        for number in numbers {
            self.session.reset(number, code: HTTP2Failure.cancel)
            self.answers[number] = nil
            overdue.add(self.streams.giveUp(number, isSent: !unfinished.contains(number)))
        }
        return overdue
    }

    /// Removes and returns all requests, after the connection was lost.
    ///
    /// Only the first `sentByteCount` bytes for the service have left this system; `nil` if that is not known.
    mutating func takeLost(sentByteCount: Int? = nil) -> Unanswered {
        self.answers = [:]
        return self.streams.lost(unfinished: self.session.unfinishedStreams(inFirst: sentByteCount ?? .max))
    }

    // MARK: Reading

    /// The bytes stored for incomplete answers.
    var keptByteCount: Int { self.answers.values.reduce(0) { $0 + $1.body.readableBytes } }

    /// The maximum number of bytes for ``receive(_:)``.
    static var inputByteCountMax: Int { HTTP2Session.inputByteCountMax }

    /// Processes bytes of the service; ``nextAction()`` returns what follows.
    func receive(_ bytes: ByteBuffer) { self.session.receive(bytes) }

    /// The next action for the owner.
    mutating func nextAction() -> Action? {
        while let event = self.session.nextEvent() {
            if let action = self.action(event) { return action }
        }
        guard let failure = self.session.failure, !self.hasFailed else { return nil }
        self.hasFailed = true
        return .failed(failure)
    }

    private mutating func action(_ event: HTTP2Session.Event) -> Action? {
        switch event {
        case .headers(let number, let status, let fields, let isEnd):
            return self.received(number, status, fields, isEnd: isEnd)
        case .body(let number, let bytes):
            self.answers[number]?.append(bytes)
            return nil
        case .data(let number, let byteCount, let isEnd): return self.received(number, byteCount, isEnd: isEnd)
        case .closed(let number, let code): return self.closed(number, code)
        case .settings(let streamCountMax):
            self.streams.settings(countMax: streamCountMax.map { Int($0) })
            guard !self.isOpen else { return nil }
            self.isOpen = true
            return .opened
        case .goAway(let last, let data):
            self.goAwayReason = PushResponse.goAwayReason(data) ?? self.goAwayReason
            return self.goingAway(last)
        }
    }

    private mutating func received(
        _ number: UInt32,
        _ status: Int?,
        _ fields: ResponseFields?,
        isEnd: Bool
    ) -> Action? {
        // Many answers consist of only this frame.
        if isEnd, let status, (200...599).contains(status), self.answers.isEmpty {
            return self.finished(number, self.response(status, fields))
        }
        guard self.streams.waiting[number] != nil else { return nil }
        guard var answer = self.answers[number] else {
            guard let status, (100...599).contains(status) else { return self.refuse(number) }
            // A provisional answer is followed by the final one.
            if status < 200 { return isEnd ? self.refuse(number) : nil }
            return self.received(number, self.response(status, fields), isEnd: isEnd)
        }
        // Trailers have no effect.
        guard status == nil, answer.count(0) else { return self.refuse(number) }
        return self.received(number, answer, isEnd: isEnd)
    }

    private func response(_ status: Int, _ fields: ResponseFields?) -> PushResponse {
        PushResponse(status: status, fields, isLong: self.keepsLongResponses)
    }

    private mutating func received(_ number: UInt32, _ byteCount: Int, isEnd: Bool) -> Action? {
        guard var answer = self.answers[number] else { return nil }
        guard answer.count(byteCount) else { return self.refuse(number, code: HTTP2Failure.cancel) }
        return self.received(number, answer, isEnd: isEnd)
    }

    private mutating func received(_ number: UInt32, _ answer: PushResponse, isEnd: Bool) -> Action? {
        guard isEnd else {
            self.answers[number] = answer
            self.streams.answerBegins(number, isSuccess: answer.isSuccess)
            return nil
        }
        self.answers[number] = nil
        return self.finished(number, answer)
    }

    private mutating func finished(_ number: UInt32, _ answer: PushResponse) -> Action? {
        guard let element = self.streams.answered(number, isSuccess: answer.isSuccess) else { return nil }
        self.answerCount &+= 1
        self.session.stopSending(number)
        return .answered(element, answer)
    }

    /// Refuses an answer that violates the protocol.
    private mutating func refuse(_ number: UInt32, code: UInt32 = HTTP2Failure.protocolError) -> Action? {
        self.session.reset(number, code: code)
        self.answers[number] = nil
        return self.action(self.streams.giveUp(number, isSent: true), code)
    }

    private mutating func closed(_ number: UInt32, _ code: UInt32) -> Action? {
        self.answers[number] = nil
        guard let requestState = self.streams.closed(number, code: code) else { return nil }
        self.answerCount &+= 1
        return self.action(requestState, code)
    }

    private func action(_ requestState: StreamTable<Element>.RequestState?, _ code: UInt32) -> Action? {
        switch requestState {
        case .unprocessed(let element): .unprocessed(element)
        case .unknown(let element): .unknown(element, .streamReset(code: Int(code)))
        case .accepting(let element): .unknown(element, .acceptanceIncomplete)
        case nil: nil
        }
    }

    private mutating func goingAway(_ last: UInt32) -> Action {
        for number in self.answers.keys where number > last { self.answers[number] = nil }
        return .goingAway(self.streams.goAway(last: last))
    }
}

/// An incomplete answer: the status, and the part of the body received so far.
struct PushResponse {
    var status: Int
    let fields: ResponseFields?
    var body = ByteBuffer()
    private var byteCount = 0
    private let isLong: Bool

    /// The maximum number of stored bytes of a body; documented ones have less than 100.
    static let bodyByteCountMax = 4096

    /// The maximum length of an answer after its first header fields; a longer one is refused.
    static let byteCountMax = 32_768
    /// The same for a list of channels.
    static let longByteCountMax = 786_432

    /// The size that each frame counts in addition to its payload, which limits the number of empty frames.
    private static let frameOverhead = 9

    init(status: Int, _ fields: ResponseFields? = nil, isLong: Bool = false) {
        self.status = status
        self.fields = fields
        self.isLong = isLong
    }

    /// Whether the service did what it was asked to do; only 200 is documented for notifications.
    var isSuccess: Bool { (200...299).contains(self.status) }

    /// Whether a notification may have been accepted, although nothing says so: it must not be repeated.
    var isUndocumentedSuccess: Bool { self.isSuccess && self.status != 200 }

    /// Counts a frame of the answer.
    ///
    /// Returns whether the answer is still within its maximum length.
    mutating func count(_ payloadByteCount: Int) -> Bool {
        self.byteCount += payloadByteCount + Self.frameOverhead
        return self.byteCount <= (self.isLong ? Self.longByteCountMax : Self.byteCountMax)
    }

    mutating func append(_ bytes: ByteBuffer) {
        var bytes = bytes
        let countMax = self.isLong ? Self.longByteCountMax : Self.bodyByteCountMax
        let count = min(countMax - self.body.readableBytes, bytes.readableBytes)
        if let slice = bytes.readSlice(length: count) { self.body.writeImmutableBuffer(slice) }
    }

    /// The outcome of a request about channels, whose body the caller gets; each operation has a success of its own.
    func outcome(_ channel: ChannelFields) -> (outcome: DeliveryOutcome, fields: ResponseFields) {
        var values = self.fields?.values ?? ResponseFields.Values()
        values.body = self.body
        let isDone = self.isSuccess && channel.operation != .send
        return (isDone ? .accepted : self.outcome, ResponseFields(values))
    }

    var outcome: DeliveryOutcome {
        if self.status == 200 { return .accepted }
        let explanation = JSONFields(Array(self.body.readableBytesView))
        let reason = PushReason(text: explanation?.string("reason") ?? "")
        let timestamp: UInt64? = explanation?.integer("timestamp")
        var rejection = PushRejection(status: self.status, reason: reason, timestampNumber: timestamp)
        rejection.retryAfter = self.fields?.retryAfter
        return .rejected(.http2(rejection))
    }

    /// The reason in the debug data of a GOAWAY frame.
    static func goAwayReason(_ data: ByteBuffer?) -> PushReason? {
        guard let data, data.readableBytes <= Self.bodyByteCountMax else { return nil }
        return JSONFields(Array(data.readableBytesView))?.string("reason").map { PushReason(text: $0) }
    }
}

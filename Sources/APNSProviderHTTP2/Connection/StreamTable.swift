// SPDX-License-Identifier: Apache-2.0

/// The streams of one connection on the client side: how many may be opened, which wait for an answer, and what is
/// known about a request without one.
///
/// All these decisions are made here. A request was not processed if its answer has not begun, and
///
/// - the service closed the stream with REFUSED_STREAM (7), with which the library also ends a stream that it did not
///   send, or
/// - the service sends GOAWAY with a lower last stream, or
/// - it was not sent completely when the client gives it up, or when the connection ends; after a reset, that is what
///   has left this system.
///
/// In all other cases it may have been processed. If the answer has begun with success, the request is not to be
/// repeated: most likely only the end of the answer is missing. The table does no I/O and has no clock.
///
/// - SeeAlso: RFC 9113, 5.1.2, 6.8 and 8.7.
struct StreamTable<Element> {
    /// What is known about the request of a stream without an answer.
    enum RequestState {
        /// The service did not process it.
        case unprocessed(Element)
        /// The service may have processed it.
        case unknown(Element)
        /// The service has begun to answer it with success.
        case accepting(Element)
    }

    /// Requests without an answer, in the order of their streams.
    struct Unanswered {
        /// The service may have processed these.
        var unknown: [Element] = []
        /// The service did not process these.
        var unprocessed: [Element] = []
        /// The service has begun to answer these with success.
        var accepting: [Element] = []

        mutating func add(_ requestState: RequestState?) {
            switch requestState {
            case .unprocessed(let element): self.unprocessed.append(element)
            case .unknown(let element): self.unknown.append(element)
            case .accepting(let element): self.accepting.append(element)
            case nil: break
            }
        }
    }

    /// The highest stream number.
    static var lastNumber: UInt32 { 0x7FFF_FFFF }

    private(set) var waiting: [UInt32: Element] = [:]
    /// The streams with incomplete answers, and whether these are successes.
    ///
    /// The service has processed their requests, however the streams end.
    private var begun: [UInt32: Bool] = [:]
    private var nextNumber: UInt32 = 1
    /// The service's limit; `nil` before its first SETTINGS frame, when no stream may be opened.
    private var announcedMax: Int?
    /// The client's own limit.
    private let ownMax: Int
    /// Whether more than one stream at a time may be opened: with a provider token, once a request was accepted.
    private var isUnrestricted: Bool
    private(set) var isGoingAway = false

    init(countMax: Int, startsWithOne: Bool) {
        self.ownMax = countMax
        self.isUnrestricted = !startsWithOne
    }

    /// The maximum number of open streams now.
    var limit: Int {
        guard let announcedMax = self.announcedMax, !self.isGoingAway else { return 0 }
        return min(announcedMax, self.isUnrestricted ? self.ownMax : min(1, self.ownMax))
    }

    /// The number of streams that may be opened now.
    var room: Int {
        let numbersLeft = Int((Self.lastNumber - min(self.nextNumber, Self.lastNumber)) / 2)
        return max(0, min(self.limit - self.waiting.count, numbersLeft))
    }

    /// Whether all stream numbers are used, so that a new connection is needed.
    var isUsedUp: Bool { self.nextNumber >= Self.lastNumber - 1 }

    /// Applies the limit of a SETTINGS frame.
    mutating func settings(countMax: Int?) {
        self.announcedMax = countMax.map { max(0, $0) } ?? self.announcedMax ?? 100
    }

    /// Opens a stream; the caller must check ``room``.
    mutating func open(_ element: Element) -> UInt32 {
        precondition(self.room > 0, "A stream was opened without room.")
        let number = self.nextNumber
        self.nextNumber += 2
        self.waiting[number] = element
        return number
    }

    /// Records a complete answer.
    ///
    /// Returns its request; `nil` if no request waits on that stream.
    mutating func answered(_ number: UInt32, isSuccess: Bool) -> Element? {
        guard let element = self.waiting.removeValue(forKey: number) else { return nil }
        if !self.begun.isEmpty { self.begun[number] = nil }
        if isSuccess { self.isUnrestricted = true }
        return element
    }

    /// Records an incomplete answer.
    mutating func answerBegins(_ number: UInt32, isSuccess: Bool = false) {
        if self.waiting[number] != nil { self.begun[number] = isSuccess }
    }

    /// Removes a stream whose request was never passed to the library.
    mutating func withdraw(_ number: UInt32) { self.waiting[number] = nil }

    /// Records the end of a stream without a complete answer, by the service or the library.
    ///
    /// Returns what is known about its request; `nil` if no request waits on that stream.
    mutating func closed(_ number: UInt32, code: UInt32) -> RequestState? {
        self.end(number, isUnprocessed: code == HTTP2Failure.refusedStream)
    }

    /// Gives up a stream.
    ///
    /// Returns what is known about its request; `nil` if no request waits on that stream.
    mutating func giveUp(_ number: UInt32, isSent: Bool) -> RequestState? { self.end(number, isUnprocessed: !isSent) }

    /// Processes a GOAWAY frame: no more streams are opened, and those above the last were not processed.
    ///
    /// Returns the requests that get no answer.
    mutating func goAway(last: UInt32) -> Unanswered {
        self.isGoingAway = true
        var unanswered = Unanswered()
        for number in self.waiting.keys.filter({ $0 > last }).sorted() {
            unanswered.add(self.end(number, isUnprocessed: true))
        }
        return unanswered
    }

    /// Opens no more streams; open streams continue.
    mutating func retire() { self.isGoingAway = true }

    /// Records the end of the connection.
    ///
    /// Returns the requests without an answer.
    mutating func lost(unfinished: [UInt32]) -> Unanswered {
        self.isGoingAway = true
        let unfinished = Set(unfinished)
        var unanswered = Unanswered()
        for number in self.waiting.keys.sorted() {
            unanswered.add(self.end(number, isUnprocessed: unfinished.contains(number)))
        }
        return unanswered
    }

    private mutating func end(_ number: UInt32, isUnprocessed: Bool) -> RequestState? {
        let isSuccess = self.begun.removeValue(forKey: number)
        guard let element = self.waiting.removeValue(forKey: number) else { return nil }
        switch isSuccess {
        case true?: return .accepting(element)
        case false?: return .unknown(element)
        case nil: return isUnprocessed ? .unprocessed(element) : .unknown(element)
        }
    }

    /// The streams whose elements fulfil a condition.
    func numbers(where isOver: (Element) -> Bool) -> [UInt32] {
        self.waiting.filter { isOver($0.value) }.keys.sorted()
    }
}

extension StreamTable.RequestState: Equatable where Element: Equatable {}
extension StreamTable.Unanswered: Equatable where Element: Equatable {}

// SPDX-License-Identifier: Apache-2.0

/// The streams of one connection as its client sees them: which may be opened, which wait for an answer, and what is
/// proved about a request that has none.
///
/// All decisions about that are made here. A request was not processed where its answer has not begun, and
///
/// - the service closed the stream with REFUSED_STREAM (7), which is also how the library ends a stream that it did not
///   send any more, or
/// - the service goes away and names a lower last stream, or
/// - not all of it has left when the client gives it up, or when the connection ends.
///
/// In all other cases it may have been processed. It does no input or output, and knows no clock.
///
/// - SeeAlso: RFC 9113, 5.1.2, 6.8 and 8.7.
struct StreamTable<Element> {
    /// What a stream without an answer proves about its request.
    enum Fate {
        /// The service did not process it.
        case unprocessed(Element)
        /// The service may have processed it.
        case unknown(Element)
    }

    /// Requests without an answer, in the order in which their streams were opened.
    struct Unanswered {
        /// The service may have processed these.
        var unknown: [Element] = []
        /// The service did not process these.
        var unprocessed: [Element] = []

        mutating func add(_ fate: Fate?) {
            switch fate {
            case .unprocessed(let element): self.unprocessed.append(element)
            case .unknown(let element): self.unknown.append(element)
            case nil: break
            }
        }
    }

    /// The greatest number that a stream can have.
    static var lastNumber: UInt32 { 0x7FFF_FFFF }

    private(set) var waiting: [UInt32: Element] = [:]
    /// The streams whose answers have begun and are not complete.
    ///
    /// The service has processed their requests, whatever it says then.
    private var begun: Set<UInt32> = []
    private var nextNumber: UInt32 = 1
    /// What the service allows; `nil` before its first SETTINGS, when nothing may be opened.
    private var announcedMax: Int?
    /// What this end allows itself.
    private let ownMax: Int
    /// With a provider token, one at a time until the first success.
    private var isProved: Bool
    private(set) var isGoingAway = false

    /// - Parameters:
    ///   - countMax: the most streams that this end opens, at least 1.
    ///   - startsWithOne: whether one stream at a time is opened until one was answered with success.
    init(countMax: Int, startsWithOne: Bool) {
        self.ownMax = countMax
        self.isProved = !startsWithOne
    }

    /// How many streams may be open now.
    var limit: Int {
        guard let announcedMax = self.announcedMax, !self.isGoingAway else { return 0 }
        return min(announcedMax, self.isProved ? self.ownMax : min(1, self.ownMax))
    }

    /// How many more streams may be opened now.
    var room: Int {
        let numbersLeft = Int((Self.lastNumber - min(self.nextNumber, Self.lastNumber)) / 2)
        return max(0, min(self.limit - self.waiting.count, numbersLeft))
    }

    /// Whether all numbers are used, so that another connection is needed.
    var isUsedUp: Bool { self.nextNumber >= Self.lastNumber - 1 }

    /// Takes the limit of a SETTINGS frame.
    ///
    /// - Parameter countMax: the most concurrent streams; `nil` where the frame does not name it, which leaves it as it
    ///   was, or at 100 in the first frame: the RFC knows no bound then, but no service means that.
    mutating func settings(countMax: Int?) {
        self.announcedMax = countMax.map { max(0, $0) } ?? self.announcedMax ?? 100
    }

    /// Opens a stream; the caller has asked for ``room``.
    mutating func open(_ element: Element) -> UInt32 {
        precondition(self.room > 0, "A stream was opened although there was no room.")
        let number = self.nextNumber
        self.nextNumber += 2
        self.waiting[number] = element
        return number
    }

    /// Takes a whole answer.
    ///
    /// - Returns: whom it is for; `nil` where nobody waits on that stream.
    mutating func answered(_ number: UInt32, isSuccess: Bool) -> Element? {
        guard let element = self.waiting.removeValue(forKey: number) else { return nil }
        if !self.begun.isEmpty { self.begun.remove(number) }
        if isSuccess { self.isProved = true }
        return element
    }

    /// An answer begins, and is not complete.
    mutating func answerBegins(_ number: UInt32) {
        if self.waiting[number] != nil { self.begun.insert(number) }
    }

    /// Takes back a stream whose request was never given to the library.
    mutating func withdraw(_ number: UInt32) { self.waiting[number] = nil }

    /// Takes the end of a stream without a whole answer, by the service or the library.
    ///
    /// - Parameters:
    ///   - number: the stream.
    ///   - code: why it was closed.
    /// - Returns: what that proves; `nil` where nobody waits on that stream.
    mutating func closed(_ number: UInt32, code: UInt32) -> Fate? {
        self.end(number, isUnprocessed: code == HTTP2Failure.refusedStream)
    }

    /// Gives up a stream.
    ///
    /// - Parameters:
    ///   - number: the stream.
    ///   - hasLeft: whether all of the request has left, or the service has answered something.
    /// - Returns: what that proves; `nil` where nobody waits on that stream.
    mutating func giveUp(_ number: UInt32, hasLeft: Bool) -> Fate? { self.end(number, isUnprocessed: !hasLeft) }

    /// Takes a GOAWAY frame: no more streams, and those above the last were not processed.
    ///
    /// - Parameter last: the last stream that the service may have processed.
    /// - Returns: what has no answer, and gets none.
    mutating func goAway(last: UInt32) -> Unanswered {
        self.isGoingAway = true
        var unanswered = Unanswered()
        for number in self.waiting.keys.filter({ $0 > last }).sorted() {
            unanswered.add(self.end(number, isUnprocessed: true))
        }
        return unanswered
    }

    /// Opens no more streams; those that are open go on.
    mutating func retire() { self.isGoingAway = true }

    /// Takes the end of the connection.
    ///
    /// - Parameter unfinished: the streams of which not all has left.
    /// - Returns: what has no answer.
    mutating func lost(unfinished: [UInt32]) -> Unanswered {
        self.isGoingAway = true
        let unfinished = Set(unfinished)
        var unanswered = Unanswered()
        for number in self.waiting.keys.sorted() {
            unanswered.add(self.end(number, isUnprocessed: unfinished.contains(number)))
        }
        return unanswered
    }

    private mutating func end(_ number: UInt32, isUnprocessed: Bool) -> Fate? {
        let hasBegun = self.begun.remove(number) != nil
        guard let element = self.waiting.removeValue(forKey: number) else { return nil }
        return isUnprocessed && !hasBegun ? .unprocessed(element) : .unknown(element)
    }

    /// The streams whose elements are past their time.
    func numbers(where isOver: (Element) -> Bool) -> [UInt32] {
        self.waiting.filter { isOver($0.value) }.keys.sorted()
    }
}

extension StreamTable.Fate: Equatable where Element: Equatable {}
extension StreamTable.Unanswered: Equatable where Element: Equatable {}

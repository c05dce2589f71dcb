// SPDX-License-Identifier: Apache-2.0

/// The streams of one connection as its client sees them: which may be opened, which wait for an answer, and what is
/// proved when the service says no.
///
/// It does no input or output, and knows no clock.
///
/// - SeeAlso: RFC 9113, 5.1.2 and 6.8.
struct StreamTable<Element> {
    /// The greatest number that a stream can have.
    static var lastNumber: UInt32 { 0x7FFF_FFFF }

    private(set) var waiting: [UInt32: Element] = [:]
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
        if isSuccess { self.isProved = true }
        return element
    }

    /// Takes the end of a stream that has no answer, by either end.
    ///
    /// - Returns: who waited on it.
    mutating func ended(_ number: UInt32) -> Element? { self.waiting.removeValue(forKey: number) }

    /// Takes a GOAWAY frame: no more streams, and those above the last were not processed.
    ///
    /// - Returns: what was not processed, in the order in which it was opened.
    mutating func goAway(last: UInt32) -> [Element] {
        self.isGoingAway = true
        let numbers = self.waiting.keys.filter { $0 > last }.sorted()
        return numbers.compactMap { self.waiting.removeValue(forKey: $0) }
    }

    /// Opens no more streams; those that are open go on.
    mutating func retire() { self.isGoingAway = true }

    /// Takes the end of the connection.
    ///
    /// - Returns: what has no answer, in the order in which it was opened.
    mutating func lost() -> [Element] {
        self.isGoingAway = true
        let elements = self.waiting.sorted { $0.key < $1.key }.map(\.value)
        self.waiting.removeAll()
        return elements
    }

    /// The streams whose elements are past their time.
    func numbers(where isOver: (Element) -> Bool) -> [UInt32] {
        self.waiting.filter { isOver($0.value) }.keys.sorted()
    }
}

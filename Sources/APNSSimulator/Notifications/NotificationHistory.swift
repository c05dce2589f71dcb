// SPDX-License-Identifier: Apache-2.0

import APNSWire
import DequeModule

/// Decides which notifications are kept, which of them have been returned, and who gets the next one.
///
/// A waiter is a number of the caller's own, which it uses once.
struct NotificationHistory {
    /// What is done about a notification that is asked for.
    enum OnRequest: Equatable {
        /// Return this one.
        case deliver(ReceivedNotification)
        /// Wait until ``receive(_:)`` names the waiter.
        case wait
        /// Say that so many went before they were read.
        case fail(missedCount: UInt64)
        /// Say that there will be no more.
        case end
    }

    /// The notifications that are kept, the oldest first.
    private var segments: Deque<NotificationSegment> = []
    /// How many are kept.
    private(set) var count = 0
    /// The number of the next one.
    private var nextNumber: UInt64 = 1
    /// The numbers of those that are kept and that nobody was given, by token; `nil` while nobody has asked for one.
    private var unreturned: [DeviceToken: Deque<UInt64>]?
    /// Who waits for a token, the first first.
    private var waiters: [DeviceToken: Deque<UInt64>] = [:]
    /// Who waits for whatever comes next.
    private var followers: [UInt64] = []
    private var isEnded = false
    private let countMax: Int
    private let byteCountMax: Int
    /// About how many bytes of memory those that are kept take.
    private(set) var byteCount = 0

    init(countMax: Int, byteCountMax: Int = .max) {
        self.countMax = max(0, countMax)
        self.byteCountMax = max(0, byteCountMax)
    }

    /// The number that the next notification gets.
    var numberAfterNewest: UInt64 { self.nextNumber }

    /// Takes a notification that was taken or refused; those that were refused are given to nobody.
    ///
    /// - Parameter notification: what came; it is given its number.
    /// - Returns: the waiters that are to be given it.
    mutating func receive(_ notification: inout ReceivedNotification) -> [UInt64] {
        notification.number = self.nextNumber
        var given = self.followers
        self.followers = []
        if notification.isAccepted, let token = notification.token {
            given += self.give(notification.number, for: token)
        }
        self.append(NotificationSegment(notification))
        return given
    }

    /// Takes messages that were taken.
    ///
    /// - Parameter batch: what came.
    /// - Returns: the waiters that are to be given some of them.
    mutating func receive(_ batch: consuming MessageBatch) -> [(waiters: [UInt64], ReceivedNotification)] {
        let segment = NotificationSegment(batch, firstNumber: self.nextNumber)
        var given: [(waiters: [UInt64], ReceivedNotification)] = []
        if self.unreturned != nil || !self.followers.isEmpty {
            for number in segment.numbers {
                var waiters = self.followers
                self.followers = []
                if let token = segment.acceptedToken(number) { waiters += self.give(number, for: token) }
                if !waiters.isEmpty { given.append((waiters, segment.notification(number))) }
            }
        }
        self.append(segment)
        return given
    }

    /// Finds who is given a notification; it is there for the next who asks where nobody waits.
    private mutating func give(_ number: UInt64, for token: DeviceToken) -> [UInt64] {
        guard self.unreturned != nil else { return [] }
        if let waiter = self.removeFirstWaiter(for: token) { return [waiter] }
        self.unreturned?[token, default: []].append(number)
        return []
    }

    private mutating func append(_ segment: consuming NotificationSegment) {
        self.nextNumber += UInt64(segment.count)
        self.count += segment.count
        self.byteCount += segment.byteCount
        self.segments.append(segment)
        while self.count > self.countMax { self.removeOldest(self.count - self.countMax) }
        while self.byteCount > self.byteCountMax, self.count > 0 { self.removeOldest(1) }
    }

    /// Notes what became of a notification since.
    mutating func change(_ number: UInt64, _ delivery: ReceivedNotification.Delivery) {
        guard let index = self.index(of: number) else { return }
        self.segments[index].change(delivery)
    }

    /// Forgets what is kept; numbers go on, and those who wait go on waiting.
    mutating func removeAll() {
        self.segments = []
        self.count = 0
        self.byteCount = 0
        if self.unreturned != nil { self.unreturned = [:] }
    }

    private mutating func removeFirstWaiter(for token: DeviceToken) -> UInt64? {
        guard let waiter = self.waiters[token]?.popFirst() else { return nil }
        if self.waiters[token]?.isEmpty == true { self.waiters[token] = nil }
        return waiter
    }

    /// Lets the oldest go, as far as they lie together.
    private mutating func removeOldest(_ countMax: Int) {
        guard let oldest = self.segments.first else { return }
        let removed = min(countMax, oldest.count)
        if self.unreturned != nil {
            for number in oldest.firstNumber..<oldest.firstNumber + UInt64(removed) {
                // What is not returned is returned in order, so that the oldest of all is the oldest of its token.
                guard let token = oldest.acceptedToken(number), self.unreturned?[token]?.first == number else {
                    continue
                }
                self.removeFirstUnreturned(of: token)
            }
        }
        self.count -= removed
        self.byteCount -= oldest.byteCount
        if removed == oldest.count {
            self.segments.removeFirst()
        } else {
            self.segments[0].removeFirst(removed)
            self.byteCount += self.segments[0].byteCount
        }
    }

    private mutating func removeFirstUnreturned(of token: DeviceToken) {
        self.unreturned?[token]?.removeFirst()
        if self.unreturned?[token]?.isEmpty == true { self.unreturned?[token] = nil }
    }

    /// Asks for the next notification for a token that nobody was given.
    mutating func next(for token: DeviceToken, _ waiter: UInt64) -> OnRequest {
        if self.unreturned == nil { self.arrangeByToken() }
        if let number = self.unreturned?[token]?.first, let notification = self.notification(number) {
            self.removeFirstUnreturned(of: token)
            return .deliver(notification)
        }
        guard !self.isEnded else { return .end }
        self.waiters[token, default: []].append(waiter)
        return .wait
    }

    /// Looks through what is kept, once; most never ask.
    private mutating func arrangeByToken() {
        var unreturned: [DeviceToken: Deque<UInt64>] = [:]
        for segment in self.segments {
            for number in segment.numbers {
                if let token = segment.acceptedToken(number) { unreturned[token, default: []].append(number) }
            }
        }
        self.unreturned = unreturned
    }

    /// Asks for the notification behind the one with a number, whoever was given it.
    mutating func next(behind number: UInt64, _ waiter: UInt64) -> OnRequest {
        let oldest = self.numberBeforeOldest + 1
        guard number + 1 >= oldest else { return .fail(missedCount: oldest - number - 1) }
        if let notification = self.notification(number + 1) { return .deliver(notification) }
        guard !self.isEnded else { return .end }
        self.followers.append(waiter)
        return .wait
    }

    /// The number of the notification before the oldest one that is kept.
    var numberBeforeOldest: UInt64 { self.nextNumber - UInt64(self.count) - 1 }

    /// Some of what is kept, from the one on that has a number or comes behind it.
    func segments(from number: UInt64, countMax: Int) -> ArraySlice<NotificationSegment> {
        guard number < self.nextNumber, self.count > 0 else { return [] }
        let start = self.index(of: max(number, self.numberBeforeOldest + 1)) ?? self.segments.count
        return Array(self.segments[start..<start + min(countMax, self.segments.count - start)])[...]
    }

    /// Some of what is kept, up to the one that has a number or comes before it.
    func segments(upTo number: UInt64, countMax: Int) -> ArraySlice<NotificationSegment> {
        guard number > self.numberBeforeOldest, self.count > 0 else { return [] }
        let end = (self.index(of: min(number, self.nextNumber - 1)) ?? -1) + 1
        return Array(self.segments[max(0, end - countMax)..<end])[...]
    }

    /// Where the one with a number is; `nil` where it is not kept.
    private func index(of number: UInt64) -> Int? {
        guard number > self.numberBeforeOldest, number < self.nextNumber else { return nil }
        var (low, high) = (0, self.segments.count - 1)
        while low < high {
            let middle = (low + high + 1) / 2
            if self.segments[middle].firstNumber <= number { low = middle } else { high = middle - 1 }
        }
        return low
    }

    /// The one with a number; `nil` where it is not kept.
    func notification(_ number: UInt64) -> ReceivedNotification? {
        self.index(of: number).map { self.segments[$0].notification(number) }
    }

    /// Notes that a waiter does not wait any longer.
    mutating func cancel(_ waiter: UInt64) {
        self.followers.removeAll { $0 == waiter }
        for (token, all) in self.waiters where all.contains(waiter) {
            let rest = all.filter { $0 != waiter }
            self.waiters[token] = rest.isEmpty ? nil : Deque(rest)
        }
    }

    /// Notes that nothing more comes.
    ///
    /// - Returns: the waiters that are to be told.
    mutating func end() -> [UInt64] {
        self.isEnded = true
        defer {
            self.waiters = [:]
            self.followers = []
        }
        return self.waiters.values.flatMap(\.self) + self.followers
    }
}

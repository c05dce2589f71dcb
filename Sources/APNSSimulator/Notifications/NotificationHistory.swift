// SPDX-License-Identifier: Apache-2.0

import APNSWire
import DequeModule

/// Decides which notifications are kept, which of them were returned, and which waiter receives the next one.
///
/// A waiter is identified by a unique number of the caller.
struct NotificationHistory {
    /// The response to a request for a notification.
    enum OnRequest: Equatable {
        /// Return this one.
        case deliver(ReceivedNotification)
        /// Wait until ``receive(_:)`` returns the waiter.
        case wait
        /// Fail: this many notifications were removed before they were read.
        case fail(missedCount: UInt64)
        /// End: no more notifications will arrive.
        case end
    }

    /// The stored notifications, the oldest first.
    private var segments: Deque<NotificationSegment> = []
    /// The key of each stored notification's token.
    private var tokenKeys: Deque<UInt32> = []
    /// The number of stored notifications.
    private(set) var count = 0
    /// The number of the next notification.
    private(set) var nextNumber: UInt64 = 1
    /// The numbers of stored notifications that were not returned yet, by token; `nil` until the first request.
    private var unreturned: [DeviceToken: Deque<UInt64>]?
    /// The waiters per token, in order.
    private var waiters: [DeviceToken: Deque<UInt64>] = [:]
    /// The waiters for any notification.
    private var followers: [UInt64] = []
    private var isEnded = false
    private let countMax: Int
    private let byteCountMax: Int
    /// The approximate memory usage of stored notifications in bytes.
    private(set) var byteCount = 0

    init(countMax: Int, byteCountMax: Int = .max) {
        self.countMax = max(0, countMax)
        self.byteCountMax = max(0, byteCountMax)
    }

    /// Adds an accepted or rejected notification; rejected ones are returned to no waiter.
    ///
    /// Returns the waiters that receive it.
    mutating func receive(_ notification: inout ReceivedNotification) -> [UInt64] {
        notification.number = self.nextNumber
        var given = self.followers
        self.followers = []
        if notification.isAccepted, let token = notification.token {
            given += self.assign(notification.number, for: token)
        }
        self.append(NotificationSegment(notification))
        return given
    }

    /// Adds accepted messages.
    ///
    /// Returns the waiters that receive some of them.
    mutating func receive(_ batch: consuming MessageBatch) -> [(waiters: [UInt64], ReceivedNotification)] {
        let segment = NotificationSegment(batch, firstNumber: self.nextNumber)
        var given: [(waiters: [UInt64], ReceivedNotification)] = []
        if self.unreturned != nil || !self.followers.isEmpty {
            for number in segment.numbers {
                var waiters = self.followers
                self.followers = []
                if let token = segment.acceptedToken(number) { waiters += self.assign(number, for: token) }
                if !waiters.isEmpty { given.append((waiters, segment.notification(number))) }
            }
        }
        self.append(segment)
        return given
    }

    /// Finds the waiters for a notification; without one, it is kept for the next request.
    private mutating func assign(_ number: UInt64, for token: DeviceToken) -> [UInt64] {
        guard self.unreturned != nil else { return [] }
        if let waiter = self.removeFirstWaiter(for: token) { return [waiter] }
        self.unreturned?[token, default: []].append(number)
        return []
    }

    private mutating func append(_ segment: consuming NotificationSegment) {
        self.nextNumber += UInt64(segment.count)
        self.count += segment.count
        self.byteCount += segment.byteCount
        segment.visitTokenKeys { self.tokenKeys.append($0) }
        self.segments.append(segment)
        while self.count > self.countMax { self.removeOldest(self.count - self.countMax) }
        while self.byteCount > self.byteCountMax, self.count > 0 { self.removeOldest(1) }
    }

    /// Updates the delivery of a notification.
    mutating func change(_ number: UInt64, _ delivery: ReceivedNotification.Delivery) {
        guard let index = self.index(of: number) else { return }
        self.segments[index].change(delivery)
    }

    /// Removes all notifications.
    ///
    /// Numbers continue, and waiters keep waiting.
    mutating func removeAll() {
        self.segments = []
        self.tokenKeys = []
        self.count = 0
        self.byteCount = 0
        if self.unreturned != nil { self.unreturned = [:] }
    }

    private mutating func removeFirstWaiter(for token: DeviceToken) -> UInt64? {
        guard let waiter = self.waiters[token]?.popFirst() else { return nil }
        if self.waiters[token]?.isEmpty == true { self.waiters[token] = nil }
        return waiter
    }

    /// Removes the oldest notifications, as a segment.
    private mutating func removeOldest(_ countMax: Int) {
        guard let oldest = self.segments.first else { return }
        let removed = min(countMax, oldest.count)
        if self.unreturned != nil {
            for number in oldest.firstNumber..<oldest.firstNumber + UInt64(removed) {
                // Notifications are returned in order, so the oldest one is also the oldest of its token.
                guard let token = oldest.acceptedToken(number), self.unreturned?[token]?.first == number else {
                    continue
                }
                self.removeFirstUnreturned(of: token)
            }
        }
        self.count -= removed
        self.tokenKeys.removeFirst(removed)
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

    /// Requests the next notification for a token that was not returned yet.
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

    /// Indexes the stored notifications on the first request; most callers never make one.
    private mutating func arrangeByToken() {
        var unreturned: [DeviceToken: Deque<UInt64>] = [:]
        for segment in self.segments {
            for number in segment.numbers {
                if let token = segment.acceptedToken(number) { unreturned[token, default: []].append(number) }
            }
        }
        self.unreturned = unreturned
    }

    /// Requests the notification after a number, whether or not it was returned before.
    mutating func next(behind number: UInt64, _ waiter: UInt64) -> OnRequest {
        let oldest = self.numberBeforeOldest + 1
        guard number + 1 >= oldest else { return .fail(missedCount: oldest - number - 1) }
        if let notification = self.notification(number + 1) { return .deliver(notification) }
        guard !self.isEnded else { return .end }
        self.followers.append(waiter)
        return .wait
    }

    /// The number before the oldest stored notification.
    var numberBeforeOldest: UInt64 { self.nextNumber - UInt64(self.count) - 1 }

    /// Returns stored segments from a number on.
    func segments(from number: UInt64, countMax: Int) -> ArraySlice<NotificationSegment> {
        guard number < self.nextNumber, self.count > 0 else { return [] }
        let start = self.index(of: max(number, self.numberBeforeOldest + 1)) ?? self.segments.count
        return Array(self.segments[start..<start + min(countMax, self.segments.count - start)])[...]
    }

    /// The maximum numbers of notifications that ``candidates(_:_:_:)`` searches and returns.
    static let candidateLimits = (searchedCount: UInt64(65_536), foundCount: 256)

    /// Searches a part of the stored notifications for those whose token has a key, or returns all of it.
    ///
    /// Returns the notifications, and the numbers that remain to be searched; `nil` for none.
    func candidates(
        _ key: UInt32?,
        _ numbers: ClosedRange<UInt64>,
        _ order: NotificationQuery.Order
    ) -> (found: [RecordedNotification], rest: ClosedRange<UInt64>?) {
        let before = self.numberBeforeOldest
        let (lower, upper) = (max(numbers.lowerBound, before + 1), min(numbers.upperBound, self.nextNumber - 1))
        guard lower <= upper else { return ([], nil) }
        var found: [RecordedNotification] = []
        for offset in 0...upper - lower {
            let number = order == .oldest ? lower + offset : upper - offset
            if found.count == Self.candidateLimits.foundCount || offset == Self.candidateLimits.searchedCount {
                return (found, order == .oldest ? number...upper : lower...number)
            }
            guard key == nil || self.tokenKeys[Int(number - before - 1)] == key, let index = self.index(of: number)
            else { continue }
            found.append(RecordedNotification(segment: self.segments[index], number: number))
        }
        return (found, nil)
    }

    /// Returns the index of the segment with a number; `nil` if it is not stored.
    private func index(of number: UInt64) -> Int? {
        guard number > self.numberBeforeOldest, number < self.nextNumber else { return nil }
        var (low, high) = (0, self.segments.count - 1)
        while low < high {
            let middle = (low + high + 1) / 2
            if self.segments[middle].firstNumber <= number { low = middle } else { high = middle - 1 }
        }
        return low
    }

    /// Returns the notification with a number; `nil` if it is not stored.
    func notification(_ number: UInt64) -> ReceivedNotification? {
        self.index(of: number).map { self.segments[$0].notification(number) }
    }

    /// Removes a waiter.
    mutating func cancel(_ waiter: UInt64) {
        self.followers.removeAll { $0 == waiter }
        for (token, all) in self.waiters where all.contains(waiter) {
            let rest = all.filter { $0 != waiter }
            self.waiters[token] = rest.isEmpty ? nil : Deque(rest)
        }
    }

    /// Records that no more notifications will arrive.
    ///
    /// Returns the waiters to resume.
    mutating func end() -> [UInt64] {
        self.isEnded = true
        defer {
            self.waiters = [:]
            self.followers = []
        }
        return self.waiters.values.flatMap(\.self) + self.followers
    }
}

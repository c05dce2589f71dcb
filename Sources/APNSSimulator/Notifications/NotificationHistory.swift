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
    private(set) var kept: Deque<ReceivedNotification> = []
    /// The number of the next one.
    private var nextNumber: UInt64 = 1
    /// The numbers of those that are kept and that nobody was given, by token.
    private var unreturned: [DeviceToken: Deque<UInt64>] = [:]
    /// Who waits for a token, the first first.
    private var waiters: [DeviceToken: Deque<UInt64>] = [:]
    /// Who waits for whatever comes next.
    private var followers: [UInt64] = []
    private var isEnded = false
    private let countMax: Int
    private let byteCountMax: Int
    /// About how many bytes of memory ``kept`` takes.
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
        self.nextNumber += 1
        var given = self.followers
        self.followers = []
        if notification.isAccepted, let token = notification.token {
            if let waiter = self.removeFirstWaiter(for: token) {
                given.append(waiter)
            } else {
                self.unreturned[token, default: []].append(notification.number)
            }
        }
        self.kept.append(notification)
        self.byteCount += notification.byteCount
        while self.kept.count > self.countMax || (self.byteCount > self.byteCountMax && !self.kept.isEmpty) {
            self.removeOldest()
        }
        return given
    }

    /// Notes what became of a notification since.
    ///
    /// - Returns: the notification as it is now; `nil` where it is not kept any more.
    mutating func change(_ number: UInt64, _ delivery: ReceivedNotification.Delivery) -> ReceivedNotification? {
        let oldest = self.nextNumber - UInt64(self.kept.count)
        guard number >= oldest, number < self.nextNumber else { return nil }
        self.kept[Int(number - oldest)].delivery = delivery
        return self.kept[Int(number - oldest)]
    }

    /// Forgets what is kept; numbers go on, and those who wait go on waiting.
    mutating func removeAll() {
        self.kept = []
        self.unreturned = [:]
        self.byteCount = 0
    }

    private mutating func removeFirstWaiter(for token: DeviceToken) -> UInt64? {
        guard let waiter = self.waiters[token]?.popFirst() else { return nil }
        if self.waiters[token]?.isEmpty == true { self.waiters[token] = nil }
        return waiter
    }

    private mutating func removeOldest() {
        guard let oldest = self.kept.popFirst() else { return }
        self.byteCount -= oldest.byteCount
        // What is not returned is returned in order, so that the oldest of all is the oldest of its token.
        guard let token = oldest.token, self.unreturned[token]?.first == oldest.number else { return }
        self.removeFirstUnreturned(of: token)
    }

    private mutating func removeFirstUnreturned(of token: DeviceToken) {
        self.unreturned[token]?.removeFirst()
        if self.unreturned[token]?.isEmpty == true { self.unreturned[token] = nil }
    }

    /// Asks for the next notification for a token that nobody was given.
    mutating func next(for token: DeviceToken, _ waiter: UInt64) -> OnRequest {
        if let number = self.unreturned[token]?.first, let notification = self.notification(number) {
            self.removeFirstUnreturned(of: token)
            return .deliver(notification)
        }
        guard !self.isEnded else { return .end }
        self.waiters[token, default: []].append(waiter)
        return .wait
    }

    /// Asks for the notification behind the one with a number, whoever was given it.
    mutating func next(behind number: UInt64, _ waiter: UInt64) -> OnRequest {
        let oldest = self.nextNumber - UInt64(self.kept.count)
        guard number + 1 >= oldest else { return .fail(missedCount: oldest - number - 1) }
        if let notification = self.notification(number + 1) { return .deliver(notification) }
        guard !self.isEnded else { return .end }
        self.followers.append(waiter)
        return .wait
    }

    /// The number of the notification before the oldest one that is kept.
    var numberBeforeOldest: UInt64 { self.nextNumber - UInt64(self.kept.count) - 1 }

    /// Some of what is kept, from a number on.
    func notifications(from number: UInt64, countMax: Int) -> ArraySlice<ReceivedNotification> {
        let oldest = self.nextNumber - UInt64(self.kept.count)
        guard number < self.nextNumber else { return [] }
        let start = Int(max(number, oldest) - oldest)
        return Array(self.kept[start..<min(start + countMax, self.kept.count)])[...]
    }

    /// The one with a number; `nil` where it is not kept.
    func notification(_ number: UInt64) -> ReceivedNotification? {
        let oldest = self.nextNumber - UInt64(self.kept.count)
        guard number >= oldest, number < self.nextNumber else { return nil }
        return self.kept[Int(number - oldest)]
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

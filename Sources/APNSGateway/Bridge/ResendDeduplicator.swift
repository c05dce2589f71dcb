// SPDX-License-Identifier: Apache-2.0

import APNSSession
import DequeModule

/// What was delivered although its provider was told to send it again.
///
/// A provider that gets an error response believes that all behind the message it names was thrown away, and sends it
/// again. Each key in here stands for one such resend that is not to be delivered. A key is taken out by the resend, or
/// when it is too old.
struct ResendDeduplicator {
    /// Below this many places it is not worth while to look for those that are gone.
    private static let compactionCountMin = 1024

    private var countMax: Int
    private var duration: Duration
    /// How often each key is remembered.
    private var counts: [ResendKey: Int] = [:]
    /// All in the order in which they came, also those that are gone since.
    private var ages: Deque<(key: ResendKey, since: Duration)> = []
    /// How many of each key in ``ages`` are gone.
    private var goneCounts: [ResendKey: Int] = [:]

    /// How many resends are expected.
    private(set) var count = 0
    /// How many were not sent again in time.
    private(set) var expiredCount: UInt64 = 0

    /// - Parameters:
    ///   - countMax: how many resends may be expected.
    ///   - duration: for how long.
    init(countMax: Int, duration: Duration) {
        self.countMax = max(0, countMax)
        self.duration = duration
    }

    /// Takes other bounds, which hold for what is remembered from now on.
    mutating func bound(countMax: Int, duration: Duration) {
        self.countMax = max(0, countMax)
        self.duration = duration
    }

    var isEmpty: Bool { self.count == 0 }

    /// Whether so many more can be remembered.
    mutating func hasRoom(for count: Int, now: Duration) -> Bool {
        self.expire(now: now)
        return count == 0 || count <= self.countMax - self.count
    }

    /// Remembers notifications, all or none of them.
    ///
    /// - Parameters:
    ///   - keys: the notifications; one may be there more than once.
    ///   - now: the time since any fixed point.
    /// - Returns: whether there was room for them.
    mutating func insert(_ keys: [ResendKey], now: Duration) -> Bool {
        guard self.hasRoom(for: keys.count, now: now) else { return false }
        // Those that are gone keep their places until all before them are; one that is never sent again keeps many.
        if self.ages.count > 2 * self.countMax + Self.compactionCountMin {
            self.ages.removeAll { age in
                guard let gone = self.goneCounts[age.key] else { return false }
                self.goneCounts[age.key] = gone > 1 ? gone - 1 : nil
                return true
            }
        }
        for key in keys {
            self.counts[key, default: 0] += 1
            self.ages.append((key, now))
        }
        self.count += keys.count
        return true
    }

    /// Takes a notification out.
    ///
    /// - Parameters:
    ///   - key: a notification that a provider sent.
    ///   - now: the time since any fixed point.
    /// - Returns: whether it is a resend of what was delivered.
    mutating func remove(_ key: ResendKey, now: Duration) -> Bool {
        self.expire(now: now)
        guard self.take(key) else { return false }
        self.goneCounts[key, default: 0] += 1
        if self.count == 0 { (self.ages, self.goneCounts) = ([], [:]) }
        return true
    }

    private mutating func take(_ key: ResendKey) -> Bool {
        guard let count = self.counts[key] else { return false }
        self.counts[key] = count > 1 ? count - 1 : nil
        self.count -= 1
        return true
    }

    private mutating func expire(now: Duration) {
        while let first = self.ages.first {
            if let gone = self.goneCounts[first.key] {
                // Of equal keys it does not matter which one is gone; the oldest lets the others live longest.
                self.goneCounts[first.key] = gone > 1 ? gone - 1 : nil
            } else {
                guard first.since + self.duration <= now else { return }
                if self.take(first.key) { self.expiredCount += 1 }
            }
            self.ages.removeFirst()
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSSession
import DequeModule

/// Recognizes resends of notifications that were already delivered.
///
/// A provider that receives an error response assumes that everything after the named message was discarded, and
/// resends it. Each key in here stands for one such resend, which is not to be delivered. A key is removed by the
/// resend or when it expires.
struct ResendDeduplicator {
    /// Below this number of entries, removed ones are not cleaned up.
    private static let compactionCountMin = 1024

    private var countMax: Int
    private var duration: Duration
    /// The count of each key.
    private var counts: [ResendKey: Int] = [:]
    /// All keys in order of arrival, including removed ones.
    private var ages: Deque<(key: ResendKey, since: Duration)> = []
    /// How many of each key in ``ages`` are removed.
    private var goneCounts: [ResendKey: Int] = [:]

    /// The number of expected resends.
    private(set) var count = 0
    /// The number of resends that did not arrive in time.
    private(set) var expiredCount: UInt64 = 0

    /// - Parameters:
    ///   - countMax: the maximum number of expected resends.
    ///   - duration: how long a resend is expected.
    init(countMax: Int, duration: Duration) {
        self.countMax = max(0, countMax)
        self.duration = duration
    }

    /// Changes the limits for keys that are added from now on.
    mutating func bound(countMax: Int, duration: Duration) {
        self.countMax = max(0, countMax)
        self.duration = duration
    }

    var isEmpty: Bool { self.count == 0 }

    /// Whether there is room for this many more.
    mutating func hasRoom(for count: Int, now: Duration) -> Bool {
        self.expire(now: now)
        return count == 0 || count <= self.countMax - self.count
    }

    /// Adds keys, either all or none.
    ///
    /// - Parameters:
    ///   - keys: the keys; a key may occur several times.
    ///   - now: the time since any fixed point.
    /// - Returns: whether there was room.
    mutating func insert(_ keys: [ResendKey], now: Duration) -> Bool {
        guard self.hasRoom(for: keys.count, now: now) else { return false }
        // Removed entries keep their places until all earlier ones are removed, so one that is never resent blocks
        // many.
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

    /// Removes a key if present.
    ///
    /// - Parameters:
    ///   - key: the key of a received notification.
    ///   - now: the time since any fixed point.
    /// - Returns: whether the notification is a resend of a delivered one.
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
                // Equal keys are interchangeable; removing the oldest lets the others live longest.
                self.goneCounts[first.key] = gone > 1 ? gone - 1 : nil
            } else {
                guard first.since + self.duration <= now else { return }
                if self.take(first.key) { self.expiredCount += 1 }
            }
            self.ages.removeFirst()
        }
    }
}

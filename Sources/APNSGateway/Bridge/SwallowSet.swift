// SPDX-License-Identifier: Apache-2.0

import APNSSession
import DequeModule

/// What was delivered, or is on its way, behind a message that its provider was told of as rejected.
///
/// The provider believes that all behind that message was thrown away, and sends it again. Each notification in here
/// swallows one such resend. It forgets what is too old and, beyond its bound, the oldest: forgetting costs a
/// notification that arrives twice, never one that is lost.
struct SwallowSet {
    /// How many notifications are remembered by default.
    static let countMaxDefault = 100_000
    /// How long they are remembered by default: longer than providers take to come back, and short enough that what
    /// a provider sends anew, and is alike by chance, is seldom taken for a resend.
    static let durationDefault = Duration.seconds(120)

    /// What is known of a notification.
    enum Fate: Hashable {
        case delivered(Verdict)
        case flying(FlightNumber)
    }

    private struct Entry {
        var serial: UInt64
        var fate: Fate
    }

    private var countMax: Int
    private var duration: Duration
    private var entries: [ResendKey: [Entry]] = [:]
    private var flying: [FlightNumber: (key: ResendKey, serial: UInt64)] = [:]
    /// All in the order in which they came, also those that are gone since.
    private var ages: Deque<(key: ResendKey, serial: UInt64, since: Duration)> = []
    private var lastSerial: UInt64 = 0

    /// How many notifications are remembered.
    private(set) var count = 0
    /// How many were forgotten before they were sent again.
    private(set) var forgottenCount: UInt64 = 0

    /// - Parameters:
    ///   - countMax: how many notifications are remembered at most.
    ///   - duration: for how long.
    init(countMax: Int = SwallowSet.countMaxDefault, duration: Duration = SwallowSet.durationDefault) {
        self.countMax = max(0, countMax)
        self.duration = duration
    }

    /// Takes other bounds, which hold for what is remembered, too.
    mutating func bound(countMax: Int, duration: Duration) {
        self.countMax = max(0, countMax)
        self.duration = duration
        while self.count > self.countMax { self.forgetOldest() }
    }

    /// Remembers a notification.
    mutating func insert(_ key: ResendKey, _ fate: Fate, now: Duration) {
        guard self.countMax > 0, self.duration > .zero else { return }
        self.forget(now: now)
        while self.count >= self.countMax { self.forgetOldest() }
        // Those that are gone keep their places among the ages until then.
        if self.ages.count > 2 * self.countMax {
            let entries = self.entries
            self.ages.removeAll { age in !(entries[age.key]?.contains { $0.serial == age.serial } ?? false) }
        }
        self.lastSerial += 1
        self.entries[key, default: []].append(Entry(serial: self.lastSerial, fate: fate))
        if case .flying(let flight) = fate { self.flying[flight] = (key, self.lastSerial) }
        self.ages.append((key, self.lastSerial, now))
        self.count += 1
    }

    /// Takes out one notification of this key, the oldest; what is delivered goes before what may yet fail.
    mutating func remove(_ key: ResendKey, now: Duration) -> Fate? {
        guard self.count > 0 else { return nil }
        self.forget(now: now)
        guard let entries = self.entries[key] else { return nil }
        let index = entries.firstIndex { if case .delivered = $0.fate { true } else { false } } ?? 0
        return self.remove(key, at: index)
    }

    /// Takes it that what was on its way has arrived, or has not.
    ///
    /// - Returns: whether it was in here.
    mutating func end(_ flight: FlightNumber, _ verdict: Verdict) -> Bool {
        guard !self.flying.isEmpty, let (key, serial) = self.flying.removeValue(forKey: flight) else { return false }
        guard let index = self.entries[key]?.firstIndex(where: { $0.serial == serial }) else { return false }
        if verdict.isDelivery {
            self.entries[key]?[index].fate = .delivered(verdict)
        } else {
            self.remove(key, at: index)
        }
        return true
    }

    @discardableResult
    private mutating func remove(_ key: ResendKey, at index: Int) -> Fate? {
        guard let fate = self.entries[key]?.remove(at: index).fate else { return nil }
        if self.entries[key]?.isEmpty == true { self.entries[key] = nil }
        if case .flying(let flight) = fate { self.flying[flight] = nil }
        self.count -= 1
        if self.count == 0 { self.ages.removeAll() }
        return fate
    }

    private mutating func forget(now: Duration) {
        let latest = now - self.duration
        while let first = self.ages.first, first.since <= latest || !self.contains(first.key, first.serial) {
            self.forgetOldest()
        }
    }

    private func contains(_ key: ResendKey, _ serial: UInt64) -> Bool {
        self.entries[key]?.contains { $0.serial == serial } ?? false
    }

    private mutating func forgetOldest() {
        guard let (key, serial, _) = self.ages.popFirst(),
            let index = self.entries[key]?.firstIndex(where: { $0.serial == serial })
        else { return }
        self.remove(key, at: index)
        self.forgottenCount += 1
    }
}

extension Verdict {
    /// Whether the notification was taken by the service.
    var isDelivery: Bool {
        switch self {
        case .accepted, .dead, .acceptedAsLast: true
        case .rejected, .serviceFault, .notPermitted: false
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

/// The maximum number of events in a period.
public struct RateLimit: Hashable, Sendable {
    /// The maximum number of events.
    public var countMax: Int
    /// The length of the period.
    public var duration: Duration
    /// How long everything is blocked after the limit was exceeded; each attempt meanwhile restarts this time.
    ///
    /// By default zero: events are allowed again after the period.
    public var blockDuration: Duration

    /// Creates a limit.
    ///
    /// - Parameters:
    ///   - countMax: the maximum number of events.
    ///   - duration: the length of the period.
    ///   - blockDuration: how long everything is blocked after the limit was exceeded.
    public init(countMax: Int, in duration: Duration, blockDuration: Duration = .zero) {
        self.countMax = countMax
        self.duration = duration
        self.blockDuration = blockDuration
    }
}

/// Applies a limit to each of many keys.
struct RateLimiter<Key: Hashable & Sendable>: Sendable {
    private struct Window {
        var end: UInt64
        var count: Int
        var blockedUntil: UInt64 = 0

        func isOver(_ now: UInt64) -> Bool { self.lastEnd <= now }

        var lastEnd: UInt64 { max(self.end, self.blockedUntil) }
    }

    /// The minimum interval between two cleanups of the keys, in milliseconds.
    private static var sweepIntervalMin: UInt64 { 10 }

    private let limit: RateLimit
    private let keyCountMax: Int
    private var windows: [Key: Window] = [:]
    /// The time of the next cleanup.
    private var nextSweep: UInt64 = 0

    init(_ limit: RateLimit, keyCountMax: Int = 100_000) {
        self.limit = limit
        self.keyCountMax = keyCountMax
    }

    /// Counts an event.
    ///
    /// Returns whether it is allowed.
    mutating func admit(_ key: Key, now: UInt64) -> Bool {
        guard var window = self.windows[key], !window.isOver(now) else {
            guard self.hasRoom(for: key, now) else { return true }
            self.windows[key] = Window(end: now + Self.milliseconds(self.limit.duration), count: 1)
            return self.limit.countMax > 0
        }
        let isBlocked = window.blockedUntil > now
        window.count += 1
        let isTaken = !isBlocked && window.count <= self.limit.countMax
        if !isTaken { window.blockedUntil = now + Self.milliseconds(self.limit.blockDuration) }
        self.windows[key] = window
        return isTaken
    }

    /// Resets the counts.
    mutating func reset() { self.windows = [:] }

    private mutating func hasRoom(for key: Key, _ now: UInt64) -> Bool {
        guard self.windows.count >= self.keyCountMax, self.windows[key] == nil else { return true }
        guard self.nextSweep <= now else { return false }
        self.windows = self.windows.filter { !$0.value.isOver(now) }
        let end = self.windows.values.map(\.lastEnd).min() ?? now
        self.nextSweep = max(end, now + Self.sweepIntervalMin)
        return self.windows.count < self.keyCountMax
    }

    private static func milliseconds(_ duration: Duration) -> UInt64 {
        let (seconds, attoseconds) = duration.components
        return UInt64(clamping: seconds) * 1000 + UInt64(clamping: attoseconds / 1_000_000_000_000_000)
    }
}

// SPDX-License-Identifier: Apache-2.0

/// How often something may happen in a time.
public struct RateLimit: Hashable, Sendable {
    /// How often.
    public var countMax: Int
    /// In which time.
    public var duration: Duration
    /// For how long nothing is let through once there was too much; each attempt meanwhile begins that time anew.
    ///
    /// By default no time: what comes when the time of the limit is over is let through.
    public var blockDuration: Duration

    /// Makes a limit.
    ///
    /// - Parameters:
    ///   - countMax: how often.
    ///   - duration: in which time.
    ///   - blockDuration: for how long nothing is let through once there was too much.
    public init(countMax: Int, in duration: Duration, blockDuration: Duration = .zero) {
        self.countMax = countMax
        self.duration = duration
        self.blockDuration = blockDuration
    }
}

/// Decides what is let through under a limit, for each of many keys.
struct RateLimiter<Key: Hashable & Sendable>: Sendable {
    private struct Window {
        var end: UInt64
        var count: Int
        var blockedUntil: UInt64 = 0

        func isOver(_ now: UInt64) -> Bool { self.lastEnd <= now }

        var lastEnd: UInt64 { max(self.end, self.blockedUntil) }
    }

    /// All keys are looked at no more often than this, in milliseconds.
    private static var sweepIntervalMin: UInt64 { 10 }

    private let limit: RateLimit
    private let keyCountMax: Int
    private var windows: [Key: Window] = [:]
    /// Those that are over are not looked for before this time.
    private var nextSweep: UInt64 = 0

    /// - Parameters:
    ///   - limit: for each key.
    ///   - keyCountMax: how many keys are counted at a time; what comes for others is let through.
    init(_ limit: RateLimit, keyCountMax: Int = 100_000) {
        self.limit = limit
        self.keyCountMax = keyCountMax
    }

    /// Counts an attempt.
    ///
    /// - Parameters:
    ///   - key: whose it is.
    ///   - now: the time in milliseconds.
    /// - Returns: whether it is let through.
    mutating func take(_ key: Key, now: UInt64) -> Bool {
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

    /// Forgets what was counted.
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

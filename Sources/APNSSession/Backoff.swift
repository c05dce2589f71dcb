// SPDX-License-Identifier: Apache-2.0

/// An exponential backoff: the delay doubles after each consecutive failure, up to a limit, with jitter.
///
/// It has no clock and no random number generator; the caller provides both.
public struct Backoff: Hashable, Sendable {
    /// The maximum delay after the first failure.
    public var first: Duration

    /// The maximum delay after any number of failures.
    public var max: Duration

    /// Creates a backoff.
    ///
    /// - Parameters:
    ///   - first: the maximum delay after the first failure.
    ///   - max: the maximum delay after any number of failures.
    public init(first: Duration, max: Duration) {
        self.first = first
        self.max = max
    }

    /// The delay after a number of consecutive failures.
    ///
    /// - Parameters:
    ///   - failures: the number of failures; there is no delay after none.
    ///   - jitter: a random number from 0 to 1, which selects a delay between half and all of the maximum.
    /// - Returns: the delay.
    public func delay(failures: Int, jitter: Double) -> Duration {
        guard failures > 0 else { return .zero }
        // Thirty doublings of a millisecond are twelve days.
        let whole = Swift.min(self.first * (1 << Swift.min(failures - 1, 30)), self.max)
        return whole * (0.5 + 0.5 * Swift.min(Swift.max(jitter, 0), 1))
    }
}

/// Counts connection failures, and determines when to reconnect and when to give up.
package struct ConnectFailureCounter: Hashable, Sendable {
    private let backoff: Backoff
    private let countMax: Int
    private let isFirstFree: Bool
    /// Consecutive failures.
    package private(set) var count = 0
    /// Consecutive failures without an answer.
    package private(set) var silentCount = 0

    package init(backoff: Backoff, countMax: Int?, isFirstFree: Bool = false) {
        self.backoff = backoff
        self.countMax = countMax ?? .max
        self.isFirstFree = isFirstFree
    }

    /// The service works, so the next connection may be opened immediately.
    package mutating func succeeded() { (self.count, self.silentCount) = (0, 0) }

    /// A connection could not be opened, or ended before it was useful.
    ///
    /// Returns the delay before the next attempt; `nil` to give up.
    package mutating func failed(hasAnswered: Bool = false, jitter: Double) -> Duration? {
        self.count += 1
        self.silentCount = hasAnswered ? 0 : self.silentCount + 1
        guard self.silentCount < self.countMax else { return nil }
        return self.backoff.delay(failures: self.isFirstFree ? self.count - 1 : self.count, jitter: jitter)
    }
}

// SPDX-License-Identifier: Apache-2.0

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

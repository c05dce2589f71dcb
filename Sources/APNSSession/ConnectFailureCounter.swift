// SPDX-License-Identifier: Apache-2.0

/// Counts failures to connect: when to connect again after one, and when to give up.
package struct ConnectFailureCounter: Hashable, Sendable {
    private let backoff: Backoff
    private let countMax: Int
    private let isFirstFree: Bool
    /// Those in a row.
    package private(set) var count = 0
    /// Those of them at the end that answered nothing.
    package private(set) var silentCount = 0

    /// - Parameters:
    ///   - backoff: how long to wait in between.
    ///   - countMax: after how many in a row to give up; `nil` for never.
    ///   - isFirstFree: whether to connect at once after the first.
    package init(backoff: Backoff, countMax: Int?, isFirstFree: Bool = false) {
        self.backoff = backoff
        self.countMax = countMax ?? .max
        self.isFirstFree = isFirstFree
    }

    /// The service works, so that the next connection may be opened at once.
    package mutating func succeeded() { (self.count, self.silentCount) = (0, 0) }

    /// A connection could not be opened, or ended before it was of use.
    ///
    /// - Parameters:
    ///   - hasAnswered: whether it answered something; it works then, and is no reason to give up, but a service that
    ///     ends a connection after each rejection is not to be met with a storm of connections.
    ///   - jitter: a random number, 0 to 1, of which between half and the whole of the pause is made.
    /// - Returns: how long to wait before the next; `nil` to give up.
    package mutating func failed(hasAnswered: Bool = false, jitter: Double) -> Duration? {
        self.count += 1
        self.silentCount = hasAnswered ? 0 : self.silentCount + 1
        guard self.silentCount < self.countMax else { return nil }
        return self.backoff.delay(failures: self.isFirstFree ? self.count - 1 : self.count, jitter: jitter)
    }
}

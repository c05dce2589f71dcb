// SPDX-License-Identifier: Apache-2.0

/// How long to wait after failures in a row: twice as long after each, up to a limit, with some chance in it.
///
/// It holds no clock and no randomness; both are the caller's.
public struct Backoff: Hashable, Sendable {
    /// The longest delay after the first failure.
    public var first: Duration

    /// The longest delay after any number of failures.
    public var max: Duration

    /// Makes a back-off.
    ///
    /// - Parameters:
    ///   - first: the longest delay after the first failure.
    ///   - max: the longest delay after any number of failures.
    public init(first: Duration, max: Duration) {
        self.first = first
        self.max = max
    }

    /// How long to wait after some failures in a row.
    ///
    /// - Parameters:
    ///   - failures: how many; after none there is no delay.
    ///   - jitter: a random number, 0 to 1, by which between half and the whole of the delay is taken.
    /// - Returns: how long.
    public func delay(failures: Int, jitter: Double) -> Duration {
        guard failures > 0 else { return .zero }
        // Thirty doublings of a millisecond are twelve days.
        let whole = Swift.min(self.first * (1 << Swift.min(failures - 1, 30)), self.max)
        return whole * (0.5 + 0.5 * Swift.min(Swift.max(jitter, 0), 1))
    }
}

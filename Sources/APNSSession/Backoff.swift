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

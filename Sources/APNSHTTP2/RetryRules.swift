// SPDX-License-Identifier: Apache-2.0

/// How long, and how often, a gateway tries to deliver a notification before it tells the provider of trouble.
public struct RetryRules: Hashable, Sendable {
    /// How long after the first try others may begin; by default 60 seconds.
    public var budget = Duration.seconds(60)

    /// How long to wait before the first further try; by default half a second, doubled with each.
    public var backOffFirst = Duration.milliseconds(500)

    /// The longest wait between two tries; by default 15 seconds.
    public var backOffMax = Duration.seconds(15)

    /// Whether a notification that is not to be kept (expiry 0) is tried no more where it is unknown if the service
    /// has it; by default it is tried again, and may arrive twice.
    ///
    /// The provider is then told nothing, and its connection closes, so that it decides about another attempt.
    public var givesUpUnknownUnkept = false

    /// The defaults.
    public init() {}

    /// How long to wait after some failures in a row.
    ///
    /// - Parameters:
    ///   - failures: how many, at least 1.
    ///   - jitter: a random number, 0 to 1; between half and the whole is taken.
    /// - Returns: how long.
    package func wait(failures: Int, jitter: Double) -> Duration {
        let whole = min(self.backOffFirst * (1 << min(max(0, failures - 1), 30)), self.backOffMax)
        return whole * (0.5 + 0.5 * min(max(jitter, 0), 1))
    }
}

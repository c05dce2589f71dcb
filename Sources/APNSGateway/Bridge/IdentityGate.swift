// SPDX-License-Identifier: Apache-2.0

/// Keeps a provider out for a while after a fault that its next connection would only meet again.
///
/// Providers come back at once when they are told that the service shuts down, so that each fault would become a storm.
struct IdentityGate: Hashable, Sendable {
    /// How long the first fault keeps the provider out.
    static let delayFirst = Duration.seconds(1)
    /// The longest that a fault keeps the provider out.
    static let delayMax = Duration.seconds(300)

    private var faultCount = 0
    private var closedUntil: Duration?

    /// How long the provider is kept out from now on; `nil` where it may come.
    func closedFor(now: Duration) -> Duration? {
        guard let closedUntil = self.closedUntil, now < closedUntil else { return nil }
        return closedUntil - now
    }

    /// Takes a fault; those of other notifications that were under way at the same time change nothing.
    ///
    /// - Parameters:
    ///   - now: the time since any fixed point.
    ///   - jitter: a random number, 0 to 1.
    mutating func fault(now: Duration, jitter: Double) {
        guard self.closedFor(now: now) == nil else { return }
        let whole = min(Self.delayFirst * (1 << min(self.faultCount, 30)), Self.delayMax)
        self.faultCount += 1
        self.closedUntil = now + whole * (0.5 + 0.5 * min(max(jitter, 0), 1))
    }

    /// Takes it that a notification was answered as it should be.
    mutating func success() {
        guard self.faultCount > 0 else { return }
        self.faultCount = 0
        self.closedUntil = nil
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSSession

/// Makes providers wait after a fault that their next notification would only meet again.
///
/// Providers come back at once when they are told that the service shuts down, so that each fault would become a burst
/// of connections. Each certificate waits for its own faults under each topic: one with a wrong topic does not hold up
/// the others of its provider.
struct ProviderCooldown: Sendable {
    /// Whose faults are counted together.
    struct Key: Hashable, Sendable {
        /// Of the certificate.
        var fingerprint: String
        var topic: String
    }

    /// How long the first fault makes wait.
    static let delayFirst = Duration.seconds(1)
    /// The longest that a fault makes wait.
    static let delayMax = Duration.seconds(300)
    /// How many certificates with faults are remembered; beyond it, one that waits no more is forgotten, or any.
    static let countMax = 10_000

    private struct Faults {
        var count = 0
        var until: Duration
    }

    private var faults: [Key: Faults] = [:]

    /// How long the provider waits from now on; `nil` where it does not.
    func delay(of key: Key, now: Duration) -> Duration? {
        guard let faults = self.faults[key], now < faults.until else { return nil }
        return faults.until - now
    }

    /// Takes a fault; those of other notifications that were under way at the same time change nothing.
    ///
    /// - Parameters:
    ///   - key: whose fault.
    ///   - now: the time since any fixed point.
    ///   - delayMax: the longest wait, where that is less than ``delayMax``: what a provider will send again must not
    ///     be forgotten meanwhile.
    ///   - jitter: a random number, 0 to 1.
    mutating func fault(
        of key: Key,
        now: Duration,
        delayMax: Duration = ProviderCooldown.delayMax,
        jitter: Double
    ) {
        guard self.delay(of: key, now: now) == nil else { return }
        if self.faults[key] == nil, self.faults.count >= Self.countMax {
            let forgotten = self.faults.first { $0.value.until <= now } ?? self.faults.first
            if let forgotten { self.faults[forgotten.key] = nil }
        }
        let count = self.faults[key]?.count ?? 0
        let backoff = Backoff(first: Self.delayFirst, max: min(delayMax, Self.delayMax))
        self.faults[key] = Faults(count: count + 1, until: now + backoff.delay(failures: count + 1, jitter: jitter))
    }

    /// Records that a notification was answered as it should be.
    mutating func success(of key: Key) {
        guard !self.faults.isEmpty else { return }
        self.faults[key] = nil
    }
}

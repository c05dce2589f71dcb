// SPDX-License-Identifier: Apache-2.0

import APNSSession

/// Delays providers after a fault that their next notification would meet again.
///
/// Providers reconnect immediately after status 10, so each fault would cause a burst of connections. Faults are
/// counted per certificate and topic, so that one with a wrong topic does not delay the others of its provider.
struct ProviderCooldown: Sendable {
    /// Identifies faults that are counted together.
    struct Key: Hashable, Sendable {
        /// The certificate's fingerprint.
        var fingerprint: String
        var topic: String
    }

    /// The delay after the first fault.
    static let delayFirst = Duration.seconds(1)
    /// The maximum delay.
    static let delayMax = Duration.seconds(300)
    /// The maximum number of keys with faults.
    ///
    /// Beyond it, one without a pending delay is removed, or any.
    static let countMax = 10_000

    private struct Faults {
        var count = 0
        var until: Duration
    }

    private var faults: [Key: Faults] = [:]

    /// The remaining delay; `nil` if there is none.
    func delay(of key: Key, now: Duration) -> Duration? {
        guard let faults = self.faults[key], now < faults.until else { return nil }
        return faults.until - now
    }

    /// Records a fault.
    ///
    /// Faults of other notifications in flight at the same time have no further effect.
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

    /// Records a notification without a fault.
    mutating func success(of key: Key) {
        guard !self.faults.isEmpty else { return }
        self.faults[key] = nil
    }
}

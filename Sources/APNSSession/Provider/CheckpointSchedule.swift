// SPDX-License-Identifier: Apache-2.0

/// Determines when a session may make a checkpoint to verify what it has written.
///
/// Each checkpoint costs a connection. Checkpoints because of ``ProviderLimits/verificationDelay`` keep a minimum
/// interval on average, except for a burst after an idle time. Required checkpoints, because the window is full or the
/// caller requests one, keep only ``ProviderLimits/checkpointIntervalMin``.
struct CheckpointSchedule: Sendable {
    /// The reason for a checkpoint.
    enum Cause {
        /// Nothing more can be written before it, or the caller requested it.
        case demand
        /// What was written at this time must be verified in time.
        case delay(since: Duration)
        /// One notification is written per checkpoint.
        case caution
    }

    private let limits: ProviderLimits
    private var last: Duration?
    /// When all checkpoints due to a delay would have been made if each had kept its interval.
    private var scheduledUntil: Duration?

    init(_ limits: ProviderLimits) { self.limits = limits }

    /// The time when a checkpoint is due.
    func due(for cause: Cause) -> Duration {
        let earliest = self.last.map { $0 + self.limits.checkpointIntervalMin } ?? .zero
        return switch cause {
        case .demand: earliest
        case .delay(let since): max(earliest, self.paced, since + self.limits.verificationDelay)
        case .caution: max(earliest, self.paced)
        }
    }

    private var paced: Duration {
        self.scheduledUntil.map { $0 - self.limits.verificationIntervalMin * (self.limits.verificationBurstCount - 1) }
            ?? .zero
    }

    /// Records a checkpoint.
    mutating func made(for cause: Cause, now: Duration) {
        self.last = now
        if case .demand = cause { return }
        self.scheduledUntil = max(self.scheduledUntil ?? now, now) + self.limits.verificationIntervalMin
    }
}

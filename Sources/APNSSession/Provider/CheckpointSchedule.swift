// SPDX-License-Identifier: Apache-2.0

/// Decides when a session may prove what it has written.
///
/// Each proof costs a connection. So proofs that are made for the sake of ``ProviderLimits/proofDelay`` keep an
/// interval in the long run, but for a burst after a time without any; those that must be, since the window is full or
/// someone asks for one, keep only ``ProviderLimits/checkpointIntervalMin``.
struct CheckpointSchedule: Sendable {
    /// What a checkpoint is made for.
    enum Cause {
        /// Nothing more can be written before it, or someone asked for it.
        case demand
        /// What was written at this time is to be proved in time.
        case delay(since: Duration)
        /// One notification is written at a time.
        case caution
    }

    private let limits: ProviderLimits
    private var last: Duration?
    /// When all checkpoints for the sake of time would have been made, had each waited for its interval.
    private var evenUntil: Duration?

    init(_ limits: ProviderLimits) { self.limits = limits }

    /// When a checkpoint is due.
    func due(for cause: Cause) -> Duration {
        let earliest = self.last.map { $0 + self.limits.checkpointIntervalMin } ?? .zero
        return switch cause {
        case .demand: earliest
        case .delay(let since): max(earliest, self.paced, since + self.limits.proofDelay)
        case .caution: max(earliest, self.paced)
        }
    }

    private var paced: Duration {
        self.evenUntil.map { $0 - self.limits.proofIntervalMin * (self.limits.proofBurstCount - 1) } ?? .zero
    }

    /// A checkpoint is made.
    mutating func made(for cause: Cause, now: Duration) {
        self.last = now
        if case .demand = cause { return }
        self.evenUntil = max(self.evenUntil ?? now, now) + self.limits.proofIntervalMin
    }
}

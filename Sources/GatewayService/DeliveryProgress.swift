// SPDX-License-Identifier: Apache-2.0

/// Detects a stalled delivery: while notifications are in flight, some have to complete.
struct DeliveryProgress {
    /// How long no notification may complete while some are in flight.
    private let stallDurationMax: Duration
    private var settledCount: UInt64 = 0
    /// The time of the last progress.
    private var stalledSince: Duration?

    init(stallDurationMax: Duration) { self.stallDurationMax = stallDurationMax }

    /// Updates the counts.
    ///
    /// Returns whether the delivery makes progress.
    mutating func isMoving(inFlightCount: Int, settledCount: UInt64, now: Duration) -> Bool {
        guard inFlightCount > 0, settledCount == self.settledCount, let since = self.stalledSince else {
            self.settledCount = settledCount
            self.stalledSince = inFlightCount > 0 ? now : nil
            return true
        }
        return now - since <= self.stallDurationMax
    }
}

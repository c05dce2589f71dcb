// SPDX-License-Identifier: Apache-2.0

/// Decides whether the delivery of a gateway moves: while notifications are under way, some have to come to their end.
struct DeliveryProgress {
    /// How long none may come to its end while some are under way.
    private let stallDurationMax: Duration
    private var settledCount: UInt64 = 0
    /// Since when nothing moved.
    private var stalledSince: Duration?

    /// - Parameter stallDurationMax: how long none may come to its end.
    init(stallDurationMax: Duration) { self.stallDurationMax = stallDurationMax }

    /// Takes the present counts.
    ///
    /// - Parameters:
    ///   - inFlightCount: how many notifications are under way.
    ///   - settledCount: how many came to their end since the process began.
    ///   - now: the time since any fixed point.
    /// - Returns: whether it moves.
    mutating func isMoving(inFlightCount: Int, settledCount: UInt64, now: Duration) -> Bool {
        guard inFlightCount > 0, settledCount == self.settledCount, let since = self.stalledSince else {
            self.settledCount = settledCount
            self.stalledSince = inFlightCount > 0 ? now : nil
            return true
        }
        return now - since <= self.stallDurationMax
    }
}

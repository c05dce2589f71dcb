// SPDX-License-Identifier: Apache-2.0

import NIOCore

/// Determines when to give up a connection with pending requests: nothing was answered on it, and nothing could be
/// sent, for too long.
///
/// The service may still answer every PING frame.
struct StallDeadline: Equatable {
    let durationMax: Duration
    private var stalledSince: NIODeadline?

    init(durationMax: Duration) { self.durationMax = durationMax }

    /// Records that the service answered a request, or that a request was sent completely.
    mutating func moved() { self.stalledSince = nil }

    /// Checks the deadline; called periodically.
    ///
    /// Returns whether to give up the connection.
    mutating func isOver(at now: NIODeadline, isStalled: Bool) -> Bool {
        guard isStalled else {
            self.stalledSince = nil
            return false
        }
        guard let stalledSince = self.stalledSince else {
            self.stalledSince = now
            return false
        }
        return now - stalledSince >= TimeAmount(self.durationMax)
    }
}

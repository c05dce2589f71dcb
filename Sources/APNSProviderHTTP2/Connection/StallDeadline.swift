// SPDX-License-Identifier: Apache-2.0

import NIOCore

/// When a connection that something waits for is given up: nothing was answered on it, and nothing could be sent, for
/// too long.
///
/// The service may answer every PING meanwhile.
struct StallDeadline: Equatable {
    let durationMax: Duration
    private var stalledSince: NIODeadline?

    init(durationMax: Duration) { self.durationMax = durationMax }

    /// The service answered a request, or a request left whole.
    mutating func moved() { self.stalledSince = nil }

    /// Decides, from time to time.
    ///
    /// - Parameters:
    ///   - now: the time.
    ///   - isStalled: whether something waits that cannot be sent.
    /// - Returns: whether the connection is to be given up.
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

// SPDX-License-Identifier: Apache-2.0

package import NIOCore

/// Determines when to give up a connection on which there is something to do, but no progress for too long.
package struct StallDeadline {
    package let durationMax: Duration
    private var stall: (progressCount: Int, since: NIODeadline)?

    package init(durationMax: Duration) { self.durationMax = durationMax }

    /// Records that there is something to do, and a number that changes with any progress.
    ///
    /// Returns the time at which to give up, which may have passed.
    package mutating func deadline(at now: NIODeadline, progressCount: Int) -> NIODeadline {
        if self.stall?.progressCount != progressCount { self.stall = (progressCount, now) }
        return (self.stall?.since ?? now) + TimeAmount(self.durationMax)
    }

    /// Records that there is nothing to do.
    package mutating func end() { self.stall = nil }
}

// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire

/// Counts the outcomes of a connection's messages for its final log line.
struct ConnectionCounts: Hashable, Sendable {
    /// Messages passed to the backend.
    private(set) var forwarded: UInt64 = 0
    /// Messages accepted by the service.
    private(set) var delivered: UInt64 = 0
    /// Resends of messages that were delivered on an earlier connection.
    private(set) var resent: UInt64 = 0
    /// Messages rejected by the service or by the listener's checks.
    private(set) var rejected: UInt64 = 0
    /// Messages whose tokens are dead and on the feedback list.
    private(set) var listed: UInt64 = 0
    /// Messages that the listener rejected and skipped.
    private var refused: UInt64 = 0

    /// All received messages except the one at fault and those discarded after it.
    var processed: UInt64 { self.forwarded + self.refused }

    /// Messages that were not accepted, are in doubt, or had no outcome when the connection closed.
    var unsettled: UInt64 {
        let settled = self.delivered + self.resent + self.rejected - self.refused + self.listed
        return self.forwarded > settled ? self.forwarded - settled : 0
    }

    /// Records that a message was passed to the backend.
    mutating func forward() { self.forwarded += 1 }

    /// Records the outcome of a message.
    mutating func settle(_ outcome: DeliveryOutcome) {
        switch outcome {
        case .accepted: self.delivered += 1
        case .suppressed: self.resent += 1
        case .rejected(let rejection):
            if rejection.errorResponseStatus == nil { self.listed += 1 } else { self.rejected += 1 }
        case .invalid: self.rejected += 1
        case .unsent, .indeterminate: break
        }
    }

    /// Records that the listener skipped a message that failed its checks.
    mutating func refuse() {
        self.refused += 1
        self.rejected += 1
    }
}

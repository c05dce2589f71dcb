// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire

/// What became of the messages of one connection, for the line that the log has about its end.
struct ConnectionCounts: Hashable, Sendable {
    /// Messages that were handed on to the backend.
    private(set) var handedOn: UInt64 = 0
    /// The service has them.
    private(set) var delivered: UInt64 = 0
    /// They were refused, by the service or by the listener's own checks.
    private(set) var rejected: UInt64 = 0
    /// Their tokens are dead, and on the feedback list.
    private(set) var listed: UInt64 = 0
    /// The listener refused and passed over them, so that they were not handed on.
    private var refused: UInt64 = 0

    /// All that came, but the message at fault where there was one, and what was thrown away behind it.
    var taken: UInt64 { self.handedOn + self.refused }

    /// Those that were not taken in the end, are in doubt, or had no outcome before the connection closed.
    var unsettled: UInt64 {
        let settled = self.delivered + self.rejected - self.refused + self.listed
        return self.handedOn > settled ? self.handedOn - settled : 0
    }

    /// Notes that a message was handed on.
    mutating func handOn() { self.handedOn += 1 }

    /// Notes what became of a message that was handed on.
    mutating func settle(_ outcome: DeliveryOutcome) {
        switch outcome {
        case .accepted, .suppressed: self.delivered += 1
        case .rejected(let rejection):
            if rejection.errorResponseStatus == nil { self.listed += 1 } else { self.rejected += 1 }
        case .invalid: self.rejected += 1
        case .unsent, .indeterminate: break
        }
    }

    /// Notes that the listener passed over a message that its own checks refused.
    mutating func refuse() {
        self.refused += 1
        self.rejected += 1
    }
}

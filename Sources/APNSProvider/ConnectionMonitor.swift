// SPDX-License-Identifier: Apache-2.0

import NIOConcurrencyHelpers

/// Follows the connections of a run, so that a program can show what they do.
package final class ConnectionMonitor: Sendable {
    /// An attempt to connect after others failed.
    package struct Retry: Hashable, Sendable {
        /// Its number, from 1.
        package var number: Int
        /// How many there are at most; `nil` for no limit.
        package var countMax: Int?

        /// Creates a retry.
        package init(number: Int, countMax: Int?) {
            self.number = number
            self.countMax = countMax
        }
    }

    /// What the connections do.
    package enum State: Hashable, Sendable {
        /// No connection was needed yet.
        case idle
        /// The first connection is being opened, or another one after others failed.
        case connecting(Retry?)
        /// The next attempt begins after a delay.
        case waiting(Retry, delay: Duration)
        /// At least one connection is open.
        case connected
    }

    private struct Changes: Sendable {
        var hasBegun = false
        var openCount = 0
        var retry: Retry?
        var retryTime: ContinuousClock.Instant?
    }

    private let changes = NIOLockedValueBox(Changes())

    /// Creates a monitor of connections that were not opened yet.
    package init() {}

    /// What the connections do at a time.
    package func state(at now: ContinuousClock.Instant) -> State {
        self.changes.withLockedValue { changes in
            if changes.openCount > 0 { return .connected }
            guard changes.hasBegun else { return .idle }
            guard let retry = changes.retry, let time = changes.retryTime, time > now else {
                return .connecting(changes.retry)
            }
            return .waiting(retry, delay: time - now)
        }
    }

    /// A connection is being opened.
    package func connecting() {
        self.changes.withLockedValue { changes in
            changes.hasBegun = true
            changes.retryTime = nil
        }
    }

    /// The handshake of a connection is done.
    package func opened() {
        self.changes.withLockedValue { changes in
            changes.openCount += 1
            changes.retry = nil
        }
    }

    /// A connection whose handshake was done has closed.
    package func closed() { self.changes.withLockedValue { $0.openCount -= 1 } }

    /// The next attempt to connect begins at a time.
    package func waits(for retry: Retry, until time: ContinuousClock.Instant) {
        self.changes.withLockedValue { changes in
            changes.retry = retry
            changes.retryTime = time
        }
    }
}

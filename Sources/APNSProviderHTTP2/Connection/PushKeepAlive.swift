// SPDX-License-Identifier: Apache-2.0

import NIOCore

/// Determines when to send a PING frame, and when to give up the connection.
struct PushKeepAlive: Equatable {
    /// What to do now.
    enum Step: Equatable {
        /// Nothing.
        case rest
        /// Send a PING frame.
        case ping
        /// Close the connection: the last PING frame was not answered.
        case giveUp
    }

    let idleDelay: Duration
    let waitingDelay: Duration
    let durationMax: Duration
    private var heardAt: NIODeadline
    private var askedAt: NIODeadline?

    init(idleDelay: Duration, waitingDelay: Duration, durationMax: Duration, now: NIODeadline) {
        self.idleDelay = idleDelay
        self.waitingDelay = waitingDelay
        self.durationMax = durationMax
        self.heardAt = now
    }

    /// Records any input.
    mutating func heard(at now: NIODeadline) {
        self.heardAt = now
        self.askedAt = nil
    }

    /// Checks the deadlines; called periodically.
    ///
    /// Returns what to do.
    mutating func step(at now: NIODeadline, isWaiting: Bool) -> Step {
        if let askedAt = self.askedAt { return now - askedAt >= TimeAmount(self.durationMax) ? .giveUp : .rest }
        guard now - self.heardAt >= TimeAmount(isWaiting ? self.waitingDelay : self.idleDelay) else { return .rest }
        self.askedAt = now
        return .ping
    }
}

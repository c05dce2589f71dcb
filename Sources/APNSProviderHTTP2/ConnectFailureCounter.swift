// SPDX-License-Identifier: Apache-2.0

import APNSSession

/// Counts failures to connect: when to connect again after one, and when to give up.
struct ConnectFailureCounter: Equatable {
    /// What to do after a failure.
    enum Step: Equatable {
        /// Connect again after this time.
        case wait(Duration)
        /// Stop: so many failed in a row.
        case giveUp
    }

    let backoff: Backoff
    let failureCountMax: Int?
    private(set) var failureCount = 0
    /// Those of them in a row that answered nothing.
    private(set) var silentCount = 0

    init(backoff: Backoff, failureCountMax: Int?) {
        self.backoff = backoff
        self.failureCountMax = failureCountMax
    }

    /// A request was accepted, so that the next connection may be opened at once.
    mutating func succeeded() {
        self.failureCount = 0
        self.silentCount = 0
    }

    /// A connection could not be opened, or ended before it accepted anything.
    ///
    /// - Parameters:
    ///   - hasAnswered: whether it answered something; it works then, and is no reason to give up, but a service that
    ///     ends a connection after each rejection is not to be met with a storm of connections.
    ///   - jitter: a random number, 0 to 1, of which between half and the whole of the pause is made.
    /// - Returns: what to do.
    mutating func failed(hasAnswered: Bool = false, jitter: Double) -> Step {
        self.failureCount += 1
        self.silentCount = hasAnswered ? 0 : self.silentCount + 1
        if let limit = self.failureCountMax, self.silentCount >= limit { return .giveUp }
        return .wait(self.backoff.delay(failures: self.failureCount, jitter: jitter))
    }
}

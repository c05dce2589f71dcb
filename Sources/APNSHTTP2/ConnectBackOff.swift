// SPDX-License-Identifier: Apache-2.0

/// When to connect again after a failure, and when to give up.
struct ConnectBackOff: Equatable {
    /// What to do after a failure.
    enum Step: Equatable {
        /// Connect again after this time.
        case wait(Duration)
        /// Stop: so many failed in a row.
        case giveUp
    }

    let first: Duration
    let most: Duration
    let failureCountMax: Int?
    private(set) var failureCount = 0

    init(first: Duration, most: Duration, failureCountMax: Int?) {
        self.first = first
        self.most = most
        self.failureCountMax = failureCountMax
    }

    /// A connection answered something, so it works.
    mutating func succeeded() { self.failureCount = 0 }

    /// A connection could not be opened, or ended before it answered anything.
    ///
    /// - Parameter jitter: a random number, 0 to 1, of which between half and the whole of the pause is made.
    /// - Returns: what to do.
    mutating func failed(jitter: Double) -> Step {
        self.failureCount += 1
        if let limit = self.failureCountMax, self.failureCount >= limit { return .giveUp }
        let whole = min(self.first * (1 << min(self.failureCount - 1, 30)), self.most)
        return .wait(whole * (0.5 + 0.5 * min(max(jitter, 0), 1)))
    }
}

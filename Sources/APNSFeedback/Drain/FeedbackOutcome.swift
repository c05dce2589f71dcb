// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// What one drain did.
public struct FeedbackOutcome: Hashable, Sendable {
    /// The app and environment.
    public var scope: TokenScope

    /// Tuples that were read from the service, and taken.
    public var tupleCount: UInt64 = 0

    /// Tuples that drains before this one had left in the spool, and that were taken now.
    public var replayedTupleCount: UInt64 = 0

    /// Tuples among all these whose time is later than they were read; that instant is recorded as their failure, lest
    /// they outweigh registrations to come.
    public var futureTupleCount: UInt64 = 0

    /// How reading ended; `nil` where there was no connection.
    public var ending: FeedbackEnding?

    /// What could not be used, and was set aside in the spool.
    public var leftovers: [SpoolLeftover] = []

    /// Why the drain did not go to its end; `nil` where it did.
    ///
    /// Tuples that were taken before that are counted all the same.
    public var failure: FeedbackError?

    /// The outcome of a drain that has done nothing yet.
    init(scope: TokenScope) { self.scope = scope }

    /// The outcome of a drain that had no turn.
    init(stopped scope: TokenScope) {
        self.scope = scope
        self.failure = .stopped
    }
}

extension FeedbackOutcome: CustomStringConvertible {
    /// What was done, in one line.
    public var description: String {
        var parts = ["\(self.scope): \(self.tupleCount + self.replayedTupleCount) dead tokens"]
        if self.replayedTupleCount > 0 { parts.append("\(self.replayedTupleCount) of them from the spool") }
        if !self.leftovers.isEmpty { parts.append("\(self.leftovers.count) files set aside") }
        if let ending = self.ending { parts.append("\(ending.cause)") }
        if let failure = self.failure { parts.append("\(failure)") }
        return parts.joined(separator: ", ")
    }
}

// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// The result of one drain.
public struct FeedbackReport: Hashable, Sendable {
    /// The app and environment.
    public var scope: TokenScope

    /// Tuples that were read from the service and delivered.
    public var tupleCount: UInt64 = 0

    /// Tuples that earlier drains had left in the spool and that were delivered now.
    public var replayedTupleCount: UInt64 = 0

    /// Tuples among these whose time was later than the time they were read; their time was set to the latter, so that
    /// they do not override later registrations.
    public var futureTupleCount: UInt64 = 0

    /// How reading ended; `nil` if there was no connection.
    public var ending: FeedbackEnding?

    /// Data that could not be used and was set aside in the spool.
    public var leftovers: [SpoolLeftover] = []

    /// Why the drain did not complete; `nil` if it did.
    ///
    /// Tuples delivered before the failure are still counted.
    public var failure: FeedbackError?

    /// Creates the report of a drain that has not started.
    init(scope: TokenScope) { self.scope = scope }

    /// Creates the report of a drain that was stopped before its turn.
    init(stopped scope: TokenScope) {
        self.scope = scope
        self.failure = .stopped
    }
}

extension FeedbackReport: CustomStringConvertible {
    /// The result, in one line.
    public var description: String {
        var parts = ["\(self.scope): \(self.tupleCount + self.replayedTupleCount) dead tokens"]
        if self.replayedTupleCount > 0 { parts.append("\(self.replayedTupleCount) of them from the spool") }
        if !self.leftovers.isEmpty { parts.append("\(self.leftovers.count) files set aside") }
        if let ending = self.ending { parts.append("\(ending.reason)") }
        if let failure = self.failure { parts.append("\(failure)") }
        return parts.joined(separator: ", ")
    }
}

// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// What one drain did.
public struct FeedbackOutcome: Sendable {
    /// The app and environment.
    public var scope: TokenScope

    /// Tuples that were read from the service, and that the sink has.
    public var tupleCount: UInt64 = 0

    /// Tuples that drains before this one had left in the spool, and that the sink has now.
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
    /// Tuples that were recorded before that are counted all the same.
    public var failure: FeedbackError?

    /// Makes the outcome of a drain that has done nothing yet.
    ///
    /// - Parameter scope: the app and environment.
    public init(scope: TokenScope) { self.scope = scope }

    /// The outcome of a drain that had no turn.
    init(stopped scope: TokenScope) {
        self.scope = scope
        self.failure = .stopped
    }
}

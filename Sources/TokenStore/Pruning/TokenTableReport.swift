// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// The result of pruning a token table.
public struct TokenTableReport: Hashable, Sendable {
    /// How it ended.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Ending: Hashable, Sendable {
        /// All due rows are pruned.
        case done
        /// Rows were only counted, as requested.
        case dryRun
        /// More rows are due than permitted; nothing was changed.
        case limitExceeded
        /// During pruning, the number of due rows exceeded the limit; pruned rows stay pruned.
        case grown
        /// A signal stopped it; pruned rows stay pruned.
        case interrupted
        /// The database failed during pruning; pruned rows stay pruned.
        case stopped(TokenTableError)
    }

    /// How it ended.
    public var ending = Ending.done
    /// The number of rows of the table.
    public var rowCount = 0
    /// Rows that would be pruned if their tokens had been dead for long: active, of a topic in the list, with a token
    /// and a time that can be read.
    ///
    /// The safety limit is a fraction of these.
    public var candidateCount = 0
    /// Rows without a token.
    public var emptyCount = 0
    /// Rows whose token cannot be read; kept.
    public var unreadableTokenCount = 0
    /// The first of these, by row number.
    public var unreadableTokenRows: [Int64] = []
    /// The count of each token format.
    public var spellings: [DeviceTokenSpelling: Int] = [:]
    /// The count of each time format.
    public var timeKinds: [RegistrationTimeKind: Int] = [:]
    /// Rows whose token is dead.
    public var matchedCount = 0
    /// Of these, rows that registered at the time of the failure or later; kept.
    public var registeredLaterCount = 0
    /// Of these, rows that registered within the grace period before the failure; kept.
    public var graceCount = 0
    /// Of these, rows whose time of registration cannot be read; kept.
    public var unreadableTimeCount = 0
    /// The first of these, by row number.
    public var unreadableTimeRows: [Int64] = []
    /// Of these, inactive rows.
    public var inactiveCount = 0
    /// Of these, rows that are due.
    public var dueCount = 0
    /// Of these, rows whose registration has no time zone and is less than 14 hours before the failure, so that in
    /// another time zone it may be later.
    public var zoneDueCount = 0
    /// The maximum number of rows that may be pruned.
    public var dueCountMax = 0
    /// Rows that were deleted or deactivated.
    public var prunedCount = 0
    /// Rows of a batch during whose commit the connection was lost: all of them are pruned, or none.
    public var uncertainCount = 0
    /// Rows that were due in the first pass and had changed in the second; kept or already removed.
    public var changedCount = 0
    /// Rows that a constraint, trigger, rule or policy of the database protected; kept.
    public var refusedCount = 0
    /// The first of these, by row number.
    public var refusedRows: [Int64] = []
    /// The number of transactions.
    public var batchCount = 0
    /// The longest time that the lock was held.
    public var longestLock = Duration.zero

    /// Creates an empty report.
    public init() {}
}

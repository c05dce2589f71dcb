// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// What was found in a token table, and what was done with it.
public struct TokenTableReport: Hashable, Sendable {
    /// How it ended.
    ///
    /// There may be more in later versions.
    @nonexhaustive
    public enum Ending: Hashable, Sendable {
        /// All that was due is pruned.
        case done
        /// It was only counted, as was asked for.
        case dryRun
        /// More rows are due than may go at once; nothing was changed.
        case brake
        /// While it was pruned, so many rows became due that the brake would be passed; what had gone is gone.
        case grown
        /// It was asked to stop; the rows that were pruned before stay pruned.
        case interrupted
        /// The database failed in the middle; what had gone is gone.
        case stopped(TokenTableError)
    }

    /// How it ended.
    public var ending = Ending.done
    /// Rows that were looked at, thus all of the table.
    public var rowCount = 0
    /// Rows that would go if their tokens were dead for long: with a token and a time that can be read, not inactive
    /// already, and of a topic that the list has; the brake lets a part of these go.
    public var candidateCount = 0
    /// Rows without any token.
    public var emptyCount = 0
    /// Rows whose token cannot be read; kept.
    public var unreadableTokenCount = 0
    /// The first of these, by row number.
    public var unreadableTokenRows: [Int64] = []
    /// How often each spelling of tokens was found.
    public var spellings: [DeviceTokenSpelling: Int] = [:]
    /// How often each kind of time was found.
    public var timeKinds: [RegistrationTimeKind: Int] = [:]
    /// Rows whose token is dead.
    public var matchedCount = 0
    /// Of these, rows that registered when it failed or later; kept.
    public var registeredLaterCount = 0
    /// Of these, rows that registered before it failed, but not by as much as the grace; kept.
    public var graceCount = 0
    /// Of these, rows whose time of registration cannot be read; kept.
    public var unreadableTimeCount = 0
    /// The first of these, by row number.
    public var unreadableTimeRows: [Int64] = []
    /// Of these, rows that were inactive already.
    public var inactiveCount = 0
    /// Of these, rows that are due.
    public var dueCount = 0
    /// Of these, rows whose registration has no zone and lies less than 14 hours before the failure: in another zone
    /// than UTC, it may lie behind it.
    public var zoneDueCount = 0
    /// The most rows that might go.
    public var dueCountMax = 0
    /// Rows that went, or became inactive.
    public var prunedCount = 0
    /// Rows that were due when they were counted, and had changed when they were to go; kept, or gone already.
    public var changedCount = 0
    /// Rows that a constraint or trigger of the database did not let go; kept.
    public var refusedCount = 0
    /// The first of these, by row number.
    public var refusedRows: [Int64] = []
    /// How many transactions there were.
    public var batchCount = 0
    /// The longest time that the lock was held.
    public var longestLock = Duration.zero

    /// Nothing.
    public init() {}
}

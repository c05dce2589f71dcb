// SPDX-License-Identifier: Apache-2.0

/// The result of recording entries.
public struct PurgeChange: Hashable, Sendable {
    /// Tokens that were not on the list.
    public var addedCount = 0
    /// Tokens with a newer failure, or an earlier first-seen time, than the list had.
    public var updatedCount = 0
    /// Entries without new information.
    public var unchangedCount = 0
    /// Failures of tokens that registered later; they are not added to the list.
    public var supersededCount = 0

    /// Creates zero counts.
    public init() {}

    /// Adds the counts of another change.
    ///
    /// - Parameters:
    ///   - change: the counts to change.
    ///   - other: the counts to add.
    public static func += (change: inout PurgeChange, other: PurgeChange) {
        change.addedCount += other.addedCount
        change.updatedCount += other.updatedCount
        change.unchangedCount += other.unchangedCount
        change.supersededCount += other.supersededCount
    }
}

// SPDX-License-Identifier: Apache-2.0

/// What recording did to a list.
public struct PurgeChange: Hashable, Sendable {
    /// Tokens that were not on the list.
    public var addedCount = 0
    /// Tokens whose failure is newer than the list knew, or that were first seen earlier than it knew.
    public var updatedCount = 0
    /// Entries that said nothing new.
    public var unchangedCount = 0
    /// Failures of tokens that are known to have registered after them; they do not go onto the list.
    public var supersededCount = 0

    /// No change.
    public init() {}

    /// Adds the counts of another change.
    ///
    /// - Parameters:
    ///   - change: is added to.
    ///   - other: what is added.
    public static func += (change: inout PurgeChange, other: PurgeChange) {
        change.addedCount += other.addedCount
        change.updatedCount += other.updatedCount
        change.unchangedCount += other.unchangedCount
        change.supersededCount += other.supersededCount
    }
}

// SPDX-License-Identifier: Apache-2.0

/// What recording did to a list.
public struct PurgeChange: Hashable, Sendable {
    /// Tokens that were not on the list.
    public var addedCount = 0
    /// Tokens whose failure is newer than the list knew, or that were first seen earlier than it knew.
    public var updatedCount = 0
    /// Entries that said nothing new.
    public var unchangedCount = 0

    /// No change.
    public init() {}
}

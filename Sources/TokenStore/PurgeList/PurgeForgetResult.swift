// SPDX-License-Identifier: Apache-2.0

/// The result of ``PurgeList/forget(_:topic:environment:)``.
public struct PurgeForgetResult: Hashable, Sendable {
    /// Removed entries.
    public var forgottenCount = 0
    /// Entries that were kept, since they failed at the time of the registration or later.
    public var keptCount = 0
    /// Tokens that were not on the list.
    public var unknownCount = 0
    /// Registrations that are not remembered, since the list has no matching topic and environment.
    public var unrememberedCount = 0

    /// Creates zero counts.
    public init() {}
}

extension PurgeForgetResult {
    /// Adds the counts of another call.
    ///
    /// - Parameters:
    ///   - result: the counts to change.
    ///   - other: the counts to add.
    public static func += (result: inout PurgeForgetResult, other: PurgeForgetResult) {
        result.forgottenCount += other.forgottenCount
        result.keptCount += other.keptCount
        result.unknownCount += other.unknownCount
        result.unrememberedCount += other.unrememberedCount
    }
}

// SPDX-License-Identifier: Apache-2.0

/// What a call of ``PurgeList/forget(_:topic:environment:)`` did.
public struct PurgeForgetResult: Hashable, Sendable {
    /// Entries that went.
    public var forgottenCount = 0
    /// Entries that stay, since they failed at the time of the registration or later.
    public var keptCount = 0
    /// Tokens that were not on the list.
    public var unknownCount = 0
    /// Registrations that cannot be remembered, since the list knows no topic and environment that they could be of.
    public var unrememberedCount = 0

    /// Nothing.
    public init() {}
}

extension PurgeForgetResult {
    /// Adds the counts of another call.
    ///
    /// - Parameters:
    ///   - result: is added to.
    ///   - other: what is added.
    public static func += (result: inout PurgeForgetResult, other: PurgeForgetResult) {
        result.forgottenCount += other.forgottenCount
        result.keptCount += other.keptCount
        result.unknownCount += other.unknownCount
        result.unrememberedCount += other.unrememberedCount
    }
}

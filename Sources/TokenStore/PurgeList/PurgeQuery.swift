// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import FoundationEssentials
import GRDB

/// Which entries of a list are meant; without any condition, all.
public struct PurgeQuery: Hashable, Sendable {
    /// Only of this topic.
    public var topic: String?
    /// Only of this environment.
    public var environment: Environment?
    /// Only with this token.
    public var token: [UInt8]?
    /// Only what failed then or later, in seconds since 1970.
    public var failedSince: Int64?
    /// Only what failed before then, in seconds since 1970.
    public var failedBefore: Int64?
    /// Only from this source.
    public var source: String?

    /// Makes a query without conditions.
    public init() {}

    /// The further conditions in SQL, and their arguments in order, for a row of `dead` joined with `source`.
    var condition: (sql: String, arguments: StatementArguments) {
        var sql = ""
        var arguments = StatementArguments()
        func add(_ term: String, _ value: any DatabaseValueConvertible) {
            sql += " AND " + term
            arguments += [value]
        }
        if let token { add("token = ?", Data(token)) }
        if let failedSince { add("failed_at >= ?", failedSince) }
        if let failedBefore { add("failed_at < ?", failedBefore) }
        if let source { add("source.name = ?", source) }
        return (sql, arguments)
    }
}

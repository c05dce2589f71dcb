// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import FoundationEssentials
import GRDB

/// Conditions for entries of a list; by default none.
public struct PurgeQuery: Hashable, Sendable {
    /// The topic.
    public var topic: String?
    /// The environment.
    public var environment: Environment?
    /// The token.
    public var token: [UInt8]?
    /// The earliest failure, in seconds since 1970.
    public var failedSince: Int64?
    /// The end of the failures, exclusive, in seconds since 1970.
    public var failedBefore: Int64?
    /// The source.
    public var source: String?

    /// Creates a query without conditions.
    public init() {}

    /// The conditions other than the scope in SQL with their arguments, for a row of `dead` joined with `source`.
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

// SPDX-License-Identifier: Apache-2.0

import APNSWire
import FoundationEssentials
import GRDB

extension PurgeList {
    /// Lends entries one by one, ordered by topic, environment (production first) and token bytes.
    ///
    /// All are of one moment, whatever is recorded meanwhile. Little memory is used for any number of entries.
    ///
    /// - Parameters:
    ///   - query: which entries.
    ///   - body: is given each; it must not use this list.
    /// - Throws: ``PurgeListError``, and what `body` throws, which ends it.
    public func entries(matching query: PurgeQuery = PurgeQuery(), body: (PurgeEntry) throws -> Void) throws {
        try PurgeListError.translated(path: self.path) {
            try self.pool.read { database in
                // Scope by scope, so that the order needs no sorting of tokens.
                for (identifier, scope) in try PurgeList.scopes(database, matching: query) {
                    try PurgeList.entries(database, in: identifier, scope, matching: query, body: body)
                }
            }
        }
    }

    /// The topics and environments that have entries, in order.
    ///
    /// - Throws: ``PurgeListError``.
    public func scopes() throws -> [PurgeScope] {
        try PurgeListError.translated(path: self.path) {
            try self.pool.read { database in
                try PurgeList.scopes(database, matching: PurgeQuery()).map(\.scope).filter { scope in
                    try Bool.fetchOne(
                        database,
                        sql: """
                            SELECT EXISTS (SELECT 1 FROM dead WHERE scope =
                            (SELECT id FROM scope WHERE topic = ? AND environment = ?))
                            """,
                        arguments: [scope.topic, scope.environment.rawValue]
                    ) ?? false
                }
            }
        }
    }

    /// The scopes of a query in order, each with its number.
    static func scopes(
        _ database: Database,
        matching query: PurgeQuery
    ) throws -> [(identifier: Int64, scope: PurgeScope)] {
        let rows = try Row.fetchAll(
            database,
            sql: """
                SELECT id, topic, environment FROM scope
                WHERE (?1 IS NULL OR topic = ?1) AND (?2 IS NULL OR environment = ?2) ORDER BY topic, environment
                """,
            arguments: [query.topic, query.environment?.rawValue]
        )
        return try rows.map { row in
            guard let environment = Environment(rawValue: try row.value(2)) else {
                throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: "unknown environment")
            }
            return (try row.value(0), PurgeScope(topic: try row.value(1), environment: environment))
        }
    }

    private static func entries(
        _ database: Database,
        in identifier: Int64,
        _ scope: PurgeScope,
        matching query: PurgeQuery,
        body: (PurgeEntry) throws -> Void
    ) throws {
        let condition = query.condition
        let cursor = try Row.fetchCursor(
            database,
            sql: """
                SELECT token, failed_at, first_seen, source.name FROM dead CROSS JOIN source ON source.id = source
                WHERE scope = ?\(condition.sql) ORDER BY token
                """,
            arguments: [identifier] + condition.arguments
        )
        while let row = try cursor.next() {
            let token = try row.withUnsafeData(atIndex: 0) { Array($0 ?? Data()) }
            try body(
                PurgeEntry(
                    topic: scope.topic,
                    environment: scope.environment,
                    token: token,
                    failedAt: try row.time(1),
                    firstSeen: try row.time(2),
                    source: try row.value(3)
                )
            )
        }
    }
}

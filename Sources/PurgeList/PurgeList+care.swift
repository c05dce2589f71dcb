// SPDX-License-Identifier: Apache-2.0

import GRDB

extension PurgeList {
    /// Counts what is on the list; it reads all of it.
    ///
    /// - Returns: the counts by topic, environment and source.
    /// - Throws: ``PurgeListError``.
    public func statistics() throws -> PurgeStatistics {
        try PurgeListError.translated(path: self.path) {
            try self.pool.read { database in
                var parts: [PurgeStatistics.Part] = []
                for (identifier, scope) in try PurgeList.scopes(database, matching: PurgeQuery()) {
                    let rows = try Row.fetchAll(
                        database,
                        sql: """
                            SELECT name, amount, oldest, newest FROM (
                                SELECT source, count(*) AS amount, min(failed_at) AS oldest, max(failed_at) AS newest
                                FROM dead WHERE scope = ? GROUP BY source
                            ) JOIN source ON source.id = source ORDER BY name
                            """,
                        arguments: [identifier]
                    )
                    parts += try rows.map { row in
                        PurgeStatistics.Part(
                            scope: scope,
                            source: try row.value(0),
                            count: try row.value(1),
                            oldestFailure: try row.time(2),
                            newestFailure: try row.time(3)
                        )
                    }
                }
                return PurgeStatistics(parts: parts)
            }
        }
    }

    /// Takes off the list what failed last before a moment, for a token that is long gone from every table, and forgets
    /// what registered before it.
    ///
    /// Nothing else bounds how many registrations are remembered.
    ///
    /// - Parameter moment: in seconds since 1970.
    /// - Returns: how many tokens went.
    /// - Throws: ``PurgeListError``; then none went.
    @discardableResult
    public func expire(failedBefore moment: Int64) throws -> Int {
        try PurgeListError.translated(path: self.path) {
            try self.pool.write { database in
                try database.execute(sql: "DELETE FROM registration WHERE registered_at < ?", arguments: [moment])
                try database.execute(sql: "DELETE FROM dead WHERE failed_at < ?", arguments: [moment])
                return database.changesCount
            }
        }
    }

    /// Reads all of the file, and checks that it holds together.
    ///
    /// - Throws: ``PurgeListError/corrupt(path:detail:)`` where it does not.
    public func checkIntegrity() throws {
        try PurgeListError.translated(path: self.path) {
            try self.pool.read { database in
                let findings = try String.fetchAll(database, sql: "PRAGMA integrity_check(1)")
                guard findings == ["ok"] else {
                    // What is found may quote values, so only its kind is told.
                    throw PurgeListError.corrupt(path: self.path, detail: "the integrity check of SQLite fails")
                }
                let strays = try Row.fetchOne(database, sql: "PRAGMA foreign_key_check")
                guard strays == nil else {
                    throw PurgeListError.corrupt(path: self.path, detail: "entries of no topic or source")
                }
            }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import GRDB

/// A small token table of an application, for demonstrations of pruning.
package enum SampleTokenTable {
    /// The name of the table.
    package static let name = "devices"

    /// Creates a database with the table, which has the columns `token` and `registered_at`, in seconds since 1970.
    package static func make(path: String, rows: [(token: String, registeredAt: Int64)]) throws {
        let queue = try DatabaseQueue(path: path)
        try queue.write { database in
            try database.execute(
                sql: "CREATE TABLE \(self.name) (token TEXT PRIMARY KEY, registered_at INTEGER NOT NULL)"
            )
            for row in rows {
                let sql = "INSERT INTO \(self.name) VALUES (?, ?)"
                try database.execute(sql: sql, arguments: [row.token, row.registeredAt])
            }
        }
        try queue.close()
    }

    /// Returns the tokens in the table.
    package static func tokens(path: String) throws -> Set<String> {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        return try queue.read { try String.fetchSet($0, sql: "SELECT token FROM \(self.name)") }
    }
}

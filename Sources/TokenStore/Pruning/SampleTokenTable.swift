// SPDX-License-Identifier: Apache-2.0

import GRDB

/// A small token table as an application may have one, to show pruning on.
package enum SampleTokenTable {
    /// The table's name.
    package static let name = "devices"

    /// Makes a database with the table in it: the columns `token` and `registered_at`, in seconds since 1970.
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

    /// The tokens in the table.
    package static func tokens(path: String) throws -> Set<String> {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        return try queue.read { try String.fetchSet($0, sql: "SELECT token FROM \(self.name)") }
    }
}

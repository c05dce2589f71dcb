// SPDX-License-Identifier: Apache-2.0

import GRDB

/// The tables of the file, by version.
///
/// `application_id` tells a purge list from other databases, and `user_version` is its version.
enum PurgeSchema {
    /// "APNP".
    static let applicationIdentifier: Int32 = 0x4150_4E50

    /// What leads from each version to the next, from version 0, an empty file, on.
    static let steps = [
        // A row of `dead` is its key, so that a token costs one tree and about 45 bytes.
        """
        CREATE TABLE scope (
            id INTEGER PRIMARY KEY,
            topic TEXT NOT NULL,
            environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
            UNIQUE (topic, environment)
        );
        CREATE TABLE source (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
        CREATE TABLE dead (
            scope INTEGER NOT NULL REFERENCES scope (id),
            token BLOB NOT NULL CHECK (typeof(token) = 'blob' AND length(token) BETWEEN 1 AND 100),
            failed_at INTEGER NOT NULL,
            first_seen INTEGER NOT NULL,
            source INTEGER NOT NULL REFERENCES source (id),
            PRIMARY KEY (scope, token)
        ) WITHOUT ROWID;
        """,
        // Without it, a failure that is heard of after a later registration would put a living device on the list.
        """
        CREATE TABLE registration (
            scope INTEGER NOT NULL REFERENCES scope (id),
            token BLOB NOT NULL CHECK (typeof(token) = 'blob' AND length(token) BETWEEN 1 AND 100),
            registered_at INTEGER NOT NULL,
            PRIMARY KEY (scope, token)
        ) WITHOUT ROWID;
        """,
    ]

    /// The version that this program makes.
    static var version: Int { self.steps.count }

    /// Brings a file to the version of this program.
    ///
    /// Nothing is written to a file that is none of ours, or newer.
    static func migrate(_ queue: DatabaseQueue, path: String, isMade: Bool) throws {
        // In one transaction, since another process may be making the file.
        let version = try queue.read { try self.check($0, path: path) }
        guard version < self.version else { return }
        guard isMade || version > 0 else { throw PurgeListError.empty(path: path) }
        // Checked again under the lock, since two processes may be here at a time.
        try queue.inDatabase { database in
            try database.inTransaction(.immediate) {
                for step in self.steps[try self.check(database, path: path)...] { try database.execute(sql: step) }
                try database.execute(sql: "PRAGMA application_id = \(self.applicationIdentifier)")
                try database.execute(sql: "PRAGMA user_version = \(self.version)")
                return .commit
            }
        }
    }

    /// Finds the version of a file.
    private static func check(_ database: Database, path: String) throws -> Int {
        let identifier = try Int32.fetchOne(database, sql: "PRAGMA application_id") ?? 0
        let version = try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
        guard identifier == self.applicationIdentifier else {
            let tableCount = try Int.fetchOne(database, sql: "SELECT count(*) FROM sqlite_master") ?? 0
            guard identifier == 0, version == 0, tableCount == 0 else { throw PurgeListError.notAPurgeList(path: path) }
            return 0
        }
        guard version <= self.version else {
            throw PurgeListError.newerVersion(path: path, found: version, known: self.version)
        }
        guard version > 0 else { throw PurgeListError.corrupt(path: path, detail: "it has no version") }
        let missing = try self.objects(ofVersion: version).subtracting(try SchemaObject.fetchAll(database))
        // The text of a table may quote anything once it is damaged, so only its name is told.
        guard let object = missing.min(by: { $0.name < $1.name }) else { return version }
        throw PurgeListError.corrupt(path: path, detail: "its \(object.type) \(object.name) is not as it was made")
    }

    /// The tables and indexes of a version, as SQLite describes them.
    private static func objects(ofVersion version: Int) throws -> Set<SchemaObject> {
        let queue = try DatabaseQueue()
        return try queue.write { database in
            for step in self.steps[..<version] { try database.execute(sql: step) }
            return try SchemaObject.fetchAll(database)
        }
    }
}

/// A table or an index, as SQLite's own table of them describes it.
private struct SchemaObject: Hashable {
    var type: String
    var name: String
    var table: String
    /// The statement that made it, without what a tool may change when it makes it again.
    var statement: String

    /// Those of a file, also those that somebody added.
    ///
    /// What is no text is read as an empty one, which belongs to nothing of ours.
    static func fetchAll(_ database: Database) throws -> Set<SchemaObject> {
        let rows = try Row.fetchAll(database, sql: "SELECT type, name, tbl_name, sql FROM sqlite_master")
        return Set(
            rows.map { row in
                let fields = (0..<4).map { String.fromDatabaseValue(row[$0]) ?? "" }
                return SchemaObject(
                    type: fields[0],
                    name: fields[1],
                    table: fields[2],
                    statement: fields[3].filter { !$0.isWhitespace && $0 != "\"" }
                )
            }
        )
    }
}

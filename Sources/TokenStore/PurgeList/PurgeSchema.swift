// SPDX-License-Identifier: Apache-2.0

import GRDB

/// The tables of the file, by version.
///
/// `application_id` identifies a purge list, and `user_version` is its version.
enum PurgeSchema {
    /// "APNP".
    static let applicationIdentifier: Int32 = 0x4150_4E50

    /// The migrations from each version to the next, starting from version 0, an empty file.
    static let steps = [
        // WITHOUT ROWID: a row of `dead` is its key, so a token costs one B-tree and about 45 bytes.
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
        // Prevents an older failure that arrives after a registration from listing a living device.
        """
        CREATE TABLE registration (
            scope INTEGER NOT NULL REFERENCES scope (id),
            token BLOB NOT NULL CHECK (typeof(token) = 'blob' AND length(token) BETWEEN 1 AND 100),
            registered_at INTEGER NOT NULL,
            PRIMARY KEY (scope, token)
        ) WITHOUT ROWID;
        """,
    ]

    /// The current version.
    static var version: Int { self.steps.count }

    /// Migrates a file to the current version.
    ///
    /// A file of another program, or of a newer version, is not written.
    static func migrate(_ queue: DatabaseQueue, path: String, isMade: Bool) throws {
        // In one transaction, since another process may be creating the file.
        let version = try queue.read { try self.check($0, path: path) }
        guard version < self.version else { return }
        guard isMade || version > 0 else { throw PurgeListError.empty(path: path) }
        // Checked again under the lock, since two processes may get here.
        try queue.inDatabase { database in
            try database.inTransaction(.immediate) {
                for step in self.steps[try self.check(database, path: path)...] { try database.execute(sql: step) }
                try database.execute(sql: "PRAGMA application_id = \(self.applicationIdentifier)")
                try database.execute(sql: "PRAGMA user_version = \(self.version)")
                return .commit
            }
        }
    }

    /// Returns the version of a file.
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
        // The SQL of a damaged table may contain anything, so only its name is reported.
        guard let object = missing.min(by: { $0.name < $1.name }) else { return version }
        throw PurgeListError.corrupt(path: path, detail: "its \(object.type) \(object.name) was changed")
    }

    /// The tables and indexes of a version.
    private static func objects(ofVersion version: Int) throws -> Set<SchemaObject> {
        let queue = try DatabaseQueue()
        return try queue.write { database in
            for step in self.steps[..<version] { try database.execute(sql: step) }
            return try SchemaObject.fetchAll(database)
        }
    }
}

/// A table or index in SQLite's schema.
private struct SchemaObject: Hashable {
    var type: String
    var name: String
    var table: String
    /// The normalized statement that created it, without what tools may change.
    var statement: String

    /// Returns all objects of a file, including added ones.
    ///
    /// Values other than text are read as empty, which matches no known object.
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

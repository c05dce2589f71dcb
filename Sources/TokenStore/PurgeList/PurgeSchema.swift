// SPDX-License-Identifier: Apache-2.0

import GRDB

/// The tables of the file, by version.
///
/// `application_id` identifies a purge list, and `user_version` is its version.
enum PurgeSchema {
    /// "APNP".
    static let applicationIdentifier: Int32 = 0x4150_4E50

    /// The sources of entries, in every version.
    private static let source = "CREATE TABLE source (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);"

    /// The column with a token, in every version.
    private static let token =
        "token BLOB NOT NULL CHECK (typeof(token) = 'blob' AND length(token) BETWEEN 1 AND 100)"

    /// The tables of the first version.
    ///
    /// WITHOUT ROWID: a row of `dead` is its key, so a token costs one B-tree and about 45 bytes.
    private static let first = """
        CREATE TABLE scope (
            id INTEGER PRIMARY KEY,
            topic TEXT NOT NULL,
            environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
            UNIQUE (topic, environment)
        );
        CREATE TABLE dead (
            scope INTEGER NOT NULL REFERENCES scope (id),
            \(token),
            failed_at INTEGER NOT NULL,
            first_seen INTEGER NOT NULL,
            source INTEGER NOT NULL REFERENCES source (id),
            PRIMARY KEY (scope, token)
        ) WITHOUT ROWID;
        """

    /// What the second version adds: it prevents an older failure that arrives after a registration from listing a
    /// living device.
    private static let second = """
        CREATE TABLE registration (
            scope INTEGER NOT NULL REFERENCES scope (id),
            \(token),
            registered_at INTEGER NOT NULL,
            PRIMARY KEY (scope, token)
        ) WITHOUT ROWID;
        """

    /// The tables of the third version, which has checksums and replaces all tables but the sources.
    ///
    /// They have new names, so that a running process of an older release cannot write rows without checksums.
    private static let third = """
        CREATE TABLE list_total (
            id INTEGER PRIMARY KEY CHECK (id = 1),
            scope_count INTEGER NOT NULL,
            scope_sum INTEGER NOT NULL
        );
        CREATE TABLE token_scope (
            id INTEGER PRIMARY KEY,
            topic TEXT NOT NULL,
            environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
            dead_count INTEGER NOT NULL,
            dead_sum INTEGER NOT NULL,
            registered_count INTEGER NOT NULL,
            registered_sum INTEGER NOT NULL,
            UNIQUE (topic, environment)
        );
        CREATE TABLE dead_token (
            scope INTEGER NOT NULL REFERENCES token_scope (id),
            \(token),
            failed_at INTEGER NOT NULL,
            first_seen INTEGER NOT NULL,
            source INTEGER NOT NULL REFERENCES source (id),
            checksum INTEGER NOT NULL,
            PRIMARY KEY (scope, token)
        ) WITHOUT ROWID;
        CREATE TABLE registered_token (
            scope INTEGER NOT NULL REFERENCES token_scope (id),
            \(token),
            registered_at INTEGER NOT NULL,
            checksum INTEGER NOT NULL,
            PRIMARY KEY (scope, token)
        ) WITHOUT ROWID;
        INSERT INTO list_total VALUES (1, 0, 0);
        """

    /// The statements that create each version in an empty file.
    private static let versions = [
        [source, first], [source, first, second], [source, third],
    ]

    /// The current version, the first one with checksums.
    static var version: Int { self.versions.count }

    /// Prepares a file for reading, and creates the tables of a new one.
    ///
    /// A file of another program, or of a newer version, is not written.
    static func prepare(_ queue: DatabaseQueue, path: String, isMade: Bool) throws {
        // In one transaction, since another process may be creating the file.
        guard try queue.read({ try self.check($0, path: path) }) == 0 else { return }
        guard isMade else { throw PurgeListError.empty(path: path) }
        try queue.inDatabase { database in
            try database.inTransaction(.immediate) {
                // Checked again under the lock, since two processes may get here.
                guard try self.check(database, path: path) == 0 else { return .rollback }
                try self.create(database, version: self.version)
                try self.mark(database)
                return .commit
            }
        }
    }

    /// Whether the rows of a file have checksums.
    static func hasChecksums(_ database: Database) throws -> Bool {
        try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0 >= self.version
    }

    /// Migrates a file to the current version, in the transaction of its first change.
    ///
    /// The checksums are those of the current content, so they detect only later damage.
    static func upgrade(_ database: Database, path: String) throws {
        let version = try self.check(database, path: path)
        guard version < self.version else { return }
        try SQLitePurgeStorage.checkPages(database, path: path)
        if version == 1 { try database.execute(sql: self.second) }
        let oldScopes = try PurgeScopes(database)
        try database.execute(sql: self.third)
        try self.mark(database)
        let scopes = try PurgeScopes(database)
        for table in [PurgeRows.Table.dead, .registered] {
            let rows = try PurgeRows(database, table, hasChecksums: false)
            let insertion = try PurgeInsertion(database, table)
            for old in oldScopes.all {
                let scope = try scopes.add(old.scope)
                try unsafe rows.forEach(in: old) { token, row in
                    let checksum = try unsafe insertion.insert(token, row, in: scope)
                    scopes.update(scope.identifier) { $0[table].add(checksum) }
                    return true
                }
            }
        }
        try scopes.store()
        try database.execute(sql: "DROP TABLE dead; DROP TABLE registration; DROP TABLE scope")
    }

    private static func create(_ database: Database, version: Int) throws {
        for statements in self.versions[version - 1] { try database.execute(sql: statements) }
    }

    private static func mark(_ database: Database) throws {
        try database.execute(sql: "PRAGMA application_id = \(self.applicationIdentifier)")
        try database.execute(sql: "PRAGMA user_version = \(self.version)")
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
        let found = try SchemaObject.fetchAll(database)
        // It could change what is recorded, and what is pruned.
        guard !found.contains(where: { $0.type == "trigger" }) else { throw PurgeListError.trigger(path: path) }
        let missing = try self.objects(ofVersion: version).subtracting(found)
        // The SQL of a damaged table may contain anything, so only its name is reported.
        guard let object = missing.min(by: { $0.name < $1.name }) else { return version }
        throw PurgeListError.corrupt(path: path, detail: "its \(object.type) \(object.name) was changed")
    }

    /// The tables and indexes of a version.
    private static func objects(ofVersion version: Int) throws -> Set<SchemaObject> {
        let queue = try DatabaseQueue()
        return try queue.write { database in
            try self.create(database, version: version)
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

// SPDX-License-Identifier: Apache-2.0

import APNSWire
import FileSupport
import GRDB
import GRDBSQLite

/// The open database of a gateway.
struct GatewayDatabase: Sendable {
    let path: String
    let queue: DatabaseQueue
    /// Identifies the opened file.
    let node: FileIdentity
    /// Identifies the write-ahead log, without which the last writes are lost; `nil` if the file system permits none.
    private let logNode: FileIdentity?

    /// The layout version of the file.
    private static let version = 1

    /// Opens a database; it is created if missing.
    ///
    /// - Throws: ``GatewayStoreError``.
    init(path: String) throws(GatewayStoreError) {
        do {
            var configuration = Configuration()
            configuration.label = "gateway store"
            configuration.busyMode = .timeout(10)
            PrivateFile.make(path)
            self.queue = try DatabaseQueue(path: path, configuration: configuration)
            try self.queue.writeWithoutTransaction { database in
                try database.execute(sql: "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
                try Self.prepare(database, path: path)
                try Self.verify(database)
            }
        } catch let error as GatewayStoreError {
            throw error
        } catch {
            throw GatewayStoreError(path: path, error)
        }
        guard let node = FileIdentity(path: path) else { throw GatewayStoreError(path: path, detail: "it was removed") }
        self.path = path
        self.node = node
        self.logNode = FileIdentity(path: path + "-wal")
    }

    /// Creates the tables, and the columns that earlier versions did not have; they stay empty in rows of these
    /// versions.
    private static func prepare(_ database: Database, path: String) throws {
        try self.checkVersion(database, path: path)
        try database.execute(
            sql: """
                CREATE TABLE IF NOT EXISTS feedback (
                    topic TEXT NOT NULL, environment TEXT NOT NULL, token BLOB NOT NULL,
                    failed_at INTEGER NOT NULL, PRIMARY KEY (topic, environment, token)
                ) WITHOUT ROWID;
                CREATE TABLE IF NOT EXISTS resend (
                    id INTEGER PRIMARY KEY, provider TEXT NOT NULL, key BLOB NOT NULL, until INTEGER NOT NULL
                );
                CREATE INDEX IF NOT EXISTS resend_key ON resend (provider, key);
                CREATE INDEX IF NOT EXISTS resend_until ON resend (until);
                CREATE TABLE IF NOT EXISTS \(GatewayRows.certificateTable) (
                    provider TEXT NOT NULL, fingerprint TEXT NOT NULL, number INTEGER NOT NULL,
                    admitted_at INTEGER NOT NULL, der BLOB NOT NULL, PRIMARY KEY (provider, fingerprint, number)
                ) WITHOUT ROWID;
                CREATE TABLE IF NOT EXISTS spool (folder TEXT PRIMARY KEY, provider TEXT NOT NULL) WITHOUT ROWID;
                PRAGMA user_version = \(Self.version)
                """
        )
        for (table, columns) in [
            ("feedback", [("checksum", "INTEGER")]),
            (
                "resend",
                [
                    ("content", "BLOB"), ("lifetime", "INTEGER"), ("response", "INTEGER"), ("place", "INTEGER"),
                    ("checksum", "INTEGER"),
                ]
            ),
        ] {
            let names = try Set(database.columns(in: table).map(\.name))
            for (name, type) in columns where !names.contains(name) {
                try database.execute(sql: "ALTER TABLE \(table) ADD COLUMN \(name) \(type)")
            }
        }
        // An earlier release, to which somebody went back, changes the time and not the checksum.
        try database.execute(
            sql: """
                CREATE TRIGGER IF NOT EXISTS feedback_without_checksum AFTER UPDATE OF failed_at ON feedback
                WHEN NEW.failed_at <> OLD.failed_at AND NEW.checksum IS OLD.checksum
                BEGIN
                    UPDATE feedback SET checksum = NULL
                    WHERE topic = NEW.topic AND environment = NEW.environment AND token = NEW.token;
                END
                """
        )
    }

    private static func checkVersion(_ database: Database, path: String) throws {
        let version = try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
        guard version <= Self.version else {
            let detail = "it was created by a newer release (layout version \(version)); use that release"
            throw GatewayStoreError(path: path, detail: detail)
        }
    }

    // MARK: Damage

    /// Finds damage of the file that reading its rows does not show, such as a page that is not reached.
    private static func verify(_ database: Database) throws {
        guard try database.isIntact else {
            throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: "SQLite's integrity check failed")
        }
    }

    /// Verifies the file, its dead tokens and expected resends, also while a gateway runs, and changes nothing.
    ///
    /// - Throws: ``GatewayStoreError`` if it is damaged, or of a newer release.
    static func check(path: String) throws(GatewayStoreError) {
        try self.read(path: path) { database in
            try self.checkVersion(database, path: path)
            try self.verify(database)
            if try database.tableExists("feedback") { try GatewayRows.forEachToken(database) { _, _, _ in } }
            if try database.tableExists("resend") { try GatewayRows.verifyResends(database) }
        }
    }

    /// Reads a database, also while a gateway runs, and changes nothing.
    ///
    /// Returns `nil` if there is none.
    ///
    /// - Throws: ``GatewayStoreError``.
    static func read<Value>(path: String, _ body: (Database) throws -> Value) throws(GatewayStoreError) -> Value? {
        guard FileIdentity(path: path) != nil else { return nil }
        do {
            var configuration = Configuration()
            configuration.readonly = true
            configuration.busyMode = .timeout(10)
            return try DatabaseQueue(path: Self.location(of: path), configuration: configuration).read(body)
        } catch let error as GatewayStoreError {
            throw error
        } catch {
            throw GatewayStoreError(path: path, error)
        }
    }

    /// What SQLite opens without creating further files, if no gateway runs and none has left a log or a journal.
    private static func location(of path: String) -> String {
        let isOpen = ["-wal", "-journal"].contains { FileIdentity(path: path + $0) != nil }
        guard !isOpen, unsafe sqlite3_compileoption_used("USE_URI") == 1 else { return path }
        return "file:\(PercentEncoding.encoded(path: path))?immutable=1"
    }

    /// Whether the path leads to the opened file; SQLite keeps writing to a removed one, where the data would be lost.
    ///
    /// - Throws: ``GatewayStoreError`` if only the file or only its write-ahead log is there: SQLite keeps writing to a
    ///   removed log, and would apply a leftover log to the next file.
    func isInPlace() throws(GatewayStoreError) -> Bool {
        let isInPlace = FileIdentity(path: self.path) == self.node
        // Some file systems allow no write-ahead log.
        guard self.logNode == nil || isInPlace == (FileIdentity(path: self.path + "-wal") == self.logNode) else {
            let gone = isInPlace ? "its write-ahead log was removed" : "it was removed without its write-ahead log"
            throw GatewayStoreError(path: self.path, detail: "\(gone); restart the gateway")
        }
        return isInPlace
    }
}

/// The error of a gateway's database that cannot be used.
public struct GatewayStoreError: Error, Hashable, Sendable {
    /// The path of the file.
    public var path: String
    /// The reason.
    public var detail: String
}

extension GatewayStoreError {
    /// An error of SQLite; for a damaged file with what to do.
    init(path: String, _ error: any Error) {
        self.init(path: path, detail: "\(error)")
        let damage: [ResultCode] = [.SQLITE_CORRUPT, .SQLITE_NOTADB]
        guard let code = (error as? DatabaseError)?.resultCode, damage.contains(code) else { return }
        self.detail += "; restore it, or move it away: the gateway then starts without its dead tokens and resends"
    }
}

extension GatewayStoreError: CustomStringConvertible {
    /// A message for people.
    public var description: String { "cannot use the feedback database \(self.path): \(self.detail)" }
}

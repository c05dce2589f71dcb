// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import FoundationEssentials
import GRDB
import Glibc

/// A durable list of dead tokens: an SQLite file with its write-ahead log.
///
/// The key consists of topic, environment and token. Each call is one transaction, which is on the disk when the call
/// returns. Any number of processes can use one file; readers and the writer do not wait for each other. Calls block,
/// so make them on threads that may block.
public final class PurgeList: Sendable {
    /// The path of the file.
    public let path: String
    private let pool: DatabasePool

    /// How long a call waits for other writing processes.
    public static let busyDuration = Duration.seconds(10)

    /// Opens a list, and upgrades a file of an older version.
    ///
    /// - Parameters:
    ///   - path: the path of the file.
    ///   - isMade: whether a missing or empty file becomes a new list; by default `true`.
    /// - Throws: ``PurgeListError``; a file that is not a purge list, or of a newer version, is not changed.
    public init(path: String, isMade: Bool = true) throws {
        self.path = path
        let start = ContinuousClock.now
        while true {
            do {
                self.pool = try PurgeListError.translated(path: path) { try PurgeList.open(path, isMade: isMade) }
                break
            } catch PurgeListError.busy where ContinuousClock.now - start < PurgeList.busyDuration {
                // SQLite does not wait for its own locks while it switches to the write-ahead log, so concurrent
                // opening or closing would fail immediately.
                usleep(PurgeList.openPauseMicroseconds)
            }
        }
    }

    private static let openPauseMicroseconds: UInt32 = 5000

    private static func open(_ path: String, isMade: Bool) throws -> DatabasePool {
        guard unsafe isMade || access(path, F_OK) == 0 || errno != ENOENT else {
            throw PurgeListError.missing(path: path)
        }
        if isMade { PrivateFile.make(path) }
        var status = stat()
        if unsafe stat(path, &status) == 0, status.st_mode & S_IFMT != S_IFREG {
            throw PurgeListError.notAFile(path: path)
        }
        // Not yet a pool: it would switch a database of another program to a write-ahead log.
        do {
            let queue = try DatabaseQueue(path: path, configuration: PurgeList.configuration)
            try PurgeSchema.migrate(queue, path: path, isMade: isMade)
            try queue.close()
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            // These statements succeed on every intact file.
            throw PurgeListError.corrupt(path: path, detail: error.message ?? "\(error.extendedResultCode)")
        }
        let pool = try DatabasePool(path: path, configuration: PurgeList.configuration)
        // Feedback leaves the spool once it is on the list, so it must survive a power failure. A rollback of a large
        // statement is a few pages, for which no temporary files are needed.
        try pool.writeWithoutTransaction { database in
            try database.execute(
                sql: """
                    PRAGMA synchronous = FULL; PRAGMA cache_size = -\(PurgeLimits.cacheKibibyteCount);
                    PRAGMA temp_store = MEMORY
                    """
            )
        }
        return pool
    }

    /// Closes the list.
    ///
    /// Later calls throw.
    ///
    /// If nobody else has the list open, the write-ahead log is merged into the file; otherwise the last one to close
    /// it does so. It waits for calls in progress.
    public func close() {
        // Only a writer can merge the files, so readers are closed first.
        self.pool.releaseMemory()
        // Recorded data is on the disk, and the next opening merges it.
        try? self.pool.close()
    }

    /// Reads from the file in one transaction.
    func read<Value>(_ body: (Database) throws -> Value) throws -> Value {
        try PurgeListError.translated(path: self.path) { try self.pool.read(body) }
    }

    /// A snapshot of the file for many reads.
    func snapshot() throws -> DatabaseSnapshot {
        try PurgeListError.translated(path: self.path) { try self.pool.makeSnapshot() }
    }

    /// Runs a single reading statement.
    ///
    /// A statement sees a consistent state of the file even without a transaction.
    func readStatement<Value>(_ body: (Database) throws -> Value) throws -> Value {
        try PurgeListError.translated(path: self.path) { try self.pool.unsafeRead(body) }
    }

    /// Changes the file in one transaction.
    private func write<Value>(_ body: (Database) throws -> Value) throws -> Value {
        try PurgeListError.translated(path: self.path) { try self.pool.write(body) }
    }

    private static var configuration: Configuration {
        var configuration = Configuration()
        configuration.label = "purge list"
        configuration.busyMode = .timeout(PurgeList.busyDuration / .seconds(1))
        configuration.prepareDatabase { database in
            try database.execute(sql: "PRAGMA journal_size_limit = \(PurgeLimits.journalByteCountMax)")
        }
        return configuration
    }

    // MARK: Recording

    /// Records dead tokens in one transaction.
    ///
    /// For existing tokens, the newest failure with its source and the earliest first-seen time are kept, so the order
    /// of recording does not matter. A failure before a known registration is not recorded. The entries are sorted, if
    /// necessary in an unnamed file next to the list, so a lazy sequence of any length needs little memory. One call
    /// with many entries is much faster than many calls.
    ///
    /// - Parameter entries: the tokens; iterating must not use this list.
    /// - Returns: how many were new.
    /// - Throws: ``PurgeListError``; then nothing is recorded.
    @discardableResult
    public func record(_ entries: some Sequence<PurgeEntry>) throws -> PurgeChange {
        try self.record(entries, batchEntryCount: PurgeLimits.batchEntryCount)
    }

    /// Records with a given number of entries in memory.
    package func record(_ entries: some Sequence<PurgeEntry>, batchEntryCount: Int) throws -> PurgeChange {
        try self.write { database in
            var recording = try PurgeRecording(database, path: self.path, batchEntryCount: batchEntryCount)
            for entry in entries { try recording.add(entry) }
            try recording.flush()
            return recording.change
        }
    }

    /// Removes tokens that registered later than they failed, in one transaction.
    ///
    /// Registrations are remembered, whether or not the token is on the list, so that an older failure that is recorded
    /// later does not add it again: for each matching known topic and environment, and for a new one if both are given.
    /// They expire with ``expire(failedBefore:)``.
    ///
    /// - Parameters:
    ///   - registrations: the tokens; iterating must not use this list.
    ///   - topic: the topic of the registrations; `nil` for all.
    ///   - environment: the environment; `nil` for both.
    /// - Returns: the counts.
    /// - Throws: ``PurgeListError``; then nothing is removed.
    @discardableResult
    public func forget(
        _ registrations: some Sequence<PurgeRegistration>,
        topic: String? = nil,
        environment: Environment? = nil
    ) throws -> PurgeForgetResult {
        try self.write { database in
            var query = PurgeQuery()
            query.topic = topic
            query.environment = environment
            var scopes = try PurgeList.scopes(database, matching: query).map(\.identifier)
            let deletion = try PurgeDeletion(database)
            var result = PurgeForgetResult()
            for registration in registrations {
                if scopes.isEmpty, registration.registeredAt != nil, let topic, let environment {
                    try PurgeEntry.check(topic, field: "topic")
                    let scope = TokenScope(topic: topic, environment: environment)
                    scopes += try [PurgeList.add(scope, to: database)].compactMap { $0 }
                }
                try deletion.forget(registration, in: scopes, &result)
            }
            return result
        }
    }

    // MARK: Reading

    /// Whether a token is on the list.
    ///
    /// - Parameters:
    ///   - token: the bytes of the token.
    ///   - topic: the app's bundle identifier.
    ///   - environment: the environment of the token.
    /// - Returns: whether it is on the list.
    /// - Throws: ``PurgeListError``.
    public func contains(token: [UInt8], topic: String, environment: Environment) throws -> Bool {
        try self.read { database in
            try Bool.fetchOne(
                database,
                sql: """
                    SELECT EXISTS (SELECT 1 FROM dead JOIN scope ON scope.id = dead.scope
                    WHERE topic = ? AND environment = ? AND token = ?)
                    """,
                arguments: [topic, environment.rawValue, Data(token)]
            ) ?? false
        }
    }

    /// Calls `body` with entries, ordered by topic, environment (production first) and token bytes.
    ///
    /// It reads a snapshot, and uses little memory for any number of entries.
    ///
    /// - Parameters:
    ///   - query: the conditions.
    ///   - body: receives each entry; it must not use this list.
    /// - Throws: ``PurgeListError``, and errors of `body`.
    public func entries(matching query: PurgeQuery = PurgeQuery(), body: (PurgeEntry) throws -> Void) throws {
        try self.read { database in
            // By scope, so that the order requires no sorting of tokens.
            for (identifier, scope) in try PurgeList.scopes(database, matching: query) {
                try PurgeList.entries(database, in: identifier, scope, matching: query, body: body)
            }
        }
    }

    /// Returns the topics and environments that have entries, in order.
    ///
    /// - Throws: ``PurgeListError``.
    public func scopes() throws -> [TokenScope] {
        try self.read { database in
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

    /// Returns the scopes of a query in order, with their numbers.
    static func scopes(
        _ database: Database,
        matching query: PurgeQuery
    ) throws -> [(identifier: Int64, scope: TokenScope)] {
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
            return (try row.value(0), TokenScope(topic: try row.value(1), environment: environment))
        }
    }

    private static func entries(
        _ database: Database,
        in identifier: Int64,
        _ scope: TokenScope,
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

    // MARK: Scopes

    /// Adds a topic and environment, possibly without entries.
    ///
    /// Empty feedback means that all devices of the topic are alive, which matters for tokens that must be dead in
    /// several topics.
    ///
    /// - Parameter scope: the topic and environment.
    /// - Throws: ``PurgeListError``.
    public func addScope(_ scope: TokenScope) throws {
        try PurgeEntry.check(scope.topic, field: "topic")
        _ = try self.write { try PurgeList.add(scope, to: $0) }
    }

    /// Returns all topics and environments that were ever added, even without entries, in order.
    ///
    /// - Throws: ``PurgeListError``.
    public func knownScopes() throws -> [TokenScope] {
        try self.read { try PurgeList.scopes($0, matching: PurgeQuery()).map(\.scope) }
    }

    /// Returns the number of a scope, which is added if missing.
    static func add(_ scope: TokenScope, to database: Database) throws -> Int64? {
        try database.execute(
            sql: "INSERT INTO scope (topic, environment) VALUES (?, ?) ON CONFLICT DO NOTHING",
            arguments: [scope.topic, scope.environment.rawValue]
        )
        return try Int64.fetchOne(
            database,
            sql: "SELECT id FROM scope WHERE topic = ? AND environment = ?",
            arguments: [scope.topic, scope.environment.rawValue]
        )
    }

    // MARK: Maintenance

    /// Counts the entries, which reads the whole list.
    ///
    /// - Returns: the counts by topic, environment and source.
    /// - Throws: ``PurgeListError``.
    public func statistics() throws -> PurgeStatistics {
        try self.read { database in
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

    /// Removes tokens whose last failure is before a time, which no table has any more, and earlier registrations.
    ///
    /// Registrations are removed in no other way.
    ///
    /// - Parameter time: in seconds since 1970.
    /// - Returns: the number of removed tokens.
    /// - Throws: ``PurgeListError``; then nothing is removed.
    @discardableResult
    public func expire(failedBefore time: Int64) throws -> Int {
        try self.write { database in
            try database.execute(sql: "DELETE FROM registration WHERE registered_at < ?", arguments: [time])
            try database.execute(sql: "DELETE FROM dead WHERE failed_at < ?", arguments: [time])
            return database.changesCount
        }
    }

    /// Verifies the integrity of the whole file.
    ///
    /// - Throws: ``PurgeListError/corrupt(path:detail:)`` if the file is damaged.
    public func checkIntegrity() throws {
        try self.read { database in
            let findings = try String.fetchAll(database, sql: "PRAGMA integrity_check(1)")
            guard findings == ["ok"] else {
                // SQLite's findings may quote values, so they are not included.
                throw PurgeListError.corrupt(path: self.path, detail: "SQLite's integrity check failed")
            }
            let strays = try Row.fetchOne(database, sql: "PRAGMA foreign_key_check")
            guard strays == nil else {
                throw PurgeListError.corrupt(path: self.path, detail: "entries without topic or source")
            }
        }
    }
}

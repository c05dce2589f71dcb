// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import FoundationEssentials
import GRDB
import Glibc

/// A durable list of dead tokens: one SQLite file, with its write-ahead file beside it.
///
/// The key is topic, environment and token. Each call is one transaction, which is on the disk when the call returns.
/// Any number of processes may use one file; readers and the one that writes do not wait for each other.
/// Calls block, so they belong on threads that may.
public final class PurgeList: Sendable {
    /// The file.
    public let path: String
    private let pool: DatabasePool

    /// How long a call waits for other processes that write.
    public static let busyDuration = Duration.seconds(10)

    /// Opens a list, and brings a file of an older version to this one.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - isMade: whether the file is made where it is not there, or empty; the default is `true`.
    /// - Throws: ``PurgeListError``; a file that is no purge list, or of a newer version, is left as it is.
    public init(path: String, isMade: Bool = true) throws {
        self.path = path
        let start = ContinuousClock.now
        while true {
            do {
                self.pool = try PurgeListError.translated(path: path) { try PurgeList.open(path, isMade: isMade) }
                break
            } catch PurgeListError.busy where ContinuousClock.now - start < PurgeList.busyDuration {
                // SQLite does not wait for its own locks while it switches to the write-ahead file, so two that make
                // one list, or open one that another closes, would be sent away at once.
                usleep(PurgeList.openPauseMicroseconds)
            }
        }
    }

    private static let openPauseMicroseconds: UInt32 = 5000

    private static func open(_ path: String, isMade: Bool) throws -> DatabasePool {
        guard unsafe isMade || access(path, F_OK) == 0 || errno != ENOENT else {
            throw PurgeListError.missing(path: path)
        }
        if isMade { FileNode.makePrivate(path) }
        var status = stat()
        if unsafe stat(path, &status) == 0, status.st_mode & S_IFMT != S_IFREG {
            throw PurgeListError.notAFile(path: path)
        }
        // Not yet the pool: it would switch to a write-ahead file what may be the database of another program.
        do {
            let queue = try DatabaseQueue(path: path, configuration: PurgeList.configuration)
            try PurgeSchema.migrate(queue, path: path, isMade: isMade)
            try queue.close()
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            // The statements up to here work on each file that is whole.
            throw PurgeListError.corrupt(path: path, detail: error.message ?? "\(error.extendedResultCode)")
        }
        let pool = try DatabasePool(path: path, configuration: PurgeList.configuration)
        // The spool of feedback is given up on the word that the list has it, so its word must outlive the power.
        // What a statement of many rows would undo is a few pages: no reason to need a folder for temporary files.
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

    /// Ends the use of this object, which throws from then on.
    ///
    /// Where no other process or object has the list open, what is in the write-ahead file goes to the list, which then
    /// is one file. Otherwise the last one does that. It waits for calls that go on.
    public func close() {
        // Only one that may write can put the files together, so readers go first.
        self.pool.releaseMemory()
        // What is recorded is on the disk, and the next one that opens the list takes it over.
        try? self.pool.close()
    }

    /// Reads from the file in one transaction.
    func read<Value>(_ body: (Database) throws -> Value) throws -> Value {
        try PurgeListError.translated(path: self.path) { try self.pool.read(body) }
    }

    /// The file as it is now, for many reads.
    func snapshot() throws -> DatabaseSnapshot {
        try PurgeListError.translated(path: self.path) { try self.pool.makeSnapshot() }
    }

    /// Runs one statement that reads.
    ///
    /// One statement sees one state of the file anyway, so that a transaction around it would only cost.
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

    /// Puts dead tokens on the list, in one transaction.
    ///
    /// Of what is there already, the newest failure stays, with its source, and the earliest time of being seen; so
    /// recording the same twice, or in another order, comes to the same. A failure before a registration that is
    /// remembered puts nothing on the list. The entries are sorted, and where they are many, wait for that in a file
    /// without a name beside the list, so a lazy sequence of any length needs little memory; many at a time are much
    /// quicker than many calls.
    ///
    /// - Parameter entries: the tokens; iterating must not use this list.
    /// - Returns: how many were news.
    /// - Throws: ``PurgeListError``; then nothing is recorded.
    @discardableResult
    public func record(_ entries: some Sequence<PurgeEntry>) throws -> PurgeChange {
        try self.record(entries, batchEntryCount: PurgeLimits.batchEntryCount)
    }

    /// The same with so many entries in memory.
    package func record(_ entries: some Sequence<PurgeEntry>, batchEntryCount: Int) throws -> PurgeChange {
        try self.write { database in
            var recording = try PurgeRecording(database, path: self.path, batchEntryCount: batchEntryCount)
            for entry in entries { try recording.add(entry) }
            try recording.flush()
            return recording.change
        }
    }

    /// Takes tokens off the list that registered later than they failed, in one transaction.
    ///
    /// When they registered is remembered, on the list or not, so that an older failure that is recorded later does not
    /// bring them back: for each topic and environment that is meant and known, or made known by naming both. What is
    /// remembered goes by ``expire(failedBefore:)``.
    ///
    /// - Parameters:
    ///   - registrations: the tokens; iterating must not use this list.
    ///   - topic: the topic that they registered for; `nil` for all.
    ///   - environment: the environment; `nil` for both.
    /// - Returns: what became of them.
    /// - Throws: ``PurgeListError``; then nothing is forgotten.
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
    ///   - environment: where the token is from.
    /// - Returns: whether it is.
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

    /// Lends entries one by one, ordered by topic, environment (production first) and token bytes.
    ///
    /// All are as they were when it began, whatever is recorded meanwhile. Little memory is used for any number of
    /// entries.
    ///
    /// - Parameters:
    ///   - query: which entries.
    ///   - body: is given each; it must not use this list.
    /// - Throws: ``PurgeListError``, and what `body` throws, which ends it.
    public func entries(matching query: PurgeQuery = PurgeQuery(), body: (PurgeEntry) throws -> Void) throws {
        try self.read { database in
            // Scope by scope, so that the order needs no sorting of tokens.
            for (identifier, scope) in try PurgeList.scopes(database, matching: query) {
                try PurgeList.entries(database, in: identifier, scope, matching: query, body: body)
            }
        }
    }

    /// The topics and environments that have entries, in order.
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

    /// The scopes of a query in order, each with its number.
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

    /// Makes a topic and environment known, though nothing may be dead there.
    ///
    /// Feedback that was read and had nothing says that all its devices are alive, which counts where a token must be
    /// dead in several topics.
    ///
    /// - Parameter scope: the topic and environment.
    /// - Throws: ``PurgeListError``.
    public func addScope(_ scope: TokenScope) throws {
        try PurgeEntry.check(scope.topic, field: "topic")
        _ = try self.write { try PurgeList.add(scope, to: $0) }
    }

    /// The topics and environments that were ever recorded or made known, also where nothing is dead now, in order.
    ///
    /// - Throws: ``PurgeListError``.
    public func knownScopes() throws -> [TokenScope] {
        try self.read { try PurgeList.scopes($0, matching: PurgeQuery()).map(\.scope) }
    }

    /// Finds the number of a scope, which is made where there is none.
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

    /// Counts what is on the list; it reads all of it.
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

    /// Takes off the list what failed last before a time, for a token that is long gone from every table, and forgets
    /// what registered before it.
    ///
    /// Nothing else bounds how many registrations are remembered.
    ///
    /// - Parameter time: in seconds since 1970.
    /// - Returns: how many tokens went.
    /// - Throws: ``PurgeListError``; then none went.
    @discardableResult
    public func expire(failedBefore time: Int64) throws -> Int {
        try self.write { database in
            try database.execute(sql: "DELETE FROM registration WHERE registered_at < ?", arguments: [time])
            try database.execute(sql: "DELETE FROM dead WHERE failed_at < ?", arguments: [time])
            return database.changesCount
        }
    }

    /// Reads all of the file, and checks that it holds together.
    ///
    /// - Throws: ``PurgeListError/corrupt(path:detail:)`` where it does not.
    public func checkIntegrity() throws {
        try self.read { database in
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

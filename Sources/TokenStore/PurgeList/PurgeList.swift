// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import FileSupport
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
    public static let busyTimeout = Duration.seconds(10)

    /// Opens a list.
    ///
    /// A file of an older version is upgraded by its first change, see ``hasChecksums()``.
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
            } catch PurgeListError.busy where ContinuousClock.now - start < PurgeList.busyTimeout {
                // SQLite does not wait for its own locks while it switches to the write-ahead log, so concurrent
                // opening or closing would fail immediately.
                usleep(PurgeList.openPauseMicroseconds)
            }
        }
    }

    private static let openPauseMicroseconds: UInt32 = 5000

    private static func open(_ path: String, isMade: Bool) throws -> DatabasePool {
        // SQLite would create its target.
        guard !FileIdentity.isDanglingLink(path) else { throw PurgeListError.danglingLink(path: path) }
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
            try PurgeSchema.prepare(queue, path: path, isMade: isMade)
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

    /// Changes the file in one transaction, in the current version.
    private func write<Value>(_ body: (Database) throws -> Value) throws -> Value {
        try PurgeListError.translated(path: self.path) {
            try self.pool.write { database in
                if try !PurgeSchema.hasChecksums(database) { try PurgeSchema.upgrade(database, path: self.path) }
                return try body(database)
            }
        }
    }

    /// The time, in seconds since 1970.
    static var now: Int64 { Int64(time(nil)) }

    private static var configuration: Configuration {
        var configuration = Configuration()
        configuration.label = "purge list"
        configuration.busyMode = .timeout(PurgeList.busyTimeout / .seconds(1))
        configuration.prepareDatabase { database in
            try database.execute(sql: "PRAGMA journal_size_limit = \(PurgeLimits.journalByteCountMax)")
        }
        return configuration
    }

    // MARK: Recording

    /// Records dead tokens in one transaction.
    ///
    /// For existing tokens, the newest failure with its source and the earliest first-seen time are kept, so the order
    /// of recording does not matter. A failure before a known registration is not recorded. A failure more than a day
    /// in the future is dated to the time of the call, since it would override every later registration. The entries
    /// are sorted, if necessary in an unnamed file next to the list, so a lazy sequence of any length needs little
    /// memory. One call with many entries is much faster than many calls.
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
        environment: PushEnvironment? = nil
    ) throws -> PurgeForgetResult {
        try self.write { database in
            var query = PurgeQuery()
            query.topic = topic
            query.environment = environment
            let known = try PurgeScopes(database)
            var scopes = known.matching(query)
            let deletion = try PurgeDeletion(database, known)
            var result = PurgeForgetResult()
            for registration in registrations {
                if scopes.isEmpty, registration.registeredAtSeconds != nil, let topic, let environment {
                    try PurgeEntry.check(topic, field: "topic")
                    scopes.append(try known.add(TokenScope(topic: topic, environment: environment)))
                }
                try deletion.forget(registration, in: scopes, &result)
            }
            try known.store()
            return result
        }
    }

    // MARK: Reading

    /// Whether the rows have checksums, which detect damage.
    ///
    /// A list of an older version has none until its first change, which computes them from the current content, so
    /// that earlier damage stays undetected.
    ///
    /// - Returns: whether it has them.
    /// - Throws: ``PurgeListError``.
    public func hasChecksums() throws -> Bool { try self.read { try PurgeSchema.hasChecksums($0) } }

    /// What cannot be verified, for a user; `nil` for a list with checksums.
    package func warning() throws -> String? {
        guard try !self.hasChecksums() else { return nil }
        return
            "purge list \(self.path) is from an earlier release and has no checksums, so its entries are not "
            + "verified. The next change of the list adds them, for the entries as they are then: damage from before "
            + "stays unnoticed. If in doubt, compare with a backup first."
    }

    /// Whether a token is on the list.
    ///
    /// - Parameters:
    ///   - token: the bytes of the token.
    ///   - topic: the app's bundle identifier.
    ///   - environment: the environment of the token.
    /// - Returns: whether it is on the list.
    /// - Throws: ``PurgeListError``.
    public func contains(token: [UInt8], topic: String, environment: PushEnvironment) throws -> Bool {
        try self.read { database in
            let scopes = try PurgeScopes(database)
            guard let scope = scopes[TokenScope(topic: topic, environment: environment)] else { return false }
            let rows = try PurgeRows(database, .dead, hasChecksums: scopes.hasChecksums)
            return try unsafe token.withUnsafeBytes { try unsafe rows.find($0, in: scope) != nil }
        }
    }

    /// Calls `body` with entries, ordered by topic, environment (production first) and token bytes.
    ///
    /// It reads a snapshot, and uses little memory for any number of entries. All entries of the topic and environment
    /// are read and verified, so missing ones cause an error after the others.
    ///
    /// - Parameters:
    ///   - query: the conditions.
    ///   - body: receives each entry; it must not use this list.
    /// - Throws: ``PurgeListError``, and errors of `body`.
    public func entries(matching query: PurgeQuery = PurgeQuery(), body: (PurgeEntry) throws -> Void) throws {
        try self.read { database in
            let scopes = try PurgeScopes(database)
            let rows = try PurgeRows(database, .dead, hasChecksums: scopes.hasChecksums)
            for scope in scopes.matching(query) {
                try unsafe rows.forEach(in: scope) { token, row in
                    guard unsafe query.matches(token, row) else { return true }
                    let source = try rows.sourceName(row)
                    guard query.source.map({ $0.utf8.elementsEqual(source.utf8) }) ?? true else { return true }
                    try body(
                        PurgeEntry(
                            topic: scope.scope.topic,
                            environment: scope.scope.environment,
                            token: unsafe Array(token),
                            failedAt: row.time,
                            firstSeen: row.firstSeen,
                            source: source
                        )
                    )
                    return true
                }
            }
        }
    }

    /// Returns the topics and environments that have entries, in order.
    ///
    /// - Throws: ``PurgeListError``.
    public func scopes() throws -> [TokenScope] {
        try self.read { database in
            let scopes = try PurgeScopes(database)
            return try scopes.matching(PurgeQuery()).filter { try scopes.entryCount($0) > 0 }.map(\.scope)
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
        try self.write { database in
            let scopes = try PurgeScopes(database)
            _ = try scopes.add(scope)
            try scopes.store()
        }
    }

    /// Returns all topics and environments that were ever added, even without entries, in order.
    ///
    /// - Throws: ``PurgeListError``.
    public func knownScopes() throws -> [TokenScope] {
        try self.read { try PurgeScopes($0).matching(PurgeQuery()).map(\.scope) }
    }

    // MARK: Maintenance

    /// Counts the entries, which reads the whole list.
    ///
    /// - Returns: the counts by topic, environment and source.
    /// - Throws: ``PurgeListError``.
    public func statistics() throws -> PurgeStatistics {
        try self.read { database in
            var parts: [PurgeStatistics.Part] = []
            let scopes = try PurgeScopes(database)
            let rows = try PurgeRows(database, .dead, hasChecksums: scopes.hasChecksums)
            for scope in scopes.matching(PurgeQuery()) {
                var sources: [Int64: PurgeStatistics.Part] = [:]
                try unsafe rows.forEach(in: scope) { _, row in
                    let source = row.source?.identifier ?? 0
                    if sources[source] == nil {
                        sources[source] = PurgeStatistics.Part(
                            scope: scope.scope,
                            source: try rows.sourceName(row),
                            count: 0,
                            oldestFailureSeconds: row.time,
                            newestFailureSeconds: row.time
                        )
                    }
                    sources[source]?.add(row.time)
                    return true
                }
                parts += sources.values.sorted { $0.source.utf8.lexicographicallyPrecedes($1.source.utf8) }
            }
            return PurgeStatistics(parts: parts)
        }
    }

    /// Removes tokens whose last failure is before a time, which no table has any more, and earlier registrations.
    ///
    /// Registrations are removed in no other way.
    ///
    /// - Parameter time: the time.
    /// - Returns: the number of removed tokens.
    /// - Throws: ``PurgeListError``; then nothing is removed.
    @discardableResult
    public func expire(failedBefore time: Timestamp) throws -> Int {
        try self.expire(failedBefore: time.secondsRoundedUp)
    }

    /// Removes tokens whose last failure is before a time in seconds since 1970 (UTC), and earlier registrations.
    @discardableResult
    package func expire(failedBefore time: Int64) throws -> Int {
        try self.write { database in
            let scopes = try PurgeScopes(database)
            _ = try self.expire(database, scopes, .registered, "registered_token WHERE registered_at", before: time)
            let count = try self.expire(database, scopes, .dead, "dead_token WHERE failed_at", before: time)
            try scopes.store()
            return count
        }
    }

    private func expire(
        _ database: Database,
        _ scopes: PurgeScopes,
        _ table: PurgeRows.Table,
        _ condition: String,
        before time: Int64
    ) throws -> Int {
        let rows = try PurgeRows(database, table, hasChecksums: true)
        var expiredCount = 0
        for scope in scopes.all {
            try unsafe rows.forEach(in: scope) { token, row in
                guard row.time < time else { return true }
                expiredCount += 1
                let checksum = unsafe row.checksum(token, in: scope)
                scopes.update(scope.identifier) { $0[table].remove(checksum) }
                return true
            }
        }
        guard expiredCount > 0 else { return 0 }
        try database.execute(sql: "DELETE FROM \(condition) < ?", arguments: [time])
        guard database.changesCount == expiredCount else { throw PurgeDamage.total.error }
        return expiredCount
    }

    /// Verifies the whole file: what SQLite can verify, and all checksums.
    ///
    /// - Throws: ``PurgeListError/corrupt(path:detail:)`` if the file is damaged, and
    ///   ``PurgeListError/futureFailure(path:time:)``.
    public func checkIntegrity() throws {
        try self.read { database in
            try PurgeList.checkPages(database, path: self.path)
            let scopes = try PurgeScopes(database)
            let dead = try PurgeRows(database, .dead, hasChecksums: scopes.hasChecksums)
            let latest = PurgeList.latestFailure
            for scope in scopes.all {
                try unsafe dead.forEach(in: scope) { _, row in
                    try PurgeList.check(failure: row.time, latest: latest, path: self.path)
                    return true
                }
            }
            guard scopes.hasChecksums else { return }
            let registered = try PurgeRows(database, .registered, hasChecksums: true)
            for scope in scopes.all { try unsafe registered.forEach(in: scope) { _, _ in true } }
        }
    }

    /// Verifies the structure of the file.
    static func checkPages(_ database: Database, path: String) throws {
        guard try database.isIntact else {
            throw PurgeListError.corrupt(path: path, detail: "SQLite's integrity check failed")
        }
        let strays = try Row.fetchOne(database, sql: "PRAGMA foreign_key_check")
        guard strays == nil else {
            throw PurgeListError.corrupt(path: path, detail: "entries without topic or source")
        }
    }

    /// The latest failure that is believed, since one in the future would override every later registration.
    static var latestFailure: Int64 { self.now + PurgeLimits.clockSkewSecondsMax }

    /// Validates a failure that decides whether a token is dead.
    static func check(failure: Int64, latest: Int64, path: String) throws {
        guard failure <= latest else { throw PurgeListError.futureFailure(path: path, time: failure) }
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSWire
import FileSupport
import GRDB
import Glibc

/// A purge list in an SQLite file with its write-ahead log.
final class SQLitePurgeStorage: PurgeStorage {
    private let path: String
    private let pool: DatabasePool
    /// The file and its write-ahead log, as they were opened.
    private let nodes: [FileIdentity?]

    init(_ path: String, isMade: Bool) throws {
        self.path = path
        let start = ContinuousClock.now
        while true {
            do {
                self.pool = try PurgeListError.translated(path: path) { try Self.open(path, isMade: isMade) }
                break
            } catch PurgeListError.busy where ContinuousClock.now - start < PurgeList.busyTimeout {
                // SQLite does not wait for its own locks while it switches to the write-ahead log, so concurrent
                // opening or closing would fail immediately.
                usleep(Self.openPauseMicroseconds)
            }
        }
        self.nodes = Self.nodes(path)
    }

    private static func nodes(_ path: String) -> [FileIdentity?] {
        [path, path + "-wal"].map { FileIdentity(path: $0) }
    }

    /// Checks that the path still leads to this file and its log: what is recorded elsewhere would not be found again.
    private func checkPresence() throws {
        guard Self.nodes(self.path) != self.nodes else { return }
        throw PurgeListError.replaced(path: self.path)
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
            let queue = try DatabaseQueue(path: path, configuration: self.configuration)
            try PurgeSchema.prepare(queue, path: path, isMade: isMade)
            try queue.close()
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            // These statements succeed on every intact file.
            throw PurgeListError.corrupt(path: path, detail: error.message ?? "\(error.extendedResultCode)")
        }
        let pool = try DatabasePool(path: path, configuration: self.configuration)
        // Feedback leaves the spool once it is on the list, so it must survive a power failure. A rollback of a large
        // statement is a few pages, for which no temporary files are needed.
        try pool.writeWithoutTransaction { database in
            try database.execute(
                sql: """
                    PRAGMA synchronous = FULL; PRAGMA cache_size = -\(PurgeLimits.cacheKibibyteCount);
                    PRAGMA temp_store = MEMORY
                    """
            )
            // From the first read on, no other process removes the log.
            _ = try Int.fetchOne(database, sql: "SELECT count(*) FROM sqlite_schema")
        }
        return pool
    }

    func close() {
        // SQLite does not merge the log into a file that was renamed, and the next list with this name removes the log.
        if FileIdentity(path: self.path) != self.nodes[0] {
            _ = try? self.pool.writeWithoutTransaction { try $0.checkpoint(.truncate) }
        }
        // Only a writer can merge the files, so readers are closed first.
        self.pool.releaseMemory()
        // Recorded data is on the disk, and the next opening merges it.
        try? self.pool.close()
    }

    /// Reads from the file in one transaction.
    private func readFile<Value>(_ body: (Database) throws -> Value) throws -> Value {
        try PurgeListError.translated(path: self.path) { try self.pool.read(body) }
    }

    func read<Value>(_ body: (PurgeContent) throws -> Value) throws -> Value {
        try self.readFile { try body(Self.content($0)) }
    }

    private static func content(_ database: Database) throws -> PurgeContent {
        let scopes = try PurgeScopes(database)
        let dead = try PurgeRows(database, .dead, hasChecksums: scopes.hasChecksums)
        return PurgeContent(scopes: scopes, dead: dead)
    }

    func snapshot() throws -> any PurgeSnapshot {
        try PurgeListError.translated(path: self.path) {
            Snapshot(path: self.path, snapshot: try self.pool.makeSnapshot())
        }
    }

    /// A snapshot of the file.
    private struct Snapshot: PurgeSnapshot {
        let path: String
        let snapshot: DatabaseSnapshot

        func read<Value>(_ body: (PurgeContent) throws -> Value) throws -> Value {
            try PurgeListError.translated(path: self.path) {
                try self.snapshot.read { try body(SQLitePurgeStorage.content($0)) }
            }
        }
    }

    func contains(_ token: UnsafeRawBufferPointer, in scopes: [PurgeScope]) throws -> Bool {
        // A single statement sees a consistent state of the file even without a transaction.
        try PurgeListError.translated(path: self.path) {
            try self.pool.unsafeRead { database in
                let rows = try PurgeRows(database, .dead, hasChecksums: true)
                return try scopes.contains { try unsafe rows.find(token, in: $0) != nil }
            }
        }
    }

    /// Changes the file in one transaction, in the current version.
    private func write<Value>(_ body: (Database) throws -> Value) throws -> Value {
        try self.checkPresence()
        let value = try PurgeListError.translated(path: self.path) {
            try self.pool.write { database in
                if try !PurgeSchema.hasChecksums(database) { try PurgeSchema.upgrade(database, path: self.path) }
                return try body(database)
            }
        }
        // Whoever removes feedback from the spool relies on it.
        try self.checkPresence()
        return value
    }

    private static var configuration: Configuration {
        var configuration = Configuration()
        configuration.label = "purge list"
        configuration.busyMode = .timeout(PurgeList.busyTimeout / .seconds(1))
        configuration.prepareDatabase { database in
            try database.execute(sql: "PRAGMA journal_size_limit = \(PurgeLimits.journalByteCountMax)")
        }
        return configuration
    }

    // MARK: Changes

    func record(_ entries: some Sequence<PurgeEntry>, batchEntryCount: Int) throws -> PurgeChange {
        try self.write { database in
            var recording = try PurgeRecording(database, path: self.path, batchEntryCount: batchEntryCount)
            for entry in entries { try recording.add(entry) }
            try recording.flush()
            return recording.change
        }
    }

    func forget(
        _ registrations: some Sequence<PurgeRegistration>,
        topic: String?,
        environment: PushEnvironment?
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

    func add(_ scope: TokenScope) throws {
        try self.write { database in
            let scopes = try PurgeScopes(database)
            _ = try scopes.add(scope)
            try scopes.store()
        }
    }

    func expire(failedBefore time: Int64) throws -> Int {
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

    // MARK: Other hosts

    func changes(for consumer: String, _ body: (PurgeEntry) throws -> Void) -> PurgeMark? { nil }

    func advance(_ consumer: String, to mark: PurgeMark) {}

    /// Processes with one file are on one host, and have other locks.
    func acquireLease(of name: String, for duration: Duration, holder: String) -> PurgeLease.Acquisition? { nil }

    func renew(_ lease: PurgeLease, for duration: Duration) -> Bool { true }

    // MARK: Damage

    func warning() throws -> String? {
        guard try !self.readFile({ try PurgeSchema.hasChecksums($0) }) else { return nil }
        return
            "purge list \(self.path) is from an earlier release and has no checksums, so its entries are not "
            + "verified. The next change of the list adds them, for the entries as they are then: damage from before "
            + "stays unnoticed. If in doubt, compare with a backup first."
    }

    func checkIntegrity() throws {
        try self.readFile { database in
            try Self.checkPages(database, path: self.path)
            let scopes = try PurgeScopes(database)
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
}

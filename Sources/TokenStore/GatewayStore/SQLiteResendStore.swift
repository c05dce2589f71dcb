// SPDX-License-Identifier: Apache-2.0

import APNSWire
public import APNSSession
import Dispatch
import FileSupport
import FoundationEssentials
import GRDB
public import Logging
import Metrics
import NIOConcurrencyHelpers

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// Stores expected resends of providers in an SQLite file, which may be that of a ``SQLiteFeedbackStore``.
///
/// One thread writes, many changes per transaction; a change is done when its transaction is on the disk. If the file
/// cannot be written, the changes wait, and writing is retried after a pause. If it was removed or replaced, all
/// expected resends are written to the current file. If only a part of it was removed, nothing is written until a
/// restart.
public final class SQLiteResendStore: ResendStore, Sendable {
    /// How long the gateway may have been down for its resends to be still expected.
    ///
    /// Providers retry for minutes; what they send later is more likely a new notification with the same content.
    static let downtimeMax = Duration.seconds(600)

    /// The maximum number of pending resends; further ones are refused.
    static let pendingCountMax = 100_000

    /// The file has whole seconds.
    private static let expiryMargin = Duration.seconds(2)

    private enum Change: Sendable {
        case insert([ExpectedResend], provider: String, duration: Duration)
        case remove(ExpectedResend, provider: String)
    }

    private struct Pending: Sendable {
        var changes: [(change: Change, onDone: @Sendable () -> Void)] = []
        var resendCount = 0
        var isWriting = false
        var failureCount = 0
        var isExpiryScheduled = false
    }

    /// The open file; used only on the thread of the store, except at the start.
    private struct File: Sendable {
        var database: GatewayDatabase
        /// Identifies the write-ahead log, without which the last writes are lost.
        var logNode: FileIdentity?
        /// Whether it failed and has to be opened again.
        var hasFailed = false
    }

    private let path: String
    private let file: NIOLockedValueBox<File>
    private let pending = NIOLockedValueBox(Pending())
    private let failures = Counter(label: "apns.legacy.resend.store.failures")
    private let logger: Logger
    private let now: @Sendable () -> Int64
    private let thread = DispatchQueue(label: "resend store")

    /// Opens a store; it is created if missing.
    ///
    /// - Parameters:
    ///   - path: the path of the file.
    ///   - logger: receives write failures.
    /// - Throws: ``GatewayStoreError``.
    public convenience init(path: String, logger: Logger = .current) throws(GatewayStoreError) {
        try self.init(path: path, logger: logger, now: { Int64(time(nil)) })
    }

    init(path: String, logger: Logger, now: @escaping @Sendable () -> Int64) throws(GatewayStoreError) {
        self.path = path
        self.logger = logger
        self.now = now
        self.file = NIOLockedValueBox(try Self.open(path))
    }

    private static func open(_ path: String) throws(GatewayStoreError) -> File {
        let database = try GatewayDatabase(path: path, label: "resend store") { database in
            try database.execute(
                sql: """
                    CREATE TABLE IF NOT EXISTS resend (
                        id INTEGER PRIMARY KEY, provider TEXT NOT NULL, key BLOB NOT NULL, until INTEGER NOT NULL
                    );
                    CREATE INDEX IF NOT EXISTS resend_key ON resend (provider, key);
                    CREATE INDEX IF NOT EXISTS resend_until ON resend (until)
                    """
            )
            try Self.addColumns(database)
        }
        return File(database: database, logNode: FileIdentity(path: path + "-wal"))
    }

    /// Adds the columns that earlier versions did not have; they stay empty in rows of these versions.
    private static func addColumns(_ database: Database) throws {
        let names = try Set(database.columns(in: "resend").map(\.name))
        for (name, type) in [
            ("content", "BLOB"), ("lifetime", "INTEGER"), ("response", "INTEGER"), ("place", "INTEGER"),
        ]
        where !names.contains(name) {
            try database.execute(sql: "ALTER TABLE resend ADD COLUMN \(name) \(type)")
        }
    }

    /// The columns of an expected resend.
    private static let columns = "key, content, lifetime, response, place"

    private static func resend(_ row: Row) -> ExpectedResend? {
        guard let key = (row["key"] as Data?).flatMap({ ResendKey(bytes: $0) }) else { return nil }
        var resend = ExpectedResend(key: key)
        if let content = (row["content"] as Data?).flatMap({ ResendKey(bytes: $0) }),
            let time = row["lifetime"] as Int64?
        {
            resend.lifetime = ExpectedResend.Lifetime(content: content, milliseconds: time)
        }
        if let response = row["response"] as Int64?, let place = row["place"] as Int64? {
            resend.place = ExpectedResend.Place(response: response, index: place)
        }
        return resend
    }

    /// Returns the expected resends of a provider, and extends their time.
    ///
    /// Entries count that were valid when the gateway stopped, or shortly before, since no provider could resend
    /// meanwhile. If the file cannot be read, this is logged, and the result is empty.
    ///
    /// - Parameters:
    ///   - provider: the provider's name.
    ///   - duration: how long they are expected from now on.
    /// - Returns: the resends, the oldest first.
    public func resends(of provider: String, for duration: Duration) -> [ExpectedResend] {
        let now = self.now()
        let earliest = now - Self.downtimeMax.components.seconds
        let until = Self.end(now, duration)
        do {
            let resends = try self.file.withLockedValue(\.database).queue.write { database in
                let sql = "SELECT \(Self.columns) FROM resend WHERE provider = ? AND until >= ? ORDER BY id"
                let resends = try Row.fetchAll(database, sql: sql, arguments: [provider, earliest])
                    .compactMap(Self.resend)
                try database.execute(
                    sql: "UPDATE resend SET until = ? WHERE provider = ? AND until >= ?",
                    arguments: [until, provider, earliest]
                )
                return resends
            }
            if !resends.isEmpty { self.scheduleExpiry(after: duration) }
            return resends
        } catch {
            self.logger.error(
                "expected resends not read",
                metadata: [LogKey.provider: "\(provider)", LogKey.failure: "\(error)"]
            )
            return []
        }
    }

    private static func end(_ now: Int64, _ duration: Duration) -> Int64 {
        let (end, isOver) = now.addingReportingOverflow(duration.components.seconds)
        return isOver ? .max : end
    }

    /// Stores expected resends.
    public func insert(
        _ resends: [ExpectedResend],
        of provider: String,
        for duration: Duration,
        onKept: @escaping @Sendable (_ isKept: Bool) -> Void
    ) {
        let hasRoom = self.pending.withLockedValue { pending in
            guard pending.resendCount + resends.count <= Self.pendingCountMax else { return false }
            pending.resendCount += resends.count
            return true
        }
        guard hasRoom else { return onKept(false) }
        self.enqueue(.insert(resends, provider: provider, duration: duration)) { onKept(true) }
        self.scheduleExpiry(after: duration)
    }

    /// Removes one entry with the key of a resend.
    public func remove(
        _ resend: ExpectedResend,
        of provider: String,
        onRemoved: @escaping @Sendable () -> Void
    ) {
        self.enqueue(.remove(resend, provider: provider), onRemoved)
    }

    private func enqueue(_ change: Change, _ onDone: @escaping @Sendable () -> Void) {
        let startsWriting = self.pending.withLockedValue { pending in
            pending.changes.append((change, onDone))
            defer { pending.isWriting = true }
            return !pending.isWriting
        }
        if startsWriting { self.thread.async { self.write() } }
    }

    /// Removes expired entries even if nothing else is written, so that a later start does not expect them.
    private func scheduleExpiry(after duration: Duration) {
        let isFirst = self.pending.withLockedValue { pending in
            defer { pending.isExpiryScheduled = true }
            return !pending.isExpiryScheduled
        }
        guard isFirst else { return }
        let delay = duration + Self.expiryMargin
        self.thread.asyncAfter(deadline: .now() + delay / .seconds(1)) { [weak self] in
            guard let self else { return }
            self.pending.withLockedValue { $0.isExpiryScheduled = false }
            let now = self.now()
            let leftCount = try? self.file.withLockedValue(\.database).queue.write { database in
                try Self.expire(database, now: now)
                return try Int.fetchOne(database, sql: "SELECT count(*) FROM resend") ?? 0
            }
            if leftCount != 0 { self.scheduleExpiry(after: duration) }
        }
    }

    private static func expire(_ database: Database, now: Int64) throws {
        try database.execute(sql: "DELETE FROM resend WHERE until < ?", arguments: [now])
    }

    /// Writes all changes, including new ones; on the thread of the store.
    private func write() {
        while true {
            let changes = self.pending.withLockedValue { pending in
                pending.isWriting = !pending.changes.isEmpty
                return pending.changes
            }
            guard !changes.isEmpty else { return }
            do {
                try self.apply(changes.map(\.change))
            } catch {
                self.failed(error)
                return
            }
            self.pending.withLockedValue { pending in
                pending.changes.removeFirst(changes.count)
                pending.failureCount = 0
                for case .insert(let resends, _, _) in changes.lazy.map(\.change) {
                    pending.resendCount -= resends.count
                }
            }
            for (_, onDone) in changes { onDone() }
        }
    }

    private func apply(_ changes: [Change]) throws {
        let now = self.now()
        let old = self.file.withLockedValue { $0 }
        var file = old
        let isInPlace = FileIdentity(path: self.path) == old.database.node
        let isLogInPlace = FileIdentity(path: self.path + "-wal") == old.logNode
        // SQLite keeps writing to a removed log, and a leftover log would be applied to the next file.
        if isInPlace != isLogInPlace {
            let gone = isInPlace ? "its write-ahead log was removed" : "it was removed without its write-ahead log"
            throw GatewayStoreError(path: self.path, detail: "\(gone); restart the gateway")
        }
        let kept = isInPlace ? [] : self.expected(in: old.database.queue, now: now)
        if !isInPlace || old.hasFailed { file = try Self.open(self.path) }
        try file.database.queue.write { database in
            if !isInPlace {
                // The content of the open file is correct, whatever the file in its place contains.
                try database.execute(sql: "DELETE FROM resend")
                try Self.insert(kept, into: database)
            }
            try Self.apply(changes, to: database, now: now)
            try Self.expire(database, now: now)
        }
        file.logNode = FileIdentity(path: self.path + "-wal")
        self.file.withLockedValue { [file] in $0 = file }
    }

    /// Returns the expected resends in a removed file that is still open.
    private func expected(in old: DatabaseQueue, now: Int64) -> [Row] {
        do {
            return try old.read { old in
                let sql = "SELECT provider, until, \(Self.columns) FROM resend WHERE until >= ?"
                return try Row.fetchAll(old, sql: sql, arguments: [now])
            }
        } catch {
            self.logger.error("expected resends lost with the removed database", metadata: [LogKey.failure: "\(error)"])
            return []
        }
    }

    private static func insert(_ rows: [Row], into database: Database) throws {
        for row in rows {
            guard let resend = Self.resend(row) else { continue }
            try Self.insert(resend, of: row["provider"], until: row["until"], into: database)
        }
    }

    private static func insert(
        _ resend: ExpectedResend,
        of provider: String,
        until: Int64,
        into database: Database
    ) throws {
        let sql = "INSERT INTO resend (provider, until, \(Self.columns)) VALUES (?, ?, ?, ?, ?, ?, ?)"
        try database.cachedStatement(sql: sql).execute(
            arguments: [
                provider, until, Data(resend.key.bytes), (resend.lifetime?.content.bytes).map { Data($0) },
                resend.lifetime?.milliseconds, resend.place?.response, resend.place?.index,
            ]
        )
    }

    private static func apply(_ changes: [Change], to database: Database, now: Int64) throws {
        let remove = try database.cachedStatement(
            sql: """
                DELETE FROM resend WHERE id = (
                    SELECT id FROM resend WHERE provider = ? AND key = ?
                    ORDER BY (response IS ? AND place IS ?) DESC, id LIMIT 1
                )
                """
        )
        for change in changes {
            switch change {
            case .insert(let resends, let provider, let duration):
                let until = Self.end(now, duration)
                for resend in resends { try Self.insert(resend, of: provider, until: until, into: database) }
            case .remove(let resend, let provider):
                try remove.execute(
                    arguments: [provider, Data(resend.key.bytes), resend.place?.response, resend.place?.index]
                )
            }
        }
    }

    private func failed(_ error: any Error) {
        let failureCount = self.pending.withLockedValue { pending in
            pending.failureCount += 1
            return pending.failureCount
        }
        self.failures.increment()
        self.file.withLockedValue { $0.hasFailed = true }
        let pause = GatewayDatabase.backoff.delay(failures: failureCount, jitter: 1)
        self.logger.error(
            "expected resends not written, retrying",
            metadata: [LogKey.failure: "\(error)", LogKey.storePause: "\(pause)"]
        )
        self.thread.asyncAfter(deadline: .now() + pause / .seconds(1)) { self.write() }
    }

    /// Waits until all changes so far are on the disk, or have failed to be written once more.
    public func flush() async {
        await withCheckedContinuation { continuation in self.thread.async { continuation.resume() } }
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSWire
public import APNSSession
import Dispatch
import FileSystemSupport
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

/// Keeps the resends that are expected of providers in an SQLite file, which may be that of a ``SQLiteFeedbackStore``.
///
/// One thread writes, many changes in one transaction; a change is done when its transaction is on the disk. Where the
/// file cannot be written, the changes wait, and are tried again after a pause. Where it is gone or another one is in
/// its place, all that is expected goes to the file that is there then. Where only a part of it was removed, nothing
/// is written until a restart.
public final class SQLiteResendStore: ResendStore, Sendable {
    /// How long the gateway may have been stopped for its resends still to be expected.
    ///
    /// Providers try again for minutes, and what they send later is more likely a new notification that is alike.
    static let downtimeMax = Duration.seconds(600)

    /// How many keys may wait to be written; more are refused.
    static let pendingCountMax = 100_000

    /// The file counts in whole seconds.
    private static let expiryMargin = Duration.seconds(2)

    private enum Change: Sendable {
        case insert([ResendKey], provider: String, duration: Duration)
        case remove(ResendKey, provider: String)
    }

    private struct Pending: Sendable {
        var changes: [(change: Change, onDone: @Sendable () -> Void)] = []
        var keyCount = 0
        var isWriting = false
        var failureCount = 0
        var isExpiryScheduled = false
    }

    /// The open file; used on the thread of the store only, but for the start.
    private struct File: Sendable {
        var database: GatewayDatabase
        /// The write-ahead log beside it, without which what was written last is lost.
        var logNode: FileIdentity?
        /// Whether it failed, so that it is opened anew.
        var hasFailed = false
    }

    private let path: String
    private let file: NIOLockedValueBox<File>
    private let pending = NIOLockedValueBox(Pending())
    private let failures = Counter(label: "apns.legacy.resend.store.failures")
    private let logger: Logger
    private let now: @Sendable () -> Int64
    private let thread = DispatchQueue(label: "resend store")

    /// Opens a store, and makes it where it is not there.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - logger: is told where the file cannot be written.
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
        }
        return File(database: database, logNode: FileIdentity(path: path + "-wal"))
    }

    /// The resends that are expected of a provider, from now on for so long.
    ///
    /// What was to be remembered until the gateway stopped, or not long before, counts: no provider could send again
    /// meanwhile. Where the file cannot be read, that is logged, and there are none.
    ///
    /// - Parameters:
    ///   - provider: its name.
    ///   - duration: for how long.
    /// - Returns: their keys, the oldest first.
    public func keys(of provider: String, for duration: Duration) -> [ResendKey] {
        let now = self.now()
        let earliest = now - Self.downtimeMax.components.seconds
        let until = Self.end(now, duration)
        do {
            let keys = try self.file.withLockedValue(\.database).queue.write { database in
                let sql = "SELECT key FROM resend WHERE provider = ? AND until >= ? ORDER BY id"
                let keys = try Data.fetchAll(database, sql: sql, arguments: [provider, earliest])
                    .compactMap { ResendKey(bytes: $0) }
                try database.execute(
                    sql: "UPDATE resend SET until = ? WHERE provider = ? AND until >= ?",
                    arguments: [until, provider, earliest]
                )
                return keys
            }
            if !keys.isEmpty { self.scheduleExpiry(after: duration) }
            return keys
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

    /// Keeps keys.
    public func insert(
        _ keys: [ResendKey],
        of provider: String,
        for duration: Duration,
        onKept: @escaping @Sendable (_ isKept: Bool) -> Void
    ) {
        let hasRoom = self.pending.withLockedValue { pending in
            guard pending.keyCount + keys.count <= Self.pendingCountMax else { return false }
            pending.keyCount += keys.count
            return true
        }
        guard hasRoom else { return onKept(false) }
        self.enqueue(.insert(keys, provider: provider, duration: duration)) { onKept(true) }
        self.scheduleExpiry(after: duration)
    }

    /// Takes out one of a key.
    public func remove(_ key: ResendKey, of provider: String, onRemoved: @escaping @Sendable () -> Void) {
        self.enqueue(.remove(key, provider: provider), onRemoved)
    }

    private func enqueue(_ change: Change, _ onDone: @escaping @Sendable () -> Void) {
        let startsWriting = self.pending.withLockedValue { pending in
            pending.changes.append((change, onDone))
            defer { pending.isWriting = true }
            return !pending.isWriting
        }
        if startsWriting { self.thread.async { self.write() } }
    }

    /// Removes what is too old, also where nothing else is written, so that a later start does not expect it.
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

    /// Writes all changes, those that come meanwhile too; on the thread of the store.
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
                for case .insert(let keys, _, _) in changes.lazy.map(\.change) { pending.keyCount -= keys.count }
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
        // SQLite goes on writing to a log that was removed, and takes one that was left for that of the next file.
        if isInPlace != isLogInPlace {
            let gone = isInPlace ? "its write-ahead log was removed" : "it was removed, and its write-ahead log was not"
            throw GatewayStoreError(path: self.path, detail: "\(gone); restart the gateway")
        }
        let kept = isInPlace ? [] : self.expected(in: old.database.queue, now: now)
        if !isInPlace || old.hasFailed { file = try Self.open(self.path) }
        try file.database.queue.write { database in
            if !isInPlace {
                // What the file that is open still knows is right, whatever is in the one in its place.
                try database.execute(sql: "DELETE FROM resend")
                try Self.insert(kept, into: database)
            }
            try Self.apply(changes, to: database, now: now)
            try Self.expire(database, now: now)
        }
        file.logNode = FileIdentity(path: self.path + "-wal")
        self.file.withLockedValue { [file] in $0 = file }
    }

    /// What is expected by a file that nobody finds any more, which is open still.
    private func expected(in old: DatabaseQueue, now: Int64) -> [Row] {
        do {
            return try old.read { old in
                try Row.fetchAll(old, sql: "SELECT provider, key, until FROM resend WHERE until >= ?", arguments: [now])
            }
        } catch {
            self.logger.error("expected resends lost with their file", metadata: [LogKey.failure: "\(error)"])
            return []
        }
    }

    private static func insert(_ rows: [Row], into database: Database) throws {
        for row in rows {
            try database.execute(
                sql: "INSERT INTO resend (provider, key, until) VALUES (?, ?, ?)",
                arguments: [row[0] as String, row[1] as Data, row[2] as Int64]
            )
        }
    }

    private static func apply(_ changes: [Change], to database: Database, now: Int64) throws {
        let insert = try database.cachedStatement(sql: "INSERT INTO resend (provider, key, until) VALUES (?, ?, ?)")
        let remove = try database.cachedStatement(
            sql: """
                DELETE FROM resend WHERE id =
                    (SELECT id FROM resend WHERE provider = ? AND key = ? ORDER BY id LIMIT 1)
                """
        )
        for change in changes {
            switch change {
            case .insert(let keys, let provider, let duration):
                let until = Self.end(now, duration)
                for key in keys { try insert.execute(arguments: [provider, Data(key.bytes), until]) }
            case .remove(let key, let provider): try remove.execute(arguments: [provider, Data(key.bytes)])
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

    /// Waits until all changes so far are on the disk, or could not be written once more.
    public func flush() async {
        await withCheckedContinuation { continuation in self.thread.async { continuation.resume() } }
    }
}

// SPDX-License-Identifier: Apache-2.0

import Dispatch
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
/// file cannot be written, the changes wait, and are tried again after a pause.
public final class SQLiteResendStore: ResendStore, Sendable {
    /// How long the gateway may have been stopped for its resends still to be expected.
    ///
    /// Providers try again for minutes, and what they send later is more likely a new notification that is alike.
    static let downtimeMax = Duration.seconds(600)

    /// How long to wait before writing again after the first failure, doubled with each up to ``pauseMax``.
    static let pauseFirst = Duration.milliseconds(250)
    static let pauseMax = Duration.seconds(15)

    /// The file counts in whole seconds.
    private static let expiryMargin = Duration.seconds(2)

    private enum Change: Sendable {
        case insert([ResendKey], provider: String, until: Int64)
        case remove(ResendKey, provider: String)
    }

    private struct Pending: Sendable {
        var changes: [(change: Change, onDone: @Sendable () -> Void)] = []
        var isWriting = false
        var failureCount = 0
        var isExpiryScheduled = false
    }

    private let path: String
    private let database: NIOLockedValueBox<DatabaseQueue>
    private let pending = NIOLockedValueBox(Pending())
    private let failures = Counter(label: "push.resend.store.failures")
    private let logger: Logger
    private let now: @Sendable () -> Int64
    private let thread = DispatchQueue(label: "resend store")

    /// Opens a store, and makes it where it is not there.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - logger: is told where the file cannot be written.
    /// - Throws: ``GatewayError/feedback(path:detail:)``.
    public convenience init(path: String, logger: Logger = .current) throws(GatewayError) {
        try self.init(path: path, logger: logger, now: { Int64(time(nil)) })
    }

    init(path: String, logger: Logger, now: @escaping @Sendable () -> Int64) throws(GatewayError) {
        self.path = path
        self.logger = logger
        self.now = now
        do {
            self.database = NIOLockedValueBox(try Self.open(path))
        } catch {
            throw .feedback(path: path, detail: "\(error)")
        }
    }

    private static func open(_ path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.label = "resend store"
        configuration.busyMode = .timeout(10)
        let database = try DatabaseQueue(path: path, configuration: configuration)
        try database.writeWithoutTransaction { database in
            try database.execute(sql: "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
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
        return database
    }

    /// The resends that are expected of a provider.
    ///
    /// What was to be remembered until the gateway stopped, or not long before, counts: no provider could send again
    /// meanwhile. Where the file cannot be read, that is logged, and there are none.
    ///
    /// - Parameter provider: its name.
    /// - Returns: their keys, the oldest first.
    public func keys(of provider: String) -> [ResendKey] {
        let earliest = self.now() - Self.downtimeMax.components.seconds
        do {
            return try self.database.withLockedValue { $0 }.read { database in
                let sql = "SELECT key FROM resend WHERE provider = ? AND until >= ? ORDER BY id"
                return try Data.fetchAll(database, sql: sql, arguments: [provider, earliest])
                    .compactMap { ResendKey(bytes: $0) }
            }
        } catch {
            self.logger.error(
                "expected resends not read",
                metadata: [LogKey.provider: "\(provider)", LogKey.failure: "\(error)"]
            )
            return []
        }
    }

    /// Keeps keys.
    public func insert(
        _ keys: [ResendKey],
        of provider: String,
        for duration: Duration,
        onKept: @escaping @Sendable () -> Void
    ) {
        let (until, isOver) = self.now().addingReportingOverflow(duration.components.seconds)
        self.enqueue(.insert(keys, provider: provider, until: isOver ? .max : until), onKept)
        self.scheduleExpiry(after: duration)
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
            let database = self.database.withLockedValue { $0 }
            let leftCount = try? database.write { database in
                try database.execute(sql: "DELETE FROM resend WHERE until < ?", arguments: [now])
                return try Int.fetchOne(database, sql: "SELECT count(*) FROM resend") ?? 0
            }
            if leftCount != 0 { self.scheduleExpiry(after: duration) }
        }
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
            }
            for (_, onDone) in changes { onDone() }
        }
    }

    private func apply(_ changes: [Change]) throws {
        var database = self.database.withLockedValue { $0 }
        // SQLite goes on writing to a file that was removed, where nobody finds it again.
        if access(self.path, F_OK) != 0 {
            database = try Self.open(self.path)
            self.database.withLockedValue { [database] in $0 = database }
        }
        let now = self.now()
        try database.write { database in
            let insert = try database.cachedStatement(
                sql: "INSERT INTO resend (provider, key, until) VALUES (?, ?, ?)"
            )
            let remove = try database.cachedStatement(
                sql: """
                    DELETE FROM resend WHERE id =
                        (SELECT id FROM resend WHERE provider = ? AND key = ? ORDER BY id LIMIT 1)
                    """
            )
            for change in changes {
                switch change {
                case .insert(let keys, let provider, let until):
                    for key in keys { try insert.execute(arguments: [provider, Data(key.bytes), until]) }
                case .remove(let key, let provider): try remove.execute(arguments: [provider, Data(key.bytes)])
                }
            }
            try database.execute(sql: "DELETE FROM resend WHERE until < ?", arguments: [now])
        }
    }

    private func failed(_ error: any Error) {
        let failureCount = self.pending.withLockedValue { pending in
            pending.failureCount += 1
            return pending.failureCount
        }
        self.failures.increment()
        let pause = min(Self.pauseFirst * (1 << min(failureCount - 1, 20)), Self.pauseMax)
        self.logger.error(
            "expected resends not written, retrying",
            metadata: [LogKey.failure: "\(error)", LogKey.pause: "\(pause)"]
        )
        self.thread.asyncAfter(deadline: .now() + pause / .seconds(1)) { self.write() }
    }

    /// Waits until all changes so far are on the disk, or could not be written once more.
    public func flush() async {
        await withCheckedContinuation { continuation in self.thread.async { continuation.resume() } }
    }
}

// SPDX-License-Identifier: Apache-2.0

public import APNSSession
public import APNSWire
import Dispatch
import FileSupport
import FoundationEssentials
import GRDB
public import Logging
import Metrics
import NIOConcurrencyHelpers

/// The dead tokens for the feedback service, stored in an SQLite file.
///
/// They are also in memory, so that event loops never wait for the disk. One thread writes the file, many changes per
/// transaction. A tuple counts as stored when its transaction is on the disk.
///
/// If the file cannot be written, ``problem`` is set, nothing counts as stored, and writing is retried after a pause.
/// Then everything in memory is written, to a new file if the old one was removed.
public final class SQLiteFeedbackStore: FeedbackListStore, Sendable {
    /// The default limit of tokens.
    ///
    /// A million use about 100 MB of memory.
    public static let countMaxDefault = 1_000_000

    /// The minimum interval of log messages about dropped tokens.
    static let droppedLogPause = Duration.seconds(10)

    /// The layout version of the file.
    private static let version = 1

    private enum Change: Sendable {
        case put(FeedbackTuple, TokenScope)
        /// Removes a token, only with this time unless it is `nil`.
        case remove(DeviceToken, UInt32?, TokenScope)
    }

    private struct State: Sendable {
        var lists: [TokenScope: FeedbackBuckets] = [:]
        var count = 0
        var changes: [Change] = []
        var waiters: [@Sendable () -> Void] = []
        var isWriting = false
        /// Why the file cannot be written; then everything has to be written again.
        var problem: String?
        /// Whether changes are not queued, because everything will be written from the lists.
        var isBehind = false
        /// The number of dropped tokens since the last log message, and its time.
        var droppedCount = 0
        var droppedLogTime: ContinuousClock.Instant?
    }

    /// The open file; used only on the thread of the store, except at the start.
    private struct File: Sendable {
        var database: GatewayDatabase
        var failureCount = 0
    }

    private let path: String
    private let file: NIOLockedValueBox<File>
    private let failures = Counter(label: "apns.legacy.feedback.store.failures")
    private let dropped = Counter(label: "apns.legacy.feedback.store.dropped")
    private let countMax: Int
    private let logger: Logger
    private let state: NIOLockedValueBox<State>
    private let thread = DispatchQueue(label: "feedback store")

    /// Opens a store; it is created if missing.
    ///
    /// - Parameters:
    ///   - path: the path of the file.
    ///   - countMax: the maximum number of tokens; further ones are dropped.
    ///   - logger: receives write failures.
    /// - Throws: ``GatewayStoreError``.
    public init(path: String, countMax: Int = countMaxDefault, logger: Logger = .current) throws(GatewayStoreError) {
        self.path = path
        self.countMax = countMax
        self.logger = logger
        let database = try Self.open(path)
        self.file = NIOLockedValueBox(File(database: database))
        do {
            self.state = NIOLockedValueBox(try database.queue.read(Self.load))
        } catch {
            throw GatewayStoreError(path: path, detail: "\(error)")
        }
    }

    private static func open(_ path: String) throws(GatewayStoreError) -> GatewayDatabase {
        try GatewayDatabase(path: path, label: "feedback store") { database in
            let version = try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
            guard version <= Self.version else {
                let detail = "it was created by a newer release (layout version \(version)); use that release"
                throw GatewayStoreError(path: path, detail: detail)
            }
            try database.execute(
                sql: """
                    CREATE TABLE IF NOT EXISTS feedback (
                        topic TEXT NOT NULL, environment TEXT NOT NULL, token BLOB NOT NULL,
                        failed_at INTEGER NOT NULL, PRIMARY KEY (topic, environment, token)
                    ) WITHOUT ROWID;
                    PRAGMA user_version = \(Self.version)
                    """
            )
        }
    }

    private static func load(_ database: Database) throws -> State {
        var state = State()
        let rows = try Row.fetchCursor(database, sql: "SELECT topic, environment, token, failed_at FROM feedback")
        while let row = try rows.next() {
            let bytes: Data = row[2]
            let token = try DeviceToken(bytes: bytes)
            guard let environment = Environment(rawValue: row[1]) else {
                throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: "a row has an unknown environment")
            }
            state.lists[TokenScope(topic: row[0], environment: environment), default: FeedbackBuckets()][token] =
                UInt32(clamping: row[3] as Int64)
            state.count += 1
        }
        return state
    }

    /// The number of tokens in each list.
    public var counts: [TokenScope: Int] { self.state.withLockedValue { $0.lists.mapValues(\.count) } }

    /// Why the file currently cannot be written; `nil` if it can.
    ///
    /// Changes that are not written are in memory, and writing is retried.
    public var problem: String? { self.state.withLockedValue(\.problem) }

    /// Reads the next page of a list.
    public func page(of list: TokenScope, from index: Int, countMin: Int) -> FeedbackPage {
        self.state.withLockedValue { state in
            state.lists[list]?.page(from: index, countMin: countMin) ?? FeedbackPage(nextIndex: index)
        }
    }

    /// Stores a tuple; of several for a token, the newest counts.
    ///
    /// - Parameters:
    ///   - tuple: the token, and the time of its failure.
    ///   - list: the list.
    ///   - onKept: called once, when the tuple is on the disk, or was dropped, which is logged.
    public func record(_ tuple: FeedbackTuple, in list: TokenScope, onKept: @escaping @Sendable () -> Void) {
        let (isFull, startsWriting) = self.state.withLockedValue { state -> (Bool, Bool) in
            let before = state.lists[list]?[tuple.token]
            guard before != nil || state.count < self.countMax else { return (true, false) }
            if before == nil { state.count += 1 }
            state.lists[list, default: FeedbackBuckets()][tuple.token] = max(before ?? 0, tuple.failedAt)
            if !state.isBehind { state.changes.append(.put(tuple, list)) }
            state.waiters.append(onKept)
            return (false, Self.start(&state))
        }
        if isFull {
            self.dropped.increment()
            self.logDrop(list)
            onKept()
        }
        if startsWriting { self.thread.async { self.write() } }
    }

    /// Logs dropped tokens at a limited rate, so that no client can fill a disk.
    private func logDrop(_ list: TokenScope) {
        let count = self.state.withLockedValue { state -> Int? in
            state.droppedCount += 1
            let now = ContinuousClock.now
            if let time = state.droppedLogTime, now - time < Self.droppedLogPause { return nil }
            defer { (state.droppedCount, state.droppedLogTime) = (0, now) }
            return state.droppedCount
        }
        guard let count else { return }
        self.logger.error(
            "feedback store is full",
            metadata: [LogKey.topic: "\(list.topic)", LogKey.tokens: "\(count)"]
        )
    }

    /// Removes a token from its list, since a notification for it was delivered.
    ///
    /// - Parameters:
    ///   - token: the token.
    ///   - list: the list.
    public func forget(_ token: DeviceToken, in list: TokenScope) {
        // Most lists are empty, and this is called for each notification.
        guard self.state.withLockedValue({ $0.count > 0 }) else { return }
        self.remove(CollectionOfOne((token, nil)), in: list)
    }

    /// Removes delivered tokens from a list, if their times are unchanged.
    ///
    /// Most tokens of a long list are removed later, in portions on the thread of the store, so that neither the caller
    /// nor recording is delayed. A list that is opened meanwhile may contain some of them again.
    public func acknowledge(_ tokens: [FeedbackPage.Bucket], in list: TokenScope) {
        var count = 0
        var portionCount = 0
        for bucket in tokens {
            guard count < Self.portionCount else { break }
            self.remove(bucket.lazy.map { ($0.key, $0.value) }, in: list)
            count += bucket.count
            portionCount += 1
        }
        guard portionCount < tokens.count else { return }
        let rest = Array(tokens[portionCount...])
        // After the transaction with the tokens removed above.
        self.thread.async { self.acknowledge(rest, in: list) }
    }

    /// The number of delivered tokens that are removed at a time, in one transaction.
    private static let portionCount = 8192

    /// Removes tokens from a list; those with a time only if it is unchanged.
    private func remove(_ tokens: some Sequence<(DeviceToken, UInt32?)>, in list: TokenScope) {
        let startsWriting = self.state.withLockedValue { state -> Bool in
            guard state.count > 0, state.lists[list] != nil else { return false }
            for (token, time) in tokens {
                guard let present = state.lists[list]?[token], time == nil || time == present else { continue }
                state.lists[list]?[token] = nil
                state.count -= 1
                if !state.isBehind { state.changes.append(.remove(token, time, list)) }
            }
            return state.changes.isEmpty ? false : Self.start(&state)
        }
        if startsWriting { self.thread.async { self.write() } }
    }

    private static func start(_ state: inout State) -> Bool {
        defer { state.isWriting = true }
        return !state.isWriting
    }

    /// The next changes to write.
    private struct Batch {
        var changes: [Change]
        /// The whole content, if the file has to be written again.
        var lists: [TokenScope: FeedbackBuckets]?
        var waiters: [@Sendable () -> Void]
    }

    /// Writes all changes, including new ones; on the thread of the store.
    private func write() {
        while let batch = self.nextBatch() {
            do {
                try self.write(batch)
            } catch {
                self.failed(error, batch)
                return
            }
            for waiter in batch.waiters { waiter() }
        }
    }

    private func nextBatch() -> Batch? {
        self.state.withLockedValue { state in
            guard state.problem != nil || !state.changes.isEmpty else {
                state.isWriting = false
                return nil
            }
            defer { (state.changes, state.waiters, state.isBehind) = ([], [], false) }
            return Batch(
                changes: state.changes,
                lists: state.problem == nil ? nil : state.lists,
                waiters: state.waiters
            )
        }
    }

    private func write(_ batch: Batch) throws {
        guard let lists = batch.lists else {
            let database = self.file.withLockedValue(\.database)
            // SQLite keeps writing to a removed file, where the data would be lost.
            guard FileIdentity(path: self.path) == database.node else {
                throw GatewayStoreError(path: self.path, detail: "the file was removed or replaced")
            }
            try database.queue.write { try Self.apply(batch.changes, to: $0) }
            return
        }
        let opened = try Self.open(self.path)
        let isSame = opened.node == self.file.withLockedValue(\.database.node)
        try opened.queue.write { database in
            // Another program's file in its place is not cleared.
            if isSame { try database.execute(sql: "DELETE FROM feedback") }
            for (list, tokens) in lists {
                try Self.apply(
                    tokens.all.lazy.map { .put(FeedbackTuple(token: $0.key, failedAt: $0.value), list) },
                    to: database
                )
            }
        }
        self.file.withLockedValue { $0 = File(database: opened) }
        self.state.withLockedValue { $0.problem = nil }
        self.logger.notice("feedback database writable again")
    }

    private func failed(_ error: any Error, _ batch: Batch) {
        let failureCount = self.file.withLockedValue { file in
            file.failureCount += 1
            return file.failureCount
        }
        self.state.withLockedValue { state in
            state.problem = "\(error)"
            state.isBehind = true
            state.changes = []
            state.waiters = batch.waiters + state.waiters
        }
        self.failures.increment()
        let pause = GatewayDatabase.backoff.delay(failures: failureCount, jitter: 1)
        self.logger.error(
            "feedback not written, retrying",
            metadata: [LogKey.failure: "\(error)", LogKey.storePause: "\(pause)"]
        )
        self.thread.asyncAfter(deadline: .now() + pause / .seconds(1)) { self.write() }
    }

    private static func apply(_ changes: some Sequence<Change>, to database: Database) throws {
        let put = try database.cachedStatement(
            sql: """
                INSERT INTO feedback (topic, environment, token, failed_at) VALUES (?, ?, ?, ?)
                ON CONFLICT DO UPDATE SET failed_at = max(failed_at, excluded.failed_at)
                """
        )
        let remove = try database.cachedStatement(
            sql: "DELETE FROM feedback WHERE topic = ?1 AND environment = ?2 AND token = ?3 AND failed_at <= ?4"
        )
        for change in changes {
            switch change {
            case .put(let tuple, let list):
                try put.execute(
                    arguments: [list.topic, list.environment.rawValue, Self.data(tuple.token), Int64(tuple.failedAt)]
                )
            case .remove(let token, let time, let list):
                try remove.execute(
                    arguments: [list.topic, list.environment.rawValue, Self.data(token), time.map(Int64.init) ?? .max]
                )
            }
        }
    }

    private static func data(_ token: DeviceToken) -> Data { unsafe token.withUnsafeBytes { unsafe Data($0) } }

    /// Waits until everything recorded so far is on the disk, or has failed to be written once more.
    public func flush() async {
        await withCheckedContinuation { continuation in self.thread.async { continuation.resume() } }
    }
}

// SPDX-License-Identifier: Apache-2.0

public import APNSSession
public import APNSWire
import Dispatch
import FileSystemSupport
import FoundationEssentials
import GRDB
public import Logging
import Metrics
import NIOConcurrencyHelpers

/// What the feedback service has to tell, kept in an SQLite file.
///
/// All of it is in memory as well, so that event loops never wait for the disk; the file is written by one thread, many
/// changes in one transaction. A tuple is said to be kept when its transaction is on the disk.
///
/// Where the file cannot be written, ``problem`` says so, nothing is said to be kept, and it is tried again after a
/// pause; then all that is in memory is written, into a new file where the old one is gone.
public final class SQLiteFeedbackStore: FeedbackListStore, Sendable {
    /// How many tokens are kept by default.
    ///
    /// A million take about 100 MB of memory.
    public static let countMaxDefault = 1_000_000

    /// How long nothing more is logged of tokens that are not kept.
    static let droppedLogPause = Duration.seconds(10)

    /// The layout of the file that this version reads and writes.
    private static let version = 1

    private enum Change: Sendable {
        case put(FeedbackTuple, TokenScope)
        /// Takes a token off; only where its time is this one, unless that is `nil`.
        case remove(DeviceToken, UInt32?, TokenScope)
    }

    private struct State: Sendable {
        var lists: [TokenScope: FeedbackBuckets] = [:]
        var count = 0
        var changes: [Change] = []
        var waiters: [@Sendable () -> Void] = []
        var isWriting = false
        /// Why the file cannot be written; then all is to be written anew.
        var problem: String?
        /// Whether changes are not kept, because all is to be written anew from what the lists are then.
        var isBehind = false
        /// How many tokens were not kept since that was logged last, and when that was.
        var droppedCount = 0
        var droppedLogTime: ContinuousClock.Instant?
    }

    /// The open file; used on the thread of the store only, but for the start.
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

    /// Opens a store, and makes it where it is not there.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - countMax: how many tokens are kept at most; more are not.
    ///   - logger: is told where the file cannot be written.
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
                throw GatewayStoreError(path: path, detail: "it is of a newer version (\(version)) of this program")
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

    /// How many tokens wait in each list.
    public var counts: [TokenScope: Int] { self.state.withLockedValue { $0.lists.mapValues(\.count) } }

    /// Why the file cannot be written now; `nil` where it can.
    ///
    /// What is not written is in memory, and it is tried again.
    public var problem: String? { self.state.withLockedValue(\.problem) }

    /// Reads on in a list.
    public func page(of list: TokenScope, from index: Int, countMin: Int) -> FeedbackPage {
        self.state.withLockedValue { state in
            state.lists[list]?.page(from: index, countMin: countMin) ?? FeedbackPage(nextIndex: index)
        }
    }

    /// Keeps a tuple; of several for a token, the newest.
    ///
    /// - Parameters:
    ///   - tuple: the token, and since when it is dead.
    ///   - list: whose list it goes to.
    ///   - onKept: is called once when the tuple is on the disk, or cannot be kept, which is logged.
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

    /// Logs that a token is not kept, once in a while, so that nobody can fill a disk with that.
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

    /// Takes a token off the list, since a notification for it was delivered.
    ///
    /// - Parameters:
    ///   - token: the token.
    ///   - list: whose list.
    public func forget(_ token: DeviceToken, in list: TokenScope) {
        // Most lists are empty, and this is asked for each notification.
        guard self.state.withLockedValue({ $0.count > 0 }) else { return }
        self.remove(CollectionOfOne((token, nil)), in: list)
    }

    /// Takes tokens that were delivered off a list, where their time is still the one that was delivered.
    ///
    /// Of a long list most are taken off later, on the thread of the store and a portion at a time, so that neither the
    /// caller nor one that records is held up by it. A list that is opened meanwhile may have some of them again.
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
        // Behind the transaction with what was taken off now.
        self.thread.async { self.acknowledge(rest, in: list) }
    }

    /// So many tokens that were delivered are taken off at a time, and in one transaction.
    private static let portionCount = 8192

    /// Takes tokens off a list, those with a time only where that is still theirs.
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

    /// What is to be written next.
    private struct Batch {
        var changes: [Change]
        /// All there is, where the file has to be written anew.
        var lists: [TokenScope: FeedbackBuckets]?
        var waiters: [@Sendable () -> Void]
    }

    /// Writes all changes, those that come meanwhile too; on the thread of the store.
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
            // SQLite goes on writing to a file that was removed, where nobody finds it again.
            guard FileIdentity(path: self.path) == database.node else {
                throw GatewayStoreError(path: self.path, detail: "it is gone, or another one is in its place")
            }
            try database.queue.write { try Self.apply(batch.changes, to: $0) }
            return
        }
        let opened = try Self.open(self.path)
        let isSame = opened.node == self.file.withLockedValue(\.database.node)
        try opened.queue.write { database in
            // What somebody put in its place is not this store's to throw away.
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
        self.logger.notice("feedback is written again")
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
            "feedback not written, which is tried again",
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

    /// Waits until all that was recorded is on the disk, or could not be written once more.
    public func flush() async {
        await withCheckedContinuation { continuation in self.thread.async { continuation.resume() } }
    }
}

// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import Dispatch
import FoundationEssentials
import GRDB
public import Logging
import NIOConcurrencyHelpers

/// What the feedback service has to tell, kept in an SQLite file.
///
/// All of it is in memory as well, so that event loops never wait for the disk; the file is written by one thread, many
/// changes in one transaction. A tuple is said to be kept when its transaction is on the disk.
public final class SQLiteFeedbackStore: FeedbackRecorder, Sendable {
    /// How many tokens are kept by default.
    ///
    /// A million take about 100 MB of memory.
    public static let countMaxDefault = 1_000_000

    /// The layout of the file that this version reads and writes.
    private static let version = 1

    private enum Change: Sendable {
        case put(FeedbackTuple, FeedbackListName)
        /// Takes a token off; only where its time is this one, unless that is `nil`.
        case remove(DeviceToken, UInt32?, FeedbackListName)
    }

    private struct Books: Sendable {
        var lists: [FeedbackListName: [DeviceToken: UInt32]] = [:]
        var count = 0
        var changes: [Change] = []
        var waiters: [@Sendable () -> Void] = []
        var isWriting = false
    }

    private let database: DatabaseQueue
    private let countMax: Int
    private let logger: Logger
    private let books: NIOLockedValueBox<Books>
    private let thread = DispatchQueue(label: "feedback store")

    /// Opens a store, and makes it where it is not there.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - countMax: how many tokens are kept at most; more are not.
    ///   - logger: is told where the file cannot be written.
    /// - Throws: ``GatewayError/feedback(path:detail:)``.
    public init(path: String, countMax: Int = countMaxDefault, logger: Logger = .current) throws(GatewayError) {
        self.countMax = countMax
        self.logger = logger
        do {
            let database = try Self.open(path)
            self.books = NIOLockedValueBox(try database.read(Self.load))
            self.database = database
        } catch let error as GatewayError {
            throw error
        } catch {
            throw .feedback(path: path, detail: "\(error)")
        }
    }

    private static func open(_ path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.label = "feedback store"
        configuration.busyMode = .timeout(10)
        let database = try DatabaseQueue(path: path, configuration: configuration)
        try database.writeWithoutTransaction { database in
            try database.execute(sql: "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
            let version = try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
            guard version <= Self.version else {
                throw GatewayError.feedback(path: path, detail: "it is of a newer version (\(version)) of this program")
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
        return database
    }

    private static func load(_ database: Database) throws -> Books {
        var books = Books()
        let rows = try Row.fetchCursor(database, sql: "SELECT topic, environment, token, failed_at FROM feedback")
        while let row = try rows.next() {
            let octets: Data = row[2]
            let token = try DeviceToken(octets: octets)
            books.lists[FeedbackListName(topic: row[0], environment: row[1]), default: [:]][token] =
                UInt32(clamping: row[3] as Int64)
            books.count += 1
        }
        return books
    }

    /// How many tokens wait in each list.
    public var counts: [FeedbackListName: Int] { self.books.withLockedValue { $0.lists.mapValues(\.count) } }

    /// The tokens of a list with the time since when each is dead.
    func tokens(in list: FeedbackListName) -> [DeviceToken: UInt32] {
        self.books.withLockedValue { $0.lists[list] ?? [:] }
    }

    /// Keeps a tuple; of several for a token, the newest.
    ///
    /// - Parameters:
    ///   - tuple: the token, and since when it is dead.
    ///   - list: whose list it goes to.
    ///   - onKept: is called once when the tuple is on the disk, or cannot be kept, which is logged.
    public func record(_ tuple: FeedbackTuple, in list: FeedbackListName, onKept: @escaping @Sendable () -> Void) {
        let (isFull, startsWriting) = self.books.withLockedValue { books -> (Bool, Bool) in
            let before = books.lists[list]?[tuple.token]
            guard before != nil || books.count < self.countMax else { return (true, false) }
            if before == nil { books.count += 1 }
            books.lists[list, default: [:]][tuple.token] = max(before ?? 0, tuple.failedAt)
            books.changes.append(.put(tuple, list))
            books.waiters.append(onKept)
            return (false, Self.start(&books))
        }
        if isFull {
            self.logger.error("feedback store is full", metadata: [LogKey.topic: "\(list.topic)"])
            onKept()
        }
        if startsWriting { self.thread.async { self.write() } }
    }

    /// Takes a token off the list, since a notification for it was delivered.
    ///
    /// - Parameters:
    ///   - token: the token.
    ///   - list: whose list.
    public func forget(_ token: DeviceToken, in list: FeedbackListName) {
        // Most lists are empty, and this is asked for each notification.
        guard self.books.withLockedValue({ $0.count > 0 }) else { return }
        self.remove([token: nil], in: list)
    }

    /// Takes tokens off a list, those with a time only where that is still theirs.
    func remove(_ tokens: [DeviceToken: UInt32?], in list: FeedbackListName) {
        let startsWriting = self.books.withLockedValue { books -> Bool in
            guard books.count > 0, books.lists[list] != nil else { return false }
            for (token, time) in tokens {
                guard let present = books.lists[list]?[token], time == nil || time == present else { continue }
                books.lists[list]?[token] = nil
                books.count -= 1
                books.changes.append(.remove(token, time, list))
            }
            return books.changes.isEmpty ? false : Self.start(&books)
        }
        if startsWriting { self.thread.async { self.write() } }
    }

    private static func start(_ books: inout Books) -> Bool {
        defer { books.isWriting = true }
        return !books.isWriting
    }

    /// Writes all changes, those that come meanwhile too; on the thread of the store.
    private func write() {
        while true {
            let (changes, waiters) = self.books.withLockedValue { books in
                defer { (books.changes, books.waiters) = ([], []) }
                if books.changes.isEmpty { books.isWriting = false }
                return (books.changes, books.waiters)
            }
            guard !changes.isEmpty else { return }
            do {
                try self.database.write { database in try Self.apply(changes, to: database) }
            } catch {
                self.logger.error("feedback not written", metadata: [LogKey.failure: "\(error)"])
            }
            for waiter in waiters { waiter() }
        }
    }

    private static func apply(_ changes: [Change], to database: Database) throws {
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
                    arguments: [list.topic, list.environment, Self.data(tuple.token), Int64(tuple.failedAt)]
                )
            case .remove(let token, let time, let list):
                try remove.execute(
                    arguments: [list.topic, list.environment, Self.data(token), time.map(Int64.init) ?? .max]
                )
            }
        }
    }

    private static func data(_ token: DeviceToken) -> Data { token.withUnsafeBytes { Data($0) } }

    /// Waits until all that was recorded is on the disk.
    public func flush() async {
        await withCheckedContinuation { continuation in self.thread.async { continuation.resume() } }
    }
}

// SPDX-License-Identifier: Apache-2.0

package import APNSSession
import APNSWire
import FileSupport
import GRDB
import Glibc

/// The notifications of a provider that wait for an answer of the service, in an SQLite file in a folder of its own.
///
/// The folder is locked against other processes. Each row has a checksum; one that does not match is reported, and is
/// not believed.
package final class SQLiteNotificationSpool: NotificationSpoolStore {
    /// What the folder contains, for a check.
    package struct Summary: Hashable, Sendable {
        /// The number of notifications.
        package var count = 0
        /// The number of damaged rows.
        package var damagedCount = 0
    }

    private let path: String
    private let lock: FileLock
    private let queue: DatabaseQueue
    /// The opened file, and its write-ahead log.
    private let nodes: [FileIdentity?]
    private let initialContents: SpoolContents

    /// The layout version of the file.
    private static let version = 1

    /// After how many pages the log is copied to the file: a notification that leaves before that never gets there.
    private static let checkpointPageCount = 4000

    private static let columns =
        "id, token, payload, expiry, priority, topic, request, arrived_at, in_doubt, checksum, identifier"

    /// Opens a spool; folder and file are created if missing.
    ///
    /// What an earlier process may have sent is marked as in doubt.
    ///
    /// - Throws: ``NotificationSpoolError``.
    package init(folder: String) throws(NotificationSpoolError) {
        self.path = Self.file(in: folder)
        if unsafe mkdir(folder, 0o700) != 0, errno != EEXIST {
            throw NotificationSpoolError(path: folder, detail: unsafe String(cString: strerror(errno)))
        }
        do throws(FileLock.Failure) {
            self.lock = try FileLock(path: folder + "/lock")
        } catch {
            throw NotificationSpoolError(path: folder, error)
        }
        do {
            var configuration = Configuration()
            configuration.label = "notification spool"
            configuration.busyMode = .timeout(10)
            PrivateFile.make(self.path)
            self.queue = try DatabaseQueue(path: self.path, configuration: configuration)
            let contents = try self.queue.writeWithoutTransaction { database in
                try database.execute(
                    sql: """
                        PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
                        PRAGMA wal_autocheckpoint = \(Self.checkpointPageCount)
                        """
                )
                return try database.inTransactionReturning { try Self.prepare(database) }
            }
            self.initialContents = contents
            self.nodes = [self.path, self.path + "-wal"].map { FileIdentity(path: $0) }
        } catch {
            throw NotificationSpoolError(path: self.path, error)
        }
    }

    package var contents: SpoolContents { self.initialContents }

    private static func file(in folder: String) -> String { "\(folder)/spool.sqlite" }

    /// Creates the tables, and marks what an earlier process may have sent.
    private static func prepare(_ database: Database) throws -> SpoolContents {
        try self.checkVersion(database)
        guard try database.isIntact else { throw PurgeDamage.kind.error }
        try database.execute(
            sql: """
                CREATE TABLE IF NOT EXISTS notification (
                    id INTEGER PRIMARY KEY, token BLOB NOT NULL, payload BLOB NOT NULL, expiry INTEGER,
                    priority INTEGER, topic TEXT NOT NULL, request BLOB NOT NULL, arrived_at INTEGER NOT NULL,
                    in_doubt INTEGER NOT NULL, checksum INTEGER NOT NULL, identifier INTEGER
                );
                CREATE TABLE IF NOT EXISTS position (
                    name TEXT PRIMARY KEY, value INTEGER NOT NULL, complement INTEGER NOT NULL
                ) WITHOUT ROWID;
                PRAGMA user_version = \(Self.version)
                """
        )
        // All rows, if the position is damaged.
        let sent = try Self.sentThrough(database) ?? .max
        try database.execute(
            sql: "UPDATE notification SET in_doubt = checksum WHERE id <= ? AND in_doubt IS NOT checksum",
            arguments: [sent]
        )
        try Self.set(sentThrough: 0, database)
        return try Self.contents(database)
    }

    private static func contents(_ database: Database) throws -> SpoolContents {
        let row = try Row.fetchOne(
            database,
            sql: """
                SELECT count(*), coalesce(sum(length(token) + length(payload)), 0), coalesce(max(id), 0),
                    coalesce(sum(in_doubt <> 0), 0) FROM notification
                """
        )
        var contents = SpoolContents()
        guard let row else { return contents }
        contents.count = try row.value(0)
        contents.byteCount = try row.value(1) + contents.count * SpooledNotification.byteCount(0)
        contents.lastID = try row.value(2)
        contents.inDoubtCount = try row.value(3)
        return contents
    }

    private static func checkVersion(_ database: Database) throws {
        let version = try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
        guard version <= Self.version else {
            throw DatabaseError(
                resultCode: .SQLITE_SCHEMA,
                message: "it was created by a newer release (layout version \(version)); use that release"
            )
        }
    }

    // MARK: The position

    /// The number of the last row that may have been sent; `nil` if it is damaged.
    private static func sentThrough(_ database: Database) throws -> Int64? {
        let sql = "SELECT value, complement FROM position WHERE name = 'sent'"
        guard let row = try Row.fetchOne(database, sql: sql) else { return 0 }
        guard let value = Int64.fromDatabaseValue(row[0]), let complement = Int64.fromDatabaseValue(row[1]),
            value == ~complement
        else { return nil }
        return value
    }

    private static func set(sentThrough value: Int64, _ database: Database) throws {
        let statement = try database.cachedStatement(
            sql: "INSERT OR REPLACE INTO position (name, value, complement) VALUES ('sent', ?, ?)"
        )
        try statement.execute(arguments: [value, ~value])
    }

    // MARK: Writing

    package func write(_ write: SpoolWrite) throws {
        try self.verifyPlace()
        do {
            try self.queue.write { database in
                let insert = try PurgeStatement(
                    database,
                    sql: "INSERT INTO notification (\(Self.columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?)"
                )
                for notification in write.added { try Self.insert(notification, insert) }
                try Self.remove(write.removed, database)
                for id in write.doubted {
                    try database.execute(
                        sql: "UPDATE notification SET in_doubt = checksum WHERE id = ?",
                        arguments: [id]
                    )
                }
                if let position = write.sentThrough { try Self.set(sentThrough: position, database) }
            }
        } catch {
            throw NotificationSpoolError(path: self.path, error)
        }
    }

    /// SQLite keeps writing to a removed file, where the data would be lost.
    private func verifyPlace() throws(NotificationSpoolError) {
        guard self.nodes == [self.path, self.path + "-wal"].map({ FileIdentity(path: $0) }) else {
            throw NotificationSpoolError(
                path: self.path,
                detail: "the file or its write-ahead log was removed or replaced; put it back and restart the gateway"
            )
        }
    }

    private static func insert(_ notification: SpooledNotification, _ statement: PurgeStatement) throws {
        var topic = notification.topic
        let request = [notification.apnsID.high.bigEndian, notification.apnsID.low.bigEndian]
        let checksum = Self.checksum(notification)
        try unsafe notification.token.withUnsafeBytes { token in
            try unsafe notification.payload.withUnsafeBytes { payload in
                try unsafe request.withUnsafeBytes { request in
                    try topic.withUTF8 { topic in
                        statement.bind(notification.id, at: 1)
                        unsafe statement.bind(token, at: 2)
                        unsafe statement.bind(payload, at: 3)
                        if let expiry = notification.expiry { statement.bind(Int64(expiry), at: 4) }
                        if let priority = notification.priority { statement.bind(Int64(priority), at: 5) }
                        unsafe statement.bind(UnsafeRawBufferPointer(topic), at: 6)
                        unsafe statement.bind(request, at: 7)
                        statement.bind(notification.arrivedAt, at: 8)
                        statement.bind(checksum, at: 9)
                        if let identifier = notification.identifier { statement.bind(Int64(identifier), at: 10) }
                        _ = try statement.run()
                    }
                }
            }
        }
    }

    /// Never 0, which is the mark of a row that is not in doubt.
    private static func checksum(_ notification: SpooledNotification) -> Int64 {
        var checksum = CRC64()
        checksum.add(UInt64(bitPattern: notification.id))
        unsafe notification.token.withUnsafeBytes { unsafe checksum.add($0) }
        checksum.add(UInt64(notification.token.byteCount))
        unsafe notification.payload.withUnsafeBytes { unsafe checksum.add($0) }
        checksum.add(UInt64(notification.payload.count))
        checksum.add(notification.expiry.map { UInt64($0) } ?? .max)
        checksum.add(notification.priority.map { UInt64($0) } ?? .max)
        checksum.add(notification.identifier.map { UInt64($0) } ?? .max)
        checksum.add(notification.topic)
        checksum.add(notification.apnsID.high)
        checksum.add(notification.apnsID.low)
        checksum.add(UInt64(bitPattern: notification.arrivedAt))
        return checksum.value == 0 ? 1 : Int64(bitPattern: checksum.value)
    }

    /// Removes rows, those with consecutive numbers together.
    private static func remove(_ ids: [Int64], _ database: Database) throws {
        guard !ids.isEmpty else { return }
        let statement = try PurgeStatement(database, sql: "DELETE FROM notification WHERE id BETWEEN ? AND ?")
        let ids = ids.sorted()
        var first = ids[0]
        for (index, id) in ids.enumerated() where index + 1 == ids.count || ids[index + 1] > id + 1 {
            statement.bind(first, at: 1)
            statement.bind(id, at: 2)
            _ = try statement.run()
            if index + 1 < ids.count { first = ids[index + 1] }
        }
    }

    // MARK: Reading

    package func page(after id: Int64, countMax: Int) throws -> SpoolPage {
        do {
            return try self.queue.read { try Self.page($0, after: id, countMax: countMax) }
        } catch {
            throw NotificationSpoolError(path: self.path, error)
        }
    }

    private static func page(_ database: Database, after id: Int64, countMax: Int) throws -> SpoolPage {
        let statement = try PurgeStatement(
            database,
            sql: "SELECT \(Self.columns) FROM notification WHERE id > ? ORDER BY id LIMIT ?"
        )
        statement.bind(id, at: 1)
        statement.bind(Int64(countMax), at: 2)
        var (page, count, lastID) = (SpoolPage(), 0, id)
        try statement.forEachRow { row in
            lastID = row.integer(0)
            count += 1
            if let notification = Self.notification(row) {
                page.notifications.append(notification)
            } else {
                page.damaged.append(lastID)
                let byteCount = unsafe row.bytes(1).count + row.bytes(2).count
                page.damagedByteCount += SpooledNotification.byteCount(byteCount)
            }
            return true
        }
        if count == countMax { page.lastID = lastID }
        return page
    }

    /// Reads a row; `nil` if it is damaged.
    private static func notification(_ row: SQLiteRow) -> SpooledNotification? {
        let kinds = (Int32(1)...9).map { row.kind($0) }
        guard kinds[0] == .blob, kinds[1] == .blob || kinds[1] == .null, kinds[5] == .blob,
            let token = unsafe try? DeviceToken(bytes: row.bytes(1)), let topic = unsafe Self.text(row.bytes(5))
        else { return nil }
        let request = unsafe row.bytes(6)
        guard request.count == 16 else { return nil }
        func word(_ index: Int) -> UInt64 {
            unsafe UInt64(bigEndian: request.loadUnaligned(fromByteOffset: index, as: UInt64.self))
        }
        func number<Number: FixedWidthInteger>(_ column: Int32, _ type: Number.Type) -> Number?? {
            guard row.kind(column) != .null else { return .some(nil) }
            return Number(exactly: row.integer(column)).map { .some($0) }
        }
        guard let expiry = number(3, UInt32.self), let priority = number(4, UInt8.self),
            let identifier = number(10, UInt32.self)
        else { return nil }
        var notification = SpooledNotification(
            id: row.integer(0),
            token: token,
            payload: unsafe Array(row.bytes(2)),
            expiry: expiry,
            priority: priority,
            identifier: identifier,
            topic: topic,
            apnsID: PushIdentifier(high: word(0), low: word(8)),
            arrivedAt: row.integer(7)
        )
        let (doubt, checksum) = (row.integer(8), row.integer(9))
        guard checksum == Self.checksum(notification), doubt == 0 || doubt == checksum else { return nil }
        notification.isInDoubt = doubt != 0
        return notification
    }

    private static func text(_ bytes: UnsafeRawBufferPointer) -> String? {
        unsafe String(validating: bytes, as: UTF8.self)
    }

    // MARK: Checking

    /// The number of notifications in a spool, also while a gateway uses it; `nil` if there is none.
    ///
    /// - Throws: ``GatewayStoreError``.
    package static func count(folder: String) throws(GatewayStoreError) -> Int? {
        try GatewayDatabase.read(path: Self.file(in: folder)) { database in
            try Int.fetchOne(database, sql: "SELECT count(*) FROM notification") ?? 0
        }
    }

    /// Reads a whole spool, also while a gateway uses it, and changes nothing.
    ///
    /// Returns `nil` if there is none.
    ///
    /// - Throws: ``NotificationSpoolError``.
    package static func check(folder: String) throws(NotificationSpoolError) -> Summary? {
        let path = Self.file(in: folder)
        do {
            return try GatewayDatabase.read(path: path) { database in
                try Self.checkVersion(database)
                guard try database.isIntact else { throw PurgeDamage.kind.error }
                var (summary, id) = (Summary(), Int64.min as Int64?)
                while let after = id {
                    let page = try Self.page(database, after: after, countMax: Self.checkCount)
                    summary.count += page.notifications.count + page.damaged.count
                    summary.damagedCount += page.damaged.count
                    id = page.lastID
                }
                return summary
            }
        } catch {
            throw NotificationSpoolError(path: path, detail: error.detail)
        }
    }

    private static let checkCount = 10_000
}

extension Database {
    /// Runs `body` in a transaction.
    fileprivate func inTransactionReturning<Value>(_ body: () throws -> Value) throws -> Value {
        var value: Value?
        try self.inTransaction(.immediate) {
            value = try body()
            return .commit
        }
        guard let value else { throw DatabaseError(resultCode: .SQLITE_ERROR) }
        return value
    }
}

/// The folder of a spool, as a gateway's database remembers it: so a spool is not forgotten with its provider.
package struct StoredSpool: Hashable, Sendable {
    package var folder: String
    package var provider: String

    package init(folder: String, provider: String) {
        self.folder = folder
        self.provider = provider
    }

    /// Reads the spools that a gateway has used; none if there is no database, or one of an earlier release.
    ///
    /// - Throws: ``GatewayStoreError``.
    package static func read(fromDatabase path: String) throws(GatewayStoreError) -> [StoredSpool] {
        try GatewayDatabase.read(path: path) { database in
            guard try database.tableExists("spool") else { return [] }
            return try Row.fetchAll(database, sql: "SELECT folder, provider FROM spool ORDER BY folder").map {
                StoredSpool(folder: try $0.value(0), provider: try $0.value(1))
            }
        } ?? []
    }
}

/// The error of a spool of notifications that cannot be used.
package struct NotificationSpoolError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The path of the folder or the file.
    package var path: String
    /// The reason.
    package var detail: String

    package var description: String { "cannot use the spool \(self.path): \(self.detail)" }
}

extension NotificationSpoolError {
    fileprivate init(path: String, _ failure: FileLock.Failure) {
        let detail: String =
            switch failure {
            case .held(let holder): "process \(holder.map { "\($0)" } ?? "?") uses it; a spool belongs to one gateway"
            case .system(let action, let code):
                "cannot \(action.rawValue) its lock: \(unsafe String(cString: strerror(code)))"
            }
        self.init(path: path, detail: detail)
    }

    fileprivate init(path: String, _ error: any Error) {
        // Without the arguments of a statement, which contain tokens.
        guard let error = error as? DatabaseError else {
            self.init(path: path, detail: "\(error)")
            return
        }
        let damage: [ResultCode] = [.SQLITE_CORRUPT, .SQLITE_NOTADB]
        let advice =
            damage.contains(error.resultCode) ? "; restore it, or move it away: its notifications are lost then" : ""
        self.init(path: path, detail: (error.message ?? "\(error.resultCode)") + advice)
    }
}

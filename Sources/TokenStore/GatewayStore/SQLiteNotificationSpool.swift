// SPDX-License-Identifier: Apache-2.0

package import APNSSession
import APNSWire
import FileSupport
import GRDB
import Glibc
import NIOCore

/// The notifications of a provider that wait for an answer of the service, in an SQLite file in a folder of its own.
///
/// The folder is locked against other processes. A row has up to 256 notifications with consecutive numbers, and one
/// checksum; if it does not match, all of them are reported, and none is believed. Another table has a mark for each
/// notification of the rows that are partly sent. A row is deleted when all of it has an outcome.
package final class SQLiteNotificationSpool: NotificationSpoolStore {
    /// What is known of a notification in addition; the greater one holds.
    private enum Mark {
        static let none: UInt8 = 0
        static let inDoubt: UInt8 = 1
        static let ended: UInt8 = 2
    }

    /// A row without its notifications: their numbers, and a mark for each.
    private struct Group {
        var range: ClosedRange<Int64>
        var marks: [UInt8]
        /// Whether the marks are those of the file.
        var hasMarks = false
    }

    /// What is known of a row, whose numbers may be damaged.
    private struct StoredRow {
        /// Its key in the file.
        let key: Int64
        var first: Int64
        var last: Int64
        /// The number of its notifications, as far as they can be read.
        var count: Int64
        var isIntact: Bool
        /// Whether it is intact with other numbers than those of the file.
        var isRestored: Bool

        /// The numbers that it had, as far as one of them is right and they are among these.
        func range(in free: Range<Int64>) -> ClosedRange<Int64>? {
            let count = min(self.count, free.upperBound - free.lowerBound)
            guard count > 0 else { return nil }
            if free.contains(self.last), self.last - count + 1 >= free.lowerBound {
                return (self.last - count + 1)...self.last
            }
            if free.contains(self.first), free.upperBound - self.first >= count {
                return self.first...(self.first + count - 1)
            }
            return free.lowerBound...(free.lowerBound + count - 1)
        }
    }

    private let path: String
    private let lock: FileLock
    private let queue: DatabaseQueue
    /// The opened file, and its write-ahead log.
    private let nodes: [FileIdentity?]
    private let initialContents: SpoolContents

    /// The layout version of the file.
    private static let version = 2

    /// The most notifications of a row.
    private static let groupCountMax = 256

    /// How many notifications are read at once when the whole file is.
    private static let checkCount = 10_000

    /// The size of a page, in bytes: a row has many, and each costs system calls.
    private static let pageByteCount = 16_384

    /// After how many pages the log is copied to the file: a notification that leaves before that never gets there.
    private static let checkpointPageCount = 1000

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
                // What is deleted is not overwritten, which would double what is written.
                try database.execute(
                    sql: """
                        PRAGMA page_size = \(Self.pageByteCount); PRAGMA secure_delete = FAST;
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
                CREATE TABLE IF NOT EXISTS notifications (
                    last INTEGER PRIMARY KEY, first INTEGER NOT NULL, checksum INTEGER NOT NULL, content BLOB NOT NULL
                );
                CREATE TABLE IF NOT EXISTS marks (
                    last INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, marks BLOB NOT NULL
                );
                CREATE TABLE IF NOT EXISTS position (
                    name TEXT PRIMARY KEY, value INTEGER NOT NULL, complement INTEGER NOT NULL
                ) WITHOUT ROWID;
                PRAGMA user_version = \(Self.version)
                """
        )
        try Self.separateDamagedRows(database)
        // All rows, if the position is damaged.
        let sent = try Self.sentThrough(database) ?? .max
        let hasLostMarks = try Self.removeLostMarks(database)
        var next = Int64.min
        while var group = try Self.group(endingAtOrAfter: next, database),
            hasLostMarks || group.range.lowerBound <= sent
        {
            let isLost = hasLostMarks && !group.hasMarks
            for (index, id) in group.range.enumerated() where id <= sent || isLost {
                group.marks[index] = max(group.marks[index], Mark.inDoubt)
            }
            if isLost || group.range.lowerBound <= sent { try Self.store(group, database) }
            guard group.range.upperBound < .max else { break }
            next = group.range.upperBound + 1
        }
        try Self.set(sentThrough: 0, database)
        return try Self.contents(database)
    }

    /// Restores rows of which only a number is damaged, and gives other damaged rows numbers that no intact row has, so
    /// that they cost no notification of another row.
    ///
    /// The latter stay damaged, since their checksums do not match.
    private static func separateDamagedRows(_ database: Database) throws {
        var rows: [StoredRow] = []
        let statement = try PurgeStatement(
            database,
            sql: "SELECT last, first, checksum, content FROM notifications ORDER BY last"
        )
        try statement.forEachRow { row in
            unsafe rows.append(Self.stored(row.integer(0), row.integer(1), row.bytes(3), row.integer(2)))
            return true
        }
        rows.sort { $0.last < $1.last }
        var moves: [(key: Int64, range: ClosedRange<Int64>)] = []
        var unplaced: [StoredRow] = []
        var lowest: Int64 = 1
        for (index, row) in rows.enumerated() {
            var range = row.isIntact ? row.first...row.last : nil
            if !row.isIntact {
                let next = rows[(index + 1)...].first(where: \.isIntact)?.first ?? .max
                range = lowest < next ? row.range(in: lowest..<next) : nil
            }
            guard let range else {
                unplaced.append(row)
                continue
            }
            if !row.isIntact || row.isRestored { moves.append((row.key, range)) }
            lowest = range.upperBound + 1
        }
        for row in unplaced where lowest < Int64.max - row.count {
            moves.append((row.key, lowest...(lowest + row.count - 1)))
            lowest += row.count
        }
        try Self.move(moves, database)
    }

    private static func stored(
        _ last: Int64,
        _ first: Int64,
        _ bytes: UnsafeRawBufferPointer,
        _ checksum: Int64
    ) -> StoredRow {
        let count = unsafe Self.notificationCount(bytes)
        var row = StoredRow(key: last, first: first, last: last, count: count, isIntact: false, isRestored: false)
        // As it is, and with one of its numbers by the other one.
        for (first, last) in [(first, last), (last &- count &+ 1, last), (first, first &+ count &- 1)] {
            guard first > 0, last < .max, last &- first == count - 1,
                unsafe Self.checksum(bytes, first, last) == checksum
            else { continue }
            (row.isIntact, row.isRestored) = (true, first != row.first || last != row.last)
            (row.first, row.last) = (first, last)
            break
        }
        return row
    }

    private static func move(_ moves: [(key: Int64, range: ClosedRange<Int64>)], _ database: Database) throws {
        // First to where no row is.
        for (index, move) in moves.enumerated() {
            let sql = "UPDATE notifications SET last = ? WHERE last = ?"
            try database.execute(sql: sql, arguments: [Int64.min + 1 + Int64(index), move.key])
        }
        for (index, move) in moves.enumerated() {
            let sql = "UPDATE notifications SET last = ?, first = ? WHERE last = ?"
            let (range, place) = (move.range, Int64.min + 1 + Int64(index))
            try database.execute(sql: sql, arguments: [range.upperBound, range.lowerBound, place])
        }
    }

    /// The number of notifications in the content of a row, as far as they can be read; at least one.
    private static func notificationCount(_ bytes: UnsafeRawBufferPointer) -> Int64 {
        var content = unsafe ByteBuffer(bytes: bytes)
        var count: Int64 = 0
        while count < Self.groupCountMax, content.readNotification(0) != nil { count += 1 }
        // What cannot be read is at least one more.
        return content.readableBytes == 0 ? max(1, count) : min(count + 1, Int64(Self.groupCountMax))
    }

    /// Removes marks that belong to no row; returns whether there were any, so that a row has lost its own.
    private static func removeLostMarks(_ database: Database) throws -> Bool {
        try database.execute(sql: "DELETE FROM marks WHERE last NOT IN (SELECT last FROM notifications)")
        return database.changesCount > 0
    }

    private static func contents(_ database: Database) throws -> SpoolContents {
        var contents = SpoolContents()
        contents.lastID = try Int64.fetchOne(database, sql: "SELECT max(last) FROM notifications") ?? 0
        var id = Int64.min as Int64?
        while let after = id {
            let page = try Self.page(database, after: after, countMax: Self.checkCount)
            contents.count += page.notifications.count + page.damaged.count
            contents.byteCount += page.notifications.reduce(page.damagedByteCount) { $0 + $1.byteCount }
            contents.inDoubtCount += page.notifications.count(where: \.isInDoubt)
            contents.damagedCount += page.damaged.count
            id = page.lastID
        }
        return contents
    }

    private static func checkVersion(_ database: Database) throws {
        let version = try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
        guard version != 0, version != Self.version else { return }
        let (age, advice) =
            version > Self.version
            ? ("a newer", "use that release") : ("an earlier", "let that release deliver it, or move it away")
        throw DatabaseError(
            resultCode: .SQLITE_SCHEMA,
            message: "it was created by \(age) release (layout version \(version)); \(advice)"
        )
    }

    // MARK: The position

    /// The number of the last notification that may have been sent; `nil` if it is damaged.
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
                try Self.insert(write.added, database)
                try Self.mark(write, database)
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

    private static func insert(_ notifications: [SpooledNotification], _ database: Database) throws {
        guard !notifications.isEmpty else { return }
        let statement = try PurgeStatement(
            database,
            sql: "INSERT INTO notifications (last, first, checksum, content) VALUES (?, ?, ?, ?)"
        )
        var content = ByteBuffer()
        var rest = notifications[...]
        while let first = rest.first?.id, let last = rest.prefix(Self.groupCountMax).last?.id {
            content.clear()
            for notification in rest.prefix(Self.groupCountMax) { content.write(notification) }
            rest = rest.dropFirst(Self.groupCountMax)
            try unsafe content.withUnsafeReadableBytes { bytes in
                statement.bind(last, at: 1)
                statement.bind(first, at: 2)
                unsafe statement.bind(Self.checksum(bytes, first, last), at: 3)
                unsafe statement.bind(bytes, at: 4)
                _ = try statement.run()
            }
        }
    }

    private static func checksum(_ bytes: UnsafeRawBufferPointer, _ first: Int64, _ last: Int64) -> Int64 {
        var checksum = CRC64()
        unsafe checksum.add(bytes)
        checksum.add(UInt64(bitPattern: first))
        checksum.add(UInt64(bitPattern: last))
        return Int64(bitPattern: checksum.value)
    }

    // MARK: Marks

    /// Records what has an outcome or may have been sent, and deletes the rows of which all have an outcome.
    private static func mark(_ write: SpoolWrite, _ database: Database) throws {
        var changes = write.removed.map { (id: $0, mark: Mark.ended) }
        changes += write.doubted.map { (id: $0, mark: Mark.inDoubt) }
        changes.sort { $0.id < $1.id }
        var rest = changes[...]
        while let id = rest.first?.id, var group = try Self.group(endingAtOrAfter: id, database) {
            while let change = rest.first, change.id <= group.range.upperBound {
                rest.removeFirst()
                guard change.id >= group.range.lowerBound else { continue }
                let index = Int(change.id - group.range.lowerBound)
                group.marks[index] = max(group.marks[index], change.mark)
            }
            try Self.store(group, database)
        }
    }

    private static func store(_ group: Group, _ database: Database) throws {
        let last = group.range.upperBound
        guard group.marks.contains(where: { $0 != Mark.ended }) else {
            for table in ["notifications", "marks"] {
                let statement = try PurgeStatement(database, sql: "DELETE FROM \(table) WHERE last = ?")
                statement.bind(last, at: 1)
                _ = try statement.run()
            }
            return
        }
        let statement = try PurgeStatement(
            database,
            sql: "INSERT OR REPLACE INTO marks (last, checksum, marks) VALUES (?, ?, ?)"
        )
        try unsafe group.marks.withUnsafeBytes { bytes in
            statement.bind(last, at: 1)
            unsafe statement.bind(Self.checksum(bytes, group.range.lowerBound, last), at: 2)
            unsafe statement.bind(bytes, at: 3)
            _ = try statement.run()
        }
    }

    /// The columns of a row that ``group(_:)`` reads.
    private static let groupColumns = "n.last, n.first, m.checksum, m.marks"
    private static let tables = "notifications n LEFT JOIN marks m ON m.last = n.last"

    /// Reads the numbers and the marks of a row; all are in doubt if the marks are damaged.
    private static func group(_ row: SQLiteRow) -> Group {
        let (last, first) = (row.integer(0), row.integer(1))
        // As far as they can be right, if they are damaged.
        let range = min(max(first, last &- Int64(Self.groupCountMax - 1)), last)...last
        guard row.kind(3) != .null else {
            return Group(range: range, marks: [UInt8](repeating: Mark.none, count: range.count))
        }
        let marks = unsafe row.bytes(3)
        guard marks.count == range.count,
            unsafe Self.checksum(marks, range.lowerBound, last) == row.integer(2)
        else {
            return Group(range: range, marks: [UInt8](repeating: Mark.inDoubt, count: range.count), hasMarks: true)
        }
        return unsafe Group(range: range, marks: Array(marks), hasMarks: true)
    }

    private static func group(endingAtOrAfter id: Int64, _ database: Database) throws -> Group? {
        let statement = try PurgeStatement(
            database,
            sql: "SELECT \(Self.groupColumns) FROM \(Self.tables) WHERE n.last >= ? ORDER BY n.last LIMIT 1"
        )
        statement.bind(id, at: 1)
        var group: Group?
        try statement.forEachRow { row in
            group = Self.group(row)
            return true
        }
        return group
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
            sql: """
                SELECT \(Self.groupColumns), n.checksum, n.content FROM \(Self.tables)
                WHERE n.last > ? ORDER BY n.last
                """
        )
        statement.bind(id, at: 1)
        var page = SpoolPage()
        try statement.forEachRow { row in
            let group = Self.group(row)
            let notifications = Self.notifications(row, group.range)
            if notifications == nil { page.damagedByteCount += unsafe row.bytes(5).count }
            for (index, number) in group.range.enumerated() where number > id && group.marks[index] != Mark.ended {
                guard var notification = notifications?[index] else {
                    page.damaged.append(number)
                    continue
                }
                guard page.notifications.count < countMax else { return false }
                notification.isInDoubt = group.marks[index] == Mark.inDoubt
                page.notifications.append(notification)
                page.lastID = number
            }
            page.lastID = group.range.upperBound
            return page.notifications.count < countMax
        }
        if page.notifications.count < countMax { page.lastID = nil }
        return page
    }

    /// Reads the notifications of a row; `nil` if it is damaged.
    private static func notifications(_ row: SQLiteRow, _ range: ClosedRange<Int64>) -> [SpooledNotification]? {
        let bytes = unsafe row.bytes(5)
        guard unsafe Self.checksum(bytes, row.integer(1), row.integer(0)) == row.integer(4) else { return nil }
        var content = unsafe ByteBuffer(bytes: bytes)
        var notifications: [SpooledNotification] = []
        notifications.reserveCapacity(range.count)
        for id in range {
            guard let notification = content.readNotification(id) else { return nil }
            notifications.append(notification)
        }
        return content.readableBytes == 0 ? notifications : nil
    }

    // MARK: Checking

    /// The number of notifications in a spool, also while a gateway uses it; `nil` if there is none.
    ///
    /// - Throws: ``GatewayStoreError``.
    package static func count(folder: String) throws(GatewayStoreError) -> Int? {
        try GatewayDatabase.read(path: Self.file(in: folder)) { try Self.contents($0).count }
    }

    /// Reads a whole spool, also while a gateway uses it, and changes nothing.
    ///
    /// Returns `nil` if there is none.
    ///
    /// - Throws: ``NotificationSpoolError``.
    package static func check(folder: String) throws(NotificationSpoolError) -> SpoolContents? {
        let path = Self.file(in: folder)
        do {
            return try GatewayDatabase.read(path: path) { database in
                try Self.checkVersion(database)
                guard try database.isIntact else { throw PurgeDamage.kind.error }
                return try Self.contents(database)
            }
        } catch {
            throw NotificationSpoolError(path: path, detail: error.detail)
        }
    }
}

extension ByteBuffer {
    /// What stands for a value that is missing.
    private static let none: Int64 = -1

    fileprivate mutating func write(_ notification: SpooledNotification) {
        let (token, topic) = (notification.token, notification.topic)
        self.writeMultipleIntegers(
            notification.priority.map { Int64($0) } ?? Self.none,
            notification.expiry.map { Int64($0) } ?? Self.none,
            notification.identifier.map { Int64($0) } ?? Self.none,
            notification.apnsID.high,
            notification.apnsID.low,
            notification.arrivedAt,
            UInt8(token.byteCount),
            UInt32(notification.payload.readableBytes),
            UInt32(topic.utf8.count)
        )
        _ = unsafe token.withUnsafeBytes { unsafe self.writeBytes($0) }
        self.writeImmutableBuffer(notification.payload)
        self.writeString(topic)
    }

    fileprivate mutating func readNotification(_ id: Int64) -> SpooledNotification? {
        typealias Fields = (Int64, Int64, Int64, UInt64, UInt64, Int64, UInt8, UInt32, UInt32)
        guard let fields: Fields = self.readMultipleIntegers() else { return nil }
        let (priority, expiry, identifier, high, low, arrivedAt, tokenCount, payloadCount, topicCount) = fields
        guard let bytes = self.readSlice(length: Int(tokenCount)),
            let payload = self.readSlice(length: Int(payloadCount)),
            let topic = self.readString(length: Int(topicCount)),
            let token = try? unsafe bytes.withUnsafeReadableBytes({ unsafe try DeviceToken(bytes: $0) })
        else { return nil }
        return SpooledNotification(
            id: id,
            token: token,
            // A copy: a slice would keep the memory of the whole row.
            payload: ByteBuffer(bytes: payload.readableBytesView),
            expiry: UInt32(exactly: expiry),
            priority: UInt8(exactly: priority),
            identifier: UInt32(exactly: identifier),
            topic: topic,
            apnsID: PushIdentifier(high: high, low: low),
            arrivedAt: arrivedAt
        )
    }
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

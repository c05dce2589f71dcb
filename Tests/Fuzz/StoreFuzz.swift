// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Foundation
import GRDB
import NIOCore

@testable import TokenStore

/// The files of SQLite: a purge list, and the spool of a gateway.
enum StoreFuzz {
    private static let times: ClosedRange<Int64> = 1_700_000_000...1_700_000_300

    /// A list is read to its end, or is damaged.
    ///
    /// With `+` in front, the input is changes of a list: of values by SQL, and of bytes of its file.
    static func purge(_ bytes: [UInt8]) throws {
        let path = FileFuzz.folder + "/purge.sqlite"
        self.removeLogs(path)
        if bytes.first == UInt8(ascii: "+") {
            self.change(Array(bytes.dropFirst()), path)
        } else {
            FileFuzz.write(bytes, to: path)
        }
        guard let list = try? PurgeList(path: path, isMade: false) else { return }
        defer { list.close() }
        let isIntact = (try? list.checkIntegrity()) != nil
        var count = 0
        let isRead = (try? list.entries { _ in count += 1 }) != nil
        let statistics = try? list.statistics()
        try require(!isIntact || isRead, "an intact list can be read")
        if isRead, let statistics {
            try require(statistics.count == count, "the statistics count the entries")
        }
        _ = try? list.contains(token: [1], topic: "com.example.app", environment: .production)
        _ = try? list.record([self.entry(3), self.entry(9), self.entry(4, .sandbox), self.entry(5, topic: "com")])
        if isIntact, let scopes = try? list.knownScopes() {
            try require(Set(scopes).count == scopes.count, "each scope is listed once")
        }
        _ = try? list.expire(failedBefore: self.times.lowerBound + 2)
    }

    private static func removeLogs(_ path: String) {
        for suffix in ["-wal", "-shm", "-journal"] { unlink(path + suffix) }
    }

    private static func entry(
        _ number: UInt8,
        _ environment: PushEnvironment = .production,
        topic: String = "com.example.app"
    ) -> PurgeEntry {
        PurgeEntry(
            topic: topic,
            environment: environment,
            token: [number, 2, 3],
            failedAt: self.times.lowerBound + Int64(number),
            firstSeen: self.times.lowerBound,
            source: "fuzz\(number & 1)"
        )
    }

    /// The file of a list with some entries.
    private static let list: [UInt8] = {
        let path = FileFuzz.folder + "/template.sqlite"
        guard let list = try? PurgeList(path: path) else { return [] }
        _ = try? list.record((1...8).map { Self.entry($0) })
        _ = try? list.forget(
            [PurgeRegistration(token: [2, 2, 3], registeredAtSeconds: Self.times.upperBound)],
            topic: "com.example.app",
            environment: .production
        )
        list.close()
        return (try? Data(contentsOf: URL(filePath: path))).map { Array($0) } ?? []
    }()

    private static let columns = [
        ("dead_token", "failed_at"), ("dead_token", "first_seen"), ("dead_token", "source"), ("dead_token", "checksum"),
        ("dead_token", "token"), ("dead_token", "scope"), ("token_scope", "topic"), ("token_scope", "environment"),
        ("token_scope", "dead_count"), ("token_scope", "dead_sum"), ("token_scope", "registered_count"),
        ("token_scope", "registered_sum"), ("token_scope", "id"), ("list_total", "scope_count"),
        ("list_total", "scope_sum"), ("source", "name"), ("source", "id"), ("registered_token", "registered_at"),
        ("registered_token", "checksum"), ("registered_token", "token"),
    ]

    private static func change(_ bytes: [UInt8], _ path: String) {
        var (input, file) = (FuzzInput(bytes), self.list)
        let valueCount = Int(input.byte() % 4)
        if valueCount > 0 {
            FileFuzz.write(file, to: path)
            var configuration = Configuration()
            configuration.foreignKeysEnabled = false
            guard let queue = try? DatabaseQueue(path: path, configuration: configuration) else { return }
            for _ in 0..<valueCount {
                let (table, column) = self.columns[Int(input.byte()) % self.columns.count]
                let value = self.value(&input)
                let sql = "UPDATE OR IGNORE \(table) SET \(column) = ?"
                try? queue.write { try $0.execute(sql: sql, arguments: [value]) }
            }
            try? queue.close()
            file = (try? Data(contentsOf: URL(filePath: path))).map { Array($0) } ?? file
            self.removeLogs(path)
        }
        while !input.isEmpty {
            let offset = Int(input.number(byteCount: 2))
            if offset == 0xFFFF { file.removeLast(min(file.count, 1 + Int(input.byte()) * 16)) }
            if offset < file.count { file[offset] = input.byte() }
        }
        FileFuzz.write(file, to: path)
    }

    private static func value(_ input: inout FuzzInput) -> DatabaseValue {
        switch input.byte() % 5 {
        case 0: .null
        case 1: Int64(bitPattern: input.number(byteCount: 8)).databaseValue
        case 2: Data(input.bytes(Int(input.byte() % 128))).databaseValue
        case 3: String(decoding: input.bytes(Int(input.byte() % 128)), as: UTF8.self).databaseValue
        default: Double(bitPattern: input.number(byteCount: 8)).databaseValue
        }
    }

    // MARK: The spool of a gateway

    /// A spool has as many notifications as its pages, and as many when it is opened again.
    ///
    /// With `+` in front, the input is rows, which are right as far as it says so.
    static func store(_ bytes: [UInt8]) throws {
        let folder = FileFuzz.folder + "/store"
        mkdir(folder, 0o700)
        let path = folder + "/spool.sqlite"
        self.removeLogs(path)
        if bytes.first == UInt8(ascii: "+") {
            unlink(path)
            guard (try? self.makeSpool(Array(bytes.dropFirst()), path)) != nil else { return }
        } else {
            FileFuzz.write(bytes, to: path)
        }
        guard let first = try self.opened(folder) else { return }
        let second = try self.opened(folder)
        try require(second == first, "a spool is the same when it is opened again: \(first), \(second, default: "-")")
        try self.change(folder)
        _ = try? SQLiteNotificationSpool.check(folder: folder)
        _ = try? SQLiteNotificationSpool.count(folder: folder)
    }

    private static func opened(_ folder: String) throws -> SpoolContents? {
        guard let spool = try? SQLiteNotificationSpool(folder: folder) else { return nil }
        let contents = spool.contents
        let pages = try self.pages(spool)
        let ids = pages.flatMap { $0.notifications.map(\.id) + $0.damaged }
        // Intact rows overlap only where an input makes them so. What is in two of them counts as the page is cut.
        guard Set(ids).count == ids.count else { return contents }
        let damagedCount = pages.reduce(0) { $0 + $1.damaged.count }
        try require(ids.count == contents.count, "of \(contents.count) notifications, \(ids.count) are in pages")
        try require(damagedCount == contents.damagedCount, "so it is with the damaged ones")
        return contents
    }

    private static func pages(_ spool: SQLiteNotificationSpool) throws -> [SpoolPage] {
        var pages: [SpoolPage] = []
        var last = Int64.min as Int64?
        while let id = last {
            guard let page = try? spool.page(after: id, countMax: 2) else { throw FuzzFinding(description: "no page") }
            try require(page.lastID.map { $0 > id } ?? true, "a page ends behind its begin")
            pages.append(page)
            last = page.lastID
        }
        return pages
    }

    private static func change(_ folder: String) throws {
        guard let spool = try? SQLiteNotificationSpool(folder: folder) else { return }
        let contents = spool.contents
        let ids = try self.pages(spool).flatMap { $0.notifications.map(\.id) + $0.damaged }
        guard contents.lastID < .max, Set(ids).count == ids.count else { return }
        var write = SpoolWrite()
        write.removed = ids.enumerated().filter { $0.offset.isMultiple(of: 2) }.map(\.element)
        write.doubted = ids.enumerated().filter { $0.offset % 4 == 1 }.map(\.element)
        write.added = [
            SpooledNotification(
                id: contents.lastID + 1,
                token: try DeviceToken(bytes: [1]),
                payload: ByteBuffer(string: "{}"),
                expiry: nil,
                priority: 5,
                topic: "com.example.app",
                apnsID: PushIdentifier(high: 1, low: 2),
                arrivedAt: 1
            )
        ]
        write.sentThrough = contents.lastID
        guard (try? spool.write(write)) != nil else { return }
        let rest = try self.pages(spool).flatMap { $0.notifications.map(\.id) + $0.damaged }
        let expected = Set(ids).subtracting(write.removed).union([contents.lastID + 1])
        try require(Set(rest) == expected && rest.count == expected.count, "\(rest) of \(ids) without \(write.removed)")
    }

    private static let schema = """
        CREATE TABLE notifications (
            last INTEGER PRIMARY KEY, first INTEGER NOT NULL, checksum INTEGER NOT NULL, content BLOB NOT NULL
        );
        CREATE TABLE marks (last INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, marks BLOB NOT NULL);
        CREATE TABLE position (
            name TEXT PRIMARY KEY, value INTEGER NOT NULL, complement INTEGER NOT NULL
        ) WITHOUT ROWID;
        PRAGMA user_version = 2
        """

    private static func checksum(_ bytes: [UInt8], _ first: Int64, _ last: Int64) -> Int64 {
        var checksum = CRC64()
        bytes.withUnsafeBytes { checksum.add($0) }
        checksum.add(UInt64(bitPattern: first))
        checksum.add(UInt64(bitPattern: last))
        return Int64(bitPattern: checksum.value)
    }

    private static func makeSpool(_ bytes: [UInt8], _ path: String) throws {
        var input = FuzzInput(bytes)
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        try queue.write { database in
            try database.execute(sql: self.schema)
            while !input.isEmpty {
                let mode = input.byte()
                if mode & 0xE0 == 0xE0 {
                    let value = Int64(mode & 0x10 == 0 ? UInt64(input.byte()) : input.number(byteCount: 7))
                    let complement = mode & 1 == 0 ? ~value : value
                    try? database.execute(
                        sql: "INSERT OR REPLACE INTO position VALUES ('sent', ?, ?)",
                        arguments: [value, complement]
                    )
                    continue
                }
                let (count, content) = self.content(&input, isRaw: mode & 1 != 0)
                let last = Int64(mode & 2 == 0 ? UInt64(input.byte()) : input.number(byteCount: 7))
                let first = mode & 4 == 0 ? last - Int64(count) + 1 : Int64(input.byte())
                let checksum = mode & 8 == 0 ? self.checksum(content, first, last) : 1
                try? database.execute(
                    sql: "INSERT INTO notifications VALUES (?, ?, ?, ?)",
                    arguments: [mode & 32 == 0 ? last : last + 1, first, checksum, Data(content)]
                )
                guard mode & 16 != 0 else { continue }
                let marks = input.bytes(count).map { $0 % 3 }
                try? database.execute(
                    sql: "INSERT INTO marks VALUES (?, ?, ?)",
                    arguments: [last, mode & 64 == 0 ? self.checksum(marks, first, last) : 1, Data(marks)]
                )
            }
        }
    }

    /// The content of a row, and the number of its notifications.
    private static func content(_ input: inout FuzzInput, isRaw: Bool) -> (count: Int, bytes: [UInt8]) {
        let count = 1 + Int(input.byte() % 4)
        guard !isRaw else { return (count, input.bytes(Int(input.byte()))) }
        var content = ByteBuffer()
        for _ in 0..<count {
            for _ in 0..<3 { content.writeInteger(Int64(Int8(bitPattern: input.byte()))) }
            for _ in 0..<3 { content.writeInteger(UInt64(input.byte())) }
            let (token, payload, topic) = (Int(input.byte() % 128), Int(input.byte() % 8), Int(input.byte() % 8))
            content.writeMultipleIntegers(UInt8(token), UInt32(payload), UInt32(topic))
            content.writeBytes([UInt8](repeating: 7, count: token) + input.bytes(payload + topic))
        }
        return (count, Array(buffer: content))
    }
}

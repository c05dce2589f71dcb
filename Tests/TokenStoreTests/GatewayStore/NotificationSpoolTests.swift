// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Foundation
import GRDB
import NIOCore
import TestSupport
import Testing

@testable import TokenStore

@Suite(.timeLimit(.minutes(2))) struct NotificationSpoolTests {
    private static func notification(_ id: Int64) throws -> SpooledNotification {
        var random = SplitMix64(seed: UInt64(id))
        return SpooledNotification(
            id: id,
            token: try DeviceToken(bytes: [UInt8](repeating: UInt8(id % 256), count: id % 7 == 0 ? 100 : 32)),
            payload: ByteBuffer(string: id == 4 ? "" : "{\"aps\":{\"badge\":\(id)}}"),
            expiry: id % 2 == 0 ? nil : 2_000_000_000,
            priority: id % 3 == 0 ? nil : 10,
            identifier: id % 5 == 0 ? nil : UInt32(id),
            topic: "com.example.app",
            apnsID: PushIdentifier(using: &random),
            arrivedAt: 1_000 + id
        )
    }

    private static func write(_ numbers: ClosedRange<Int64>, sentThrough: Int64? = nil) throws -> SpoolWrite {
        var write = SpoolWrite()
        write.added = try numbers.map { try Self.notification($0) }
        write.sentThrough = sentThrough
        return write
    }

    @Test func `a spool returns what was written, in order and page by page`() throws {
        let folder = try TemporaryFolder()
        let spool = try SQLiteNotificationSpool(folder: "\(folder.path)/spool")
        #expect(spool.contents == SpoolContents())
        try spool.write(try Self.write(1...10))
        var removal = SpoolWrite()
        removal.removed = [9, 2, 3, 5]
        try spool.write(removal)
        let first = try spool.page(after: 0, countMax: 3)
        #expect(first.notifications == (try [1, 4, 6].map { try Self.notification($0) }))
        #expect(first.lastID == 6)
        let second = try spool.page(after: 6, countMax: 4)
        #expect(second.notifications == (try [7, 8, 10].map { try Self.notification($0) }))
        #expect(second.lastID == nil && second.damaged.isEmpty)
    }

    @Test func `what may have been sent is in doubt after a restart, the rest is not`() throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/spool"
        do {
            let spool = try SQLiteNotificationSpool(folder: path)
            try spool.write(try Self.write(1...6, sentThrough: 3))
            var write = SpoolWrite()
            (write.removed, write.doubted) = ([2], [5])
            try spool.write(write)
        }
        for _ in 1...2 {
            let spool = try SQLiteNotificationSpool(folder: path)
            #expect(spool.contents.count == 5 && spool.contents.lastID == 6 && spool.contents.inDoubtCount == 3)
            let page = try spool.page(after: 0, countMax: 100)
            #expect(page.notifications.filter(\.isInDoubt).map(\.id) == [1, 3, 5])
            #expect(spool.contents.byteCount == page.notifications.reduce(0) { $0 + $1.byteCount })
        }
    }

    @Test func `a spool belongs to one process`() throws {
        let folder = try TemporaryFolder()
        let spool = try SQLiteNotificationSpool(folder: "\(folder.path)/spool")
        let error = #expect(throws: NotificationSpoolError.self) {
            _ = try SQLiteNotificationSpool(folder: "\(folder.path)/spool")
        }
        #expect("\(error.map { "\($0)" } ?? "")".contains("uses it"))
        withExtendedLifetime(spool) {}
    }

    private static func change(_ folder: String, _ sql: String) throws {
        let database = try DatabaseQueue(path: folder + "/spool.sqlite")
        try database.write { try $0.execute(sql: sql) }
        try database.close()
    }

    private static func rowCount(_ folder: String, _ table: String) throws -> Int? {
        try DatabaseQueue(path: folder + "/spool.sqlite").read {
            try Int.fetchOne($0, sql: "SELECT count(*) FROM \(table)")
        }
    }

    @Test func `many notifications are in one row, which is deleted when all of them have an outcome`() throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/spool"
        do {
            let spool = try SQLiteNotificationSpool(folder: path)
            try spool.write(try Self.write(1...1000))
            var removal = SpoolWrite()
            removal.removed = Array(2...700).reversed() + [999]
            removal.doubted = [5, 1000]
            try spool.write(removal)
        }
        #expect(try Self.rowCount(path, "notifications") == 3)
        #expect(try Self.rowCount(path, "marks") == 3)
        #expect(try SQLiteNotificationSpool.count(folder: path) == 300)
        do {
            let spool = try SQLiteNotificationSpool(folder: path)
            #expect(spool.contents.count == 300 && spool.contents.lastID == 1000 && spool.contents.inDoubtCount == 1)
            var (ids, after) = ([Int64](), 0 as Int64?)
            while let id = after {
                let page = try spool.page(after: id, countMax: 7)
                ids += page.notifications.map(\.id)
                after = page.lastID
            }
            #expect(ids == [1] + (701...1000).filter { $0 != 999 })
            var removal = SpoolWrite()
            removal.removed = ids
            try spool.write(removal)
        }
        #expect(try Self.rowCount(path, "notifications") == 0)
        #expect(try Self.rowCount(path, "marks") == 0)
    }

    /// Each column of a row with another value, as a flipped bit would leave it.
    @Test(arguments: [
        "content = CAST('x' || substr(content, 2) AS BLOB)", "content = zeroblob(length(content))", "content = x''",
        "content = substr(content, 2)", "content = content || x'00'", "content = 7", "checksum = checksum + 1",
        "first = first + 1, last = last + 1", "first = 7, last = -9", "first = 9223372036854775807, last = 0",
    ])
    func `a changed row is named and not believed`(change: String) throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/spool"
        do {
            let spool = try SQLiteNotificationSpool(folder: path)
            try spool.write(try Self.write(1...2))
            try spool.write(try Self.write(4...6))
            try spool.write(try Self.write(8...9))
        }
        try Self.change(path, "UPDATE notifications SET \(change) WHERE last = 6")
        let damagedCount = try #require(try SQLiteNotificationSpool.check(folder: path)?.damagedCount)
        #expect(damagedCount >= 1)
        let spool = try SQLiteNotificationSpool(folder: path)
        let page = try spool.page(after: 0, countMax: 10)
        #expect(!page.damaged.isEmpty && Set(page.damaged).isDisjoint(with: [1, 2, 8, 9]))
        #expect(change.hasPrefix("content") || page.damaged.count == 3, "\(page.damaged)")
        #expect(page.notifications.map(\.id) == [1, 2, 8, 9])
        #expect(spool.contents.count == 4 + page.damaged.count)
        var removal = SpoolWrite()
        removal.removed = page.damaged
        try spool.write(removal)
        let contents = try SQLiteNotificationSpool.check(folder: path)
        #expect(contents?.count == 4 && contents?.damagedCount == 0)
    }

    /// The bits of the numbers of a row.
    @Test(arguments: ["last", "first"])
    func `a row with a flipped bit in one of its numbers is restored`(column: String) throws {
        for bit in 0..<64 {
            let folder = try TemporaryFolder()
            let path = "\(folder.path)/spool"
            do {
                let spool = try SQLiteNotificationSpool(folder: path)
                for first in [1, 17, 33, 49] as [Int64] { try spool.write(try Self.write(first...(first + 15))) }
                var removal = SpoolWrite()
                removal.removed = Array(33...40)
                try spool.write(removal)
            }
            let mask = bit == 63 ? Int64.min : 1 << bit
            // Exclusive or, which SQLite does not have; the number of another row is no flipped bit that stays.
            let flipped = "(\(column) | \(mask)) - (\(column) & \(mask))"
            do { try Self.change(path, "UPDATE notifications SET \(column) = \(flipped) WHERE last = 32") } catch {
                continue
            }
            let spool = try SQLiteNotificationSpool(folder: path)
            let page = try spool.page(after: 0, countMax: 100)
            #expect(page.notifications.map(\.id) == Array(1...32) + Array(41...64), "bit \(bit)")
            #expect(page.notifications.allSatisfy { !$0.isInDoubt } && page.damaged.isEmpty, "bit \(bit)")
            #expect(spool.contents.lastID == 64, "bit \(bit)")
        }
    }

    @Test func `marks whose number is damaged put all rows without marks in doubt, and no other row`() throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/spool"
        do {
            let spool = try SQLiteNotificationSpool(folder: path)
            for first in [1, 17, 33] as [Int64] { try spool.write(try Self.write(first...(first + 15))) }
            var removal = SpoolWrite()
            removal.removed = [2, 18, 19]
            try spool.write(removal)
        }
        try Self.change(path, "UPDATE marks SET last = 96 WHERE last = 32")
        let page = try SQLiteNotificationSpool(folder: path).page(after: 0, countMax: 100)
        #expect(page.notifications.map(\.id) == [1] + Array(3...48))
        #expect(page.notifications.filter(\.isInDoubt).map(\.id) == Array(17...48))
    }

    @Test(arguments: ["marks = zeroblob(3)", "marks = zeroblob(2)", "marks = 7", "checksum = checksum + 1"])
    func `with damaged marks, nothing is lost, and everything is in doubt`(change: String) throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/spool"
        do {
            let spool = try SQLiteNotificationSpool(folder: path)
            try spool.write(try Self.write(1...3))
            var removal = SpoolWrite()
            removal.removed = [2]
            try spool.write(removal)
        }
        try Self.change(path, "UPDATE marks SET \(change)")
        let page = try SQLiteNotificationSpool(folder: path).page(after: 0, countMax: 10)
        #expect(page.notifications.map(\.id) == [1, 2, 3] && page.notifications.allSatisfy(\.isInDoubt))
    }

    @Test(arguments: [(1, "let that release deliver it, or move it away"), (3, "use that release")])
    func `a file of another release is refused`(version: Int, advice: String) throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/spool"
        do { try SQLiteNotificationSpool(folder: path).write(try Self.write(1...3)) }
        try Self.change(path, "PRAGMA user_version = \(version)")
        let error = #expect(throws: NotificationSpoolError.self) { _ = try SQLiteNotificationSpool(folder: path) }
        #expect(error?.detail.contains("(layout version \(version)); \(advice)") == true)
    }

    @Test func `with a damaged position, everything is in doubt`() throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/spool"
        do { try SQLiteNotificationSpool(folder: path).write(try Self.write(1...3, sentThrough: 2)) }
        try Self.change(path, "UPDATE position SET value = 1")
        #expect(try SQLiteNotificationSpool(folder: path).contents.inDoubtCount == 3)
    }

    @Test func `a removed file is an error, and not written to`() throws {
        let folder = try TemporaryFolder()
        let spool = try SQLiteNotificationSpool(folder: "\(folder.path)/spool")
        try FileManager.default.removeItem(atPath: "\(folder.path)/spool/spool.sqlite")
        #expect(throws: NotificationSpoolError.self) { try spool.write(try Self.write(1...1)) }
    }
}

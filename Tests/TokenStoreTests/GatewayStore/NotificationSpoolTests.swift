// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Foundation
import GRDB
import TestSupport
import Testing

@testable import TokenStore

@Suite(.timeLimit(.minutes(2))) struct NotificationSpoolTests {
    private static func notification(_ id: Int64) throws -> SpooledNotification {
        var random = SplitMix64(seed: UInt64(id))
        return SpooledNotification(
            id: id,
            token: try DeviceToken(bytes: [UInt8](repeating: UInt8(id), count: 32)),
            payload: id == 4 ? [] : Array("{\"aps\":{\"badge\":\(id)}}".utf8),
            expiry: id % 2 == 0 ? nil : 2_000_000_000,
            priority: id % 3 == 0 ? nil : 10,
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

    /// Each column of a row with another value, as a flipped bit would leave it.
    @Test(arguments: [
        "payload = CAST('x' || substr(payload, 2) AS BLOB)", "token = zeroblob(32)", "expiry = expiry + 1",
        "expiry = NULL", "expiry = -1", "priority = 11", "topic = 'com.example.apq'", "arrived_at = arrived_at + 64",
        "in_doubt = 1", "checksum = checksum + 1", "request = zeroblob(16)", "request = zeroblob(15)", "topic = x'ff'",
        "payload = 7",
    ])
    func `a changed row is named and not believed`(change: String) throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/spool"
        do {
            let spool = try SQLiteNotificationSpool(folder: path)
            try spool.write(try Self.write(1...3))
        }
        let database = try DatabaseQueue(path: path + "/spool.sqlite")
        try database.write { try $0.execute(sql: "UPDATE notification SET \(change) WHERE id = 1") }
        try database.close()
        #expect(try SQLiteNotificationSpool.check(folder: path)?.damagedCount == 1)
        let page = try SQLiteNotificationSpool(folder: path).page(after: 0, countMax: 10)
        #expect(page.damaged == [1])
        #expect(page.notifications.map(\.id) == [2, 3])
    }

    @Test func `with a damaged position, everything is in doubt`() throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/spool"
        do { try SQLiteNotificationSpool(folder: path).write(try Self.write(1...3, sentThrough: 2)) }
        let database = try DatabaseQueue(path: path + "/spool.sqlite")
        try database.write { try $0.execute(sql: "UPDATE position SET value = 1") }
        try database.close()
        #expect(try SQLiteNotificationSpool(folder: path).contents.inDoubtCount == 3)
    }

    @Test func `a removed file is an error, and not written to`() throws {
        let folder = try TemporaryFolder()
        let spool = try SQLiteNotificationSpool(folder: "\(folder.path)/spool")
        try FileManager.default.removeItem(atPath: "\(folder.path)/spool/spool.sqlite")
        #expect(throws: NotificationSpoolError.self) { try spool.write(try Self.write(1...1)) }
    }
}

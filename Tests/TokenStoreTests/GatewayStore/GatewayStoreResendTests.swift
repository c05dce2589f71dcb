// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Foundation
import GRDB
import ListenerFixtures
import Logging
import NIOConcurrencyHelpers
import TestSupport
import Testing

@testable import TokenStore

/// Goal: expected resends are known after the process died at any time, once per resend.
@Suite(.timeLimit(.minutes(1))) struct GatewayStoreResendTests {
    private final class Clock: Sendable {
        private let seconds = NIOLockedValueBox<Int64>(1_800_000_000)
        func advance(_ count: Int64) { self.seconds.withLockedValue { $0 += count } }
        var now: @Sendable () -> Int64 { { self.seconds.withLockedValue { $0 } } }
    }

    private let folder: TemporaryFolder
    private let clock = Clock()
    private let lines = LogLines()

    init() throws { self.folder = try TemporaryFolder() }

    private var path: String { self.folder.path + "/gateway.sqlite" }

    private func open() throws -> SQLiteGatewayStore {
        try SQLiteGatewayStore(path: self.path, logger: self.lines.logger(.info), now: self.clock.now)
    }

    private static func key(_ number: UInt8) throws -> ExpectedResend {
        let key = try #require(ResendKey(bytes: [UInt8](repeating: number, count: ResendKey.byteCount)))
        return ExpectedResend(key: key)
    }

    /// A resend with everything that may be known about it.
    private static func whole(_ number: UInt8, place: Int64) throws -> ExpectedResend {
        var resend = try Self.key(number)
        resend.place = ExpectedResend.Place(response: 7, index: place)
        resend.lifetime = ExpectedResend.Lifetime(content: try Self.key(number + 100).key, milliseconds: -5)
        return resend
    }

    private static func insert(_ numbers: [UInt8], of provider: String = "shop", _ store: SQLiteGatewayStore)
        async throws
    {
        let keys = try numbers.map(Self.key)
        await withCheckedContinuation { continuation in
            store.insert(keys, of: provider, for: .seconds(120)) { _ in continuation.resume() }
        }
    }

    private static func remove(_ number: UInt8, _ store: SQLiteGatewayStore) async throws {
        let key = try Self.key(number)
        await withCheckedContinuation { continuation in
            store.remove(key, of: "shop") { continuation.resume() }
        }
    }

    @Test func `stored resends are read by another process, each as often as expected`() async throws {
        let store = try self.open()
        try await Self.insert([1, 2, 2, 3], store)
        try await Self.insert([9], of: "other", store)
        try await Self.remove(2, store)
        try await Self.remove(7, store)
        // The first store is not closed, like that of a killed process.
        let other = try self.open()
        #expect(other.resends(of: "shop", for: .seconds(120)) == [try Self.key(1), try Self.key(2), try Self.key(3)])
        #expect(other.resends(of: "other", for: .seconds(120)) == [try Self.key(9)])
        #expect(other.resends(of: "none", for: .seconds(120)) == [])
    }

    @Test func `places and lifetimes are stored, and of equal keys the one in the same place is removed`() async throws
    {
        let store = try self.open()
        let resends = try [Self.whole(1, place: 0), Self.whole(2, place: 3), Self.whole(1, place: 9)]
        await withCheckedContinuation { continuation in
            store.insert(resends, of: "shop", for: .seconds(120)) { _ in continuation.resume() }
        }
        await withCheckedContinuation { continuation in
            store.remove(resends[2], of: "shop") { continuation.resume() }
        }
        #expect(try self.open().resends(of: "shop", for: .seconds(120)) == Array(resends[..<2]))
        // The file is replaced, and its content is written again.
        for suffix in ["", "-wal", "-shm"] { try FileManager.default.removeItem(atPath: self.path + suffix) }
        try await Self.insert([3], store)
        #expect(try self.open().resends(of: "shop", for: .seconds(120)) == resends[..<2] + [Self.key(3)])
    }

    @Test func `no flipped bit of an expected resend is believed, at a start or by the check`() async throws {
        do {
            let store = try self.open()
            let resends = try (1...4).map { try Self.whole($0, place: Int64($0) * 300) } + [Self.key(5)]
            await withCheckedContinuation { continuation in
                store.insert(resends, of: "shop", for: .seconds(120)) { _ in continuation.resume() }
            }
        }
        func stored() throws -> [ExpectedResend] { try self.open().resends(of: "shop", for: .seconds(120)) }
        let sound = try stored()
        #expect(sound.count == 5)
        try await DatabaseQueue(path: self.path).writeWithoutTransaction { _ = try $0.checkpoint(.truncate) }
        let bytes = try Data(contentsOf: URL(filePath: self.path))
        // The schema, and the rows with a part of the unused bytes before them.
        let row = try #require(bytes.range(of: Data(try Self.key(104).key.bytes)))
        let ranges = [0..<3000, row.lowerBound - 100..<row.upperBound + 500].map { $0.clamped(to: 0..<bytes.count) }
        var generator = SplitMix64(seed: 44)
        var refusedCount = 0
        for number in 0..<TestEffort.count(300, long: 8000) {
            var damaged = bytes
            let offset = try #require(ranges[number % 2].randomElement(using: &generator))
            damaged[offset] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
            for end in ["-wal", "-shm"] { try? FileManager.default.removeItem(atPath: self.path + end) }
            try damaged.write(to: URL(filePath: self.path))
            let isRefused = (try? SQLiteGatewayStore.check(path: self.path)) == nil
            // What is unused may be damaged.
            guard let read = try? stored() else {
                refusedCount += 1
                continue
            }
            #expect(read == sound && !isRefused, "byte \(offset)")
        }
        #expect(refusedCount > 50)
    }

    @Test func `resends of an earlier release have no checksum, and what it adds has none`() async throws {
        try await Self.insert([1], self.open())
        let queue = try DatabaseQueue(path: self.path)
        try await queue.writeWithoutTransaction { database in
            try database.execute(
                sql: """
                    ALTER TABLE resend DROP COLUMN checksum;
                    INSERT INTO resend (provider, key, until) VALUES ('shop', zeroblob(32), 1800000120)
                    """
            )
        }
        try SQLiteGatewayStore.check(path: self.path)
        let store = try self.open()
        #expect(store.resends(of: "shop", for: .seconds(120)) == [try Self.key(1), try Self.key(0)])
        try await Self.insert([2], store)
        let checksums = try await queue.read {
            try Bool.fetchAll($0, sql: "SELECT checksum IS NULL FROM resend ORDER BY id")
        }
        #expect(checksums == [true, true, false])
    }

    @Test func `resends stored by an earlier version are read`() async throws {
        let old = try DatabaseQueue(path: self.path)
        try await old.writeWithoutTransaction { database in
            try database.execute(
                sql: """
                    CREATE TABLE resend (
                        id INTEGER PRIMARY KEY, provider TEXT NOT NULL, key BLOB NOT NULL, until INTEGER NOT NULL
                    );
                    INSERT INTO resend (provider, key, until) VALUES ('shop', zeroblob(32), 1800000120)
                    """
            )
        }
        try old.close()
        let store = try self.open()
        #expect(store.resends(of: "shop", for: .seconds(120)) == [try Self.key(0)])
        try await Self.remove(0, store)
        #expect(try self.open().resends(of: "shop", for: .seconds(120)) == [])
    }

    @Test func `resends valid at the stop of a gateway are expected by the next one for a while`() async throws {
        try await Self.insert([1], self.open())
        self.clock.advance(120 + 600)
        self.clock.advance(1)
        #expect(try self.open().resends(of: "shop", for: .seconds(120)) == [])
        self.clock.advance(-1)
        #expect(try self.open().resends(of: "shop", for: .seconds(120)) == [try Self.key(1)])
    }

    @Test func `resends are expected though the disk is full at the start, and their time is extended later`()
        async throws
    {
        try await Self.insert([1], self.open())
        self.clock.advance(300)
        let other = try DatabaseQueue(path: self.path)
        let store = try self.open()
        try await other.writeWithoutTransaction { database in
            try database.execute(
                sql: "CREATE TRIGGER full BEFORE UPDATE ON resend BEGIN SELECT RAISE(FAIL, 'no space'); END"
            )
        }
        #expect(store.resends(of: "shop", for: .seconds(120)) == [try Self.key(1)])
        await store.flush()
        #expect(self.lines.of("expected resends not written, retrying").count == 1)
        try await other.writeWithoutTransaction { try $0.execute(sql: "DROP TRIGGER full") }
        try await Self.insert([2], store)
        let end = self.clock.now() + 120
        #expect(try await other.read { try Int64.fetchAll($0, sql: "SELECT until FROM resend") } == [end, end])
    }

    @Test func `expired resends are removed with the next change`() async throws {
        let store = try self.open()
        try await Self.insert([1], store)
        self.clock.advance(121)
        try await Self.insert([2], store)
        #expect(store.resends(of: "shop", for: .seconds(120)) == [try Self.key(2)])
    }

    @Test func `a transaction has both dead tokens and expected resends, and a failure of one is one of all`()
        async throws
    {
        let (list, token) = (
            TokenScope(topic: "com.example.app", environment: .sandbox), [UInt8](repeating: 1, count: 32)
        )
        let tuple = FeedbackTuple(token: try DeviceToken(bytes: token), failedAt: 100)
        let store = try self.open()
        let other = try DatabaseQueue(path: self.path)
        try await other.writeWithoutTransaction { database in
            try database.execute(
                sql: "CREATE TRIGGER full BEFORE INSERT ON resend BEGIN SELECT RAISE(FAIL, 'no space'); END"
            )
        }
        let kept = NIOLockedValueBox(0)
        store.insert([try Self.key(1)], of: "shop", for: .seconds(120)) { _ in kept.withLockedValue { $0 += 1 } }
        await store.flush()
        #expect(store.problem?.contains("no space") == true)
        store.record(tuple, in: list) { kept.withLockedValue { $0 += 1 } }
        await store.flush()
        #expect(kept.withLockedValue { $0 } == 0, "What is not on the disk is not said to be kept.")
        try await other.writeWithoutTransaction { try $0.execute(sql: "DROP TRIGGER full") }
        try await Self.insert([2], store)
        #expect(kept.withLockedValue { $0 } == 2 && store.problem == nil)
        let reopened = try self.open()
        #expect(reopened.counts == [list: 1])
        #expect(reopened.resends(of: "shop", for: .seconds(120)) == [try Self.key(1), try Self.key(2)])
    }

    @Test func `unwritable changes are not reported as stored, and are written when possible`() async throws {
        let store = try self.open()
        let other = try DatabaseQueue(path: self.path)
        try await other.writeWithoutTransaction { try $0.execute(sql: "DROP TABLE resend") }
        let isKept = NIOLockedValueBox(false)
        store.insert([try Self.key(1)], of: "shop", for: .seconds(120)) { kept in isKept.withLockedValue { $0 = kept } }
        await store.flush()
        #expect(!isKept.withLockedValue { $0 })
        let failed = self.lines.of("expected resends not written, retrying")
        #expect(failed.count == 1 && failed[0].level == .error)
        try await other.writeWithoutTransaction { database in
            try database.execute(
                sql: "CREATE TABLE resend (id INTEGER PRIMARY KEY, provider TEXT, key BLOB, until INTEGER)"
            )
        }
        try await Self.insert([2], store)
        #expect(isKept.withLockedValue { $0 })
        #expect(store.resends(of: "shop", for: .seconds(120)) == [try Self.key(1), try Self.key(2)])
    }

    @Test func `a removed file is created again`() async throws {
        let store = try self.open()
        try await Self.insert([1], store)
        for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: self.path + suffix) }
        try await Self.insert([2], store)
        #expect(try self.open().resends(of: "shop", for: .seconds(120)) == [try Self.key(1), try Self.key(2)])
    }

    @Test func `after a replacement of the file, the next change writes everything`() async throws {
        let store = try self.open()
        try await Self.insert([1, 1, 2], store)
        for suffix in ["", "-wal", "-shm"] { try FileManager.default.removeItem(atPath: self.path + suffix) }
        // Another process creates the file again before it is needed.
        let feedback = try SQLiteGatewayStore(path: self.path)
        try await Self.insert([3], store)
        try await Self.remove(2, store)
        let keys = try self.open().resends(of: "shop", for: .seconds(120))
        #expect(keys == [try Self.key(1), try Self.key(1), try Self.key(3)])
        #expect(feedback.problem == nil)
    }

    @Test(arguments: [["-wal", "-shm"], [""]])
    func `after a partial removal of the file, nothing is reported as stored`(suffixes: [String]) async throws {
        let store = try self.open()
        try await Self.insert([1], store)
        for suffix in suffixes { try FileManager.default.removeItem(atPath: self.path + suffix) }
        let isKept = NIOLockedValueBox(false)
        store.insert([try Self.key(2)], of: "shop", for: .seconds(120)) { kept in isKept.withLockedValue { $0 = kept } }
        await store.flush()
        #expect(!isKept.withLockedValue { $0 })
        #expect(self.lines.of("expected resends not written, retrying").count == 1)
        let list = TokenScope(topic: "com.example.app", environment: .sandbox)
        let tuple = FeedbackTuple(token: try DeviceToken(bytes: [UInt8](repeating: 1, count: 32)), failedAt: 100)
        store.record(tuple, in: list) { isKept.withLockedValue { $0 = true } }
        try await eventually("another attempt") {
            self.lines.of("feedback not written, retrying").contains {
                $0.metadata["\(LogKey.failure)"]?.description.contains("restart the gateway") == true
            }
        }
        #expect(!isKept.withLockedValue { $0 })
    }

    @Test func `resends expected after a start are expected for the same time after the next start`() async throws {
        try await Self.insert([1, 2], self.open())
        self.clock.advance(100)
        let second = try self.open()
        #expect(second.resends(of: "shop", for: .seconds(120)).count == 2)
        self.clock.advance(100)
        // Any change removes expired entries.
        try await Self.remove(2, second)
        #expect(try self.open().resends(of: "shop", for: .seconds(120)) == [try Self.key(1)])
    }

    @Test func `the number of pending keys is limited`() async throws {
        let store = try self.open()
        let other = try DatabaseQueue(path: self.path)
        try await other.writeWithoutTransaction { try $0.execute(sql: "DROP TABLE resend") }
        let keys = Array(repeating: try Self.key(1), count: SQLiteGatewayStore.pendingResendCountMax)
        store.insert(keys, of: "shop", for: .seconds(120)) { _ in }
        let isKept = NIOLockedValueBox<Bool?>(nil)
        store.insert([try Self.key(2)], of: "shop", for: .seconds(120)) { kept in isKept.withLockedValue { $0 = kept } }
        #expect(isKept.withLockedValue { $0 } == false)
    }
}

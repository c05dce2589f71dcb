// SPDX-License-Identifier: Apache-2.0

import APNSSession
import Foundation
import GRDB
import ListenerFixtures
import Logging
import NIOConcurrencyHelpers
import TestSupport
import Testing

@testable import TokenStore

/// Goal: what a provider will send again is known after the process died at any instant, once for each resend.
@Suite(.timeLimit(.minutes(1))) struct SQLiteResendStoreTests {
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

    private func open() throws -> SQLiteResendStore {
        try SQLiteResendStore(path: self.path, logger: self.lines.logger(.info), now: self.clock.now)
    }

    private static func key(_ number: UInt8) throws -> ResendKey {
        try #require(ResendKey(bytes: [UInt8](repeating: number, count: ResendKey.byteCount)))
    }

    private static func insert(_ numbers: [UInt8], of provider: String = "shop", _ store: SQLiteResendStore)
        async throws
    {
        let keys = try numbers.map(Self.key)
        await withCheckedContinuation { continuation in
            store.insert(keys, of: provider, for: .seconds(120)) { _ in continuation.resume() }
        }
    }

    private static func remove(_ number: UInt8, _ store: SQLiteResendStore) async throws {
        let key = try Self.key(number)
        await withCheckedContinuation { continuation in
            store.remove(key, of: "shop") { continuation.resume() }
        }
    }

    @Test func `what was kept is there for another process, each as often as it is expected`() async throws {
        let store = try self.open()
        try await Self.insert([1, 2, 2, 3], store)
        try await Self.insert([9], of: "other", store)
        try await Self.remove(2, store)
        try await Self.remove(7, store)
        // The first is not closed, as with a process that was killed.
        let other = try self.open()
        #expect(other.keys(of: "shop", for: .seconds(120)) == [try Self.key(1), try Self.key(2), try Self.key(3)])
        #expect(other.keys(of: "other", for: .seconds(120)) == [try Self.key(9)])
        #expect(other.keys(of: "none", for: .seconds(120)) == [])
    }

    @Test func `what was due until the gateway stopped is expected by the next one, for a while`() async throws {
        try await Self.insert([1], self.open())
        self.clock.advance(120 + 600)
        self.clock.advance(1)
        #expect(try self.open().keys(of: "shop", for: .seconds(120)) == [])
        self.clock.advance(-1)
        #expect(try self.open().keys(of: "shop", for: .seconds(120)) == [try Self.key(1)])
    }

    @Test func `what is too old leaves the file with the next change`() async throws {
        let store = try self.open()
        try await Self.insert([1], store)
        self.clock.advance(121)
        try await Self.insert([2], store)
        #expect(store.keys(of: "shop", for: .seconds(120)) == [try Self.key(2)])
    }

    @Test func `it shares its file with the feedback store`() async throws {
        let feedback = try SQLiteFeedbackStore(path: self.path)
        let store = try self.open()
        try await Self.insert([1], store)
        #expect(feedback.counts == [:])
        #expect(try SQLiteFeedbackStore(path: self.path).counts == [:])
        #expect(try self.open().keys(of: "shop", for: .seconds(120)) == [try Self.key(1)])
    }

    @Test func `what cannot be written is said not to be kept, and is written when it can be`() async throws {
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
        #expect(store.keys(of: "shop", for: .seconds(120)) == [try Self.key(1), try Self.key(2)])
    }

    @Test func `a file that was removed is made anew`() async throws {
        let store = try self.open()
        try await Self.insert([1], store)
        for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: self.path + suffix) }
        try await Self.insert([2], store)
        #expect(try self.open().keys(of: "shop", for: .seconds(120)) == [try Self.key(1), try Self.key(2)])
    }

    @Test func `where another file is in its place, the next change puts all there`() async throws {
        let store = try self.open()
        try await Self.insert([1, 1, 2], store)
        for suffix in ["", "-wal", "-shm"] { try FileManager.default.removeItem(atPath: self.path + suffix) }
        // Another one makes the file anew before it is needed.
        let feedback = try SQLiteFeedbackStore(path: self.path)
        try await Self.insert([3], store)
        try await Self.remove(2, store)
        let keys = try self.open().keys(of: "shop", for: .seconds(120))
        #expect(keys == [try Self.key(1), try Self.key(1), try Self.key(3)])
        #expect(feedback.problem == nil)
    }

    @Test(arguments: [["-wal", "-shm"], [""]])
    func `where a part of the file was removed, nothing is said to be kept`(suffixes: [String]) async throws {
        let store = try self.open()
        try await Self.insert([1], store)
        for suffix in suffixes { try FileManager.default.removeItem(atPath: self.path + suffix) }
        let isKept = NIOLockedValueBox(false)
        store.insert([try Self.key(2)], of: "shop", for: .seconds(120)) { kept in isKept.withLockedValue { $0 = kept } }
        await store.flush()
        #expect(!isKept.withLockedValue { $0 })
        #expect(self.lines.of("expected resends not written, retrying").count == 1)
    }

    @Test func `what is expected after a start is expected as long by the start after that`() async throws {
        try await Self.insert([1, 2], self.open())
        self.clock.advance(100)
        let second = try self.open()
        #expect(second.keys(of: "shop", for: .seconds(120)).count == 2)
        self.clock.advance(100)
        // Any change takes out what is too old.
        try await Self.remove(2, second)
        #expect(try self.open().keys(of: "shop", for: .seconds(120)) == [try Self.key(1)])
    }

    @Test func `no more waits for the disk than is allowed`() async throws {
        let store = try self.open()
        let other = try DatabaseQueue(path: self.path)
        try await other.writeWithoutTransaction { try $0.execute(sql: "DROP TABLE resend") }
        let keys = Array(repeating: try Self.key(1), count: SQLiteResendStore.pendingCountMax)
        store.insert(keys, of: "shop", for: .seconds(120)) { _ in }
        let isKept = NIOLockedValueBox<Bool?>(nil)
        store.insert([try Self.key(2)], of: "shop", for: .seconds(120)) { kept in isKept.withLockedValue { $0 = kept } }
        #expect(isKept.withLockedValue { $0 } == false)
    }
}

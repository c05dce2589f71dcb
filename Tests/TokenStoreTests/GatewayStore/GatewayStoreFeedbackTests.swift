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

@testable import APNSGateway
@testable import TokenStore

@Suite(.timeLimit(.minutes(1))) struct GatewayStoreFeedbackTests {
    private static let list = TokenScope(topic: "com.example.app", environment: .sandbox)
    private static let other = TokenScope(topic: "com.example.app", environment: .production)

    /// Runs a closure with the path of a database in its own folder.
    private static func withPath(_ body: (String) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "feedback-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        try await body(folder.appending(path: "feedback.sqlite").path)
    }

    private static func keep(_ number: Int, _ time: UInt32, in list: TokenScope, _ store: SQLiteGatewayStore)
        async throws
    {
        let tuple = FeedbackTuple(token: try Self.token(number), failedAt: time)
        await withCheckedContinuation { continuation in
            store.record(tuple, in: list) { continuation.resume() }
        }
    }

    private static func token(_ number: Int) throws -> DeviceToken {
        try DeviceToken(bytes: withUnsafeBytes(of: number.bigEndian) { Array($0) })
    }

    /// The tokens of a list with their times.
    private static func tokens(in list: TokenScope, _ store: SQLiteGatewayStore) -> [DeviceToken: UInt32] {
        let reader = BridgeFeedbackList(store, list)
        var tokens: [DeviceToken: UInt32] = [:]
        while case let tuples = reader.next(3), !tuples.isEmpty {
            for tuple in tuples { tokens[tuple.token] = tuple.failedAtSeconds }
        }
        return tokens
    }

    /// Goal: a long list is delivered completely and once, page by page, while it changes.
    @Test func `a long list is read in pages of limited length while tokens are added and removed`() async throws {
        try await Self.withPath { path in
            let store = try SQLiteGatewayStore(path: path)
            func token(_ number: Int) throws -> DeviceToken {
                try DeviceToken(bytes: withUnsafeBytes(of: number.bigEndian) { Array($0) })
            }
            let count = TestEffort.count(6000, long: 30_000)
            for number in 0..<count {
                store.record(FeedbackTuple(token: try token(number), failedAt: 100), in: Self.list) {}
            }
            let list = BridgeFeedbackList(store, Self.list)
            var seen: Set<DeviceToken> = []
            while case let tuples = list.next(1000), !tuples.isEmpty {
                #expect(tuples.count <= 1000)
                for tuple in tuples { #expect(seen.insert(tuple.token).inserted) }
                // A token with a newer failure stays, and so does a new one, whether or not it was read.
                if seen.count == count / 3 {
                    store.record(FeedbackTuple(token: try #require(seen.first), failedAt: 101), in: Self.list) {}
                }
            }
            let again = try #require(Self.tokens(in: Self.list, store).first { $0.value == 101 }).key
            try await Self.keep(60_000, 100, in: Self.other, store)
            #expect(seen == Set(try (0..<count).map(token)))
            #expect(store.counts[Self.list] == count)
            list.acknowledge()
            try await eventually("that the list is empty but for one") { store.counts[Self.list] == 1 }
            #expect(Self.tokens(in: Self.list, store) == [again: 101])
            try await eventually("the same of the file") {
                (try? SQLiteGatewayStore(path: path).counts[Self.list]) == 1
            }
        }
    }

    @Test func `a page does not change, and is at most one bucket longer than requested`() throws {
        var buckets = FeedbackBuckets()
        var tokens: Set<DeviceToken> = []
        for number in 0..<20_000 {
            let token = try DeviceToken(bytes: withUnsafeBytes(of: number) { Array($0) })
            tokens.insert(token)
            buckets[token] = 7
        }
        #expect(buckets.count == 20_000 && buckets.all.map(\.key).count == 20_000)
        var read: [DeviceToken] = []
        var index = 0
        while case let page = buckets.page(from: index, countMin: 100), !page.buckets.isEmpty {
            let count = page.buckets.reduce(0) { $0 + $1.count }
            #expect(count < 100 + 100, "\(count)")
            index = page.nextIndex
            for token in page.buckets.flatMap(\.keys) {
                buckets[token] = nil
                read.append(token)
            }
        }
        #expect(Set(read) == tokens && read.count == tokens.count && buckets.count == 0)
        #expect(buckets.page(from: index, countMin: 1).nextIndex == FeedbackBuckets.bucketCount)
    }

    @Test func `stored tokens survive a restart, per list and with the newest time`() async throws {
        try await Self.withPath { path in
            do {
                let store = try SQLiteGatewayStore(path: path)
                try await Self.keep(1, 100, in: Self.list, store)
                try await Self.keep(1, 200, in: Self.list, store)
                try await Self.keep(1, 150, in: Self.list, store)
                try await Self.keep(2, 50, in: Self.other, store)
            }
            let store = try SQLiteGatewayStore(path: path)
            #expect(Self.tokens(in: Self.list, store) == [try Self.token(1): 200])
            #expect(Self.tokens(in: Self.other, store) == [try Self.token(2): 50])
        }
    }

    @Test func `a list is removed only when it is acknowledged, and newer entries stay`() async throws {
        try await Self.withPath { path in
            let store = try SQLiteGatewayStore(path: path)
            for number in 1...5 { try await Self.keep(number, 100, in: Self.list, store) }
            let cut = BridgeFeedbackList(store, Self.list)
            #expect(cut.next(3).count == 3)
            #expect(try SQLiteGatewayStore(path: path).counts == [Self.list: 5])
            let whole = BridgeFeedbackList(store, Self.list)
            #expect(whole.next(3).count + whole.next(3).count == 5)
            #expect(whole.next(3).isEmpty)
            try await Self.keep(4, 101, in: Self.list, store)
            whole.acknowledge()
            await store.flush()
            #expect(Self.tokens(in: Self.list, store) == [try Self.token(4): 101])
            #expect(
                Self.tokens(in: Self.list, try SQLiteGatewayStore(path: path)) == [try Self.token(4): 101]
            )
        }
    }

    @Test func `a delivery removes a token only from its list`() async throws {
        try await Self.withPath { path in
            let store = try SQLiteGatewayStore(path: path)
            try await Self.keep(1, 100, in: Self.list, store)
            try await Self.keep(1, 100, in: Self.other, store)
            store.forget(try Self.token(1), in: Self.list)
            store.forget(try Self.token(9), in: Self.list)
            await store.flush()
            #expect(try SQLiteGatewayStore(path: path).counts.filter { $0.value > 0 } == [Self.other: 1])
        }
    }

    @Test func `beyond its limit it drops tokens, and reports so immediately`() async throws {
        try await Self.withPath { path in
            let store = try SQLiteGatewayStore(path: path, countMax: 2)
            for number in 1...3 { try await Self.keep(number, 100, in: Self.list, store) }
            try await Self.keep(2, 200, in: Self.list, store)
            #expect(store.counts == [Self.list: 2])
        }
    }

    @Test func `beyond its limit it does not fill the log`() async throws {
        try await Self.withPath { path in
            let lines = LogLines()
            let store = try SQLiteGatewayStore(path: path, countMax: 1, logger: lines.logger(.info))
            let start = ContinuousClock.now
            for number in 1...300 { try await Self.keep(number, 100, in: Self.list, store) }
            let seconds = Int((ContinuousClock.now - start) / .seconds(1))
            let found = lines.of("feedback store is full")
            #expect((1...1 + seconds / 10).contains(found.count) && found.allSatisfy { $0.level == .error })
            #expect(found.first?.metadata["apns.legacy.feedback.tokens"] == "1")
        }
    }

    @Test func `unwritable changes are kept, reported, and written when possible`() async throws {
        try await Self.withPath { path in
            let store = try SQLiteGatewayStore(path: path)
            try await Self.keep(1, 100, in: Self.list, store)
            try await Self.keep(2, 100, in: Self.list, store)
            let other = try DatabaseQueue(path: path)
            try await other.write {
                try $0.execute(
                    sql: "CREATE TRIGGER full BEFORE INSERT ON feedback BEGIN SELECT RAISE(FAIL, 'no space'); END"
                )
            }
            let kept = NIOLockedValueBox(0)
            for number in 3...5 {
                let tuple = FeedbackTuple(token: try Self.token(number), failedAt: 100)
                store.record(tuple, in: Self.list) { kept.withLockedValue { $0 += 1 } }
            }
            try await eventually("the problem") { store.problem != nil }
            #expect(store.problem?.contains("no space") == true)
            #expect(kept.withLockedValue { $0 } == 0, "What is not on the disk is not said to be kept.")
            // Changes meanwhile are included.
            store.forget(try Self.token(1), in: Self.list)
            store.record(FeedbackTuple(token: try Self.token(2), failedAt: 300), in: Self.list) {}
            try await other.write { try $0.execute(sql: "DROP TRIGGER full") }
            try await eventually("the end of the problem") { store.problem == nil && kept.withLockedValue { $0 } == 3 }
            try await Self.keep(6, 100, in: Self.list, store)
            let times = [2: 300, 3: 100, 4: 100, 5: 100, 6: 100] as [Int: UInt32]
            let expected = try times.map { (try Self.token($0.key), $0.value) }
            let stored = Self.tokens(in: Self.list, try SQLiteGatewayStore(path: path))
            #expect(stored == Dictionary(uniqueKeysWithValues: expected))
        }
    }

    @Test func `a missing folder is reported until it exists again, then the file is created again`() async throws {
        try await Self.withPath { path in
            let folder = URL(filePath: path).deletingLastPathComponent()
            let store = try SQLiteGatewayStore(path: path)
            try await Self.keep(1, 100, in: Self.list, store)
            try FileManager.default.removeItem(at: folder)
            let kept = NIOLockedValueBox(false)
            store.record(FeedbackTuple(token: try Self.token(2), failedAt: 100), in: Self.list) {
                kept.withLockedValue { $0 = true }
            }
            try await eventually("the problem") { store.problem != nil }
            #expect(!kept.withLockedValue { $0 })
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            try await eventually("the end of the problem") { store.problem == nil && kept.withLockedValue { $0 } }
            let expected =
                [try Self.token(1): 100, try Self.token(2): 100] as [DeviceToken: UInt32]
            #expect(Self.tokens(in: Self.list, try SQLiteGatewayStore(path: path)) == expected)
        }
    }

    @Test func `a file of a newer version is not changed`() async throws {
        try await Self.withPath { path in
            let queue = try DatabaseQueue(path: path)
            try await queue.write { try $0.execute(sql: "PRAGMA user_version = 2") }
            try queue.close()
            #expect(throws: GatewayStoreError.self) { try SQLiteGatewayStore(path: path) }
        }
    }

    @Test func `no flipped bit of a dead token is believed, at a start or by the check`() async throws {
        try await Self.withPath { path in
            func entries() throws -> [TokenScope: [DeviceToken: UInt32]] {
                let store = try SQLiteGatewayStore(path: path)
                return [Self.list: Self.tokens(in: Self.list, store), Self.other: Self.tokens(in: Self.other, store)]
            }
            do {
                let store = try SQLiteGatewayStore(path: path)
                for number in 1...5 { try await Self.keep(number, 0x6000_0000, in: Self.list, store) }
                try await Self.keep(6, 0x6000_0000, in: Self.other, store)
            }
            let sound = try entries()
            #expect(sound.values.map(\.count).sorted() == [1, 5])
            var configuration = Configuration()
            configuration.busyMode = .timeout(10)
            try await DatabaseQueue(path: path, configuration: configuration).writeWithoutTransaction {
                _ = try $0.checkpoint(.truncate)
            }
            let bytes = try Data(contentsOf: URL(filePath: path))
            let topic = try #require(bytes.range(of: Data(Self.list.topic.utf8), options: .backwards))
            var generator = SplitMix64(seed: 28)
            var refusedCount = 0
            // The rows, and a part of the unused bytes before them.
            let range = topic.lowerBound - 300..<topic.upperBound + 30
            for _ in 0..<TestEffort.count(60, long: 2000) {
                var damaged = bytes
                damaged[range.randomElement(using: &generator)!] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
                for end in ["-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + end) }
                try damaged.write(to: URL(filePath: path))
                let isRefused = (try? SQLiteGatewayStore.check(path: path)) == nil
                // What is unused may be damaged.
                guard let read = try? entries() else {
                    refusedCount += 1
                    #expect(isRefused)
                    continue
                }
                #expect(read == sound)
                #expect(!isRefused)
            }
            #expect(refusedCount > 10)
        }
    }

    @Test func `rows of an earlier release have no checksum, and get one with their next time`() async throws {
        try await Self.withPath { path in
            do {
                let store = try SQLiteGatewayStore(path: path)
                try await Self.keep(1, 100, in: Self.list, store)
                try await Self.keep(2, 100, in: Self.list, store)
            }
            let queue = try DatabaseQueue(path: path)
            try await queue.writeWithoutTransaction {
                try $0.execute(sql: "DROP TRIGGER feedback_without_checksum; ALTER TABLE feedback DROP COLUMN checksum")
            }
            try SQLiteGatewayStore.check(path: path)
            let store = try SQLiteGatewayStore(path: path)
            #expect(store.counts == [Self.list: 2])
            try await Self.keep(1, 99, in: Self.list, store)
            try await Self.keep(2, 101, in: Self.list, store)
            let checksums = try await queue.read {
                try Bool.fetchAll($0, sql: "SELECT checksum IS NULL FROM feedback ORDER BY token")
            }
            #expect(checksums == [true, false])
            #expect(Set(Self.tokens(in: Self.list, try SQLiteGatewayStore(path: path)).values) == [100, 101])
        }
    }

    @Test func `a time that an earlier release changed is believed after an upgrade`() async throws {
        try await Self.withPath { path in
            do {
                let store = try SQLiteGatewayStore(path: path)
                try await Self.keep(1, 100, in: Self.list, store)
                try await Self.keep(2, 100, in: Self.list, store)
            }
            var configuration = Configuration()
            configuration.busyMode = .timeout(10)
            let queue = try DatabaseQueue(path: path, configuration: configuration)
            // What the release before the checksums writes.
            try await queue.writeWithoutTransaction { database in
                for time in [90, 200] {
                    try database.execute(
                        sql: """
                            INSERT INTO feedback (topic, environment, token, failed_at)
                            SELECT topic, environment, token, ? FROM feedback ORDER BY token LIMIT 1
                            ON CONFLICT DO UPDATE SET failed_at = max(failed_at, excluded.failed_at)
                            """,
                        arguments: [time]
                    )
                }
            }
            try SQLiteGatewayStore.check(path: path)
            #expect(Set(Self.tokens(in: Self.list, try SQLiteGatewayStore(path: path)).values) == [100, 200])
        }
    }
}

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

/// Goal: the certificates of admitted providers are known after the process died at any time, few of each provider, and
/// storing them costs one write a day.
@Suite(.timeLimit(.minutes(1))) struct GatewayStoreCertificateTests {
    private final class Clock: Sendable {
        private let seconds = NIOLockedValueBox<Int64>(1_800_057_600)
        func advance(days: Int64) { self.seconds.withLockedValue { $0 += days * 86_400 } }
        var now: @Sendable () -> Int64 { { self.seconds.withLockedValue { $0 } } }
    }

    private let folder: TemporaryFolder
    private let clock = Clock()
    private let lines = LogLines()

    init() throws { self.folder = try TemporaryFolder() }

    private var path: String { self.folder.path + "/gateway ?%#.sqlite" }

    private func open() throws -> SQLiteGatewayStore {
        try SQLiteGatewayStore(path: self.path, logger: self.lines.logger(.info), now: self.clock.now)
    }

    private static func record(_ names: [String], of provider: String = "shop", _ store: SQLiteGatewayStore) async {
        for name in names { store.recordAdmission(of: name, by: provider) { [Array(name.utf8), [1, 2]] } }
        await store.flush()
    }

    private func read() throws -> [StoredCertificate]? {
        try StoredCertificate.read(fromDatabase: self.path, now: self.clock.now())
    }

    private func names() throws -> [String] { try #require(try self.read()).map(\.fingerprint) }

    @Test func `a certificate is stored once a day, with the further ones of its provider`() async throws {
        let store = try self.open()
        var callCount = 0
        for _ in 0..<3 {
            store.recordAdmission(of: "a", by: "shop") {
                callCount += 1
                return [[7], [8], [9]]
            }
        }
        await store.flush()
        #expect(callCount == 1)
        let first = StoredCertificate(
            provider: "shop",
            fingerprint: "a",
            admittedAt: self.clock.now(),
            chain: [[7], [8], [9]]
        )
        // The store is not closed, like that of a killed process.
        #expect(try self.read() == [first])
        self.clock.advance(days: 1)
        // Another process knows when it was stored.
        await Self.record(["a"], try self.open())
        #expect(try self.read()?.map(\.admittedAt) == [self.clock.now()])
        #expect(try self.read()?.map(\.chain) == [[[97], [1, 2]]])
        await Self.record(["a"], of: "news", store)
        #expect(try self.read()?.map(\.provider) == ["news", "shop"])
        let many = (0..<20 as Range<UInt8>).map { [$0] }
        store.recordAdmission(of: "b", by: "shop") { many }
        await store.flush()
        #expect(try self.read()?.last?.chain == Array(many.prefix(9)))
    }

    @Test(arguments: ["NULL", "x'00'", "'a'"])
    func `a value of another kind in the file is an error, and never a crash`(value: String) async throws {
        let store = try self.open()
        await Self.record(["a"], store)
        let list = TokenScope(topic: "com.example", environment: .production)
        store.record(FeedbackTuple(token: try DeviceToken(bytes: [1]), failedAt: 1), in: list) {}
        await store.flush()
        // A flipped bit changes the kind of a value; the schema does not permit it in a statement.
        func damage(_ table: String, _ column: String) throws {
            try DatabaseQueue(path: self.path).writeWithoutTransaction { database in
                try database.execute(
                    sql: """
                        PRAGMA writable_schema = ON;
                        UPDATE sqlite_schema SET sql = replace(sql, 'NOT NULL', '') WHERE name = '\(table)';
                        PRAGMA writable_schema = RESET;
                        UPDATE \(table) SET \(column) = \(value);
                        """
                )
            }
        }
        try damage(GatewayRows.certificateTable, "admitted_at")
        let next = try self.open()
        #expect(self.lines.of("stored certificates not read").count == 1)
        await Self.record(["b"], next)
        #expect(throws: GatewayStoreError.self) { try self.read() }
        try damage("feedback", "failed_at")
        #expect(throws: GatewayStoreError.self) { try self.open() }
    }

    @Test func `a provider has at most 16 certificates, of which the oldest is replaced on another day`() async throws {
        let store = try self.open()
        let names = (10..<50).map { "\($0)" }
        await Self.record(Array(names[..<20]), store)
        #expect(try self.names() == Array(names[..<16]))
        self.clock.advance(days: 1)
        await Self.record(["11", "12"] + names[20...], store)
        // Those of the same day stay, and further ones are not stored.
        #expect(try Set(self.names()) == Set(["11", "12"] + names[20..<34]))
    }

    @Test func `a certificate that was not used for 90 days is removed`() async throws {
        let store = try self.open()
        await Self.record(["a"], store)
        self.clock.advance(days: 90)
        #expect(try self.names() == ["a"])
        self.clock.advance(days: 1)
        #expect(try self.names() == [])
        await Self.record(["b"], store)
        self.clock.advance(days: -1)
        #expect(try self.names() == ["b"])
    }

    @Test func `a database of an earlier release has none, and a later one is readable for it`() async throws {
        #expect(try self.read() == nil)
        let old = try DatabaseQueue(path: self.path)
        try await old.writeWithoutTransaction { database in
            try database.execute(
                sql: """
                    CREATE TABLE feedback (
                        topic TEXT NOT NULL, environment TEXT NOT NULL, token BLOB NOT NULL,
                        failed_at INTEGER NOT NULL, PRIMARY KEY (topic, environment, token)
                    ) WITHOUT ROWID;
                    PRAGMA user_version = 1
                    """
            )
        }
        try old.close()
        #expect(try self.read() == nil)
        await Self.record(["a"], try self.open())
        #expect(try self.names() == ["a"])
        // Earlier releases refuse a larger number.
        let version = try await DatabaseQueue(path: self.path).read { try Int.fetchOne($0, sql: "PRAGMA user_version") }
        #expect(version == 1)
    }

    @Test func `reading changes nothing, and names the damage`() async throws {
        await Self.record(["a"], try self.open())
        try await Self.checkpoint(self.path)
        let files = try FileManager.default.contentsOfDirectory(atPath: self.folder.path).sorted()
        let bytes = try Data(contentsOf: URL(filePath: self.path))
        #expect(try self.names() == ["a"])
        #expect(try FileManager.default.contentsOfDirectory(atPath: self.folder.path).sorted() == files)
        #expect(try Data(contentsOf: URL(filePath: self.path)) == bytes)
        let damaged = bytes.prefix(100) + Data(repeating: 0xFF, count: bytes.count - 100)
        try damaged.write(to: URL(filePath: self.path))
        let error = #expect(throws: GatewayStoreError.self) { try self.read() }
        #expect(error?.path == self.path)
    }

    /// Ends the write-ahead log, as a gateway that stops does.
    private static func checkpoint(_ path: String) async throws {
        let copy = path + ".copy"
        try await DatabaseQueue(path: path).writeWithoutTransaction {
            try $0.execute(sql: "VACUUM INTO ?", arguments: [copy])
        }
        for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + suffix) }
        try FileManager.default.moveItem(atPath: copy, toPath: path)
        try await DatabaseQueue(path: path).writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = WAL") }
    }

    @Test func `certificates that cannot be written are written later, also to another file`() async throws {
        let store = try self.open()
        let other = try DatabaseQueue(path: self.path)
        try await other.writeWithoutTransaction { try $0.execute(sql: "ALTER TABLE admitted_certificate RENAME TO x") }
        await Self.record(["a"], store)
        #expect(store.problem != nil)
        let failed = self.lines.of("certificates of providers not written, retrying")
        #expect(failed.count == 1 && failed[0].level == .error)
        #expect(self.lines.all.count == 1)
        try await other.writeWithoutTransaction { try $0.execute(sql: "ALTER TABLE x RENAME TO admitted_certificate") }
        try await eventually("the next attempt") { store.problem == nil }
        #expect(try self.names() == ["a"])
        for suffix in ["", "-wal", "-shm"] { try FileManager.default.removeItem(atPath: self.path + suffix) }
        await Self.record(["b"], store)
        try await eventually("the other file") { try self.read()?.count == 2 }
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation
import GRDB
import TestSupport
import Testing

@testable import TokenStore

/// A changed or damaged schema is reported as damage by each operation.
@Suite(.timeLimit(.minutes(2))) struct PurgeDamageTests {
    private let folder: TemporaryFolder
    private var path: String { self.folder.path + "/purge.db" }

    init() throws { self.folder = try TemporaryFolder() }

    /// Creates a list with an entry, in one file.
    private func makeList() throws {
        let list = try PurgeList(path: self.path)
        try list.record([PurgeListTests.entry([1, 2, 3])])
        list.close()
    }

    /// All operations of a list.
    private func use() throws {
        let list = try PurgeList(path: self.path, isMade: false)
        defer { list.close() }
        try list.record([PurgeListTests.entry([4]), PurgeListTests.entry([1, 2, 3], failedAt: 5000)])
        try list.forget([PurgeRegistration(token: [4], registeredAtSeconds: 1001)])
        try list.entries { _ in }
        _ = try list.statistics()
        _ = try list.scopes()
        _ = try list.contains(token: [1], topic: "com.example.app", environment: .production)
        try list.expire(failedBefore: 5)
    }

    @Test(
        arguments: [
            "DROP TABLE dead_token", "DROP TABLE registered_token", "DROP TABLE token_scope", "DROP TABLE source",
            "DROP TABLE list_total", "ALTER TABLE dead_token RENAME TO alive",
            "ALTER TABLE dead_token RENAME COLUMN failed_at TO failed",
            "ALTER TABLE token_scope RENAME COLUMN topic TO subject",
            "ALTER TABLE registered_token RENAME COLUMN token TO t", "ALTER TABLE dead_token DROP COLUMN first_seen",
            "DROP TABLE dead_token; CREATE VIEW dead_token AS SELECT * FROM token_scope",
            "DROP TABLE dead_token; CREATE TABLE dead_token (scope, token, failed_at, first_seen, source, checksum)",
            "DROP TABLE registered_token; CREATE TABLE registered_token (scope, token, registered_at, checksum)",
        ]
    )
    func `a changed schema is reported as damage`(_ sql: String) throws {
        try self.makeList()
        let queue = try DatabaseQueue(path: self.path)
        try queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA foreign_keys = OFF; \(sql)") }
        try queue.close()
        let before = try Data(contentsOf: URL(filePath: self.path))
        let error = #expect(throws: PurgeListError.self) { try self.use() }
        guard case .corrupt = error else {
            Issue.record("\(sql): \(String(describing: error))")
            return
        }
        #expect("\(try #require(error))".contains("damaged"))
        #expect(try Data(contentsOf: URL(filePath: self.path)) == before)
    }

    /// The last one is believable, but rows are missing.
    static let counts: [Int64] = [.max, .max / 2 + 1, (1 << 40) + 1, -1, .min, 1 << 40]

    @Test(arguments: counts, [true, false])
    func `a count that no list reaches is reported as damage`(_ count: Int64, _ isDead: Bool) throws {
        let table: PurgeRows.Table = isDead ? .dead : .registered
        try self.makeList()
        let list = try PurgeList(path: self.path)
        try list.record([PurgeListTests.entry([5], environment: .sandbox)])
        let scopes = try list.scopes()
        list.close()
        let queue = try DatabaseQueue(path: self.path)
        try queue.write { database in
            let crafted = try PurgeScopes(database)
            for member in crafted.all {
                crafted.update(member.identifier) { member in
                    member[table] = PurgeTotal(count: count, sum: Int64(bitPattern: member[table].sum))
                }
            }
            try crafted.store()
        }
        try queue.close()
        func expectDamage(_ use: () throws -> Void) {
            let error = #expect(throws: PurgeListError.self, performing: use)
            guard case .corrupt = error else {
                Issue.record("\(count): \(String(describing: error))")
                return
            }
        }
        expectDamage { try self.use() }
        if isDead {
            expectDamage {
                let list = try PurgeList(path: self.path, isMade: false)
                defer { list.close() }
                _ = try PurgeLookup(list, in: scopes)
            }
        }
    }

    @Test func `an added index is not damage`() throws {
        try self.makeList()
        let queue = try DatabaseQueue(path: self.path)
        try queue.writeWithoutTransaction { try $0.execute(sql: "CREATE INDEX mine ON dead_token (failed_at)") }
        try queue.close()
        try self.use()
    }

    /// Goal: no flipped bit in the schema or in the header of the file causes an unclassified error.
    ///
    /// Method: flip one bit of each byte of the first page, or of each fifth byte without --long, and use the list in
    /// each way.
    @Test func `no flipped bit of the first page causes an unclassified error`() throws {
        try self.makeList()
        let whole = try Data(contentsOf: URL(filePath: self.path))
        let bytes = (0..<4096).filter { $0 < 100 || whole[$0] != 0 }
        for index in stride(from: 0, to: bytes.count, by: TestEffort.isLong ? 1 : 5).map({ bytes[$0] }) {
            var changed = whole
            changed[index] ^= 1 << UInt8(index % 8)
            for ending in ["-wal", "-shm", "-journal"] {
                try? FileManager.default.removeItem(atPath: self.path + ending)
            }
            try changed.write(to: URL(filePath: self.path))
            do { try self.use() } catch PurgeListError.database(_, let code, let detail) {
                Issue.record("byte \(index): \(code) \(detail)")
            } catch is PurgeListError {}
        }
    }
}

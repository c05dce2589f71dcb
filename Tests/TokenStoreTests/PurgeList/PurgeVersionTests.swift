// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation
import GRDB
import TestSupport
import Testing
import TokenStore

/// Lists of earlier versions, which have no checksums.
@Suite(.timeLimit(.minutes(2))) struct PurgeVersionTests {
    private let folder: TemporaryFolder
    private var path: String { self.folder.path + "/purge.db" }

    init() throws { self.folder = try TemporaryFolder() }

    private func execute(_ sql: String) throws {
        let queue = try DatabaseQueue(path: self.path)
        try queue.writeWithoutTransaction { try $0.execute(sql: sql) }
        try queue.close()
    }

    /// Creates a list of an earlier version with tokens 1 to `count`, the last of which registered at 500.
    private func makeList(version: Int, count: Int = 1) throws {
        try self.execute(PurgeFileTests.versionOne + "DELETE FROM dead;")
        let rows = (1...count).map { "(1, x'\(String(format: "%08x", $0))', 1000, 2000, 1)" }
        try self.execute("INSERT INTO dead VALUES \(rows.joined(separator: ", "))")
        guard version == 2 else { return }
        try self.execute(
            """
            CREATE TABLE registration (
                scope INTEGER NOT NULL REFERENCES scope (id),
                token BLOB NOT NULL CHECK (typeof(token) = 'blob' AND length(token) BETWEEN 1 AND 100),
                registered_at INTEGER NOT NULL,
                PRIMARY KEY (scope, token)
            ) WITHOUT ROWID;
            INSERT INTO registration VALUES (1, x'09', 500);
            PRAGMA user_version = 2;
            """
        )
    }

    private func version() throws -> Int? {
        let queue = try DatabaseQueue(path: self.path)
        return try queue.read { try Int.fetchOne($0, sql: "PRAGMA user_version") }
    }

    @Test(arguments: [1, 2]) func `reading an earlier list does not change it`(_ version: Int) throws {
        try self.makeList(version: version, count: 3)
        let list = try PurgeList(path: self.path, isMade: false)
        #expect(try !list.hasChecksums())
        var tokens: [[UInt8]] = []
        try list.entries { tokens.append($0.token) }
        #expect(tokens == [[0, 0, 0, 1], [0, 0, 0, 2], [0, 0, 0, 3]])
        let scope = TokenScope(topic: "com.example.app", environment: .production)
        #expect(try list.statistics().count == 3 && list.scopes() == [scope] && list.knownScopes() == [scope])
        #expect(try list.contains(token: tokens[0], topic: scope.topic, environment: scope.environment))
        let lookup = try PurgeLookup(list, in: [scope])
        #expect(try lookup.contains(DeviceToken(bytes: tokens[1])) && !lookup.contains(DeviceToken(bytes: [1])))
        var deadTokens: [[UInt8]] = []
        try list.deadTokens(TokenTableRules(registration: .ignored)) { deadTokens.append($0.bytes) }
        #expect(deadTokens == tokens)
        try list.checkIntegrity()
        list.close()
        #expect(try self.version() == version)
    }

    @Test(arguments: [1, 2]) func `the first change of an earlier list adds checksums`(_ version: Int) throws {
        try self.makeList(version: version, count: 300)
        let list = try PurgeList(path: self.path)
        let scope = TokenScope(topic: "com.example.app", environment: .production)
        let lookup = try PurgeLookup(list, in: [scope])
        #expect(try list.record([PurgeListTests.entry([9], failedAt: 400)]).supersededCount == version - 1)
        #expect(try list.hasChecksums())
        // A look-up that began before.
        #expect(try lookup.contains(DeviceToken(bytes: [0, 0, 0, 2])) && !lookup.contains(DeviceToken(bytes: [8])))
        try list.checkIntegrity()
        #expect(try list.statistics().count == 302 - version)
        list.close()
        #expect(try self.version() == 3)
        let upgraded = try PurgeList(path: self.path, isMade: false)
        var entries: [PurgeEntry] = []
        try upgraded.entries { entries.append($0) }
        #expect(entries.first == PurgeListTests.entry([0, 0, 0, 1]))
    }

    @Test func `a damaged earlier list gets no checksums`() throws {
        try self.makeList(version: 2, count: 3)
        try self.execute("UPDATE dead SET first_seen = 'a' WHERE token = x'00000002'")
        let list = try PurgeList(path: self.path)
        #expect(throws: PurgeListError.corrupt(path: self.path, detail: "a value of the wrong kind")) {
            try list.record([PurgeListTests.entry([9])])
        }
        #expect(try !list.hasChecksums())
    }

    @Test func `a process of an earlier release cannot write a list with checksums`() throws {
        try self.makeList(version: 2)
        let old = try DatabaseQueue(path: self.path)
        let statement = try old.write {
            try $0.makeStatement(sql: "INSERT INTO dead VALUES (1, x'05', 1000, 2000, 1) ON CONFLICT DO NOTHING")
        }
        try PurgeList(path: self.path).record([PurgeListTests.entry([9])])
        #expect(throws: DatabaseError.self) { try old.write { _ in try statement.execute() } }
        try PurgeList(path: self.path).checkIntegrity()
    }

    @Test func `a list with a trigger is not used`() throws {
        try PurgeList(path: self.path).record([PurgeListTests.entry([1])])
        try self.execute("CREATE TRIGGER t AFTER INSERT ON dead_token BEGIN UPDATE source SET name = 'x'; END")
        let error = #expect(throws: PurgeListError.trigger(path: self.path)) {
            try PurgeList(path: self.path, isMade: false)
        }
        #expect("\(try #require(error))".contains("DROP TRIGGER"))
    }

    @Test func `a failure in the future is stored as of now, and decides nothing in an earlier list`() throws {
        let now = Int64(time(nil))
        let list = try PurgeList(path: self.path)
        try list.record([
            PurgeListTests.entry([1], failedAt: now + 90_000), PurgeListTests.entry([2], failedAt: now + 3600),
        ])
        var times: [Int64] = []
        try list.entries { times.append($0.failedAtSeconds) }
        #expect((now...now + 60).contains(times[0]) && times[1] == now + 3600)
        list.close()
        try FileManager.default.removeItem(atPath: self.path)
        try self.makeList(version: 2, count: 3)
        try self.execute("UPDATE dead SET failed_at = 4895592430 WHERE token = x'00000002'")
        let old = try PurgeList(path: self.path)
        let scope = TokenScope(topic: "com.example.app", environment: .production)
        func check() throws {
            let error = PurgeListError.futureFailure(path: self.path, time: 4_895_592_430)
            #expect(throws: error) { try old.checkIntegrity() }
            #expect(throws: error) { try PurgeLookup(old, in: [scope]) }
            #expect(throws: error) { try old.deadTokens(TokenTableRules(registration: .ignored)) { _ in } }
            #expect("\(error)".contains("2125-02-18"))
        }
        try check()
        try old.record([PurgeListTests.entry([7])])
        try check()
        // A failure that is believed replaces it.
        #expect(try old.record([PurgeListTests.entry([0, 0, 0, 2], failedAt: 900)]).updatedCount == 1)
        try old.checkIntegrity()
    }
}

// SPDX-License-Identifier: Apache-2.0

import Foundation
import GRDB
import NIOConcurrencyHelpers
import TestSupport
import TokenStore
import Testing

/// Goal: the application continues while its table is pruned, and new registrations are kept.
@Suite(.timeLimit(.minutes(5))) struct ApplySharingTests {
    let scene: ApplyScene

    init() throws {
        self.scene = try ApplyScene()
    }

    @Test func `a device that registers between the count and its batch is kept`() throws {
        try self.scene.record(1...100)
        try self.scene.makeTable(1...300)
        var application = self.application
        application.fractionMax = 1
        let report = try application.run(self.scene.list) { counts in
            #expect(counts.dueCount == 100)
            // Registered again; another token in the same row; deleted, and its row ID used for another device.
            try? self.scene.withDatabase { database in
                let later = ApplyScene.failedAt + 1
                try database.execute(sql: "UPDATE devices SET updated_at = \(later) WHERE id BETWEEN 1 AND 10")
                try database.execute(sql: "UPDATE devices SET token = '\(ApplyScene.token(900))' WHERE id = 20")
                try database.execute(sql: "DELETE FROM devices WHERE id = 30")
                try database.execute(sql: "INSERT INTO devices (id, token) VALUES (30, '\(ApplyScene.token(901))')")
            }
        }
        #expect(report.ending == .done && report.prunedCount == 88)
        #expect(try self.scene.left("id <= 100") == Array(1...10) + [20, 30])
        #expect(try self.scene.left().count == 212)
    }

    private var application: TokenTableApplication {
        TokenTableApplication(
            path: self.scene.database,
            table: "devices",
            tokenColumn: "token",
            rules: TokenTableRules(registration: .registered(column: "updated_at"))
        )
    }

    @Test func `a row that changes between being read and its transaction is kept`() throws {
        // After the rows are read, a trigger on the first deletion registers all others again.
        try self.scene.record(1...50)
        try self.scene.makeTable(1...50)
        try self.scene.withDatabase {
            try $0.execute(
                sql: """
                    CREATE TRIGGER again AFTER DELETE ON devices WHEN old.id = 1 BEGIN
                    UPDATE devices SET updated_at = \(ApplyScene.failedAt + 5); END
                    """
            )
        }
        var application = self.application
        application.fractionMax = 1
        let report = try application.run(self.scene.list)
        #expect(report.prunedCount == 1 && report.changedCount == 49)
        #expect(try self.scene.left() == Array(2...50))
    }

    @Test(arguments: [true, false])
    func `rows that become eligible meanwhile count for --max-fraction`(hasRowNumbers: Bool) throws {
        try self.scene.record(1...100)
        let numbers = Array(1...10) + Array(200...289)
        if hasRowNumbers {
            try self.scene.makeTable(numbers)
        } else {
            try self.scene.withDatabase { database in
                try database.execute(
                    sql: "CREATE TABLE devices (id TEXT PRIMARY KEY, token TEXT, updated_at INTEGER) WITHOUT ROWID"
                )
                for number in numbers { try Self.insert(number, database) }
            }
        }
        var application = self.application
        let report = try application.run(self.scene.list) { _ in
            try? self.scene.withDatabase { database in
                for number in 11...60 { try Self.insert(number, database) }
            }
        }
        #expect(report.ending == .grown && report.prunedCount == 20)
        application.fractionMax = 1
        #expect(try application.run(self.scene.list).prunedCount == 40)
    }

    private static func insert(_ number: Int, _ database: Database) throws {
        try database.execute(
            sql: "INSERT INTO devices (id, token, updated_at) VALUES (?, ?, 1700000000)",
            arguments: [number, ApplyScene.token(number)]
        )
    }

    @Test func `rows with any row ID are deleted, and changes after the count are respected`() throws {
        try self.scene.record(1...10)
        try self.scene.makeTable([300])
        let numbers: [Int64] = [.min, -300, -1, 0, 1, 2, 127, 128, .max - 1, .max]
        try self.scene.withDatabase { database in
            for (index, number) in numbers.enumerated() {
                try database.execute(
                    sql: "INSERT INTO devices (id, token, updated_at) VALUES (?, ?, 1700000000)",
                    arguments: [number, ApplyScene.token(index + 1)]
                )
            }
        }
        var application = self.application
        application.fractionMax = 1
        let report = try application.run(self.scene.list) { _ in
            try? self.scene.withDatabase { database in
                try database.execute(
                    sql: """
                        DELETE FROM devices WHERE id = 0; UPDATE devices SET updated_at = \(ApplyScene.failedAt + 5)
                        WHERE id = 1; UPDATE devices SET token = '\(ApplyScene.token(400))' WHERE id = 2
                        """
                )
            }
        }
        #expect(report.dueCount == 10 && report.prunedCount == 7 && report.ending == .done)
        #expect(report.changedCount == 3)
        let left = try self.scene.withDatabase { try Int64.fetchAll($0, sql: "SELECT id FROM devices ORDER BY id") }
        #expect(left == [1, 2, 300])
    }

    @Test(arguments: ["delete", "wal"])
    func `no other connection waits for the lock for longer than 200 ms`(_ journal: String) async throws {
        let count = TestEffort.count(4000, long: 60_000)
        try self.scene.record(1...count / 2)
        try self.scene.makeTable(1...count)
        try self.scene.withDatabase { database in
            try database.execute(sql: "CREATE UNIQUE INDEX tokens ON devices (token)")
            _ = try String.fetchOne(database, sql: "PRAGMA journal_mode = \(journal)")
        }
        let waiting = NIOLockedValueBox((longest: Duration.zero, count: 0, isOver: false))
        let queue = try self.scene.secondConnection()
        // A second connection on its own thread: SQLite's locks between connections work like those between processes.
        let writer = Task.detached {
            while !waiting.withLockedValue(\.isOver) {
                let wait = try await queue.writeWithoutTransaction { database in
                    let start = ContinuousClock.now
                    try database.execute(sql: "BEGIN IMMEDIATE")
                    let wait = ContinuousClock.now - start
                    try database.execute(sql: "UPDATE devices SET active = active + 1 WHERE id = \(count); COMMIT")
                    return wait
                }
                waiting.withLockedValue {
                    $0.longest = max($0.longest, wait)
                    $0.count += 1
                }
                await Task.yield()
            }
        }
        defer { waiting.withLockedValue { $0.isOver = true } }
        let run = try await self.scene.start(self.scene.registered, deadline: 200)
        waiting.withLockedValue { $0.isOver = true }
        try await writer.value
        #expect(try run.code == 0 && run.count("pruned") == count / 2, "\(run)")
        let (longest, writeCount, _) = waiting.withLockedValue { $0 }
        #expect(longest <= .milliseconds(200), "\(longest) in \(writeCount) writes; \(run.output)")
        #expect(writeCount > 10)
        let mode = try self.scene.withDatabase { try String.fetchOne($0, sql: "PRAGMA journal_mode") }
        #expect(mode == journal)
        #expect(!FileManager.default.fileExists(atPath: self.scene.database + "-journal"))
    }

    /// Goal: even if rows take long, a connection that waits with SQLite's busy handler does not wait for many batches.
    @Test func `a waiting connection gets the lock after nearly every batch`() async throws {
        let count = TestEffort.count(100, long: 400)
        try self.scene.record(1...count)
        try self.scene.makeTable(1...count + 100)
        try self.scene.withDatabase { database in
            // Each row takes a few milliseconds, as on a slow disk, so that each batch takes the maximum time.
            try database.execute(
                sql: """
                    CREATE TABLE work (n); CREATE TRIGGER slow BEFORE DELETE ON devices BEGIN INSERT INTO work
                    WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 20000)
                    SELECT count(*) FROM c; END
                    """
            )
        }
        let queue = try self.scene.secondConnection()
        // The number of rows at each of its turns.
        let writing = NIOLockedValueBox((rowCounts: Set<Int>(), isOver: false))
        let writer = Task.detached {
            while !writing.withLockedValue(\.isOver) {
                let rowCount = try await queue.write { database in
                    try database.execute(sql: "UPDATE devices SET active = active + 1 WHERE id = \(count + 1)")
                    return try Int.fetchOne(database, sql: "SELECT count(*) FROM devices") ?? 0
                }
                writing.withLockedValue { _ = $0.rowCounts.insert(rowCount) }
                await Task.yield()
            }
        }
        defer { writing.withLockedValue { $0.isOver = true } }
        let run = try await self.scene.start(self.scene.registered)
        writing.withLockedValue { $0.isOver = true }
        try await writer.value
        let batchCount = try #require(try run.count("batches"))
        #expect(try run.code == 0 && run.count("pruned") == count, "\(run)")
        let turnCount = writing.withLockedValue { $0.rowCounts.count { (101..<count + 100).contains($0) } }
        #expect(batchCount > 2 && turnCount >= batchCount * 3 / 4, "\(turnCount) turns, \(batchCount) batches")
    }

    @Test func `a long read transaction does not make the program hold its lock`() async throws {
        try self.scene.record(1...10)
        try self.scene.makeTable(1...100)
        // Without a write-ahead log, a reader blocks every commit, and a waiting commit blocks all new readers.
        let reader = try self.scene.secondConnection()
        try await reader.writeWithoutTransaction { database in
            try database.execute(sql: "BEGIN")
            _ = try Int.fetchOne(database, sql: "SELECT count(*) FROM devices")
        }
        let run = try await self.scene.start(self.scene.registered + ["--lock-wait", "1s"])
        #expect(run.code == 75 && run.error.contains(self.scene.database), "\(run)")
        try await reader.writeWithoutTransaction { try $0.execute(sql: "COMMIT") }
        #expect(try self.scene.left().count == 100)
        #expect(try await self.scene.apply().code == 0)
        #expect(try self.scene.left().count == 90)
    }
}

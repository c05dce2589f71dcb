// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation
import GRDB
import TokenStore
import Testing

/// Goal: exactly the eligible rows are deleted from any kind of table.
@Suite(.timeLimit(.minutes(3))) struct ApplyRuleTests {
    let scene: ApplyScene

    init() throws {
        self.scene = try ApplyScene()
    }

    private func insert(_ id: Int, token: (any DatabaseValueConvertible)?, at: (any DatabaseValueConvertible)?) throws {
        try self.scene.withDatabase {
            try $0.execute(
                sql: "INSERT INTO devices (id, token, updated_at) VALUES (?, ?, ?)",
                arguments: [id, token, at]
            )
        }
    }

    @Test func `a row is deleted only if its token failed after it registered`() async throws {
        try self.scene.record(1...6)
        try self.scene.makeTable([])
        for (id, distance) in [(1, -100), (2, -1), (3, 0), (4, 1), (5, 100)] as [(Int, Int64)] {
            try self.insert(id, token: ApplyScene.token(id), at: ApplyScene.failedAt + distance)
        }
        try self.insert(6, token: ApplyScene.token(6), at: nil)
        try self.insert(7, token: ApplyScene.token(7), at: ApplyScene.failedAt - 100)
        let run = try await self.scene.apply()
        #expect(run.code == 0, "\(run)")
        #expect(try self.scene.left() == [3, 4, 5, 6, 7])
        #expect(try run.count("rows") == 7 && run.count("matched") == 6 && run.count("pruned") == 2)
        #expect(try run.count("registeredLater") == 3 && run.count("unreadableTimes") == 1)
        let again = try await self.scene.apply()
        #expect(try again.code == 0 && again.count("pruned") == 0)
    }

    @Test func `tokens may have all notations, and rows with other values are kept and named`() async throws {
        try self.scene.record(1...20)
        try self.scene.makeTable([])
        func data(_ number: Int) -> Data { Data(ApplyScene.bytes(number)) }
        let before = ApplyScene.failedAt - 100
        let spaced = stride(from: 0, to: 64, by: 8).map { ApplyScene.token(4).dropFirst($0).prefix(8) }
        try self.insert(1, token: ApplyScene.token(1), at: before)
        try self.insert(2, token: ApplyScene.token(2).uppercased(), at: before)
        try self.insert(3, token: data(3), at: before)
        try self.insert(4, token: spaced.joined(separator: " "), at: before)
        try self.insert(5, token: "<\(ApplyScene.token(5))>", at: before)
        try self.insert(6, token: data(6).base64EncodedString(), at: before)
        try self.insert(7, token: Data(ApplyScene.token(7).utf8), at: before)
        let nonsense: [(any DatabaseValueConvertible)?] = ["(null)", 17, 1.5, Data(count: 101), "x", "abc", nil, ""]
        for (index, value) in nonsense.enumerated() { try self.insert(100 + index, token: value, at: before) }
        let run = try await self.scene.apply()
        #expect(try run.code == 0 && run.count("pruned") == 7 && run.count("unreadableTokens") == 6)
        #expect(try run.count("withoutToken") == 2)
        #expect(try run.report["unreadableTokenRows"] as? [Int] == [100, 101, 102, 103, 104])
        let spellings = try run.report["spellings"] as? [String: Int]
        let names = ["hex", "HEX", "BLOB", "spaced hex", "<hex>", "base64", "text in a BLOB"]
        #expect(spellings == Dictionary(uniqueKeysWithValues: names.map { ($0, 1) }))
        #expect(try self.scene.left() == Array(100...107))
    }

    @Test func `a table may contain times of all kinds, and rows with invalid times are kept`() async throws {
        try self.scene.record(1...40)
        try self.scene.makeTable([])
        let due: [any DatabaseValueConvertible] = [
            ApplyScene.failedAt - 1, (ApplyScene.failedAt - 1) * 1000, Double(ApplyScene.failedAt) - 0.5,
            "2026-01-05 10:20:29", "2026-01-05T10:20:29Z", "2026-01-05T12:20:29.5+02:00", "2026-01-04", 2_461_045.5,
        ]
        let kept: [any DatabaseValueConvertible] = [
            ApplyScene.failedAt, ApplyScene.failedAt * 1000, Double(ApplyScene.failedAt) + 0.5, "2026-01-05 10:20:30",
            "2026-01-05T05:20:30-05:00", "2026-01-05", "2026-01-05 10:20", 2_461_046.5,
        ]
        let unreadable: [any DatabaseValueConvertible] = ["yesterday", 0, 2_461_045, Data([1]), "", "2026-02-30"]
        for (index, time) in (due + kept + unreadable).enumerated() {
            try self.insert(index + 1, token: ApplyScene.token(index + 1), at: time)
        }
        let run = try await self.scene.apply()
        #expect(try run.code == 0 && run.count("pruned") == due.count && run.count("registeredLater") == kept.count)
        #expect(try run.count("unreadableTimes") == unreadable.count)
        #expect(try self.scene.left() == Array(due.count + 1...due.count + kept.count + unreadable.count))
        #expect((try run.report["times"] as? [String: Int])?.count == 7)
    }

    @Test func `--grace keeps rows that registered shortly before their failure`() async throws {
        try self.scene.record(1...3)
        try self.scene.makeTable([])
        for (id, distance) in [(1, -86_401), (2, -86_400), (3, -1)] as [(Int, Int64)] {
            try self.insert(id, token: ApplyScene.token(id), at: ApplyScene.failedAt + distance)
        }
        let run = try await self.scene.apply(["--grace", "1d"])
        #expect(try run.code == 0 && run.count("pruned") == 1 && run.count("grace") == 2)
        #expect(try self.scene.left() == [2, 3])
    }

    @Test func `times without a time zone cause a warning if they matter`() async throws {
        try self.scene.record(1...5)
        try self.scene.makeTable([])
        let times: [any DatabaseValueConvertible] = [
            "2026-01-05 09:20:30", "2026-01-04", "2026-01-04 20:20:30", "2026-01-05T09:20:30Z", ApplyScene.failedAt - 9,
        ]
        for (index, time) in times.enumerated() {
            try self.insert(index + 1, token: ApplyScene.token(index + 1), at: time)
        }
        let run = try await self.scene.apply(["--dry-run"])
        #expect(try run.code == 0 && run.count("due") == 5 && run.count("dueByZone") == 2)
        #expect(run.warned(naming: "2 due rows", "14 hours"), "\(run)")
        let grace = try await self.scene.apply(["--grace", "14h"])
        #expect(try grace.count("pruned") == 0 && grace.count("grace") == 5 && grace.error.isEmpty, "\(grace)")
        let far = try await self.scene.apply(["--grace", "13h"])
        #expect(try far.count("pruned") == 1 && far.error.isEmpty && self.scene.left() == [1, 2, 4, 5], "\(far)")
    }

    @Test func `an option or a column distinguishes topics`() async throws {
        try self.scene.record([1, 2], topic: "a")
        try self.scene.record([2, 3], topic: "b")
        try self.scene.record([5], topic: "a", environment: .sandbox)
        try self.scene.makeTable(1...5)
        let unsaid = try await self.scene.apply()
        #expect(unsaid.code == 64 && unsaid.error.contains("--topic") && unsaid.error.contains("\"a\", \"b\""))
        try self.scene.withDatabase { try $0.execute(sql: "UPDATE devices SET bundle_id = 'a'") }
        let column = try await self.scene.apply(["--topic-column", "bundle_id", "--dry-run"])
        #expect(try column.count("due") == 2)
        #expect(try await self.scene.apply(["--topic", "b", "--dry-run"]).count("due") == 2)
        #expect(try await self.scene.apply(["--topic", "c", "--dry-run"]).count("due") == 0)
        #expect(try await self.scene.apply(["--environment", "sandbox", "--dry-run"]).count("due") == 1)
        let all = try await self.scene.apply(["--require-all-topics"])
        #expect(try all.code == 0 && all.count("pruned") == 1)
        #expect(try self.scene.left() == [1, 3, 4, 5])
    }

    @Test func `topics that differ only by Unicode normalisation are distinguished`() async throws {
        let topics = ["caf\u{e9}", "cafe\u{301}"]
        for (index, topic) in topics.enumerated() { try self.scene.record([index + 1], topic: topic) }
        try self.scene.makeTable(1...3)
        try self.scene.withDatabase {
            try $0.execute(sql: "UPDATE devices SET bundle_id = ? WHERE id < 3", arguments: [topics[0]])
        }
        let column = try await self.scene.apply(["--topic-column", "bundle_id"])
        #expect(try column.code == 0 && column.count("pruned") == 1 && column.count("candidates") == 2, "\(column)")
        #expect(try self.scene.left() == [2, 3])
        let hook = try await self.scene.run(["--exec", "cat", "--summary", "json"])
        #expect(try hook.code == 0 && hook.count("tokens") == 2, "\(hook)")
    }

    @Test func `--require-all-topics needs two topics in the list`() async throws {
        try self.scene.record([1, 2], topic: "com.store")
        try self.scene.makeTable(1...5)
        let alone = try await self.scene.apply(["--require-all-topics"])
        #expect(alone.failed(64, TokenTableError.fewTopics(["com.store"], .production)), "\(alone)")
        try self.scene.record([1], topic: "com.ent")
        try self.scene.list.forget(
            [PurgeRegistration(token: ApplyScene.bytes(1), registeredAtSeconds: ApplyScene.failedAt + 1)],
            topic: "com.ent"
        )
        let forgotten = try await self.scene.apply(["--require-all-topics"])
        #expect(try forgotten.code == 0 && forgotten.count("pruned") == 0 && self.scene.left().count == 5)
        try self.scene.record([2], topic: "com.ent")
        try self.scene.list.addScope(TokenScope(topic: "com.old", environment: .production))
        let named = ["--require-all-topics", "--topic", "com.store", "--topic"]
        let unknown = try await self.scene.apply(named + ["com.emt"])
        #expect(unknown.code == 64 && unknown.error.contains("unknown topics \"com.emt\""), "\(unknown)")
        #expect(try await self.scene.apply(named + ["com.ent"]).count("pruned") == 1)
        #expect(try self.scene.left() == [1, 3, 4, 5])
    }

    @Test func `deactivated rows stay, and are not deactivated twice`() async throws {
        try self.scene.record(1...2)
        try self.scene.makeTable(1...3)
        let arguments = ["--action", "deactivate", "--active-column", "active"]
        let run = try await self.scene.apply(arguments)
        #expect(try run.code == 0 && run.count("pruned") == 2)
        #expect(try self.scene.left("active = 0") == [1, 2] && self.scene.left() == [1, 2, 3])
        let again = try await self.scene.apply(arguments)
        #expect(try again.count("pruned") == 0 && again.count("inactiveAlready") == 2)
    }

    @Test func `created and ignored registrations warn`() async throws {
        try self.scene.record([1, 2])
        try self.scene.makeTable([1])
        try self.insert(2, token: ApplyScene.token(2), at: ApplyScene.failedAt + 100)
        let created = try await self.scene.run(self.scene.usual + ["--created-column", "updated_at"])
        #expect(try created.code == 0 && created.error.contains("Warning") && created.count("pruned") == 1)
        let ignored = try await self.scene.run(self.scene.usual + ["--ignore-registration"])
        #expect(try ignored.code == 0 && ignored.error.contains("Warning") && ignored.count("pruned") == 1)
        #expect(try self.scene.left().isEmpty)
    }

    @Test func `above --max-fraction, nothing is changed`() async throws {
        try self.scene.record(1...3)
        try self.scene.makeTable(1...10)
        let before = try Data(contentsOf: URL(filePath: self.scene.database))
        let run = try await self.scene.apply(["--max-fraction", "0.2"])
        #expect(try run.code == 79 && run.count("due") == 3 && run.count("pruned") == 0)
        #expect(try run.count("candidates") == 10 && run.count("dueMax") == 2, "\(run)")
        #expect(run.error.contains("--max-fraction") && run.error.contains("(30.0 %)"), "\(run)")
        #expect(try Data(contentsOf: URL(filePath: self.scene.database)) == before)
        #expect(try await self.scene.apply(["--max-fraction", "0.3"]).code == 0)
        #expect(try self.scene.left() == Array(4...10))
    }

    @Test func `rows that cannot be deleted do not count for --max-fraction`() async throws {
        try self.scene.record(1...10)
        try self.scene.makeTable(1...100)
        try self.scene.withDatabase { try $0.execute(sql: "UPDATE devices SET active = 0 WHERE id > 10") }
        let active = ["--max-fraction", "0.2", "--action", "deactivate", "--active-column", "active"]
        let inactive = try await self.scene.apply(active)
        #expect(try inactive.code == 79 && inactive.count("due") == 10 && inactive.count("candidates") == 10)
        try self.scene.withDatabase { try $0.execute(sql: "UPDATE devices SET bundle_id = 'b' WHERE id > 10") }
        let topic = try await self.scene.apply(["--max-fraction", "0.2", "--topic-column", "bundle_id"])
        #expect(try topic.code == 79 && topic.count("candidates") == 10 && topic.count("dueMax") == 2)
        for change in ["updated_at = 0", "updated_at = \(ApplyScene.failedAt - 1), token = 'none'"] {
            try self.scene.withDatabase { try $0.execute(sql: "UPDATE devices SET \(change) WHERE id > 10") }
            let run = try await self.scene.apply(["--max-fraction", "0.2", "--summary", "text"])
            #expect(run.code == 79 && run.output.contains("Eligible rows: 10 (limit: 2)"), "\(run)")
            #expect(run.error.contains("(100.0 %)"), "\(run)")
        }
        #expect(try self.scene.left("active = 1") == Array(1...10))
    }

    @Test func `a dry run has the same counts and changes nothing`() async throws {
        try self.scene.record(1...3)
        try self.scene.makeTable(1...10)
        let before = try Data(contentsOf: URL(filePath: self.scene.database))
        let dry = try await self.scene.apply(["--dry-run"])
        #expect(try Data(contentsOf: URL(filePath: self.scene.database)) == before)
        let wet = try await self.scene.apply()
        #expect(dry.code == 0 && wet.code == 0)
        for name in ["rows", "matched", "due", "registeredLater"] {
            #expect(try dry.count(name) == wet.count(name), "\(name)")
        }
        #expect(try dry.count("pruned") == 0 && wet.count("pruned") == 3)
    }

    @Test func `the last line of the text is a summary`() async throws {
        try self.scene.record(1...3)
        try self.scene.makeTable(1...10)
        let run = try await self.scene.apply(["--summary", "text"])
        let last = run.output.split(separator: "\n").last ?? ""
        #expect(last.hasPrefix("purge apply: devices: 10 rows, 3 dead, 3 deleted, 0 kept, 0 not valid"))
        #expect(!run.output.contains(ApplyScene.token(1)) && !run.error.contains(ApplyScene.token(1)))
    }

    @Test func `tables without row IDs are pruned by their keys`() async throws {
        try self.scene.record(1...30)
        try self.scene.withDatabase { database in
            try database.execute(
                sql: """
                    CREATE TABLE devices (id INTEGER, "we""ird" TEXT, token TEXT, updated_at INTEGER,
                    PRIMARY KEY ("we""ird" DESC, id)) WITHOUT ROWID
                    """
            )
            for number in 1...500 {
                try database.execute(
                    sql: "INSERT INTO devices VALUES (?, ?, ?, ?)",
                    arguments: [number, "\(number % 7)", ApplyScene.token(number), ApplyScene.failedAt - 1]
                )
            }
        }
        let run = try await self.scene.apply(["--batch", "4"])
        #expect(try run.code == 0 && run.count("pruned") == 30 && run.count("rows") == 500)
        #expect(try self.scene.left() == Array(31...500))
    }

    @Test func `names with quotes or in another case, and hidden row IDs, work`() async throws {
        try self.scene.record(1...2)
        try self.scene.withDatabase { database in
            try database.execute(sql: "CREATE TABLE \"a\"\"b; --\" (rowid TEXT, \"to\"\"ken\" TEXT, \"At ä\" INTEGER)")
            for number in 1...3 {
                try database.execute(
                    sql: "INSERT INTO \"a\"\"b; --\" VALUES ('same', ?, ?)",
                    arguments: [ApplyScene.token(number), ApplyScene.failedAt - 1]
                )
            }
        }
        let run = try await self.scene.run([
            "--database", self.scene.database, "--table", "A\"B; --", "--token-column", "TO\"ken",
            "--registered-column", "at ä", "--max-fraction", "1",
        ])
        #expect(run.code == 0, "\(run)")
        let left = try self.scene.withDatabase { try Int.fetchOne($0, sql: "SELECT count(*) FROM \"a\"\"b; --\"") }
        #expect(left == 1)
    }

    @Test func `a UTF-16 database is pruned in the same way`() async throws {
        try self.scene.record(1...3)
        try self.scene.withDatabase { try $0.execute(sql: "PRAGMA encoding = 'UTF-16le'; PRAGMA user_version = 1") }
        try self.scene.makeTable(1...10)
        let run = try await self.scene.apply(["--topic-column", "bundle_id"])
        #expect(try run.code == 0 && run.count("pruned") == 3)
        #expect(try self.scene.left() == Array(4...10))
    }

    @Test func `a row that a foreign key protects is kept, and the others are deleted`() async throws {
        try self.scene.record(1...3)
        try self.scene.makeTable(1...10)
        try self.scene.withDatabase {
            try $0.execute(sql: "CREATE TABLE logs (device INTEGER REFERENCES devices (id))")
            try $0.execute(sql: "INSERT INTO logs VALUES (2)")
        }
        let run = try await self.scene.apply()
        #expect(try run.code == 1 && run.count("pruned") == 2 && run.count("refused") == 1)
        #expect(try run.report["refusedRows"] as? [Int] == [2] && self.scene.left() == [2] + Array(4...10))
        let quiet = try await self.scene.apply(["--quiet"])
        #expect(try quiet.code == 1 && quiet.count("refused") == 1)
        #expect(quiet.error.contains("1 row"), "\(quiet)")
        #expect(try await self.scene.apply(["--quiet", "--dry-run"]).code == 0)
    }

    @Test(arguments: ["DELETE", "UPDATE"])
    func `rows for which a trigger ignores the statement are refused`(_ kind: String) async throws {
        try self.scene.record(0..<3)
        try self.scene.makeTable(0..<10)
        try self.scene.withDatabase {
            try $0.execute(
                sql: "CREATE TRIGGER keep BEFORE \(kind) ON devices WHEN OLD.id = 2 BEGIN SELECT RAISE(IGNORE); END"
            )
        }
        let options = kind == "UPDATE" ? ["--action", "deactivate", "--active-column", "active"] : []
        let run = try await self.scene.apply(options)
        #expect(try run.code == 1 && run.count("pruned") == 2 && run.count("refused") == 1, "\(run)")
        #expect(try run.count("changedMeanwhile") == 0)
        #expect(try run.report["refusedRows"] as? [Int] == [2])
    }
}

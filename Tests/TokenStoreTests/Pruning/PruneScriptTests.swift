// SPDX-License-Identifier: Apache-2.0

import APNSWire
import GRDB
import TokenStore
import TestSupport
import Testing

/// Goal: no value of the list and no name ends a literal or an identifier, and each token keeps its own time.
@Suite(.timeLimit(.minutes(2))) struct PruneScriptTests {
    let folder: TemporaryFolder
    let list: PurgeList

    init() throws {
        self.folder = try TemporaryFolder()
        self.list = try PurgeList(path: self.folder.path + "/purge.db")
    }

    private func record(_ token: UInt8, failedAt: Int64, topic: String = "com.example.app") throws {
        let bytes = [UInt8](repeating: token, count: 4)
        _ = try self.list.record([PurgeListTests.entry(bytes, failedAt: failedAt, topic: topic)])
    }

    private func script(_ dialect: SQLDialect, table: String = "devices") -> PruneScript {
        let rules = TokenTableRules(registration: .registered(column: "updated_at"))
        return PruneScript(dialect: dialect, table: table, tokenColumn: "token", rules: rules)
    }

    private func text(_ script: PruneScript) throws -> (text: String, counts: PruneScript.Counts) {
        var text = ""
        let counts = try script.write(self.list) { text += $0 }
        return (text, counts)
    }

    @Test func `tokens with the same time of failure are grouped`() throws {
        try self.record(1, failedAt: 1_767_608_430)
        try self.record(2, failedAt: 1_767_608_431)
        try self.record(3, failedAt: 1_767_608_430)
        let expected = """
            BEGIN;
            SET LOCAL TIME ZONE 'UTC';
            DELETE FROM "app"."devices" WHERE "updated_at" >= TIMESTAMP '2008-01-01 00:00:00' AND (
            ("token" IN ('01010101', '03030303') AND "updated_at" < TIMESTAMP '2026-01-05 10:20:30')
            OR ("token" = '02020202' AND "updated_at" < TIMESTAMP '2026-01-05 10:20:31')
            );
            COMMIT;

            """
        #expect(try self.text(self.script(.postgresql, table: "app.devices")).text == expected)
    }

    @Test(arguments: [Int64.min, Int64.max]) func `an invalid time is an error, without a script`(
        _ time: Int64
    ) throws {
        try self.record(1, failedAt: 1_767_608_430)
        let queue = try DatabaseQueue(path: self.folder.path + "/purge.db")
        try queue.write { try $0.execute(sql: "UPDATE dead_token SET failed_at = ?", arguments: [time]) }
        try queue.close()
        #expect { try self.text(self.script(.postgresql)) } throws: { error in
            if case .corrupt = error as? PurgeListError { true } else { false }
        }
    }

    @Test func `each option changes the script`() throws {
        try self.record(0xAB, failedAt: 1_767_608_430)
        var script = self.script(.mysql)
        script.rules.graceSecondCount = 30
        script.rules.action = .deactivate(column: "active")
        script.rules.topic = .column("bundle_id")
        script.literal = .blob
        script.clock = .milliseconds
        let expected = """
            START TRANSACTION;
            UPDATE `devices` SET `active` = 0 WHERE `updated_at` >= 1199145600000 AND (
            (`token` = X'abababab' AND `bundle_id` = 'com.example.app' AND `updated_at` < 1767608400000)
            );
            COMMIT;

            """
        #expect(try self.text(script).text == expected)
        script.dialect = .postgresql
        script.literal = .upperHexadecimal
        #expect(try self.text(script).text.contains("SET \"active\" = FALSE WHERE \"updated_at\" >= 1199"))
        #expect(try self.text(script).text.contains("(\"token\" = 'ABABABAB'"))
        script.inactiveValue = .zero
        script.literal = .blob
        #expect(try self.text(script).text.contains("\"active\" = 0 WHERE \"updated_at\" >= "))
        #expect(try self.text(script).text.contains("AND (\n(\"token\" = decode('abababab', 'hex')"))
        script.rules.registration = .ignored
        script.literal = .base64
        #expect(try self.text(script).text.contains("(\"token\" = 'q6urqw==' AND \"bundle_id\" = 'com.example.app');"))
        script = self.script(.mysql)
        #expect(try self.text(script).text.hasPrefix("SET time_zone = '+00:00';\nSTART TRANSACTION;\n"))
    }

    @Test func `batches are limited`() throws {
        for token in 1...25 as ClosedRange<UInt8> { try self.record(token, failedAt: 1_767_608_430 + Int64(token)) }
        var script = self.script(.ansi)
        script.batchTokenCount = 10
        let (text, counts) = try self.text(script)
        #expect(counts.tokenCount == 25 && counts.batchCount == 3)
        #expect(text.split(separator: "\n").count { $0 == "COMMIT;" } == 3)
    }

    @Test(arguments: [PruneScript.Clock.seconds, .milliseconds])
    func `a registration that is zero, a placeholder or of another unit keeps its row`(
        _ clock: PruneScript.Clock
    ) throws {
        try self.record(1, failedAt: 1_767_608_430)
        var script = self.script(.ansi)
        script.clock = clock
        let factor: Int64 = clock == .seconds ? 1 : 1000
        let queue = try DatabaseQueue()
        try queue.inDatabase { database in
            try database.execute(sql: "CREATE TABLE devices (id INTEGER PRIMARY KEY, token TEXT, updated_at INTEGER)")
            let failedAt: Int64 = 1_767_608_430
            let kept: [Int64?] = [
                nil, 0, -1, 1, 789_300_000, 1_199_145_599 * factor, failedAt * factor,
                clock == .seconds ? (failedAt - 1) * 1000 : failedAt - 1,
            ]
            for time in kept + [1_199_145_600 * factor, (failedAt - 1) * factor] {
                let sql = "INSERT INTO devices (token, updated_at) VALUES ('01010101', ?)"
                try database.execute(sql: sql, arguments: [time])
            }
            try database.execute(sql: self.text(script).text)
            #expect(try Int.fetchAll(database, sql: "SELECT id FROM devices ORDER BY id") == Array(1...kept.count))
        }
    }

    @Test func `a topic that could end a literal is omitted and counted`() throws {
        let attacks = ["x'); DROP TABLE devices; --", "x\\", "x\\' OR 1=1 --", "ｘ＇", "x`", "x\" OR \"\"=\"", "a b"]
        for (index, topic) in attacks.enumerated() {
            try self.record(UInt8(index + 1), failedAt: 1_767_608_430, topic: topic)
        }
        try self.record(99, failedAt: 1_767_608_430)
        for dialect in SQLDialect.allCases {
            var script = self.script(dialect)
            script.rules.topic = .column("bundle_id")
            let (text, counts) = try self.text(script)
            #expect(counts.skippedCount == attacks.count && counts.tokenCount == 1)
            #expect(!text.contains("DROP") && !text.contains("OR 1=1") && !text.contains("\\"))
        }
    }

    @Test(arguments: [
        "devices\"; DROP TABLE users; --", "\"\"", "a\"b", "`; DROP TABLE users; --`", "\"\u{301}; DROP TABLE users",
        "'", "\\\"", "a b",
    ])
    func `a name with quotes in it stays one name`(_ name: String) throws {
        try self.record(1, failedAt: 1_767_608_430)
        var script = self.script(.ansi, table: name)
        script.tokenColumn = name
        script.rules.registration = .registered(column: "r" + name)
        script.clock = .seconds
        // SQLite accepts it, and finds exactly one table.
        let queue = try DatabaseQueue()
        try queue.inDatabase { database in
            let quoted = "\"" + name.unicodeScalars.map { $0 == "\"" ? "\"\"" : String($0) }.joined() + "\""
            let registered = "\"r" + quoted.dropFirst()
            try database.execute(sql: "CREATE TABLE \(quoted) (\(quoted) TEXT, \(registered) INTEGER)")
            let rows = "('01010101', 1700000000), ('01010101', 9999999999), ('02', 1700000000)"
            try database.execute(sql: "INSERT INTO \(quoted) VALUES \(rows)")
            try database.execute(sql: "CREATE TABLE users (id)")
            try database.execute(sql: self.text(script).text)
            #expect(try Int.fetchOne(database, sql: "SELECT count(*) FROM \(quoted)") == 2)
            #expect(try Int.fetchOne(database, sql: "SELECT count(*) FROM users") == 0)
        }
        script.dialect = .mysql
        let backticks = "`" + name.unicodeScalars.map { $0 == "`" ? "``" : String($0) }.joined() + "`"
        #expect(try self.text(script).text.contains("DELETE FROM \(backticks) WHERE `r\(backticks.dropFirst())"))
        #expect(try self.text(script).text.contains("(\(backticks) = '01010101'"))
    }

    @Test(arguments: ["", "a\u{0}b", "a\nb", "a..b", String(repeating: "x", count: 513)])
    func `a name that cannot be quoted is rejected`(_ name: String) throws {
        try self.record(1, failedAt: 1_767_608_430)
        #expect(throws: TokenTableError.self) { try self.text(self.script(.ansi, table: name)) }
    }

    @Test func `of a token that is dead in every topic, the first failure counts`() throws {
        try self.record(1, failedAt: 2000, topic: "a")
        try self.record(1, failedAt: 1000, topic: "b")
        try self.record(2, failedAt: 1000, topic: "a")
        var script = self.script(.ansi)
        script.clock = .seconds
        #expect(throws: TokenTableError.severalTopics(["a", "b"], .production)) { try self.text(script) }
        script.rules.topic = .everyTopic(of: [])
        let (text, counts) = try self.text(script)
        #expect(counts.tokenCount == 1 && text.contains("(\"token\" = '01010101' AND \"updated_at\" < 1000)"))
        script.rules.topic = .one("a")
        #expect(try self.text(script).counts.tokenCount == 2)
    }

    @Test func `the input of a hook is JSON, and its description shows no token`() throws {
        try self.record(7, failedAt: 1000, topic: "a\"b\\c")
        var lines: [String] = []
        try self.list.deadTokens(TokenTableRules(registration: .ignored)) {
            lines.append($0.json)
            #expect(!"\($0)".contains("07070707"))
        }
        let line = #"{"token":"07070707","topic":"a\"b\\c","environment":"production","failedAt":1000}"#
        #expect(lines == [line])
    }
}

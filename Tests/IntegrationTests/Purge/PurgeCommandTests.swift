// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation
import GRDB
import TestSupport
import Testing
import TokenStore

/// The output and the exit codes of `apns-legacy purge`.
@Suite(.timeLimit(.minutes(2))) struct PurgeCommandTests {
    let scene: SendScene

    init() throws {
        self.scene = try SendScene()
    }

    @Test func `list shows the entries of a time range in order, separated by tabs`() async throws {
        try self.scene.addDead([2, 1])
        let line = "2023-11-14T22:13:20Z\tproduction\tcom.example.app\t\(SendScene.token(1))\tfeedback\n"
        let all = try await self.scene.purge("list")
        #expect(all.ending.code == 0 && all.output.hasPrefix(line) && all.output.split(separator: "\n").count == 2)
        let one = try await self.scene.purge("list", ["--limit", "1"])
        #expect(one.ending.code == 0 && one.output == line)
        let count = try await self.scene.purge("list", ["--count", "--failed-since", "2023-11-14T22:13:21Z"])
        #expect(count.ending.code == 0 && count.output == "0\n")
        let token = try await self.scene.purge("list", ["--token", "<\(SendScene.token(1).uppercased())>", "--count"])
        #expect(token.output == "1\n")
    }

    /// The tokens that an import added, updated, and found listed.
    private static func changes(_ run: SendScene.Run) throws -> [Int?] {
        try ["added", "updated", "known"].map { try run.counts[$0] }
    }

    @Test func `import reads the CSV, JSON lines and text of export`() async throws {
        try self.scene.addDead([1, 2])
        try self.scene.addDead([3], environment: .sandbox, topic: "org.example")
        let before = try await self.scene.purge("export", ["--format", "csv"]).output
        for format in ["csv", "jsonl"] {
            let path = self.scene.path("list." + format)
            let export = try await self.scene.purge("export", ["--format", format, "--output", path])
            #expect(export.ending.code == 0 && export.output.isEmpty)
            try FileManager.default.removeItem(atPath: self.scene.purgeList)
            let run = try await self.scene.purge("import", [path] + SendScene.json)
            #expect(run.ending.code == 0, "\(run)")
            #expect(try Self.changes(run) == [3, 0, 0])
            #expect(try await self.scene.purge("export", ["--format", "csv"]).output == before)
        }
        let text = try await self.scene.purge("export", ["--topic", "org.example"])
        #expect(text.output == SendScene.token(3) + "\n")
        let sql = try await self.scene.purge("export", ["--format", "sql", "--table", "dead"])
        #expect(sql.output.contains("INSERT INTO dead") && sql.output.contains("'\(SendScene.token(3))','org.example'"))
    }

    @Test func `HTTP2 reasons decide which lines are imported, and invalid lines are named`() async throws {
        let token = SendScene.token
        let lines = [
            #"{"token":"\#(token(1))","topic":"a","reason":"Unregistered","timestamp":1700000000999,"status":410}"#,
            #"{"token":"\#(token(2))","topic":"a","reason":"ExpiredToken","timestamp":1700000000000}"#,
            #"{"token":"\#(token(3))","topic":"a","reason":"BadDeviceToken"}"#,
            #"{"token":"\#(token(4))","topic":"a","reason":"TooManyRequests"}"#,
            "nonsense", #"{"token":"xyz","topic":"a"}"#, #"{"token":"\#(token(5))"}"#,
            #"{"token":"\#(token(6))","topic":"a","failedAt":1700000000000}"#,
        ]
        let path = try self.scene.write("answers.jsonl", lines.joined(separator: "\n"))
        let run = try await self.scene.purge("import", [path, "--environment", "production"])
        #expect(run.ending.code == 1)
        let expected = "2 tokens added, 0 updated, 0 already listed, 4 invalid lines\n1 line skipped: BadDeviceToken\n"
        #expect(run.output == expected + "1 line skipped: TooManyRequests\n")
        for text in ["line 5: ", "line 6: invalid device token", "line 7: missing topic", "line 8: invalid failedAt"] {
            #expect(run.error.contains(path + ", " + text), "\(run.error)")
        }
        #expect(!run.error.contains("xyz") && !run.error.contains("nonsense"))
        let list = try await self.scene.purge("list")
        #expect(list.output.contains("2023-11-14T22:13:20Z\tproduction\ta\t\(token(1))\thttp2:Unregistered\n"))
        let all = try await self.scene.purge(
            "import",
            [path, "--environment", "production", "--include-bad-device-tokens", "--failed-at", "2024-01-01"]
                + SendScene.json
        )
        #expect(try Self.changes(all) == [1, 0, 2] && all.counts["badLines"] == 4, "\(all.output)")
        #expect(
            try await self.scene.purge("list", ["--source", "http2:BadDeviceToken"]).output.hasPrefix("2024-01-01T")
        )
    }

    @Test func `tokens from standard input get the topic and environment of the options`() async throws {
        let path = try self.scene.write("tokens", "# dead\n\(SendScene.token(1))\n\n\(SendScene.token(2))\r\n")
        let input = open(path, O_RDONLY)
        defer { close(input) }
        let run = try await self.scene.purge(
            "import",
            ["-", "--topic", "a", "--environment", "sandbox", "--failed-at", "now"] + SendScene.json,
            input: input
        )
        #expect(run.ending.code == 0, "\(run)")
        #expect(try Self.changes(run) == [2, 0, 0])
        #expect(try await self.scene.purge("list", ["--source", "import:stdin", "--count"]).output == "2\n")
    }

    @Test func `tokens without a time of failure need a default, which does not replace other times`() async throws {
        let options = ["--topic", "a", "--environment", "sandbox"]
        for text in ["\(SendScene.token(1))\n", "token,source\n\(SendScene.token(1)),x\n"] {
            let path = try self.scene.write("tokens", text)
            let run = try await self.scene.purge("import", [path] + options)
            #expect(run.ending.code == 64 && run.error.contains("--failed-at"), "\(run)")
            #expect(try await self.scene.purge("list", ["--count"]).output == "0\n")
        }
        let rows = "Token,FailedAt\n\(SendScene.token(1)),2024-01-01\n\(SendScene.token(2)),\n"
        let lines = [
            #"{"token":"\#(SendScene.token(1))","failed_at":1704067200}"#, #"{"token":"\#(SendScene.token(2))"}"#,
        ]
        for (name, text, line) in [("times.csv", rows, 3), ("times.jsonl", lines.joined(separator: "\n"), 2)] {
            let path = try self.scene.write(name, text)
            let run = try await self.scene.purge("import", [path] + options + SendScene.json)
            #expect(run.ending.code == 1 && run.error.contains("--failed-at"), "\(run)")
            #expect(try run.counts["badLines"] == 1)
            #expect(try run.messages.contains { $0.file == path && $0.line == line }, "\(run)")
        }
        #expect(try await self.scene.purge("list").output.hasPrefix("2024-01-01T00:00:00Z\tsandbox\ta\t"))
        let times = [self.scene.path("times.csv"), "--failed-at", "1d"]
        let run = try await self.scene.purge("import", times + options + SendScene.json)
        #expect(run.ending.code == 0, "\(run)")
        #expect(try Self.changes(run) == [1, 0, 1])
    }

    @Test func `a misspelled column of times is named`() async throws {
        let path = self.scene.path("times.csv")
        for (name, column) in [
            ("faildAt", "failedAt"), ("failed_aat", "failedAt"), ("timestamps", "timestamp"), ("created", nil),
        ] {
            try Data("token,\(name)\n\(String(repeating: "a1", count: 32)),1\n".utf8).write(to: URL(filePath: path))
            let run = try await CommandRun([
                "purge", "import", path, "--topic", "a", "--environment", "sandbox",
                "--purge-list", self.scene.path("misspelled.sqlite"),
            ])
            let options = ["failedAt", "timestamp"].filter { run.error.contains("--column \($0)=\(name) ") }
            #expect(run.code == 64 && options == column.map { [$0] } ?? [], "\(run)")
        }
    }

    @Test func `an unreadable input exits with 65`() async throws {
        let options = ["--topic", "a", "--environment", "sandbox", "--failed-at", "now"]
        for text in ["zz\nyy\n", "name,age\nx,1\n"] {
            let path = try self.scene.write("bad", text)
            let run = try await self.scene.purge("import", [path] + options)
            #expect(run.ending.code == 65, "\(run)")
        }
        // Not over the list of the runs above, which SQLite may still be closing.
        let path = try self.scene.write("other.db", String(repeating: "no list\n", count: 100))
        let run = try await self.scene.run(["purge", "list", "--purge-list", path])
        #expect(run.failed(65, PurgeListError.notAPurgeList(path: path)), "\(run)")
    }

    @Test func `a missing list exits with 66, and a wrong command line with 64`() async throws {
        for command in ["list", "export", "stats", "check"] {
            let run = try await self.scene.purge(command)
            #expect(run.failed(66, PurgeListError.missing(path: self.scene.purgeList)), "\(run)")
        }
        for arguments in [
            ["list"], ["import", "x"], ["forget", "--purge-list", "x"], ["list", "--purge-list", "x", "--limit", "0"],
            ["list", "--purge-list", "x", "--token", "xyz"], ["export", "--purge-list", "x", "--table", "a;b"],
            ["expire", "--purge-list", "x", "--older-than", "1"],
            ["forget", "--purge-list", "x", "--token", "ab", "--registered-at", "9999-01-01"],
        ] {
            let run = try await self.scene.run(["purge"] + arguments)
            #expect(run.ending.code == 64, "\(arguments) \(run)")
        }
        try self.scene.addDead([1])
        let run = try await self.scene.purge("export", ["--output", self.scene.purgeList])
        #expect(run.failed(64, naming: self.scene.purgeList, "--output"), "\(run)")
        #expect(try await self.scene.purge("check").output == "ok\n")
    }

    @Test func `forget removes tokens that registered later, and no older failure adds them again`() async throws {
        try self.scene.addDead([1, 2, 3])
        let path = try self.scene.write(
            "registered",
            "\(SendScene.token(1)),1700000001\n\(SendScene.token(2))\nzz\n\(SendScene.token(9)),2024-01-01\n"
        )
        let run = try await self.scene.purge("forget", ["--tokens", path, "--registered-at", "1700000000"])
        #expect(run.ending.code == 1 && run.error.contains("line 3"))
        let counts = "1 entry forgotten, 1 kept for a failure at or after the registration, 1 token not on the list\n"
        #expect(run.output == counts)
        let again = try self.scene.write("again.csv", "token,failed_at\n\(SendScene.token(1)),1700000000\n")
        let imported = try await self.scene.purge(
            "import",
            [again, "--topic", SendScene.topic, "--environment", "production"] + SendScene.json
        )
        #expect(try Self.changes(imported) == [0, 0, 0] && imported.counts["registeredSince"] == 1)
        let late = try self.scene.write("late", "\(SendScene.token(2)),9999-01-01\n")
        let future = try await self.scene.purge("forget", ["--tokens", late] + SendScene.json)
        #expect(try future.ending.code == 1 && future.counts["badLines"] == 1)
        #expect(try future.messages.contains { $0.file == late && $0.line == 1 }, "\(future)")
        let word = try await self.scene.purge("forget", ["--token", SendScene.token(3), "--topic", "other"])
        #expect(word.ending.code == 0 && word.output.hasPrefix("0 entries forgotten"))
        #expect(try await self.scene.purge("forget", ["--token", SendScene.token(3)]).output.hasPrefix("1 entry"))
        #expect(try await self.scene.purge("list", ["--count"]).output == "1\n")
    }

    @Test func `a registration recorded before an older failure keeps the device off the list`() async throws {
        let path = try self.scene.write("failed.csv", "token,failed_at\n\(SendScene.token(1)),1700000000\n")
        let place = ["--topic", SendScene.topic, "--environment", "production"]
        _ = try PurgeList(path: self.scene.purgeList)
        let registered = ["--token", SendScene.token(1), "--registered-at", "1700000001"]
        let nowhere = try await self.scene.purge("forget", registered + SendScene.json)
        #expect(try nowhere.ending.code == 0 && nowhere.counts["unremembered"] == 1, "\(nowhere)")
        let run = try await self.scene.purge("forget", registered + place)
        #expect(run.ending.code == 0 && run.error.isEmpty, "\(run)")
        let imported = try await self.scene.purge("import", [path] + place + SendScene.json)
        #expect(try Self.changes(imported) == [0, 0, 0] && imported.counts["registeredSince"] == 1)
        #expect(try await self.scene.purge("list", ["--count"]).output == "0\n")
    }

    @Test func `stats counts by topic, environment and source, and expire removes old entries`() async throws {
        try self.scene.addDead([1, 2])
        let text = try await self.scene.purge("stats")
        #expect(text.ending.code == 0 && text.output.hasPrefix("2 tokens\n"))
        #expect(text.output.contains("2 com.example.app, production, from feedback, failed 2023-11-14T22:13:20Z"))
        let json = try await self.scene.purge("stats", ["--summary", "json"])
        let object = try #require(try JSONSerialization.jsonObject(with: Data(json.output.utf8)) as? [String: Any])
        #expect(object["count"] as? Int == 2 && (object["parts"] as? [[String: Any]])?.first?["count"] as? Int == 2)
        #expect(try await self.scene.purge("expire", ["--older-than", "5000w"]).output == "0 tokens expired\n")
        #expect(try await self.scene.purge("expire", ["--older-than", "1d"]).output == "2 tokens expired\n")
    }

    @Test func `a dangling link is not followed`() async throws {
        let target = self.scene.path("elsewhere.db")
        try #require(symlink(target, self.scene.purgeList) == 0)
        let tokens = try self.scene.write("tokens", SendScene.token(1) + "\n")
        let options = ["--topic", SendScene.topic, "--environment", "production", "--failed-at", "now"]
        let run = try await self.scene.purge("import", [tokens] + options)
        #expect(run.failed(73, PurgeListError.danglingLink(path: self.scene.purgeList)), "\(run)")
        #expect(!FileManager.default.fileExists(atPath: target))
        // A link to a list is one.
        try PurgeList(path: target).close()
        #expect(try await self.scene.purge("import", [tokens] + options).ending.code == 0)
    }

    @Test func `a list of an earlier release is named until its first change`() async throws {
        try PurgeCommandTests.makeEarlierList(self.scene.purgeList)
        let warning = "Warning: purge list \(self.scene.purgeList) is from an earlier release and has no checksums"
        for command in ["check", "stats", "list", "export"] {
            let run = try await self.scene.purge(command)
            #expect(run.ending.code == 0 && run.error.contains(warning), "\(run)")
        }
        let expired = try await self.scene.purge("expire", ["--older-than", "9000w"])
        #expect(expired.ending.code == 0 && expired.error.contains(warning), "\(expired)")
        let checked = try await self.scene.purge("check")
        #expect(checked.ending.code == 0 && checked.output == "ok\n" && checked.error.isEmpty, "\(checked)")
    }

    /// Creates a list of version 1 with one token.
    private static func makeEarlierList(_ path: String) throws {
        let queue = try DatabaseQueue(path: path)
        try queue.writeWithoutTransaction { database in
            try database.execute(
                sql: """
                    CREATE TABLE scope (
                        id INTEGER PRIMARY KEY,
                        topic TEXT NOT NULL,
                        environment TEXT NOT NULL CHECK (environment IN ('production', 'sandbox')),
                        UNIQUE (topic, environment)
                    );
                    CREATE TABLE source (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
                    CREATE TABLE dead (
                        scope INTEGER NOT NULL REFERENCES scope (id),
                        token BLOB NOT NULL CHECK (typeof(token) = 'blob' AND length(token) BETWEEN 1 AND 100),
                        failed_at INTEGER NOT NULL,
                        first_seen INTEGER NOT NULL,
                        source INTEGER NOT NULL REFERENCES source (id),
                        PRIMARY KEY (scope, token)
                    ) WITHOUT ROWID;
                    INSERT INTO scope VALUES (1, 'com.example.app', 'production');
                    INSERT INTO source VALUES (1, 'feedback');
                    INSERT INTO dead VALUES (1, x'010203', 1700000000, 1700000000, 1);
                    PRAGMA application_id = 0x41504E50;
                    PRAGMA user_version = 1;
                    """
            )
        }
        try queue.close()
    }

    @Test func `processes that write to one list at the same time lose nothing, while others read it`() async throws {
        let count = TestEffort.count(5000, long: 20_000)
        let files = try (0..<3).map { number in
            let tokens = (0..<count).map { SendScene.token(number * count + $0) + "\n" }
            return try self.scene.write("tokens\(number)", tokens.joined())
        }
        let scene = self.scene
        try scene.addDead([0])
        try await withThrowingTaskGroup(of: SendScene.Run.self) { group in
            for file in files {
                group.addTask {
                    let options = ["--topic", SendScene.topic, "--environment", "production", "--failed-at", "now"]
                    let arguments = ["purge", "import", "--purge-list", scene.purgeList, file]
                    return try await scene.start(arguments + options)
                }
            }
            for _ in 0..<TestEffort.count(3, long: 5) {
                group.addTask { try await scene.start(["purge", "list", "--purge-list", scene.purgeList, "--count"]) }
            }
            for try await run in group { #expect(run.ending.code == 0, "\(run)") }
        }
        #expect(try await scene.purge("list", ["--count"]).output == "\(3 * count)\n")
        #expect(try await scene.purge("check").ending.code == 0)
    }
}

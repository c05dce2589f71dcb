// SPDX-License-Identifier: Apache-2.0

import Foundation
import GRDB
import TestSupport
import Testing
import TokenStore

/// Goal: `purge apply` does with PostgreSQL what it does with SQLite, and keeps its promises beside an application.
///
/// Method: a server on a socket of its own; what it had in the end is compared with what SQLite had, and with what the
/// application did meanwhile.
@Suite(
    .enabled(if: PostgreSQLServer.isInstalled, "Debian's package postgresql is not installed."),
    .enabled(if: TokenTableApplication.canOpen("postgresql://host/"), "This is a build without the trait PostgreSQL."),
    .timeLimit(.minutes(3))
) struct ApplyPostgreSQLTests {
    let scene: ApplyScene

    init() throws {
        self.scene = try ApplyScene()
    }

    private func withServer(_ body: (PostgreSQLServer) async throws -> Void) async throws {
        let server = try await PostgreSQLServer(in: self.scene.folder)
        do { try await body(server) } catch {
            await server.stop()
            throw error
        }
        await server.stop()
    }

    private static let columns = ["--table", "devices", "--token-column", "token", "--registered-column", "updated_at"]

    private func apply(_ server: PostgreSQLServer, _ options: [String] = []) async throws -> ApplyScene.Run {
        try await self.scene.run(["--database", server.address()] + Self.columns + options)
    }

    private static func left(_ server: PostgreSQLServer, _ table: String = "devices") async throws -> [Int] {
        try await server.run("SELECT id FROM \(table) ORDER BY id;").split(separator: "\n").compactMap { Int($0) }
    }

    /// Tokens and times in all spellings, and what is neither.
    private static var rows: [(token: String?, time: String?)] {
        let old = ApplyScene.failedAt - 100
        let times: [String?] = [
            "\(old)", "\(old)000", "2026-01-05T10:18:50Z", "2026-01-05 10:18:50", "2026-01-04", "never", nil,
            "\(ApplyScene.failedAt)", "2026-01-05T10:20:30+00:00", "2026-01-05T11:18:50+01:00",
        ]
        let bytes = ApplyScene.bytes
        return times.enumerated().flatMap { index, time -> [(String?, String?)] in
            let number = index * 10
            let plain = ApplyScene.token(number)
            return [
                (plain, time), (ApplyScene.token(number + 1).uppercased(), time),
                ("<\(ApplyScene.token(number + 2))>", time), (Data(bytes(number + 3)).base64EncodedString(), time),
                ("no token; \"quoted\" \\ {}", time), ("", time), (nil, time), (ApplyScene.token(number + 5), time),
            ]
        }
    }

    @Test func `the report and the remaining rows are those of SQLite`() async throws {
        // One in ten is alive.
        try self.scene.record((0..<100).filter { $0 % 10 != 5 })
        try self.scene.withDatabase { database in
            try database.execute(sql: "CREATE TABLE devices (id INTEGER PRIMARY KEY, token TEXT, updated_at TEXT)")
            for (id, row) in Self.rows.enumerated() {
                let arguments: StatementArguments = [id, row.token, row.time]
                try database.execute(sql: "INSERT INTO devices VALUES (?, ?, ?)", arguments: arguments)
            }
        }
        try await self.withServer { server in
            let values = Self.rows.enumerated().map { id, row in
                let texts = [row.token, row.time].map { $0.map { "'\($0)'" } ?? "NULL" }
                return "(\(id), \(texts.joined(separator: ", ")))"
            }
            try await server.run(
                """
                CREATE TABLE devices (id smallint PRIMARY KEY, token varchar(200), updated_at text);
                INSERT INTO devices VALUES \(values.joined(separator: ","));
                """
            )
            let json = ["--summary", "json", "--max-fraction", "1"]
            for options in [["--dry-run"], ["--grace", "50s"]] {
                let here = try await self.scene.run(
                    ["--database", self.scene.database] + Self.columns + options + json
                )
                let there = try await self.apply(server, options + json)
                #expect(here.code == 0 && there.code == 0, "\(here) \(there)")
                var reports = try [here.report, there.report]
                for name in ["seconds", "longestLockMilliseconds", "batches"] {
                    for index in reports.indices { reports[index][name] = nil }
                }
                #expect(NSDictionary(dictionary: reports[0]) == NSDictionary(dictionary: reports[1]))
            }
            #expect(try await Self.left(server) == self.scene.left())
        }
    }

    @Test(arguments: TestEffort.isLong ? ["UTC", "Asia/Tokyo", "America/New_York"] : ["Asia/Tokyo"])
    func `each type of column, key and flag is read and changed`(zone: String) async throws {
        try self.scene.record([1, 2, 3, 4])
        let failedAt = ApplyScene.failedAt
        let times = [1: failedAt - 90_000, 2: failedAt - 1, 3: failedAt, 4: failedAt + 90_000, 5: failedAt - 90_000]
        let kinds = [
            ("timestamptz", "to_timestamp(%)"), ("timestamp", "to_timestamp(%) AT TIME ZONE 'UTC'"),
            ("bigint", "%"), ("numeric", "% + 0.5"), ("double precision", "% * 1000.0"), ("text", "'%'"),
            ("timestamptz", "to_timestamp(% + 0.25)"),
        ]
        try await self.withServer { server in
            try await server.run("ALTER ROLE tests SET TimeZone = '\(zone)';")
            try await server.run("ALTER ROLE tests SET DateStyle = 'German';")
            for (number, (type, expression)) in kinds.enumerated() {
                let isBinary = number % 2 == 0
                let rows = times.map { id, time in
                    let value = expression.replacing("%", with: "\(time)")
                    let token = isBinary ? "'\\x\(ApplyScene.token(id))'" : "'\(ApplyScene.token(id))'"
                    return "(\(id), 'a\"\\{\(id)', \(token), \(value), true, 1)"
                }
                let part =
                    "CREATE TABLE part0 PARTITION OF devices FOR VALUES WITH (MODULUS 1, REMAINDER 0);"
                try await server.run(
                    """
                    DROP TABLE IF EXISTS devices;
                    CREATE TABLE devices (id int NOT NULL, "App" text NOT NULL,
                        token \(isBinary ? "bytea" : "char(64)"), updated_at \(type), active boolean, flag numeric,
                        \(number == 1 ? "UNIQUE" : "PRIMARY KEY") ("App", id))
                        \(number == 2 ? "PARTITION BY HASH (id)" : "");
                    \(number == 2 ? part : "")
                    INSERT INTO devices VALUES \(rows.joined(separator: ","));
                    """
                )
                for column in ["active", "flag"] {
                    let options = ["--max-fraction", "1", "--action", "deactivate", "--active-column", column]
                    let run = try await self.apply(server, options)
                    #expect(run.code == 0, "\(type) \(run)")
                    let changed = try await server.run("SELECT id FROM devices WHERE \(column)::int = 0 ORDER BY id;")
                    #expect(changed.split(separator: "\n") == ["1", "2"], "\(type) \(column) \(run)")
                }
                let run = try await self.apply(server, ["--max-fraction", "1"])
                let left = try await Self.left(server)
                #expect(run.code == 0 && left == [3, 4, 5], "\(type) \(run)")
            }
        }
    }

    @Test func `what cannot be pruned is one line, and nothing changes`() async throws {
        try self.scene.record([1])
        try await self.withServer { server in
            try await server.run(
                """
                CREATE TABLE devices (id int PRIMARY KEY, token text, updated_at timestamptz,
                    made boolean GENERATED ALWAYS AS (true) STORED);
                INSERT INTO devices VALUES (1, '\(ApplyScene.token(1))', 'epoch'::timestamptz + interval '55 years');
                CREATE VIEW seen AS SELECT * FROM devices;
                CREATE TABLE bare (token text, updated_at timestamptz);
                CREATE ROLE reader LOGIN; GRANT SELECT ON devices TO reader;
                CREATE ROLE halted LOGIN; GRANT ALL ON devices TO halted;
                ALTER ROLE halted SET default_transaction_read_only = on;
                """
            )
            let table = Array(Self.columns.dropFirst(2)) + ["--max-fraction", "1"]
            let mine = ["--database", server.address()]
            let cases: [(options: [String], code: Int32, word: String)] = [
                (mine + ["--table", "seen"], 64, "view"), (mine + ["--table", "bare"], 64, "primary key"),
                (mine + ["--table", "Nope"], 64, "\"devices\""),
                (mine + ["--table", "devices", "--action", "deactivate", "--active-column", "made"], 64, "computed"),
                (["--database", server.address(user: "reader"), "--table", "devices"], 77, "permission denied"),
                (["--database", server.address(user: "halted"), "--table", "devices"], 74, "read-only"),
                (["--database", server.address(user: "x"), "--table", "devices"], 75, "\"x\""),
                (["--database", "postgresql://tests@127.0.0.1:1/postgres", "--table", "devices"], 75, "refused"),
                (["--database", "postgresql://a:secret@h/p", "--table", "devices"], 64, "~/.pgpass"),
                (["--database", "postgresql://h/p?nonsense=1", "--table", "devices"], 64, "nonsense"),
            ]
            for (options, code, word) in cases {
                let run = try await self.scene.run(options + table)
                #expect(run.failed(code, naming: word), "\(options) \(run)")
                #expect(run.error.split(separator: "\n").count == 1 && !run.error.contains("secret"), "\(run)")
            }
            #expect(try await Self.left(server) == [1])
            let dry = try await self.scene.run(
                ["--database", server.address(user: "reader"), "--table", "devices", "--dry-run"] + table
            )
            #expect(dry.code == 0 && dry.output.contains("1 would be deleted"), "\(dry)")
        }
    }

    @Test func `rows that a constraint or a transaction of the application holds are kept, and no others`() async throws
    {
        try self.scene.record(1...200)
        try await self.withServer { server in
            let rows = (1...200).map { "(\($0), '\(ApplyScene.token($0))', \(ApplyScene.failedAt - 100))" }
            try await server.run(
                """
                CREATE TABLE devices (id int PRIMARY KEY, token text, updated_at bigint);
                INSERT INTO devices VALUES \(rows.joined(separator: ","));
                CREATE TABLE orders (device int REFERENCES devices); INSERT INTO orders VALUES (7), (150);
                """
            )
            let refused = try await self.apply(server, ["--max-fraction", "1", "--summary", "json", "--batch", "50"])
            #expect(try refused.code == 1 && refused.count("refused") == 2, "\(refused)")
            #expect(try refused.report["refusedRows"] as? [Int] == [7, 150])
            #expect(try await Self.left(server) == [7, 150])
            try await server.run("DROP TABLE orders;")
            // The application holds a row, and registers it again, longer than a statement waits.
            async let application = server.run(
                """
                BEGIN; UPDATE devices SET updated_at = \(ApplyScene.failedAt + 1) WHERE id = 7;
                CREATE TABLE held (); SELECT pg_sleep(0.7); COMMIT;
                """
            )
            try await eventually("the row is held") {
                try await server.run("SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock';") != "0\n"
            }
            let run = try await self.apply(server, ["--max-fraction", "1", "--summary", "json"])
            _ = try await application
            #expect(try run.code == 0 && run.count("pruned") == 1 && run.count("changedMeanwhile") == 1, "\(run)")
            #expect(try await Self.left(server) == [7])
        }
    }

    @Test func `killed at random beside an application, it prunes all dead rows and no living one`() async throws {
        let count = TestEffort.count(6000, long: 100_000)
        let killCount = TestEffort.count(4, long: 50)
        try self.scene.record(1...count)
        var random = SplitMix64(seed: 32)
        try await self.withServer { server in
            try await server.run(
                """
                CREATE TABLE devices (id int PRIMARY KEY, token text, updated_at timestamptz);
                CREATE TABLE renewed (id int PRIMARY KEY);
                """
            )
            let rows = (1...count).map { "\($0)\t\(ApplyScene.token($0))\t2026-01-01 00:00:00+00" }
            try await server.run("COPY devices FROM stdin;\n" + rows.joined(separator: "\n") + "\n\\.\n")
            // Devices register again, each in a transaction of its own.
            async let application = server.run(
                """
                CREATE PROCEDURE renew(number int) LANGUAGE plpgsql AS $$ BEGIN
                    UPDATE devices SET updated_at = now() WHERE id = number;
                    IF FOUND THEN INSERT INTO renewed VALUES (number) ON CONFLICT DO NOTHING; END IF; COMMIT;
                END $$;
                DO $$ BEGIN FOR i IN 1..\(count / 2) LOOP
                    CALL renew(1 + floor(random() * \(count))::int); END LOOP; END $$;
                """
            )
            let options = ["--database", server.address()] + Self.columns + ["--max-fraction", "1", "--batch", "20"]
            for _ in 0..<killCount {
                let child = try Child(["purge", "apply", "--purge-list", self.scene.list.path] + options)
                let step = 1 + random.below(20)
                try await eventually("some rows are pruned") {
                    let left = try await server.run("SELECT count(*) FROM devices;")
                    return child.hasEnded || Int(left.dropLast()) ?? 0 < count - step * 20
                }
                child.send(SIGKILL)
                _ = try await child.end()
            }
            _ = try await application
            let run = try await self.apply(server, ["--max-fraction", "1", "--summary", "json"])
            #expect(run.code == 0, "\(run)")
            let lost = "SELECT count(*) FROM renewed LEFT JOIN devices USING (id) WHERE devices.id IS NULL;"
            #expect(try await server.run(lost) == "0\n")
            let due = "SELECT count(*) FROM devices WHERE updated_at < '2026-01-05';"
            #expect(try await server.run(due) == "0\n")
            let living = try await server.run("SELECT count(*) FROM renewed;")
            #expect(try await server.run("SELECT count(*) FROM devices;") == living && living != "0\n")
        }
    }
}

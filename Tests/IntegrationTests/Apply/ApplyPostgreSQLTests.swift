// SPDX-License-Identifier: Apache-2.0

import Foundation
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
        try await PostgreSQLServer.with(self.scene, body)
    }

    private static let table = Array(ApplyServerChecks.columns.dropFirst(2))

    @Test func `the report and the remaining rows are those of SQLite`() async throws {
        try await self.withServer { server in
            try await server.run(
                """
                CREATE TABLE devices (id smallint PRIMARY KEY, token varchar(200), updated_at text);
                INSERT INTO devices VALUES \(ApplyServerChecks.values());
                """
            )
            try await ApplyServerChecks.compareWithSQLite(self.scene, server)
        }
    }

    @Test(arguments: TestEffort.isLong ? ["UTC", "Asia/Tokyo", "America/New_York"] : ["Asia/Tokyo"])
    func `each type of column, key and flag is read and changed`(zone: String) async throws {
        try self.scene.record([1, 2, 3, 4])
        let kinds = [
            ("timestamptz", "to_timestamp(%)"), ("timestamp", "to_timestamp(%) AT TIME ZONE 'UTC'"),
            ("bigint", "%"), ("numeric", "% + 0.5"), ("double precision", "% * 1000.0"), ("text", "'%'"),
            ("timestamptz", "to_timestamp(% + 0.25)"), ("timestamp", "to_timestamp(% + 0.999999) AT TIME ZONE 'UTC'"),
        ]
        try await self.withServer { server in
            try await server.run("ALTER ROLE tests SET TimeZone = '\(zone)';")
            try await server.run("ALTER ROLE tests SET DateStyle = 'German';")
            for (number, (type, expression)) in kinds.enumerated() {
                let isBinary = number % 2 == 0
                let rows = ApplyServerChecks.registeredAt.map { id, time in
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
                try await ApplyServerChecks.pruneFiveDevices(
                    self.scene,
                    server,
                    flags: ["active", "flag"],
                    isZero: "%::int = 0",
                    type
                )
            }
        }
    }

    @Test(arguments: [
        ("timestamptz", [1, 2, 3, 4, 5]), ("timestamp", [1, 2, 3, 4, 5]), ("date", [1, 2, 3, 4, 5, 7]),
    ])
    func `rows whose time has no end, or is none, are kept`(type: String, left: [Int]) async throws {
        try self.scene.record(1...7)
        let times = [
            "'infinity'", "'-infinity'", "NULL", "'1999-12-31'", "'2026-01-06'", "'2026-01-04'",
            // Before the failure; as a date, it may be later on that day.
            "'2026-01-05'",
        ]
        let rows = times.enumerated().map { index, time in
            "(\(index + 1), '\(ApplyScene.token(index + 1))', \(time))"
        }
        try await self.withServer { server in
            try await server.run(
                """
                CREATE TABLE devices (id int PRIMARY KEY, token text, updated_at \(type));
                INSERT INTO devices VALUES \(rows.joined(separator: ","));
                """
            )
            let run = try await server.apply(self.scene, ["--max-fraction", "1"])
            #expect(run.code == 0, "\(run.error)")
            #expect(try await server.left() == left)
        }
    }

    @Test func `a wrong password or database is a permanent failure`() async throws {
        try self.scene.record([1])
        try await self.withServer { server in
            try await server.run("CREATE ROLE keyed LOGIN PASSWORD 'right'; CREATE TABLE devices (id int PRIMARY KEY);")
            try await server.requirePassword(of: "keyed")
            let passwords = self.scene.path("passwords")
            try "*:*:*:keyed:secret\n".write(toFile: passwords, atomically: true, encoding: .utf8)
            chmod(passwords, 0o600)
            let address = server.address(user: "keyed")
            let other = server.address.replacing("/postgres?", with: "/nowhere?")
            let cases: [(options: [String], code: Int32, word: String)] = [
                (["--database", address + "&passfile=/nonexistent", "--table", "devices"], 77, "no password supplied"),
                (
                    ["--database", address + "&passfile=\(passwords)", "--table", "devices"], 77,
                    "password authentication"
                ),
                (["--database", other, "--table", "devices"], 77, "\"nowhere\" does not exist"),
            ]
            try await ApplyServerChecks.failInOneLine(self.scene, cases)
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
            let mine = ["--database", server.address]
            let cases: [(options: [String], code: Int32, word: String)] = [
                (mine + ["--table", "seen"], 64, "view"), (mine + ["--table", "bare"], 64, "primary key"),
                (mine + ["--table", "Nope"], 64, "\"devices\""),
                (mine + ["--table", "devices", "--action", "deactivate", "--active-column", "made"], 64, "computed"),
                (["--database", server.address(user: "reader"), "--table", "devices"], 77, "permission denied"),
                (["--database", server.address(user: "halted"), "--table", "devices"], 74, "read-only"),
                (["--database", server.address(user: "x"), "--table", "devices"], 77, "\"x\""),
                (["--database", "postgresql://tests@127.0.0.1:1/postgres", "--table", "devices"], 75, "refused"),
                (["--database", "postgresql://a:secret@h/p", "--table", "devices"], 64, "~/.pgpass"),
                (["--database", "postgresql://h/p?nonsense=1", "--table", "devices"], 64, "nonsense"),
            ]
            try await ApplyServerChecks.failInOneLine(self.scene, cases)
            #expect(try await server.left() == [1])
            let dry = try await self.scene.run(
                [
                    "--database", server.address(user: "reader"), "--table", "devices", "--dry-run", "--max-fraction",
                    "1",
                ] + Self.table
            )
            #expect(dry.code == 0 && dry.output.contains("1 would be deleted"), "\(dry)")
        }
    }

    @Test(arguments: [
        "CREATE RULE keep AS ON DELETE TO devices WHERE OLD.id IN (7, 150) DO INSTEAD NOTHING;",
        """
        CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF OLD.id IN (7, 150) THEN RETURN NULL; END IF; IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; RETURN NEW;
        END $$;
        CREATE TRIGGER keep BEFORE UPDATE OR DELETE ON devices FOR EACH ROW EXECUTE FUNCTION keep();
        """,
    ])
    func `rows that a rule or a trigger keeps without an error are refused`(_ sql: String) async throws {
        try self.scene.record(1...200)
        try await self.withServer { server in
            let rows = (1...200).map { "(\($0), '\(ApplyScene.token($0))', \(ApplyScene.failedAt - 100), true)" }
            try await server.run(
                """
                CREATE TABLE devices (id int PRIMARY KEY, token text, updated_at bigint, active boolean);
                INSERT INTO devices VALUES \(rows.joined(separator: ",")); \(sql)
                """
            )
            let options = ["--max-fraction", "1", "--summary", "json", "--batch", "50"]
            let ways = [["--action", "deactivate", "--active-column", "active"], []]
            for way in sql.contains("TRIGGER") ? ways : [[]] {
                let run = try await server.apply(self.scene, options + way)
                #expect(try run.code == 1 && run.count("refused") == 2, "\(run)")
                #expect(try run.count("pruned") == 198 && run.count("changedMeanwhile") == 0, "\(run)")
            }
            #expect(try await server.left() == [7, 150])
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
            let refused = try await server.apply(
                self.scene,
                ["--max-fraction", "1", "--summary", "json", "--batch", "50"]
            )
            #expect(try refused.code == 1 && refused.count("refused") == 2, "\(refused)")
            #expect(try refused.report["refusedRows"] as? [Int] == [7, 150])
            #expect(try await server.left() == [7, 150])
            try await server.run("DROP TABLE orders;")
            // The application holds a row until the command waits for it, and registers it again.
            async let application = server.run(
                """
                BEGIN; UPDATE devices SET updated_at = \(ApplyScene.failedAt + 1) WHERE id = 7;
                CREATE TABLE held ();
                DO $$ BEGIN FOR i IN 1..2000 LOOP
                    EXIT WHEN EXISTS (SELECT FROM pg_locks WHERE NOT granted); PERFORM pg_sleep(0.01);
                END LOOP; END $$;
                COMMIT;
                """
            )
            try await eventually("the row is held") {
                try await server.run("SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock';") != "0\n"
            }
            let run = try await server.apply(self.scene, ["--max-fraction", "1", "--summary", "json"])
            _ = try await application
            #expect(try run.code == 0 && run.count("pruned") == 1 && run.count("changedMeanwhile") == 1, "\(run)")
            #expect(try await server.left() == [7])
        }
    }

    @Test func `a connection lost in a commit, and a server that restarts, are one line, and a run finishes`()
        async throws
    {
        try self.scene.record(1...1000)
        try await self.withServer { server in
            for count in [100, 1000] {
                try await server.run(Self.dueRows(count))
                if count == 1000 {
                    try await ApplyServerChecks.restart(self.scene, server)
                } else {
                    try await ApplyServerChecks.loseCommits(self.scene, server) { port in
                        "postgresql://tests@127.0.0.1:\(port)/postgres?sslmode=disable"
                    }
                }
            }
        }
    }

    private static func dueRows(_ count: Int) -> String {
        let rows = (1...count).map { "(\($0), '\(ApplyScene.token($0))', '2026-01-01')" }
        return """
            CREATE TABLE IF NOT EXISTS devices (id int PRIMARY KEY, token text, updated_at timestamptz);
            INSERT INTO devices VALUES \(rows.joined(separator: ","));
            """
    }

    @Test(.enabled(if: PgBouncer.isInstalled, "Debian's package pgbouncer is not installed."))
    func `each transaction may be in another session of a pooler`() async throws {
        try self.scene.record(1...99)
        try await self.withServer { server in
            try await server.run(Self.dueRows(100))
            let pooler = try await PgBouncer(in: self.scene.folder, for: server)
            let options = ["--database", pooler.address] + ApplyServerChecks.columns + ["--max-fraction", "1"]
            let run = try await self.scene.run(options + ["--batch", "20", "--summary", "json"])
            #expect(try run.code == 0 && run.count("pruned") == 99, "\(run)")
            #expect(try await server.left() == [100])
            await pooler.stop()
        }
    }

    @Test func `killed at random beside an application, it prunes all dead rows and no living one`() async throws {
        let count = TestEffort.count(6000, long: 100_000)
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
            let application = """
                CREATE PROCEDURE renew(number int) LANGUAGE plpgsql AS $$ BEGIN
                    UPDATE devices SET updated_at = now() WHERE id = number;
                    IF FOUND THEN INSERT INTO renewed VALUES (number) ON CONFLICT DO NOTHING; END IF; COMMIT;
                END $$;
                DO $$ BEGIN FOR i IN 1..\(count / 2) LOOP
                    CALL renew(1 + floor(random() * \(count))::int); END LOOP; END $$;
                """
            try await ApplyServerChecks.kill(self.scene, server, count: count, application: application)
        }
    }
}

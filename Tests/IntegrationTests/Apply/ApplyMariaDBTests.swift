// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import Foundation
import TestSupport
import Testing
import TokenStore

/// Goal: `purge apply` does with MariaDB what it does with SQLite, and keeps its promises beside an application.
///
/// Method: a server on a socket of its own, with settings that the command must not depend on; what it had in the end
/// is compared with what SQLite had, and with what the application did meanwhile.
@Suite(
    .enabled(if: MariaDBServer.isInstalled, "Debian's package mariadb-server-core is not installed."),
    .enabled(if: TokenTableApplication.canOpen("mysql://host/a"), "This is a build without the trait MariaDB."),
    .timeLimit(.minutes(3))
) struct ApplyMariaDBTests {
    let scene: ApplyScene

    init() throws {
        self.scene = try ApplyScene()
    }

    private static let table = Array(ApplyServerChecks.columns.dropFirst(2))

    @Test func `the report and the remaining rows are those of SQLite`() async throws {
        try await MariaDBServer.with(self.scene) { server in
            try await server.run(
                """
                CREATE TABLE devices (id smallint PRIMARY KEY, token varchar(200), updated_at text);
                INSERT INTO devices VALUES \(ApplyServerChecks.values(backslash: "\\\\"));
                SET GLOBAL sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT';
                """
            )
            try await ApplyServerChecks.compareWithSQLite(self.scene, server)
        }
    }

    /// Types of the registration with an expression for its value from seconds; `%` stands for these.
    private static let times = [
        ("timestamp NULL", "FROM_UNIXTIME(%)"), ("datetime(6)", "FROM_UNIXTIME(%)"), ("bigint unsigned", "%"),
        ("decimal(20,3)", "% + 0.5"), ("double", "% * 1000.0"), ("varchar(40)", "'%'"),
        ("timestamp(3) NULL", "FROM_UNIXTIME(% + 0.25)"), ("char(25)", "FROM_UNIXTIME(%)"),
    ]

    /// Types of the token; the binary ones hold the bytes.
    private static let tokens = ["varbinary(100)", "char(64)", "blob", "text CHARACTER SET latin1", "binary(32)"]

    /// Definitions of keys, which have the columns `id` and `app`.
    private static let keys = [
        "PRIMARY KEY (app, id)", "UNIQUE (app, id)", "PRIMARY KEY (id)", "PRIMARY KEY (kind, id, app)",
        "PRIMARY KEY (price, made, id)", "PRIMARY KEY (raw, id) PARTITION BY HASH (id)",
    ]

    @Test(arguments: TestEffort.isLong ? ["+00:00", "+09:00", "-05:00"] : ["+09:00"])
    func `each type of column, key and flag is read and changed`(zone: String) async throws {
        try self.scene.record([1, 2, 3, 4])
        try await MariaDBServer.with(self.scene) { server in
            for (number, (type, expression)) in Self.times.enumerated() {
                let token = Self.tokens[number % Self.tokens.count]
                let isBinary = token.contains("b")
                let rows = ApplyServerChecks.registeredAt.map { id, time in
                    let value = expression.replacing("%", with: "\(time)")
                    let token = isBinary ? "X'\(ApplyScene.token(id))'" : "'\(ApplyScene.token(id))'"
                    let place = "\(id), 'a\"`\(id) ', 'b', 0.5, '2026-01-0\(id)', X'00\(id)0'"
                    return "(\(place), \(token), \(value), 1, 1, b'1')"
                }
                let key = Self.keys[number % Self.keys.count].split(separator: " PARTITION ")
                try await server.run(
                    """
                    SET time_zone = '+00:00'; DROP TABLE IF EXISTS devices;
                    CREATE TABLE devices (id int NOT NULL, app varchar(20) CHARACTER SET latin1 NOT NULL,
                        kind enum ('a', 'b'), price decimal(40, 2), made datetime, raw varbinary(4),
                        token \(token), updated_at \(type), active boolean, flag varchar(3), `the bit` bit(1),
                        \(key[0]))
                        \(key.count > 1 ? "PARTITION " + key[1] : "");
                    INSERT INTO devices VALUES \(rows.joined(separator: ","));
                    SET GLOBAL time_zone = '\(zone)';
                    """
                )
                try await ApplyServerChecks.pruneFiveDevices(
                    self.scene,
                    server,
                    flags: ["active", "flag", "the bit"],
                    isZero: "`%` = 0",
                    "\(type), \(token), \(key)"
                )
            }
            try await self.keepRegistration(server)
        }
    }

    /// A row that is deactivated keeps the time of its registration, which the server would set to now.
    private func keepRegistration(_ server: MariaDBServer) async throws {
        try await server.run(
            """
            DROP TABLE devices; SET time_zone = '+00:00';
            CREATE TABLE devices (id int PRIMARY KEY, token text, active boolean DEFAULT 1,
                updated_at timestamp NOT NULL DEFAULT current_timestamp ON UPDATE current_timestamp);
            INSERT INTO devices VALUES (1, '\(ApplyScene.token(1))', 1, '2026-01-01');
            """
        )
        let options = ["--max-fraction", "1", "--action", "deactivate", "--active-column", "active"]
        let run = try await server.apply(self.scene, options)
        #expect(run.code == 0, "\(run)")
        let left = "SET time_zone = '+00:00'; SELECT active, updated_at FROM devices;"
        #expect(try await server.run(left) == "0\t2026-01-01 00:00:00\n")
    }

    @Test func `what cannot be pruned is one line, and nothing changes`() async throws {
        try self.scene.record([1])
        try await MariaDBServer.with(self.scene) { server in
            try await server.run(
                """
                CREATE TABLE devices (id int PRIMARY KEY, token text, updated_at timestamp,
                    made boolean GENERATED ALWAYS AS (true) STORED);
                INSERT INTO devices (id, token, updated_at) VALUES (1, '\(ApplyScene.token(1))', '2025-01-01');
                CREATE VIEW seen AS SELECT * FROM devices; CREATE SEQUENCE numbers;
                CREATE TABLE bare (token text, updated_at timestamp, number double PRIMARY KEY);
                CREATE TABLE old (id int PRIMARY KEY, token text, updated_at timestamp) ENGINE = MyISAM;
                CREATE USER reader@localhost, nobody@localhost, known@localhost IDENTIFIED BY 'secret';
                GRANT SELECT ON app.devices TO reader@localhost; GRANT ALL ON app.* TO known@localhost;
                """
            )
            let mine = ["--database", server.address]
            func user(_ name: String) -> [String] { ["--database", server.address(user: name), "--table", "devices"] }
            func database(_ rest: String) -> [String] { ["--database", "mysql://\(rest)", "--table", "devices"] }
            let socket = "socket=\(server.socket)"
            try await ApplyServerChecks.failInOneLine(
                self.scene,
                [
                    (mine + ["--table", "seen"], 64, "view"), (mine + ["--table", "numbers"], 64, "sequence"),
                    (mine + ["--table", "bare"], 64, "primary key"), (mine + ["--table", "old"], 64, "MyISAM"),
                    (mine + ["--table", "Nope"], 64, "\"devices\""),
                    (
                        mine + ["--table", "devices", "--action", "deactivate", "--active-column", "made"], 64,
                        "computed"
                    ),
                    (user("reader"), 77, "denied"), (user("nobody"), 77, "denied"), (user("known"), 77, "denied"),
                    (user("x"), 77, "'x'"), (database("tests@localhost/nowhere?\(socket)"), 64, "nowhere"),
                    (database("tests@127.0.0.1:1/app"), 75, "127.0.0.1"),
                    (database("tests:secret@h/p"), 64, "~/.my.cnf"),
                    (database("h/p?nonsense=1"), 64, "nonsense"), (database("h/p?ssl-mode=PREFERRED"), 64, "DISABLED"),
                    (database("h/p?defaults-file=/nowhere/x"), 64, "defaults-file"),
                    (database("localhost"), 64, "database"),
                ]
            )
            try await server.run("GRANT ALL ON app.* TO reader@localhost; SET GLOBAL read_only = 1;")
            try await ApplyServerChecks.failInOneLine(self.scene, [(user("reader"), 74, "read-only")])
            #expect(try await server.left() == [1])
            let dry = try await self.scene.run(
                user("reader") + ["--table", "app.devices", "--dry-run", "--max-fraction", "1"] + Self.table
            )
            #expect(dry.code == 0 && dry.output.contains("1 would be deleted"), "\(dry)")
        }
    }

    @Test func `a value that the server quotes is not repeated`() async throws {
        let token = ApplyScene.token(1)
        try self.scene.record(1...1)
        try await MariaDBServer.with(self.scene) { server in
            let base64 = Data(ApplyScene.bytes(1)).base64EncodedString()
            let digits = Array(token)
            let groups = stride(from: 0, to: digits.count, by: 8).map { String(digits[$0..<min($0 + 8, digits.count)]) }
            for spelling in [token, "<\(groups.joined(separator: " "))>", base64] {
                try await server.run(
                    """
                    CREATE OR REPLACE TABLE devices (id int PRIMARY KEY, token varchar(200), updated_at bigint);
                    CREATE OR REPLACE TABLE audit (day date);
                    INSERT INTO devices VALUES (1, '\(spelling)', \(ApplyScene.failedAt - 100));
                    CREATE TRIGGER audited BEFORE DELETE ON devices FOR EACH ROW INSERT INTO audit VALUES (OLD.token);
                    """
                )
                let run = try await server.apply(self.scene, ["--max-fraction", "1"])
                #expect(run.failed(70, naming: "Incorrect date value"), "\(run)")
                let words = spelling.split { "<> ".contains($0) }
                #expect(!words.contains { "\(run)".contains($0) }, "\(run)")
            }
        }
    }

    @Test func `rows that a constraint or a transaction of the application holds are kept, and no others`() async throws
    {
        try self.scene.record(1...200)
        try await MariaDBServer.with(self.scene) { server in
            let rows = (1...200).map { "(\($0), '\(ApplyScene.token($0))', \(ApplyScene.failedAt - 100))" }
            try await server.run(
                """
                CREATE TABLE devices (id int PRIMARY KEY, token varchar(200) COLLATE utf8mb4_general_ci,
                    updated_at bigint);
                INSERT INTO devices VALUES \(rows.joined(separator: ","));
                CREATE TABLE orders (device int, FOREIGN KEY (device) REFERENCES devices (id));
                INSERT INTO orders VALUES (7), (150);
                """
            )
            let options = ["--max-fraction", "1", "--summary", "json"]
            let refused = try await server.apply(self.scene, options + ["--batch", "50"])
            #expect(try refused.code == 1 && refused.count("refused") == 2, "\(refused)")
            #expect(try refused.report["refusedRows"] as? [Int] == [7, 150])
            #expect(try await server.left() == [7, 150])
            try await server.run("DROP TABLE orders; CREATE TABLE held (id int);")
            let status = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = "
            let rollbackCount = try await server.run(status + "'COM_ROLLBACK';").dropLast()
            // The application holds two rows until the command has given way. It registers one again, and changes the
            // token of the other in a way that its collation does not see.
            async let application = server.run(
                """
                BEGIN; UPDATE devices SET updated_at = \(ApplyScene.failedAt + 1) WHERE id = 7;
                UPDATE devices SET token = concat(upper(token), ' ') WHERE id = 150;
                INSERT INTO held VALUES (1);
                DELIMITER //
                BEGIN NOT ATOMIC
                    waiting: FOR i IN 1..2000 DO
                        IF (SELECT VARIABLE_VALUE > \(rollbackCount) FROM information_schema.GLOBAL_STATUS
                            WHERE VARIABLE_NAME = 'COM_ROLLBACK')
                        THEN LEAVE waiting; END IF;
                        DO SLEEP(0.01);
                    END FOR;
                END //
                COMMIT //
                """
            )
            try await eventually("the rows are held") {
                try await server.run("SET SESSION tx_isolation = 'READ-UNCOMMITTED'; SELECT id FROM held;") != ""
            }
            let run = try await server.apply(self.scene, options)
            _ = try await application
            #expect(try run.code == 0 && run.count("pruned") == 0 && run.count("changedMeanwhile") == 2, "\(run)")
            #expect(try await server.left() == [7, 150])
        }
    }

    @Test func `the server is verified, and the password comes from a file or the environment`() async throws {
        try self.scene.record([1])
        let authority = try SendScene.authority.get()
        let other = try SendScene.authority.get().issueServer(names: ["db.example.com"])
        for (name, bytes) in [
            ("ca.pem", authority.certificatePEM), ("server.pem", try SendScene.gateway.get().pem),
            ("other.pem", other.pem),
        ] {
            try Data(bytes).write(to: URL(filePath: self.scene.path(name)))
        }
        let port = try ReservedPort()
        let files = ["--ssl-cert=\(self.scene.path("server.pem"))", "--ssl-key=\(self.scene.path("server.pem"))"]
        let server = try await MariaDBServer(
            in: self.scene.folder,
            options: ["--bind-address=127.0.0.1", "--port=\(port.number)"] + files
        )
        try await server.run(
            """
            CREATE USER app@'%' IDENTIFIED BY 'a # secret'; GRANT ALL ON app.* TO app@'%';
            CREATE TABLE devices (id int PRIMARY KEY, token text, updated_at timestamp);
            INSERT INTO devices VALUES (1, '\(ApplyScene.token(1))', '2025-01-01');
            """
        )
        let passwords = self.scene.path("my.cnf")
        try Data("[client]\npassword = \"a # secret\"\n".utf8).write(to: URL(filePath: passwords))
        func options(_ host: String, _ parameters: String) -> [String] {
            let address = "mysql://app@\(host):\(port.number)/app?\(parameters)"
            return ["--database", address, "--dry-run"] + ApplyServerChecks.columns + ["--max-fraction", "1"]
        }
        let file = "defaults-file=\(passwords)", trusted = "ssl-ca=\(self.scene.path("ca.pem"))"
        for host in ["localhost", "127.0.0.1"] {
            let run = try await self.scene.run(options(host, "\(file)&\(trusted)"))
            #expect(run.code == 0, "\(run)")
            let untrusted = try await self.scene.run(options(host, file))
            #expect(untrusted.failed(77, naming: "certificate"), "\(untrusted)")
            let disabled = try await self.scene.run(options(host, "\(file)&ssl-mode=disabled"))
            #expect(disabled.code == 0, "\(disabled)")
        }
        // An option file prevails, unless the address demands the verification. The group is that of the command.
        try Data("[apns-legacy]\npassword = \"a # secret\"\nssl-verify-server-cert = 0\n".utf8)
            .write(to: URL(filePath: passwords))
        let unverified = try await self.scene.run(options("127.0.0.1", file))
        #expect(unverified.code == 0, "\(unverified)")
        let demanded = try await self.scene.run(options("127.0.0.1", "\(file)&ssl-mode=VERIFY_IDENTITY"))
        #expect(demanded.failed(77, naming: "option file"), "\(demanded)")
        // The same from the environment and from the user's file.
        let home = self.scene.folder
        try Data("[client]\npassword = \"a # secret\"\n".utf8).write(to: URL(filePath: home + "/.my.cnf"))
        for variables in [["MYSQL_PWD": "a # secret", "HOME": "/nowhere"], ["HOME": home], ["HOME": "/nowhere"]] {
            let words = ["purge", "apply", "--purge-list", self.scene.list.path] + options("localhost", trusted)
            let ending = try await Child(words, Child.Streams(variables: variables)).end()
            #expect(ending.code == (variables == ["HOME": "/nowhere"] ? 77 : 0), "\(variables) \(ending)")
        }
        await server.stop()
        // A certificate of another host, then no TLS at all.
        let others = ["--ssl-cert=\(self.scene.path("other.pem"))", "--ssl-key=\(self.scene.path("other.pem"))"]
        for (options, word) in [(others, "certificate"), (["--skip-ssl"], "SSL")] {
            let server = try await MariaDBServer(
                in: self.scene.path(word),
                options: ["--bind-address=127.0.0.1", "--port=\(port.number)"] + options
            )
            let address = "mysql://root@localhost:\(port.number)/app?\(trusted)"
            let run = try await self.scene.run(["--database", address] + ApplyServerChecks.columns)
            #expect(run.failed(77, naming: word), "\(run)")
            await server.stop()
        }
    }

    @Test func `a connection lost in a commit, and a server that restarts, are one line, and a run finishes`()
        async throws
    {
        try self.scene.record(1...1000)
        try await MariaDBServer.with(self.scene) { server in
            for count in [100, 1000] {
                try await server.run(
                    """
                    CREATE TABLE IF NOT EXISTS devices (id int PRIMARY KEY, token text, updated_at timestamp NOT NULL);
                    INSERT INTO devices VALUES \(Self.dueRows(count));
                    """
                )
                if count == 1000 {
                    try await ApplyServerChecks.restart(self.scene, server)
                } else {
                    try await ApplyServerChecks.loseCommits(self.scene, server) { port in
                        "mysql://tests@127.0.0.1:\(port)/app?ssl-mode=disabled"
                    }
                }
            }
        }
    }

    private static func dueRows(_ count: Int) -> String {
        (1...count).map { "(\($0), '\(ApplyScene.token($0))', '2026-01-01')" }.joined(separator: ",")
    }

    @Test func `killed at random beside an application, it prunes all dead rows and no living one`() async throws {
        let count = TestEffort.count(6000, long: 100_000)
        try await MariaDBServer.with(self.scene) { server in
            try await server.run(
                """
                CREATE TABLE devices (id int PRIMARY KEY, token text, updated_at timestamp NOT NULL);
                CREATE TABLE renewed (id int PRIMARY KEY);
                INSERT INTO devices VALUES \(Self.dueRows(count));
                """
            )
            // Devices register again, each in a transaction of its own.
            let application = """
                DELIMITER //
                CREATE PROCEDURE renew() BEGIN
                    DECLARE number INT;
                    FOR i IN 1..\(count / 2) DO
                        SET number = 1 + floor(rand() * \(count));
                        START TRANSACTION;
                        UPDATE devices SET updated_at = now() WHERE id = number;
                        IF ROW_COUNT() > 0 THEN INSERT IGNORE INTO renewed VALUES (number); END IF;
                        COMMIT;
                    END FOR;
                END //
                DELIMITER ;
                CALL renew();
                """
            try await ApplyServerChecks.kill(self.scene, server, count: count, application: application)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import Foundation
import GRDB
import TestSupport
import TokenStore
import Testing

/// Goal: `purge apply` has the same effect on other databases as on SQLite.
@Suite(.timeLimit(.minutes(3))) struct ApplyElsewhereTests {
    let scene: ApplyScene

    init() throws {
        self.scene = try ApplyScene()
    }

    static let columns = ["--table", "devices", "--token-column", "token", "--registered-column", "updated_at"]

    /// Five devices: two registered before their failure, one at it, one after it, and one is alive.
    private func recordDevices() throws {
        try self.scene.record([1, 3], failedAt: ApplyScene.failedAt)
        try self.scene.record([2, 4], failedAt: ApplyScene.failedAt + 1000)
    }

    static let registeredAt = [
        1: ApplyScene.failedAt - 1, 2: ApplyScene.failedAt + 500, 3: ApplyScene.failedAt,
        4: ApplyScene.failedAt + 1001, 5: ApplyScene.failedAt - 1,
    ]

    @Test func `statements have the same effect on SQLite as direct pruning`() async throws {
        try self.recordDevices()
        try self.scene.makeTable([])
        try self.scene.withDatabase { database in
            for (id, time) in Self.registeredAt {
                try database.execute(
                    sql: "INSERT INTO devices (id, token, updated_at) VALUES (?, ?, ?)",
                    arguments: [id, ApplyScene.token(id), time]
                )
            }
        }
        let run = try await self.scene.run(Self.columns + ["--sql", "ansi", "--registered-kind", "seconds"])
        #expect(run.code == 0 && run.error.contains("4 tokens"), "\(run)")
        try self.scene.withDatabase { try $0.execute(sql: run.output) }
        #expect(try self.scene.left() == [3, 4, 5])
    }

    @Test func `with statements in a file, the report goes to standard output`() async throws {
        try self.recordDevices()
        let path = self.scene.path("purge.sql")
        let options = Self.columns + ["--sql", "mysql", "--sql-file", path, "--batch", "3", "--summary", "json"]
        let run = try await self.scene.run(options)
        #expect(try run.code == 0 && run.count("tokens") == 4 && run.count("batches") == 2)
        #expect(self.scene.read("purge.sql").split(separator: "\n").count { $0 == "COMMIT;" } == 2)
        let dry = try await self.scene.run(options + ["--dry-run", "--sql-file", self.scene.path("dry.sql")])
        #expect(try dry.code == 0 && dry.count("tokens") == 4)
        #expect(!FileManager.default.fileExists(atPath: self.scene.path("dry.sql")))
        let timestamps = ["--sql", "ansi", "--registered-kind", "timestamp"]
        let bad = try await self.scene.run(Self.columns + timestamps + ["--sql-file", "/nowhere/x"])
        #expect(bad.failed(73, naming: "/nowhere/x") && bad.warned(naming: "UTC"), "\(bad)")
    }

    @Test func `a terminal shows how many batches of statements are written, and is cleared`() async throws {
        // More than a pipe holds.
        try self.scene.record(1...4000)
        let terminal = try Terminal()
        let ends = try SendExitTests.pipe()
        var streams = terminal.streams()
        streams.outputDescriptor = ends.writing
        let options = ["--purge-list", self.scene.list.path, "--sql", "mysql", "--batch", "10"]
        let child = try Child(["purge", "apply"] + options + Self.columns, streams)
        close(ends.writing)
        try await eventually("the batches are shown") {
            terminal.textSoFar.contains(/\[K[0-9]+ batches/) || child.hasEnded
        }
        let statements = await TerminalReader(ends.reading).text()
        close(ends.reading)
        let ending = try await child.end()
        #expect(ending.code == 0 && statements.split(separator: "\n").count { $0 == "COMMIT;" } == 400)
        let screen = try TerminalScreen(await terminal.text(), columnCount: 1000).text
        #expect(
            screen.split(separator: "\n").last?.contains("4,000 tokens written in 400 batches") == true,
            "\(screen)"
        )
        #expect(!screen.contains("batches  "), "\(screen)")
    }

    @Test(.enabled(if: PostgreSQLServer.isInstalled, "Debian's package postgresql is not installed."))
    func `statements prune PostgreSQL in any time zone`() async throws {
        try self.recordDevices()
        let server = try await PostgreSQLServer(in: self.scene.folder)
        let rows = Self.registeredAt.map { id, time in
            "(\(id), '\(ApplyScene.token(id))', to_timestamp(\(time)), to_timestamp(\(time)) AT TIME ZONE 'UTC', true)"
        }
        try await server.run(
            """
            SET TIME ZONE 'Asia/Tokyo';
            CREATE TABLE devices (id int, token text, zoned timestamptz, plain timestamp, active boolean);
            INSERT INTO devices VALUES \(rows.joined(separator: ","));
            INSERT INTO devices VALUES (6, '\(ApplyScene.token(1))', '-infinity', '-infinity', true);
            INSERT INTO devices VALUES (7, '\(ApplyScene.token(1))', 'epoch', '0001-01-01', true);
            """
        )
        let table = ["--sql", "postgresql", "--table", "public.devices", "--token-column", "token"]
        for column in ["zoned", "plain"] {
            let options = ["--registered-column", column, "--action", "deactivate", "--active-column", "active"]
            let script = try await self.scene.run(table + options)
            #expect(script.code == 0)
            try await server.run("ALTER ROLE CURRENT_USER SET TimeZone = 'Asia/Tokyo';" + script.output)
            let left = try await server.run("SELECT id FROM devices WHERE active ORDER BY id;")
            #expect(left.split(separator: "\n") == ["3", "4", "5", "6", "7"], "\(column)")
            try await server.run("UPDATE devices SET active = true;")
        }
        let script = try await self.scene.run(table + ["--registered-column", "zoned"])
        try await server.run(script.output)
        let left = try await server.run("SELECT id FROM devices ORDER BY id;")
        #expect(left.split(separator: "\n") == ["3", "4", "5", "6", "7"])
        await server.stop()
    }

    @Test func `a hook receives each token once, in batches`() async throws {
        try self.scene.record(1...25)
        let path = self.scene.path("got")
        let hook = "cat >> '\(path)'; echo - >> '\(path)'; echo talk"
        let run = try await self.scene.run(["--exec", hook, "--batch", "10", "--summary", "json"])
        #expect(try run.code == 0 && run.count("tokens") == 25 && run.count("batches") == 3, "\(run)")
        #expect(run.error.contains("talk"))
        let lines = self.scene.read("got").split(separator: "\n")
        #expect(lines.count { $0 == "-" } == 3)
        let objects = try lines.filter { $0 != "-" }.map {
            try #require(JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])
        }
        #expect(Set(objects.compactMap { $0["token"] as? String }) == Set((1...25).map(ApplyScene.token)))
        #expect(objects.allSatisfy { $0["failedAt"] as? Int64 == ApplyScene.failedAt })
        #expect(objects.allSatisfy { $0["topic"] as? String == ApplyScene.topic })
    }

    @Test func `a failed hook exits with 75 and names its batch, and can run again`() async throws {
        try self.scene.record(1...25)
        let count = self.scene.path("count")
        let hook = "cat > /dev/null; echo x >> '\(count)'; test $(wc -l < '\(count)') -ne 2"
        let run = try await self.scene.run(["--exec", hook, "--batch", "10"])
        #expect(run.code == 75 && run.error.contains(/batch 2 .*11.*20/), "\(run)")
        #expect(run.output.contains("10 tokens passed to the command in 1 batch"))
        let again = try await self.scene.run(["--exec", hook, "--batch", "10"])
        #expect(again.code == 0 && again.output.contains("25 tokens passed to the command in 3 batches"))
    }

    @Test func `a hook that ignores its input, hangs or crashes is handled`() async throws {
        try self.scene.record(1...5000)
        let deaf = try await self.scene.run(["--exec", "exit 0", "--batch", "5000"])
        #expect(deaf.code == 0, "\(deaf)")
        let endless = try await self.scene.run(["--exec", "sleep 1000 & wait", "--exec-deadline", "1s"])
        #expect(endless.code == 75 && endless.error.contains("still running") && !endless.isOverdue)
        let dying = try await self.scene.run(["--exec", "kill -9 $$"])
        #expect(dying.code == 75 && dying.error.contains("signal 9"))
    }
}

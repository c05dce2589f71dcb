// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation
import GRDB
import TestSupport
import TokenStore
import Testing

/// Goal: what cannot be pruned causes an error with a remedy, and changes nothing.
@Suite(.timeLimit(.minutes(3))) struct ApplyRefusalTests {
    let scene: ApplyScene

    init() throws {
        self.scene = try ApplyScene()
        try self.scene.record(1...3)
        try self.scene.makeTable(1...10)
    }

    private var bytes: Data { get throws { try Data(contentsOf: URL(filePath: self.scene.database)) } }

    /// Runs with additional options; if an option is repeated, the last value is used.
    private func refuse(_ arguments: [String], _ code: Int32, _ texts: [String]) async throws {
        let before = try self.bytes
        let run = try await self.scene.apply(arguments)
        #expect(run.code == code, "\(run)")
        for text in texts { #expect(run.error.contains(text), "\(run.error)") }
        #expect(try self.bytes == before)
    }

    @Test func `an error about a missing table or column lists the existing ones`() async throws {
        try await self.refuse(["--table", "device"], 64, ["\"device\"", "\"devices\""])
        try await self.refuse(["--token-column", "tokn"], 64, ["\"tokn\"", "\"token\"", "\"updated_at\""])
        try await self.refuse(["--registered-column", "seen"], 64, ["\"seen\"", "\"updated_at\""])
        try await self.refuse(["--topic-column", "topic"], 64, ["\"topic\"", "\"bundle_id\""])
        try await self.refuse(["--action", "deactivate", "--active-column", "on"], 64, ["\"on\"", "\"active\""])
        try await self.refuse(["--database", self.scene.path("none.db")], 66, ["none.db"])
        #expect(!FileManager.default.fileExists(atPath: self.scene.path("none.db")))
        try await self.refuse(["--database", self.scene.folder], 66, ["is not a regular file"])
        try await self.refuse(["--purge-list", self.scene.path("none.db")], 66, ["none.db"])
        try await self.refuse(["--table", ""], 64, ["is not a valid name"])
    }

    @Test func `views, virtual tables and computed columns are rejected`() async throws {
        try self.scene.withDatabase { database in
            try database.execute(sql: "CREATE VIEW alive AS SELECT * FROM devices")
            try database.execute(sql: "CREATE VIRTUAL TABLE search USING fts5(token, updated_at)")
            try database.execute(sql: "CREATE TABLE computed (token, updated_at, flags INTEGER, active AS (flags & 1))")
        }
        try await self.refuse(["--table", "alive"], 64, ["is a view"])
        try await self.refuse(["--table", "search"], 64, ["is a virtual table"])
        let computed = ["--table", "computed", "--action", "deactivate", "--active-column", "active"]
        try await self.refuse(computed, 64, ["computed from others"])
    }

    @Test func `a table without device tokens is rejected`() async throws {
        try await self.refuse(["--token-column", "id"], 65, ["none of the 10 rows", "another column"])
    }

    @Test func `a registration column without times is rejected`() async throws {
        try self.scene.withDatabase { try $0.execute(sql: "UPDATE devices SET bundle_id = 'com.example.app'") }
        let texts = ["none of the 10 rows", "\"bundle_id\"", "time"]
        try await self.refuse(["--registered-column", "bundle_id"], 65, texts)
    }

    @Test func `an active column with other values is not set to zero`() async throws {
        for column in ["token", "updated_at", "TOKEN"] {
            try await self.refuse(["--action", "deactivate", "--active-column", column], 64, ["--active-column"])
        }
        let active = ["--action", "deactivate", "--active-column", "bundle_id"]
        try await self.refuse(active, 65, ["\"bundle_id\"", "contains text"])
    }

    @Test func `an SQLite database is not overwritten`() async throws {
        let columns = ["--table", "devices", "--token-column", "token", "--registered-column", "updated_at"]
        for path in [self.scene.database, self.scene.list.path] {
            let run = try await self.scene.run(columns + ["--sql", "mysql", "--sql-file", path])
            #expect(run.failed(73, naming: path, "SQLite"), "\(run)")
        }
        #expect(try self.scene.left() == Array(1...10))
        #expect(try self.scene.list.statistics().count == 3)
    }

    @Test func `a list without matching entries is reported, even in quiet runs`() async throws {
        let wrong = try await self.scene.apply(["--environment", "sandbox", "--quiet", "--summary", "text"])
        #expect(wrong.code == 0 && wrong.output.isEmpty, "\(wrong)")
        #expect(wrong.warned(naming: "\(ApplyScene.topic) (production)", "--environment"), "\(wrong)")
        let topic = try await self.scene.apply(["--topic", "com.example.typo"])
        #expect(topic.warned(naming: "com.example.typo (production)", "--topic"), "\(topic)")
        try self.scene.list.addScope(TokenScope(topic: "com.example.other", environment: .production))
        let alive = try await self.scene.apply(["--topic", "com.example.other"])
        #expect(alive.code == 0 && alive.error.isEmpty, "\(alive)")
        let right = try await self.scene.apply(["--quiet", "--summary", "text"])
        #expect(right.code == 0 && right.output.isEmpty && right.error.isEmpty, "\(right)")
        #expect(try self.scene.left() == Array(4...10))
    }

    @Test(arguments: [["--sql", "ansi", "--ignore-registration"], ["--exec", "cat"]])
    func `a list without matching entries is reported for other databases too`(_ way: [String]) async throws {
        let table = way.contains("--exec") ? [] : ["--table", "devices", "--token-column", "token"]
        let wrong = try await self.scene.run(table + way + ["--topic", "com.example.typo", "--quiet"])
        #expect(wrong.code == 0 && wrong.error.contains("com.example.typo (production)"), "\(wrong)")
        let sandbox = try await self.scene.run(table + way + ["--environment", "sandbox", "--dry-run"])
        #expect(sandbox.code == 0 && sandbox.error.contains("\(ApplyScene.topic) (production)"), "\(sandbox)")
    }

    @Test func `an error leaves the statements file unchanged, and a list without entries empties it`() async throws {
        let path = self.scene.path("purge.sql")
        let options = ["--table", "devices", "--token-column", "token", "--ignore-registration", "--sql", "ansi"]
        try Data("old".utf8).write(to: URL(filePath: path))
        try self.scene.record([4], topic: "b")
        for (change, code) in [(["--table", ""], 64), ([], 64), (["--purge-list", path], 65)] as [([String], Int32)] {
            let run = try await self.scene.run(options + ["--sql-file", path] + change)
            #expect(run.code == code, "\(change) \(run)")
            #expect(self.scene.read("purge.sql") == "old")
        }
        let none = try await self.scene.run(options + ["--sql-file", path, "--topic", "c"])
        #expect(none.code == 0 && self.scene.read("purge.sql").isEmpty, "\(none)")
    }

    @Test func `a file that is not a database is rejected`() async throws {
        let path = self.scene.path("text.db")
        try Data(repeating: 0x61, count: 5000).write(to: URL(filePath: path))
        try await self.refuse(["--database", path], 65, ["not an SQLite database", "--sql"])
    }

    /// Runs a program as another user, since file permissions do not apply to root.
    static let setpriv = "/usr/bin/setpriv"
    static let canDropRights = geteuid() != 0 || FileManager.default.isExecutableFile(atPath: setpriv)

    @Test(.enabled(if: canDropRights, "The tests run as root, and there is no setpriv to run it as nobody."))
    func `a read-only file is rejected`() async throws {
        let folder = self.scene.folder
        chmod(folder, 0o755)
        chmod(self.scene.database, 0o444)
        for name in ["purge.db", "purge.db-wal", "purge.db-shm"] { chmod(self.scene.path(name), 0o666) }
        let program = try Child.program
        let arguments = ["purge", "apply", "--purge-list", self.scene.list.path] + self.scene.usual
        let isRoot = geteuid() == 0
        let words = ["--reuid=65534", "--regid=65534", "--clear-groups", program]
        let before = try self.bytes
        let streams = Child.Streams(error: self.scene.path("error"))
        let ending = try await Child(
            (isRoot ? words : []) + arguments + ["--registered-column", "updated_at"],
            streams,
            program: isRoot ? Self.setpriv : program
        ).end()
        let error = self.scene.read("error")
        #expect(ending.code == 74 && error.contains("read-only"), "\(ending) \(error)")
        #expect(try self.bytes == before)
    }

    @Test func `a run waits for a locked table, then leaves it for the next run`() async throws {
        let queue = try self.scene.secondConnection()
        let scene = self.scene
        // The file must not be opened meanwhile: closing it would release the locks of this process.
        try await queue.writeWithoutTransaction { try $0.execute(sql: "BEGIN EXCLUSIVE") }
        for wait in ["0s", "1s"] {
            let run = try await scene.apply(["--lock-wait", wait])
            #expect(run.failed(75, TokenTableError.busy(path: scene.database)), "\(run)")
            try await queue.writeWithoutTransaction { try $0.execute(sql: "COMMIT; BEGIN IMMEDIATE") }
        }
        let count = try await queue.writeWithoutTransaction { database in
            try Int.fetchOne(database, sql: "SELECT count(*) FROM devices")
        }
        #expect(count == 10)
        // When the lock is released, a waiting run continues.
        async let run = scene.apply()
        try await queue.writeWithoutTransaction { try $0.execute(sql: "COMMIT") }
        #expect(try await run.code == 0)
        #expect(try scene.left() == Array(4...10))
    }

    private static let wrongCommandLines: [([String], String)] = [
        ([], "--database"), (["--sql", "ansi"], "--registered-column"), (["--sql", "oracle"], "--sql"),
        (["--database", "x", "--sql", "ansi"], "--database"),
        (["--sql-file", "x", "--database", "y"], "--sql-file"),
        (["--database", "x", "--registered-column", "a", "--created-column", "b"], "--created-column"),
        (["--database", "x", "--ignore-registration", "--grace", "1d"], "--grace"),
        (["--database", "x", "--registered-column", "a", "--max-fraction", "1.5"], "--max-fraction"),
        (["--database", "x", "--registered-column", "a", "--max-fraction", "nan"], "--max-fraction"),
        (["--database", "x", "--registered-column", "a", "--batch", "0"], "--batch"),
        (["--database", "x", "--registered-column", "a", "--grace", "soon"], "--grace"),
        (["--database", "x", "--registered-column", "a", "--grace", "1"], "s, m, h, d or w"),
        (["--database", "x", "--registered-column", "a", "--action", "deactivate"], "--active-column"),
        (["--database", "x", "--registered-column", "a", "--active-column", "b"], "--active-column"),
        (["--database", "x", "--registered-column", "a", "--topic", "a", "--topic-column", "b"], "--topic"),
        (["--database", "x", "--registered-column", "a", "--topic", "a", "--topic", "b"], "--require-all-topics"),
        (["--database", "x", "--registered-column", "a", "--topic", "a", "--require-all-topics"], "two or more"),
        (["--database", "x", "--require-all-topics", "--topic-column", "b"], "--topic-column"),
        (["--sql", "ansi", "--ignore-registration", "--batch", "501"], "--batch"),
        (["--sql", "ansi", "--registered-column", "a"], "--registered-kind"),
        (["--exec", "true", "--registered-column", "a"], "--exec"),
        (["--exec", "true", "--grace", "1d"], "--grace"),
        (["--exec", "true", "--max-fraction", "0.1"], "--max-fraction"),
        (["--sql", "ansi", "--registered-column", "a", "--max-fraction", "0.1"], "--max-fraction"),
        (["--sql", "ansi", "--registered-column", "a", "--lock-wait", "1s"], "--lock-wait"),
        (["--database", "x", "--registered-column", "a", "--token-spelling", "hex"], "--token-spelling"),
        (["--database", "x", "--registered-column", "a", "--exec-deadline", "1m"], "--exec-deadline"),
    ]

    @Test(arguments: TestEffort.cases(wrongCommandLines, each: 6))
    func `a wrong command line exits with 64`(_ arguments: [String], _ text: String) async throws {
        let isHook = arguments.contains("--exec")
        let table = isHook ? [] : ["--table", "devices", "--token-column", "token"]
        let run = try await self.scene.run(table + arguments)
        #expect(run.code == 64 && run.error.contains(text), "\(run)")
    }
}

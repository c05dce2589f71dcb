// SPDX-License-Identifier: Apache-2.0

import Foundation
import GRDB
import TestSupport
import Testing
import TokenStore

/// A separate database server, which never outlives its deadline.
protocol ApplyServer: Sendable {
    /// Starts a server on a socket in a folder.
    init(in parent: String) async throws

    /// The address of the database, as a user.
    func address(user: String) -> String

    /// Runs statements, and stops at the first error.
    @discardableResult
    func run(_ sql: String) async throws -> String

    /// The socket on which it listens.
    var socket: String { get }

    /// Stops the server immediately, and waits for its end.
    func stop() async

    /// Starts the stopped server again, with the same data.
    func start() async throws
}

extension ApplyServer {
    /// The address of the database, as the owner of its tables.
    var address: String { self.address(user: "tests") }

    /// Starts a server for a test.
    static func with(_ scene: ApplyScene, _ body: (Self) async throws -> Void) async throws {
        let server = try await Self(in: scene.folder)
        print("\(Self.self): \(try await server.run("SELECT version();").dropLast())")
        do { try await body(server) } catch {
            await server.stop()
            throw error
        }
        await server.stop()
    }

    /// Runs `purge apply` on the table.
    func apply(_ scene: ApplyScene, _ options: [String] = []) async throws -> ApplyScene.Run {
        try await scene.run(["--database", self.address] + ApplyServerChecks.columns + options)
    }

    /// The remaining rows of the table.
    func left() async throws -> [Int] {
        try await self.run("SELECT id FROM devices ORDER BY id;").split(separator: "\n").compactMap { Int($0) }
    }
}

/// Starts a program that refuses to run as root, as another user if the tests run as root.
enum ApplyServerProgram {
    static let isUsable = FileManager.default.isExecutableFile(atPath: "/usr/bin/setpriv")

    static func makeFolder(_ name: String, in parent: String) throws -> String {
        let folder = parent + "/" + name
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        chmod(parent, 0o755)
        if geteuid() == 0 { chown(folder, 65534, 65534) }
        return folder
    }

    static func start(_ words: [String], log: String? = nil) throws -> Child {
        let streams = Child.Streams(output: log.map { $0 + ".out" }, error: log)
        guard geteuid() == 0 else {
            return try Child(Array(words.dropFirst()), streams, program: words[0], deadline: 120)
        }
        let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"]
        return try Child(nobody + words, streams, program: "/usr/bin/setpriv", deadline: 120)
    }
}

/// What `purge apply` does with every server.
enum ApplyServerChecks {
    static let columns = ["--table", "devices", "--token-column", "token", "--registered-column", "updated_at"]

    /// Tokens and times in all spellings, and what is neither.
    static var rows: [(token: String?, time: String?)] {
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

    /// The rows as values of an `INSERT` of number, token and time, in which a backslash is written as this.
    static func values(backslash: String = "\\") -> String {
        Self.rows.enumerated().map { id, row in
            let texts = [row.token, row.time].map { text in
                text.map { "'\($0.replacing("\\", with: backslash))'" } ?? "NULL"
            }
            return "(\(id), \(texts.joined(separator: ", ")))"
        }.joined(separator: ",")
    }

    /// Compares the reports and the remaining rows with those of SQLite; the table on the server has the same rows.
    static func compareWithSQLite(_ scene: ApplyScene, _ server: some ApplyServer) async throws {
        // One in ten is alive.
        try scene.record((0..<100).filter { $0 % 10 != 5 })
        try scene.withDatabase { database in
            try database.execute(sql: "CREATE TABLE devices (id INTEGER PRIMARY KEY, token TEXT, updated_at TEXT)")
            for (id, row) in Self.rows.enumerated() {
                let arguments: StatementArguments = [id, row.token, row.time]
                try database.execute(sql: "INSERT INTO devices VALUES (?, ?, ?)", arguments: arguments)
            }
        }
        let json = ["--summary", "json", "--max-fraction", "1"]
        for options in [["--dry-run"], ["--grace", "50s"]] {
            let here = try await scene.run(["--database", scene.database] + Self.columns + options + json)
            let there = try await server.apply(scene, options + json)
            #expect(here.code == 0 && there.code == 0, "\(here) \(there)")
            var reports = try [here.report, there.report]
            for name in ["seconds", "longestLockMilliseconds", "batches"] {
                for index in reports.indices { reports[index][name] = nil }
            }
            #expect(NSDictionary(dictionary: reports[0]) == NSDictionary(dictionary: reports[1]))
        }
        #expect(try await server.left() == scene.left())
    }

    /// Five devices by the time of their registration: two are due, one registered at the failure, one after it, and
    /// the last one's token is alive.
    static let registeredAt = [
        1: ApplyScene.failedAt - 90_000, 2: ApplyScene.failedAt - 1, 3: ApplyScene.failedAt,
        4: ApplyScene.failedAt + 90_000, 5: ApplyScene.failedAt - 90_000,
    ]

    /// Deactivates with each of the flags, then deletes; `title` is of the table.
    static func pruneFiveDevices(
        _ scene: ApplyScene,
        _ server: some ApplyServer,
        flags: [String],
        isZero: String,
        _ title: String
    ) async throws {
        // In pages of two rows, one after the other.
        var counting = TokenTableApplication(
            path: server.address,
            table: "devices",
            tokenColumn: "token",
            rules: TokenTableRules(registration: .registered(column: "updated_at"))
        )
        (counting.pageRowCount, counting.isDryRun, counting.fractionMax) = (2, true, 1)
        let counts = try counting.run(scene.list)
        #expect(counts.rowCount == 5 && counts.dueCount == 2, "\(title) \(counts)")
        for column in flags {
            let options = ["--max-fraction", "1", "--action", "deactivate", "--active-column", column]
            let run = try await server.apply(scene, options)
            #expect(run.code == 0, "\(title) \(run)")
            let condition = isZero.replacing("%", with: column)
            let changed = try await server.run("SELECT id FROM devices WHERE \(condition) ORDER BY id;")
            #expect(changed.split(separator: "\n") == ["1", "2"], "\(title) \(column) \(run)")
        }
        let run = try await server.apply(scene, ["--max-fraction", "1"])
        let left = try await server.left()
        #expect(run.code == 0 && left == [3, 4, 5], "\(title) \(run)")
    }

    /// Kills runs beside an application that registers devices again and records them in the table `renewed`.
    ///
    /// The table `devices` has the numbers up to `count`, all of which are due.
    static func kill(_ scene: ApplyScene, _ server: some ApplyServer, count: Int, application: String) async throws {
        try scene.record(1...count)
        var random = SplitMix64(seed: 32)
        async let renewing = server.run(application)
        let options = ["--database", server.address] + Self.columns + ["--max-fraction", "1", "--batch", "20"]
        for _ in 0..<TestEffort.count(4, long: 50) {
            let child = try Child(["purge", "apply", "--purge-list", scene.list.path] + options)
            let step = 1 + random.below(20)
            try await eventually("some rows are pruned") {
                let left = try await server.run("SELECT count(*) FROM devices;")
                return child.hasEnded || Int(left.dropLast()) ?? 0 < count - step * 20
            }
            child.send(SIGKILL)
            _ = try await child.end()
        }
        _ = try await renewing
        let run = try await server.apply(scene, ["--max-fraction", "1", "--summary", "json"])
        #expect(run.code == 0, "\(run)")
        let lost = "SELECT count(*) FROM renewed LEFT JOIN devices USING (id) WHERE devices.id IS NULL;"
        #expect(try await server.run(lost) == "0\n")
        #expect(try await server.run("SELECT count(*) FROM devices WHERE updated_at < '2026-01-05';") == "0\n")
        let living = try await server.run("SELECT count(*) FROM renewed;")
        #expect(try await server.run("SELECT count(*) FROM devices;") == living && living != "0\n")
    }

    /// Loses the connection during a commit; the table has 100 due rows.
    static func loseCommits(_ scene: ApplyScene, _ server: some ApplyServer, address: (Int) -> String) async throws {
        var count = 100
        for cut in [CommitRelay.Cut.before, .after] {
            let relay = try CommitRelay(to: server.socket, cut, at: 2)
            let limits = ["--max-fraction", "1", "--batch", "20", "--summary", "json"]
            let run = try await scene.run(["--database", address(relay.port)] + Self.columns + limits)
            relay.stop()
            #expect(try run.failed(75, naming: "20 rows") && run.count("uncertain") == 20, "\(cut) \(run)")
            #expect(try run.count("pruned") == 20 && run.error.split(separator: "\n").count == 1, "\(cut) \(run)")
            count -= cut == .before ? 20 : 40
            #expect(try await server.left().count == count, "\(cut)")
        }
        let run = try await server.apply(scene, ["--max-fraction", "1"])
        let left = try await server.left()
        #expect(run.code == 0 && left.isEmpty, "\(run)")
    }

    /// Stops the server twice in the middle of a run; the table has 1000 due rows.
    static func restart(_ scene: ApplyScene, _ server: some ApplyServer) async throws {
        let options = ["--database", server.address] + Self.columns + ["--max-fraction", "1"]
        for count in [1000, 800] {
            async let running = scene.start(options + ["--batch", "5"])
            try await eventually("some rows are pruned") { try await server.left().count < count }
            await server.stop()
            let run = try await running
            #expect(run.code == 75 && run.error.split(separator: "\n").count == 1, "\(run)")
            #expect(run.output.contains(/, [1-9][0-9]* deleted,/), "\(run)")
            try await server.start()
        }
        let run = try await scene.run(options)
        let left = try await server.left()
        #expect(run.code == 0 && left.isEmpty, "\(run)")
    }

    /// Runs the command with each of the wrong options, and checks the exit code and the one line of the error.
    static func failInOneLine(
        _ scene: ApplyScene,
        _ cases: [(options: [String], code: Int32, word: String)]
    ) async throws {
        for (options, code, word) in cases {
            let run = try await scene.run(options + Array(Self.columns.dropFirst(2)) + ["--max-fraction", "1"])
            #expect(run.failed(code, naming: word), "\(options) \(run)")
            #expect(run.error.split(separator: "\n").count == 1 && !run.error.contains("secret"), "\(run)")
        }
    }
}

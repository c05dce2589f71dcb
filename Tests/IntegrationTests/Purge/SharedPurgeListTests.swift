// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation
import TestSupport
import TokenStore
import Testing

/// Goal: a purge list in a PostgreSQL database is what a file is, and many hosts may change it at once.
///
/// Method: the same operations on both; commands with the address in the place of the file; concurrent writers.
@Suite(
    .enabled(if: PostgreSQLServer.isInstalled, "Debian's package postgresql is not installed."),
    .enabled(if: TokenTableApplication.canOpen("postgresql://host/"), "This is a build without the trait PostgreSQL."),
    .timeLimit(.minutes(3))
) struct SharedPurgeListTests {
    let scene: ApplyScene

    init() throws {
        self.scene = try ApplyScene()
    }

    private func withServer(_ body: (PostgreSQLServer) async throws -> Void) async throws {
        try await PostgreSQLServer.with(self.scene, body)
    }

    private static let topics = ["com.example.app", "com.example.app.voip", "org.example'\"\\{é"]
    private static let sources = ["feedback", "send", "import:a\".csv"]

    private static func token(_ random: inout SplitMix64) -> [UInt8] {
        let count = [1, 2, 8, 32, 100].randomElement(using: &random) ?? 1
        return [UInt8](repeating: 0xFF, count: count - 1) + [UInt8.random(in: 0..<16, using: &random)]
    }

    private static func time(_ random: inout SplitMix64) -> Timestamp {
        Timestamp(secondsSince1970: .random(in: 1000..<1040, using: &random))
    }

    private static func entries(_ random: inout SplitMix64) -> [PurgeEntry] {
        (0..<Int.random(in: 0..<200, using: &random)).map { _ in
            PurgeEntry(
                topic: Self.topics.randomElement(using: &random) ?? "",
                environment: PushEnvironment.allCases.randomElement(using: &random) ?? .production,
                token: Self.token(&random),
                failedAt: Self.time(&random),
                firstSeen: Self.time(&random),
                source: Self.sources.randomElement(using: &random) ?? ""
            )
        }
    }

    private static func all(_ list: PurgeList, _ query: PurgeQuery = PurgeQuery()) throws -> [PurgeEntry] {
        var entries: [PurgeEntry] = []
        try list.entries(matching: query) { entries.append($0) }
        return entries
    }

    /// Makes one change of a list.
    ///
    /// Returns its result.
    private static func change(_ list: PurgeList, _ random: inout SplitMix64) throws -> String {
        switch Int.random(in: 0..<8, using: &random) {
        case 0..<4:
            let change = try list.record(Self.entries(&random))
            // A file sorts its entries, so the counts of equal keys depend on the order.
            return "\(change.addedCount) \(change.updatedCount + change.unchangedCount) \(change.supersededCount)"
        case 4..<7:
            let registrations = (0..<Int.random(in: 0..<40, using: &random)).map { _ in
                let time = Bool.random(using: &random) ? Self.time(&random) : nil
                return PurgeRegistration(token: Self.token(&random), registeredAt: time)
            }
            let topic = Bool.random(using: &random) ? Self.topics.randomElement(using: &random) : nil
            let environment: PushEnvironment? = Bool.random(using: &random) ? .sandbox : nil
            return "\(try list.forget(registrations, topic: topic, environment: environment))"
        default:
            let time = Timestamp(secondsSince1970: .random(in: 990..<1020, using: &random))
            return "\(try list.expire(failedBefore: time))"
        }
    }

    @Test(arguments: 0..<TestEffort.count(2, long: 20) as Range<UInt64>)
    func `a file and a database agree after every step`(seed: UInt64) async throws {
        try await self.withServer { server in
            let shared = try PurgeList(path: server.address)
            var random = SplitMix64(seed: seed)
            for step in 0..<30 {
                var again = random
                let expected = try Self.change(self.scene.list, &random)
                #expect(try Self.change(shared, &again) == expected, "seed \(seed), step \(step)")
                var query = PurgeQuery()
                if Bool.random(using: &random) { query.topic = Self.topics.randomElement(using: &random) }
                if Bool.random(using: &random) { query.failedSince = Self.time(&random) }
                if Bool.random(using: &random) { query.source = Self.sources.randomElement(using: &random) }
                #expect(try Self.all(shared, query) == Self.all(self.scene.list, query), "seed \(seed), step \(step)")
                #expect(try shared.statistics() == self.scene.list.statistics(), "seed \(seed), step \(step)")
                #expect(try shared.knownScopes() == self.scene.list.knownScopes(), "seed \(seed), step \(step)")
                #expect(try shared.scopes() == self.scene.list.scopes(), "seed \(seed), step \(step)")
            }
            let scopes = [TokenScope(topic: Self.topics[0], environment: .production)]
            let (one, other) = try (PurgeLookup(shared, in: scopes), PurgeLookup(self.scene.list, in: scopes))
            #expect(one.tokenCount == other.tokenCount)
            for _ in 0..<100 {
                let token = Self.token(&random)
                #expect(try one.contains(DeviceToken(bytes: token)) == other.contains(DeviceToken(bytes: token)))
            }
            try shared.checkIntegrity()
        }
    }

    @Test func `of failures that several hosts record at once, the newest remains`() async throws {
        try await self.withServer { server in
            let address = server.address
            let numbers = 0..<5000
            try await withThrowingTaskGroup(of: PurgeChange.self) { group in
                for host in 0..<4 as Range<Int64> {
                    group.addTask {
                        // The hosts also create the tables at once.
                        let list = try PurgeList(path: address)
                        return try list.record(
                            numbers.lazy.map { number in
                                PurgeEntry(
                                    topic: ApplyScene.topic,
                                    environment: .production,
                                    token: ApplyScene.bytes(number),
                                    failedAt: Timestamp(secondsSince1970: 1000 + (Int64(number) + host) % 4),
                                    firstSeen: Timestamp(secondsSince1970: 2000 + host),
                                    source: "host\(host)"
                                )
                            }
                        )
                    }
                }
                let changes = try await group.reduce(into: PurgeChange()) { $0 += $1 }
                #expect(changes.addedCount == numbers.count)
            }
            let entries = try Self.all(PurgeList(path: address))
            #expect(entries.count == numbers.count)
            #expect(entries.allSatisfy { $0.failedAt == Timestamp(secondsSince1970: 1003) })
            #expect(entries.allSatisfy { $0.firstSeen == Timestamp(secondsSince1970: 2000) })
        }
    }

    private func run(_ words: [String], _ list: String, _ options: [String] = []) async throws -> CommandRun {
        try await CommandRun(words + ["--purge-list", list] + options)
    }

    @Test func `each purge command accepts an address`() async throws {
        try await self.withServer { server in
            let list = server.address
            let token = ApplyScene.token(1)
            let csv = "token,topic,environment,failed_at\n\(token),com.example.app,production,\(ApplyScene.failedAt)\n"
            try csv.write(toFile: self.scene.path("dead.csv"), atomically: true, encoding: .utf8)
            let missing = try await self.run(["purge", "stats"], list)
            #expect(missing.code == 66 && missing.error.contains("does not exist"), "\(missing)")
            let imported = try await self.run(["purge", "import", self.scene.path("dead.csv")], list)
            #expect(imported.code == 0 && imported.output.hasPrefix("1 token added"), "\(imported)")
            let exported = try await self.run(["purge", "export"], list)
            #expect(exported.code == 0 && exported.output == token + "\n", "\(exported)")
            let listed = try await self.run(["purge", "list"], list)
            #expect(listed.code == 0 && listed.output.contains("\t\(token)\timport:dead.csv\n"), "\(listed)")
            let counted = try await self.run(["purge", "stats"], list)
            #expect(counted.code == 0 && counted.output.hasPrefix("1 token\n"), "\(counted)")
            #expect(try await self.run(["purge", "check"], list).output == "ok\n")
            try self.scene.makeTable([1, 2])
            let applied = try await self.run(["purge", "apply"], list, self.scene.registered)
            #expect(try applied.code == 0 && self.scene.left() == [2], "\(applied)")
            let hook = try await self.run(["purge", "apply"], list, ["--exec", "cat"])
            #expect(hook.code == 64 && hook.error.contains("--exec"), "\(hook)")
            let forgotten = try await self.run(["purge", "forget"], list, ["--token", token])
            #expect(forgotten.code == 0 && forgotten.output.hasPrefix("1 entry forgotten"), "\(forgotten)")
            #expect(try await self.run(["purge", "expire"], list, ["--older-than", "1d"]).code == 0)
        }
    }

    @Test func `a consumer gets each change once, and none that is committed late is left out`() async throws {
        try await self.withServer { server in
            let list = server.address
            func export(_ consumer: String) async throws -> [String] {
                let run = try await self.run(["purge", "export"], list, ["--consumer", consumer])
                #expect(run.code == 0, "\(run.error)")
                return run.output.split(separator: "\n").map(String.init).sorted()
            }
            func record(_ number: Int, failedAt: Int64) throws {
                let token = ApplyScene.bytes(number)
                let time = Timestamp(secondsSince1970: failedAt)
                let entry = PurgeEntry(
                    topic: ApplyScene.topic,
                    environment: .production,
                    token: token,
                    failedAt: time,
                    firstSeen: Timestamp(secondsSince1970: 3000),
                    source: "send"
                )
                try PurgeList(path: list).record([entry])
            }
            func hexadecimal(_ numbers: Int...) -> [String] { numbers.map(ApplyScene.token).sorted() }
            try record(1, failedAt: 1000)
            try record(2, failedAt: 1000)
            #expect(try await export("a") == hexadecimal(1, 2))
            #expect(try await export("a").isEmpty)
            try record(2, failedAt: 2000)
            try record(1, failedAt: 900)
            #expect(try await export("a") == hexadecimal(2))
            #expect(try await export("b") == hexadecimal(1, 2))
            // A transaction that began before another one commits after it.
            let gate = self.scene.path("gate")
            #expect(mkfifo(gate, 0o600) == 0)
            async let late: String = server.run(
                """
                BEGIN; INSERT INTO apns_dead_token (scope, token, failed_at, first_seen, source)
                    SELECT scope, '\\x\(ApplyScene.token(3))', 1, 1, source FROM apns_dead_token LIMIT 1;
                \\! head -n 1 \(gate) > \(gate).out
                COMMIT;
                """
            )
            let isOpen = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction';"
            try await eventually("the transaction is open") { try await server.run(isOpen) == "1\n" }
            try record(4, failedAt: 1000)
            #expect(try await export("a").isEmpty)
            try FileHandle(forWritingTo: URL(filePath: gate)).write(contentsOf: Data("go\n".utf8))
            _ = try await late
            #expect(try await export("a") == hexadecimal(3, 4))
        }
    }

    @Test func `a table in the database of the list is pruned`() async throws {
        try await self.withServer { server in
            let list = try PurgeList(path: server.address)
            var entries: [PurgeEntry] = []
            try self.scene.record([1, 2, 3])
            try self.scene.list.entries { entries.append($0) }
            try list.record(entries)
            try await server.run(
                """
                CREATE TABLE devices (id int PRIMARY KEY, token text, updated_at bigint);
                INSERT INTO devices VALUES (1, '\(ApplyScene.token(1))', 1700000000),
                    (9, '\(ApplyScene.token(9))', 1700000000);
                """
            )
            let options = ["--database", server.address] + ApplyServerChecks.columns + ["--max-fraction", "1"]
            let run = try await self.run(["purge", "apply"], server.address, options)
            #expect(run.code == 0, "\(run)")
            #expect(try await server.left() == [9])
        }
    }

    @Test func `a failure of the server has the code of its remedy`() async throws {
        try await self.withServer { server in
            let list = try PurgeList(path: server.address)
            try await server.run("CREATE ROLE other LOGIN;")
            let cases: [(list: String, code: Int32, word: String)] = [
                (server.address(user: "other"), 77, "permission denied"), (server.address(user: "x"), 77, "\"x\""),
                ("postgresql://tests@127.0.0.1:1/postgres", 75, "refused"),
                ("postgresql://a:secret@h/p", 64, "~/.pgpass"),
            ]
            for (list, code, word) in cases {
                let run = try await self.run(["purge", "stats"], list)
                #expect(run.code == code && run.error.contains(word), "\(run)")
                #expect(run.error.split(separator: "\n").count == 1 && !run.error.contains("secret"), "\(run)")
            }
            // A list that stays open connects again.
            await server.stop()
            #expect(throws: PurgeListError.self) { try list.statistics() }
            try await server.start()
            #expect(try list.statistics().count == 0)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import TokenStore

/// A queue in a PostgreSQL server of its own.
struct QueueScene: Sendable {
    let scene: SendScene
    let server: PostgreSQLServer
    /// The pooler in transaction mode through which everything goes in the long run.
    let pooler: PgBouncer?

    var address: String { self.pooler?.address ?? self.server.address }

    /// Whether there is a server, and a client of it.
    static var isPossible: Bool {
        PostgreSQLServer.isInstalled && TokenTableApplication.canOpen("postgresql://host/")
    }

    /// Starts a server with an empty queue.
    static func with(_ scene: SendScene, _ body: (QueueScene) async throws -> Void) async throws {
        let server = try await PostgreSQLServer(in: scene.folder)
        let pooler =
            TestEffort.isLong && PgBouncer.isInstalled ? try await PgBouncer(in: scene.folder, for: server) : nil
        do {
            let queue = QueueScene(scene: scene, server: server, pooler: pooler)
            let run = try await queue.run("init")
            guard run.ending.code == 0 else { throw Child.Failure(description: "queue init: \(run)") }
            try await body(queue)
        } catch {
            await pooler?.stop()
            await server.stop()
            throw error
        }
        await pooler?.stop()
        await server.stop()
    }

    /// Runs a subcommand in this process.
    func run(_ name: String, _ arguments: [String] = [], address: String? = nil) async throws -> SendScene.Run {
        try await self.scene.run(["queue", name, "--database", address ?? self.address] + arguments)
    }

    /// Loads a file of JSON lines, and returns what was reported.
    func load(_ path: String, _ arguments: [String] = []) async throws -> SendScene.Run {
        try await self.run("load", ["--topic", SendScene.topic, path] + arguments)
    }

    /// The words of a worker that ends when everything is done.
    func worker(_ port: Int, _ transport: String, results: String, _ arguments: [String] = []) -> [String] {
        ["queue", "work", "--database", self.address, "--until-done", "--transport", transport]
            + self.scene.endpoint(port) + ["--results", self.scene.path(results)] + arguments
    }

    /// A number in the database.
    func number(_ sql: String) async throws -> Int {
        // A line break ends it.
        Int(try await self.server.run(sql).dropLast()) ?? -1
    }

    /// The lines whose outcome has a row of its own.
    func exceptions() async throws -> [(line: Int, outcome: String, isDuplicate: Bool)] {
        let rows = try await self.server.run("SELECT line, outcome, duplicate FROM apns_queue.outcome ORDER BY line;")
        return rows.split(separator: "\n").map { row in
            let fields = row.split(separator: "|")
            return (Int(fields[0]) ?? -1, String(fields[1]), fields[2] == "t")
        }
    }
}

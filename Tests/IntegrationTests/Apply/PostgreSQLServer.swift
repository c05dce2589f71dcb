// SPDX-License-Identifier: Apache-2.0

import Foundation
import NIOConcurrencyHelpers

/// A separate PostgreSQL server on a socket in a folder.
final class PostgreSQLServer: ApplyServer {
    /// The folder in which Debian installs the programs of the newest version.
    private static let programs: String? = {
        let root = "/usr/lib/postgresql"
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []
        return versions.compactMap(Int.init).max().map { "\(root)/\($0)/bin" }
    }()

    /// Whether PostgreSQL is installed, and so is a program that runs it as another user than root.
    static var isInstalled: Bool {
        let names = [Self.programs.map { $0 + "/initdb" }, "/usr/bin/psql"]
        return ApplyServerProgram.isUsable
            && names.allSatisfy { $0.map(FileManager.default.isExecutableFile) ?? false }
    }

    private let folder: String
    private let server = NIOLockedValueBox<Child?>(nil)

    init(in parent: String) async throws {
        let folder = try ApplyServerProgram.makeFolder("postgresql", in: parent)
        self.folder = folder
        let program = (Self.programs ?? "") + "/initdb"
        let made = try await ApplyServerProgram.start(
            [program, "-D", folder + "/data", "-U", "tests", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]
        ).end()
        guard made.code == 0 else { throw Child.Failure(description: "initdb: \(made)") }
        try await self.start()
    }

    func start() async throws {
        let server = try ApplyServerProgram.start([
            (Self.programs ?? "") + "/postgres", "-D", self.folder + "/data", "-k", self.folder, "-c",
            "listen_addresses=", "-c", "fsync=off",
        ])
        self.server.withLockedValue { $0 = server }
        // The server is ready only when it answers.
        let deadline = ContinuousClock.now + .seconds(30)
        while ContinuousClock.now < deadline, !server.hasEnded {
            if (try? await self.run("SELECT 1;")) != nil { return }
        }
        throw Child.Failure(description: "The server does not answer.")
    }

    /// Requires a password of a user.
    func requirePassword(of user: String) async throws {
        let rules = "VALUES ('local all \(user) scram-sha-256'), ('local all all trust')"
        try await self.run("COPY (\(rules)) TO '\(self.folder)/data/pg_hba.conf'")
        await self.stop()
        try await self.start()
    }

    var socket: String { self.folder + "/.s.PGSQL.5432" }

    func address(user: String) -> String { "postgresql://\(user)@/postgres?host=\(self.folder)" }

    @discardableResult
    func run(_ sql: String) async throws -> String {
        let name = self.folder + "/" + UUID().uuidString
        try Data(sql.utf8).write(to: URL(filePath: name + ".sql"))
        let streams = Child.Streams(output: name + ".out", error: name + ".err")
        let options = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", self.folder, "-U", "tests"]
        let ending = try await Child(
            options + ["-d", "postgres", "-f", name + ".sql"],
            streams,
            program: "/usr/bin/psql"
        ).end()
        guard ending.code == 0 else {
            let error = try String(contentsOfFile: name + ".err", encoding: .utf8)
            throw Child.Failure(description: "psql: \(ending) \(error)")
        }
        return try String(contentsOfFile: name + ".out", encoding: .utf8)
    }

    func stop() async {
        // Its other processes notice its end, and exit.
        let server = self.server.withLockedValue { $0 }
        server?.send(SIGQUIT)
        _ = try? await server?.end()
    }
}

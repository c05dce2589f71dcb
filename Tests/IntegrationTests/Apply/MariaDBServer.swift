// SPDX-License-Identifier: Apache-2.0

import Foundation
import NIOConcurrencyHelpers

/// A separate MariaDB server on a socket in a folder; its database is `app`.
final class MariaDBServer: ApplyServer {
    private static let program = "/usr/sbin/mariadbd"
    private static let client = "/usr/bin/mariadb"

    /// Whether MariaDB is installed, and so is a program that runs it as another user than root.
    static var isInstalled: Bool {
        let names = [Self.program, Self.client, "/usr/bin/mariadb-install-db"]
        return ApplyServerProgram.isUsable && names.allSatisfy(FileManager.default.isExecutableFile)
    }

    private let folder: String
    /// The words of the server's command line.
    private let words: [String]
    private let server = NIOLockedValueBox<Child?>(nil)

    convenience init(in parent: String) async throws { try await self.init(in: parent, options: ["--skip-networking"]) }

    init(in parent: String, options: [String]) async throws {
        let folder = try ApplyServerProgram.makeFolder("mariadb", in: parent)
        self.folder = folder
        // The folder for temporary files of the tests belongs to another user.
        let common = ["--no-defaults", "--datadir=\(folder)/data", "--tmpdir=\(folder)", "--innodb-log-file-size=4M"]
        let authentication = ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
        let made = try await ApplyServerProgram.start(
            ["/usr/bin/mariadb-install-db"] + common + authentication,
            log: folder + "/install.log"
        ).end()
        guard made.code == 0 else { throw Child.Failure(description: "mariadb-install-db: \(made)") }
        let files = ["--socket=\(folder)/socket", "--pid-file=\(folder)/pid", "--innodb-flush-log-at-trx-commit=0"]
        self.words = [Self.program] + common + files + options
        try await self.start()
        let sql = """
            CREATE DATABASE app; CREATE USER tests@localhost; GRANT ALL ON *.* TO tests@localhost WITH GRANT OPTION;
            """
        _ = try await self.run(sql, user: "root", database: "mysql")
    }

    func start() async throws {
        let server = try ApplyServerProgram.start(self.words, log: self.folder + "/log")
        self.server.withLockedValue { $0 = server }
        // The server is ready only when it answers.
        let deadline = ContinuousClock.now + .seconds(30)
        while ContinuousClock.now < deadline, !server.hasEnded {
            if (try? await self.run("SELECT 1", user: "root", database: "mysql")) != nil { return }
        }
        let log = (try? String(contentsOfFile: self.folder + "/log", encoding: .utf8)) ?? ""
        throw Child.Failure(description: "The server does not answer: \(log.suffix(500))")
    }

    var socket: String { self.folder + "/socket" }

    func address(user: String) -> String { "mysql://\(user)@localhost/app?socket=\(self.socket)" }

    @discardableResult
    func run(_ sql: String) async throws -> String { try await self.run(sql, user: "tests", database: "app") }

    private func run(_ sql: String, user: String, database: String) async throws -> String {
        let name = self.folder + "/" + UUID().uuidString
        try Data(sql.utf8).write(to: URL(filePath: name + ".sql"))
        let streams = Child.Streams(output: name + ".out", error: name + ".err")
        let options = ["--no-defaults", "-S", self.socket, "-u", user, "-N", "-B", "--default-character-set=utf8mb4"]
        let ending = try await Child(
            options + ["-e", "source \(name).sql", database],
            streams,
            program: Self.client
        ).end()
        guard ending.code == 0 else {
            let error = try String(contentsOfFile: name + ".err", encoding: .utf8)
            throw Child.Failure(description: "mariadb: \(ending) \(error)")
        }
        return try String(contentsOfFile: name + ".out", encoding: .utf8)
    }

    func stop() async {
        let server = self.server.withLockedValue { $0 }
        server?.send(SIGKILL)
        _ = try? await server?.end()
    }
}

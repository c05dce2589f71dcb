// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport

/// PgBouncer in transaction mode before a server, with a new session for each transaction.
final class PgBouncer: Sendable {
    private static let program = "/usr/sbin/pgbouncer"

    static var isInstalled: Bool {
        ApplyServerProgram.isUsable && FileManager.default.isExecutableFile(atPath: Self.program)
    }

    private let folder: String
    private let child: Child

    init(in parent: String, for server: PostgreSQLServer) async throws {
        let folder = try ApplyServerProgram.makeFolder("pgbouncer", in: parent)
        self.folder = folder
        let configuration = """
            [databases]
            postgres = host=\(URL(filePath: server.socket).deletingLastPathComponent().path) user=tests
            [pgbouncer]
            listen_addr =
            unix_socket_dir = \(folder)
            auth_type = any
            pool_mode = transaction
            server_lifetime = 0
            """
        try Data(configuration.utf8).write(to: URL(filePath: folder + "/pgbouncer.ini"))
        let child = try ApplyServerProgram.start([Self.program, folder + "/pgbouncer.ini"], log: folder + "/log")
        self.child = child
        let path = folder + "/.s.PGSQL.6432"
        try await eventually("the pooler listens") { child.hasEnded || FileManager.default.fileExists(atPath: path) }
    }

    var address: String { "postgresql://tests@/postgres?host=\(self.folder)&port=6432" }

    func stop() async {
        self.child.send(SIGKILL)
        _ = try? await self.child.end()
    }
}

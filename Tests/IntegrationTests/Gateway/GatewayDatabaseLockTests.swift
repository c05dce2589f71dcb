// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

/// Goal: no gateway starts while another uses the database, since it would not know the expected resends.
@Suite(.timeLimit(.minutes(1))) struct GatewayDatabaseLockTests {
    @Test func `a second gateway on the same database is refused until the first has ended, even by a kill`()
        async throws
    {
        let folder = try GatewayProgram.Folder()
        try folder.configure(upstreamPort: 1)
        let first = try await GatewayProgram(folder)
        let arguments = ["gateway", "--config", folder.path("gateway.yaml")]
        let second = try await Child(arguments, Child.Streams(error: folder.path("second"))).end()
        #expect(second.code == 75, "\(second)")
        #expect(folder.read("second").contains("feedback.sqlite"), "\(folder.read("second"))")
        first.child.send(SIGKILL)
        _ = try await first.child.end()
        let third = try await GatewayProgram(folder)
        #expect(try await third.end().code == 0)
    }
}

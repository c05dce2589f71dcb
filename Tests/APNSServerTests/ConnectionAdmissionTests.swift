// SPDX-License-Identifier: Apache-2.0

import APNSWire
import ListenerFixtures
import Logging
import NIOEmbedded
import OpenSSLTLS
import Testing

@testable import APNSServer

/// Goal: who is not let in cannot keep out of the log what happens to those that are.
@Suite struct ConnectionAdmissionTests {
    @Test func `refusals of connections take no room from what is logged of providers that are let in`() throws {
        let lines = LogLines()
        let logger = lines.logger(.info)
        let registry = ConnectionRegistry(countMax: 1, unauthenticatedCountMax: 1)
        let door = ConnectionAdmission(registry, logger: logger)
        let channel = EmbeddedChannel()
        for _ in 0..<RefusalLog.burst + 50 { door.handshakeFailed(channel, TLSError.clientCertificateMissing) }
        door.refusals.log("notifications dropped", [LogKey.dropped: "1"])
        let refused = lines.of("connection refused")
        // Some more where this takes long.
        #expect((RefusalLog.burst..<RefusalLog.burst + 50).contains(refused.count))
        #expect(refused.allSatisfy { $0.metadata["push.provider.admitted"] == "false" })
        let dropped = lines.of("notifications dropped")
        #expect(dropped.count == 1 && dropped[0].metadata["push.provider.admitted"] == nil)
        #expect(dropped.first?.metadata["push.refusal.leftout"] == nil)
    }
}

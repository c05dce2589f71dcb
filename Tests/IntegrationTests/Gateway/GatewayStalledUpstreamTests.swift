// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import APNSWire
import Foundation
import TestSupport
import Testing

/// A gateway with a reachable service that never permits sending.
@Suite(.timeLimit(.minutes(2))) struct GatewayStalledUpstreamTests {
    @Test func `its provider is asked to resend when the budget is spent, and SIGTERM ends it`() async throws {
        let folder = try GatewayProgram.Folder()
        try await HTTP2FrameService.withRunning(.noStreams, tls: .server(identity: folder.server.identity)) { service in
            try folder.configure(upstreamPort: service.port)
            let text = folder.read("gateway.yaml") + "\n    retry: {budget: 1s}\n"
            try folder.write("gateway.yaml", Array(text.utf8))
            let gateway = try await GatewayProgram(folder, deadline: 60)
            let start = ContinuousClock.now
            let bytes = try await gateway.connect { provider in
                try await provider.send(try GatewayProgram.frames(1...3))
                return try await provider.end().bytes
            }
            #expect(bytes == GatewayProgram.response(.processingError, 1), "\(gateway.log.suffix(2000))")
            #expect(ContinuousClock.now - start < .seconds(10))
            #expect(service.record.headersCount == 0)
            let ending = try await gateway.end()
            #expect(ending.code == 0 && !ending.isOverdue, "\(ending)")
        }
    }
}

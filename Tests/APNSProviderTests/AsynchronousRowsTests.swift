// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSTestKit
import Testing

/// Goal: an array is sent like an asynchronous sequence.
///
/// Method: a gateway that rejects one of the notifications.
@Suite(.timeLimit(.minutes(1))) struct AsynchronousRowsTests {
    @Test func `an array is sent, and the records have its identifiers`() async throws {
        try await Sending.withGateway(script: { _ in
            GatewayScript { $0.action = { frame, _ in Sending.number(frame) == 42 ? .refuse(.invalidToken) : .accept } }
        }) { gateway in
            let rows = try (0..<100).map { (id: "row \($0)", notification: try Sending.notification($0)) }
            let configuration = try Sending.configuration(port: gateway.port)
            let dead = try await PushClient.withClient(.binary(configuration)) { client in
                var dead: [String] = []
                for try await record in client.send(rows, only: .exceptions) where record.outcome.isDeadToken {
                    dead.append(record.id)
                }
                return dead
            }
            #expect(dead == ["row 42"])
            #expect(gateway.takenInOrder == (0..<100).filter { $0 != 42 })
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSServer
import APNSTestKit
import APNSWire
import NIOCore
import TestSupport
import Testing

/// Goal: after a reset, exactly the requests that have left this system are in doubt, and the others are sent again.
///
/// Method: a relay that stops reading before it resets, and gives a real service what its system has received: that is
/// what the service could have processed.
@Suite(.serialized, .timeLimit(.minutes(2))) struct HTTP2ResetDoubtTests {
    private static let count = 2000

    @Test func `what the other system has not received is sent again, and nothing arrives twice`() async throws {
        let service = ScriptedService()
        let listener = Listener(
            try PushFixture.serverConfiguration(),
            service: service,
            logger: PushFixture.quiet
        )
        try await listener.withRunning { listener in
            let relay = try WithholdingRelay(
                gatewayPort: try await listener.boundAddress.port,
                byteCount: 20_000,
                // More than a TLS record, since a part of one is not processed.
                receiveBufferByteCount: 60_000
            )
            defer { relay.stop() }
            let configuration = try PushFixture.clientConfiguration(port: relay.port)
            let outcomes = try await RequestClient.withClient(configuration, logger: PushFixture.quiet) { client in
                async let outcomes = Self.send(client)
                try await relay.waitUntilFull()
                relay.reset()
                return try await outcomes
            }
            let received = Set(service.requests.map(\.token))
            let doubted = Set(
                try outcomes.enumerated()
                    .filter { if case .indeterminate = $0.element { true } else { false } }
                    .map { try PushFixture.token($0.offset) }
            )
            #expect(service.requests.count == received.count)
            #expect(outcomes.count { $0 == .accepted } == Self.count - doubted.count)
            // What was on its way when the connection was reset has left as well.
            let missing = doubted.subtracting(received)
            #expect(!doubted.isEmpty && missing.count <= 60, "\(missing.count) of \(doubted.count)")
        }
    }

    private static func send(_ client: RequestClient) async throws -> [DeliveryOutcome] {
        try await withThrowingTaskGroup(of: (Int, DeliveryOutcome).self) { group in
            for number in 0..<Self.count {
                var request = try PushFixture.request(number)
                request.payload = ByteBuffer(string: #"{"aps":{"alert":"A text of a usual length."}}"#)
                group.addTask { [request] in (number, await client.report(of: request).outcome) }
            }
            return try await group.reduce(into: Array(repeating: .unsent(.stopped), count: Self.count)) {
                $0[$1.0] = $1.1
            }
        }
    }
}

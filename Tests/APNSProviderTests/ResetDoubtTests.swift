// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSTestKit
import APNSWire
import NIOConcurrencyHelpers
import TestSupport
import Testing

/// Goal: after a reset, exactly what has left this system is in doubt, and not what its kernel still had.
///
/// Method: a relay that stops reading before it resets, and gives a real gateway what its system has received: that is
/// what the gateway could have processed.
@Suite(.serialized, .timeLimit(.minutes(2))) struct ResetDoubtTests {
    @Test(arguments: TestEffort.isLong ? [10_000, 100_000, 300_000] : [10_000], [Command.enhanced, .simple])
    func `what the other system has not received is unsent, and sent again unflagged`(
        receiveBufferByteCount: Int,
        command: Command
    ) async throws {
        try await Sending.withGateway { gateway in
            let relay = try WithholdingRelay(
                gatewayPort: gateway.port,
                byteCount: 50_000,
                receiveBufferByteCount: CInt(receiveBufferByteCount)
            )
            defer { relay.stop() }
            let count = 30_000
            let configuration = try Sending.configuration(port: relay.port) {
                $0.limits.policy = .atMostOnce
                $0.command = command
            }
            async let sending = Sending.send(count, configuration)
            try await relay.waitUntilFull()
            relay.reset()
            let outcomes = try await sending
            try await gateway.wait { $0.count > 1 && $0[0].isClosed }
            let received = Set(gateway.records[0].accepted.map(Sending.number))
            let byNumber = outcomes.byNumber
            let doubted = Set(
                byNumber.filter { if case .indeterminate = $0.value[0].outcome { true } else { false } }.keys
            )
            #expect(byNumber.count == count && byNumber.values.allSatisfy { $0.count == 1 })
            #expect(received.isSubset(of: doubted), "\(received.count) received, \(doubted.count) in doubt")
            // What was on its way when the connection was reset has left as well: at most a record or two.
            #expect(doubted.count <= received.count + 400)
            #expect(outcomes.count { $0 == .accepted } == count - doubted.count)
            #expect(gateway.takenCounts.values.allSatisfy { $0 == 1 })
        }
    }
}

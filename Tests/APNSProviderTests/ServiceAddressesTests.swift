// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSTestKit
import APNSTransport
import NIOCore
import Testing

/// Goal: a gateway whose name has several addresses is used as a whole, also while one of them fails.
@Suite(.timeLimit(.minutes(1))) struct ServiceAddressesTests {
    @Test func `connections are spread over the addresses of a name, and one that refuses them is left out`()
        async throws
    {
        try await Sending.withGateway { first in
            try await Sending.withGateway { second in
                // Nothing listens at the first one.
                let ports = [1, first.port, second.port]
                let configuration = try Sending.configuration(port: first.port) {
                    $0.addresses = ServiceAddresses(
                        lookup: { _, _ in try ports.map { try SocketAddress(ipAddress: "127.0.0.1", port: $0) } },
                        start: 0
                    )
                    $0.connectionCount = 6
                    $0.limits.windowCount = 10
                }
                let outcomes = try await Sending.send(600, configuration)
                #expect(outcomes.count { $0 == .accepted } == 600)
                let taken = [first, second].map { $0.takenCounts.values.reduce(0, +) }
                #expect(taken[0] > 0 && taken[1] > 0 && taken[0] + taken[1] == 600, "\(taken)")
            }
        }
    }
}

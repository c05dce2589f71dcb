// SPDX-License-Identifier: Apache-2.0

import Foundation
import NIOConcurrencyHelpers
import Testing

/// Goal: a failure of the service that lasts longer than the budget is an error response, and costs no notification.
@Suite(.timeLimit(.minutes(2))) struct GatewayTroubleTests {
    private static let retry = "{authority: ca.pem}\n    retry: {budget: 400ms, first: 50ms, longest: 100ms}"

    @Test
    func `a provider that reconnects immediately after the error is admitted, and its notifications are delivered`()
        async throws
    {
        let isWell = NIOLockedValueBox(false)
        let record = ChainRecord { _ in isWell.withLockedValue { $0 } ? ChainRecord.Answer() : .unavailable }
        let ending = try await record.upstream().withGateway(clients: Self.retry) { gateway in
            let provider = try FrameProvider(gateway.folder, port: gateway.port)
            try await provider.connect()
            try await provider.write(1...3)
            #expect(try await provider.read(count: 7).bytes == "080100000001")
            isWell.withLockedValue { $0 = true }
            try await provider.connect()
            #expect(try await provider.write(1...3, probe: 4).failure == nil)
            let answer = try await provider.read(count: 6)
            #expect(answer.bytes == "080200000004", "The connection is closed without an answer: \(answer)")
            #expect(gateway.lines(["provider kept out"]).isEmpty)
            #expect(try await gateway.discardedInMetrics() == 0)
        }
        #expect(ending.code == 0, "\(ending)")
        #expect(record.takenCounts == [1: 1, 2: 1, 3: 1])
    }

    @Test func `a provider that connects while the service still fails is asked to resend again, and loses nothing`()
        async throws
    {
        let isWell = NIOLockedValueBox(false)
        let record = ChainRecord { _ in isWell.withLockedValue { $0 } ? ChainRecord.Answer() : .unavailable }
        try await record.upstream().withGateway(clients: Self.retry) { gateway in
            let provider = try FrameProvider(gateway.folder, port: gateway.port)
            for _ in 1...2 {
                try await provider.connect()
                try await provider.write(1...3)
                let answer = try await provider.read(count: 7)
                #expect(answer.bytes == "080100000001", "\(answer)")
            }
            isWell.withLockedValue { $0 = true }
            try await provider.connect()
            #expect(try await provider.write(1...3, probe: 4).failure == nil)
            let answer = try await provider.read(count: 6)
            #expect(answer.bytes == "080200000004", "\(answer)")
        }
        #expect(record.takenCounts == [1: 1, 2: 1, 3: 1])
    }

    @Test func `429 until the budget is spent is status 10 with the last one accepted, and never accepted`()
        async throws
    {
        let isWell = NIOLockedValueBox(false)
        let record = ChainRecord { occasion in
            occasion.number == 5 && !isWell.withLockedValue { $0 } ? .throttled : ChainRecord.Answer()
        }
        try await record.upstream().withGateway(clients: Self.retry) { gateway in
            let provider = try FrameProvider(gateway.folder, port: gateway.port)
            try await provider.connect()
            // Without the probe, a gateway that treats the fifth one as accepted would send nothing.
            try await provider.write(1...10, probe: 11)
            #expect(try await provider.read(count: 7).bytes == "080a00000004")
            #expect(record.takenCounts[5] == nil)
            isWell.withLockedValue { $0 = true }
            try await provider.connect()
            try await provider.write(5...10, probe: 11)
            let answer = try await provider.read(count: 6)
            #expect(answer.bytes == "08020000000b", "\(answer)")
        }
        #expect(record.takenCounts == Dictionary(uniqueKeysWithValues: (1...10).map { ($0, 1) }))
    }
}

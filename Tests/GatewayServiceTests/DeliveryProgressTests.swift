// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import GatewayService

@Suite struct DeliveryProgressTests {
    /// The counts at a time, and whether delivery makes progress.
    struct Look: Sendable {
        var inFlight: Int
        var settled: UInt64
        var second: Int
        var isMoving: Bool
    }

    static let idle = [(0, 0), (5, 0), (5, 300), (0, 300), (7, 2000)].map {
        Look(inFlight: 0, settled: UInt64($0.0), second: $0.1, isMoving: true)
    }

    static let stuck = [
        Look(inFlight: 3, settled: 9, second: 0, isMoving: true),
        Look(inFlight: 5, settled: 9, second: 60, isMoving: true),
        Look(inFlight: 5, settled: 9, second: 61, isMoving: false),
        Look(inFlight: 5, settled: 9, second: 500, isMoving: false),
        // One completed after all.
        Look(inFlight: 4, settled: 10, second: 501, isMoving: true),
        Look(inFlight: 4, settled: 10, second: 561, isMoving: true),
        Look(inFlight: 4, settled: 10, second: 562, isMoving: false),
        Look(inFlight: 0, settled: 10, second: 563, isMoving: true),
        // The time limit starts again after a pause.
        Look(inFlight: 1, settled: 10, second: 900, isMoving: true),
        Look(inFlight: 1, settled: 10, second: 961, isMoving: false),
    ]

    @Test(arguments: [idle, stuck]) func `delivery makes progress while some complete, or none is in flight`(
        _ looks: [Look]
    ) {
        var progress = DeliveryProgress(stallDurationMax: .seconds(60))
        for look in looks {
            let isMoving = progress.isMoving(
                inFlightCount: look.inFlight,
                settledCount: look.settled,
                now: .seconds(look.second)
            )
            #expect(isMoving == look.isMoving, "\(look)")
        }
    }
}

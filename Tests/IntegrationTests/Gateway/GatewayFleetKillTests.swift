// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Foundation
import NIOConcurrencyHelpers
import TestSupport
import Testing

/// Goal: an old client that sends again what an error response asks for loses nothing behind a balancer, and nothing
/// arrives twice except what was on a connection that ended without a word.
@Suite(
    .enabled(if: FleetScene.isPossible, "There is no HAProxy or no PostgreSQL, or this is a build without its trait."),
    .timeLimit(.minutes(5))
) struct GatewayFleetKillTests {
    private static let last: UInt32 = 900
    private static let probe: UInt32 = 10_000

    private static func isBad(_ number: Int) -> Bool { number % 75 == 40 }

    @Test(arguments: [nil, 1, 3, 6] as [Int?])
    func `a batch with many rejections over two gateways, one of which is killed`(killRound: Int?) async throws {
        let isHolding = NIOLockedValueBox(false)
        let record = ChainRecord { occasion in
            if Self.isBad(occasion.number) { return .badToken }
            let isHeld = occasion.number % 2 == 0 && isHolding.withLockedValue { $0 }
            return ChainRecord.Answer(moment: isHeld ? .held : .atOnce)
        }
        // So that a gateway delivers little of what follows a rejection.
        try await FleetScene.with(record, limits: "{shutdown: 10s, inFlightPerConnection: 100}") { fleet in
            let run = try await Self.send(fleet, record, isHolding, killRound: killRound)
            try #require(run.isComplete, "\(run)")
            #expect(run.roundCount > 10)
            let counts = record.takenCounts
            for number in 1...Int(Self.last) where !Self.isBad(number) {
                #expect(counts[number, default: 0] >= 1, "\(number) is lost")
            }
            let doubled = Set(counts.filter { $0.value > 1 }.keys)
            #expect(doubled.isSubset(of: run.inDoubt), "\(doubled.subtracting(run.inDoubt).sorted())")
            if killRound == nil { #expect(run.inDoubt.isEmpty) }
            // Each of them has recognized what the other one had told the client to send again.
            let resent = try await fleet.resentCounts()
            #expect(resent.allSatisfy { $0 > 0 } || killRound != nil, "\(resent)")
        }
    }

    private struct Run {
        var roundCount = 0
        var isComplete = false
        /// What was on connections that ended without an error response.
        var inDoubt: Set<Int> = []
    }

    /// Sends everything like a client that numbers its notifications and sends again what follows the one at fault.
    private static func send(
        _ fleet: FleetScene,
        _ record: ChainRecord,
        _ isHolding: NIOLockedValueBox<Bool>,
        killRound: Int?
    ) async throws -> Run {
        let provider = try fleet.provider()
        var run = Run()
        var next: UInt32 = 1
        while run.roundCount < 100 {
            run.roundCount += 1
            try await provider.connect()
            let before = record.requests.count
            isHolding.withLockedValue { $0 = run.roundCount == killRound }
            try await provider.write(next...Self.last, probe: Self.probe)
            if run.roundCount == killRound {
                // In mid-batch: some of this connection's notifications are under way.
                try await record.wait(requestCount: before + 5)
                try await fleet.killBusy()
                isHolding.withLockedValue { $0 = false }
            }
            let bytes = try await provider.read(count: 6).bytes ?? ""
            guard bytes.count == 12, let identifier = UInt32(bytes.suffix(8), radix: 16) else {
                run.inDoubt.formUnion(Int(next)...Int(Self.last))
                continue
            }
            guard identifier != Self.probe else {
                run.isComplete = true
                break
            }
            next = identifier + 1
        }
        return run
    }
}

extension FleetScene {
    /// Kills the gateway that has notifications in progress.
    fileprivate func killBusy() async throws {
        for gateway in self.gateways {
            guard try await self.metric("apns_legacy_notifications_in_flight", gateway) > 0 else { continue }
            gateway.child.send(SIGKILL)
            _ = try await gateway.child.end()
            return
        }
        throw Child.Failure(description: "no gateway has notifications in progress")
    }

    /// How many resends each gateway has recognized, as far as it runs.
    fileprivate func resentCounts() async throws -> [Int] {
        var counts: [Int] = []
        for gateway in self.gateways where !gateway.child.hasEnded {
            let text = try await GatewayOperatorTests.get("/metrics", gateway).body
            let samples = text.split(separator: "\n").filter {
                $0.hasPrefix("apns_legacy_notifications_settled_total{") && $0.contains("cause=\"resent\"")
            }
            counts.append(
                samples.compactMap { $0.split(separator: " ").last.flatMap { Double($0) } }.map { Int($0) }.reduce(0, +)
            )
        }
        return counts
    }
}

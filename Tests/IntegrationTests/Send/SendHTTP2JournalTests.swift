// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSimulator
import Foundation
import TestSupport
import Testing

/// `send --transport http2` is killed repeatedly, with the batch and the checks of the binary protocol.
@Suite(.timeLimit(.minutes(4))) struct SendHTTP2JournalTests {
    private static let killCountMin = TestEffort.count(2, long: 8)

    @Test(arguments: ["at-least-once", "at-most-once"])
    func `despite kills at random times, nothing is lost and no duplicate is unflagged`(_ policy: String) async throws {
        let isOnce = policy == "at-most-once"
        var random = SplitMix64(seed: isOnce ? 23 : 22)
        var killCount = 0
        for _ in 0..<10 where killCount < Self.killCountMin {
            let scene = try SendScene()
            try scene.write("batch.jsonl", SendJournalTests.batch())
            let seed = random.next()
            killCount += try await SendScene.withGateway(
                deviceCount: SendJournalTests.count,
                change: { configuration in
                    let step: UInt64 = TestEffort.count(373, long: 1117)
                    configuration.faults = (1...10).map {
                        Fault(at: .notificationOverall($0 * step), .closeBefore, report: FaultReport(ending: .fin))
                    }
                },
                { simulator in
                    var random = SplitMix64(seed: seed)
                    let arguments = [
                        scene.path("batch.jsonl"), "--transport", "http2", "--results", scene.path("results.jsonl"),
                        "--journal", scene.path("journal"), "--delivery", policy, "--window", "200", "--summary",
                        "json",
                    ]
                    let (count, last) = try await SendJournalTests.runKilling(
                        scene,
                        arguments,
                        at: simulator,
                        port: simulator.http2Port,
                        killCountMax: Self.killCountMin,
                        random: &random
                    )
                    try SendJournalTests.check(scene, simulator, last, isOnce: isOnce)
                    return count
                }
            )
        }
        #expect(killCount >= Self.killCountMin)
    }

    @Test func `a journal continues over the other protocol`() async throws {
        let scene = try SendScene()
        let count = 300
        try scene.write("batch.jsonl", (1...count).map { SendScene.line($0) }.joined())
        let arguments = [
            scene.path("batch.jsonl"), "--results", scene.path("results.jsonl"), "--journal", scene.path("journal"),
            "--delivery", "at-most-once", "--give-up-after", "1",
        ]
        // The port is closed.
        let first = try await scene.send(arguments, port: 1)
        #expect(first.ending.code == 69, "\(first.error)")
        try await SendScene.withGateway(deviceCount: count) { simulator in
            let second = try await scene.send(arguments + ["--transport", "http2"], port: simulator.http2Port)
            #expect(second.ending.code == 0, "\(second.error)")
            let results = try scene.results()
            #expect(results.map(\.line).sorted() == Array(1...count))
            #expect(results.allSatisfy { $0.outcome == "accepted" && !$0.isFlagged })
            #expect(simulator.statistics.processedCount == count)
        }
    }
}

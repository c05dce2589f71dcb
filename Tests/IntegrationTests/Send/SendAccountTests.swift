// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import APNSWire
import Foundation
import TestSupport
import Testing

/// Thousands of notifications, six of them bad, whose results are compared with the gateway's record.
@Suite(.timeLimit(.minutes(2))) struct SendAccountTests {
    static let count = TestEffort.count(2000, long: 10_000)
    static let bad: Set<Int> = TestEffort.isLong ? [1, 2, 3001, 3002, 5001, count] : [1, 2, 1001, 1002, 1501, count]

    /// How the gateway reports a rejection and ends the connection.
    struct RejectionMode: CustomTestStringConvertible, Sendable {
        var milliseconds: Int
        var ending: FaultReport.Ending

        var testDescription: String { "after \(self.milliseconds) ms, \(self.ending.rawValue)" }

        /// All combinations in the long run.
        static let all =
            TestEffort.isLong
            ? [0, 50, 200, 1000].flatMap { milliseconds in
                [FaultReport.Ending.orderly, .reset].map { RejectionMode(milliseconds: milliseconds, ending: $0) }
            } : [RejectionMode(milliseconds: 0, ending: .orderly), RejectionMode(milliseconds: 200, ending: .reset)]
    }

    static func device(_ line: Int) -> Int { Self.bad.contains(line) ? 1_000_000 + line : line }

    static func batch() -> String { (1...Self.count).map { SendScene.line(Self.device($0)) }.joined() }

    @Test(arguments: RejectionMode.all)
    func `six bad ones of thousands are named, and the others are processed once`(_ mode: RejectionMode) async throws {
        let scene = try SendScene()
        try scene.write("batch.jsonl", Self.batch())
        let report = FaultReport(delay: .milliseconds(mode.milliseconds), ending: mode.ending)
        let faults = [Fault(at: .always, .errorResponse, report: report)]
        try await SendScene.withGateway(deviceCount: Self.count, faults: faults) { simulator in
            let run = try await scene.send(
                [scene.path("batch.jsonl"), "--results", scene.path("results.jsonl"), "--summary", "json"],
                port: simulator.gatewayPort
            )
            #expect(run.ending.code == 1, "\(run.ending) \(run.error)")
            let summary = try SummaryObject.last(of: run.output)
            #expect(summary.accepted == Self.count - 6 && summary.rejected == 6 && summary.addsUp)
            #expect(summary.total == Self.count)
            #expect(summary.rejectedByStatus == ["8": 6] && summary.possibleDuplicates == 0)
            let results = try scene.results()
            #expect(results.map(\.line).sorted() == Array(1...Self.count))
            for result in results {
                let isBad = Self.bad.contains(result.line)
                #expect(result.outcome == (isBad ? "rejected" : "accepted"))
                #expect(result.token == SendScene.token(Self.device(result.line)) && !result.isFlagged)
                #expect(try simulator.count(Self.device(result.line)) == (isBad ? 0 : 1))
            }
            #expect(simulator.statistics.processedCount == Self.count - 6)
        }
    }

    static let resets = (TestEffort.isLong ? [300, 1500, 4000, 4001, 7777] : [300, 800, 1300, 1301, 1777]).map {
        Fault(at: .notificationOverall($0), .closeAfter, report: FaultReport(ending: .reset))
    }

    @Test func `with at least once, resets lose nothing, and all duplicates are flagged`() async throws {
        let scene = try SendScene()
        try scene.write("batch.jsonl", Self.batch())
        try await SendScene.withGateway(deviceCount: Self.count, faults: Self.resets) { simulator in
            let run = try await scene.send(
                [scene.path("batch.jsonl"), "--results", scene.path("results.jsonl")],
                port: simulator.gatewayPort
            )
            #expect(run.ending.code == 1, "\(run.ending) \(run.error)")
            let results = try scene.results()
            #expect(results.map(\.line).sorted() == Array(1...Self.count))
            for result in results {
                let count = try simulator.count(Self.device(result.line))
                if Self.bad.contains(result.line) {
                    #expect(result.outcome == "rejected" && count == 0)
                } else {
                    #expect(result.outcome == "accepted" && count >= 1)
                    #expect(count == 1 || result.isFlagged, "line \(result.line) went \(count) times")
                }
            }
            #expect(simulator.statistics.processedCount > Self.count - 6, "The resets must double something.")
        }
    }

    @Test func `with at most once, resets duplicate nothing, and all uncertain ones are reported`()
        async throws
    {
        let scene = try SendScene()
        try scene.write("batch.jsonl", Self.batch())
        try await SendScene.withGateway(deviceCount: Self.count, faults: Self.resets) { simulator in
            let run = try await scene.send(
                [
                    scene.path("batch.jsonl"), "--results", scene.path("results.jsonl"), "--delivery", "at-most-once",
                ],
                port: simulator.gatewayPort
            )
            #expect(run.ending.code == 75, "\(run.ending) \(run.error)")
            let results = try scene.results()
            #expect(results.map(\.line).sorted() == Array(1...Self.count))
            var doubtfulCount = 0
            for result in results {
                let count = try simulator.count(Self.device(result.line))
                #expect(count <= 1)
                switch result.outcome {
                case "accepted": #expect(count == 1)
                case "rejected": #expect(count == 0 && Self.bad.contains(result.line))
                case "indeterminate": doubtfulCount += 1
                default: Issue.record("line \(result.line) is \(result.outcome)")
                }
            }
            #expect(doubtfulCount > 0)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSWire
import TestSupport
import Testing

@testable import APNSLegacyCommands
@testable import Batch

/// Goal: for any numbers, the line is correct and fits into the terminal.
@Suite struct ProgressLineTests {
    private static func line(
        _ snapshots: [(seconds: Int, snapshot: ProgressSnapshot)]
    ) -> ProgressLine {
        var line = ProgressLine()
        for (seconds, snapshot) in snapshots { line.update(snapshot, elapsed: .seconds(seconds)) }
        return line
    }

    private static func snapshot(_ count: UInt64, of total: UInt64 = 10_000) -> ProgressSnapshot {
        var snapshot = ProgressSnapshot()
        snapshot.count = count
        snapshot.total = .estimated(total)
        snapshot.fraction = Double(count) / Double(total)
        return snapshot
    }

    @Test func `it contains count, percentage, rate, time left and rejections`() {
        var last = Self.snapshot(2500)
        last.rejectedCount = 3
        let line = Self.line([(0, Self.snapshot(0)), (5, last)])
        #expect(
            line.text(columnCount: 200) == "[#####...............] 25%  2,500 of ~10,000  500/s  0:15 left  3 rejected"
        )
        #expect(line.plainText == "25%, 2,500 of ~10,000, 500/s, 0:15 left, 3 rejected")
        #expect(line.text(columnCount: 60) == "25%  2,500 of ~10,000  500/s  0:15 left  3 rejected")
        #expect(line.text(columnCount: 40) == "25%  2,500  500/s  3 rejected")
        #expect(line.text(columnCount: 20) == "25%  3 rejected")
        #expect(line.text(columnCount: 0).isEmpty)
    }

    @Test(
        arguments: [
            (399_996, 10, "400,000"), (999_400, 10, "999,000"), (999_600, 10, "1,000,000"), (1234, 10, "1,230"),
            (1236, 10, "1,240"), (1234, 1234, "1,240"), (999, 10, "999"), (400_000, 400_000, "400,000"),
        ] as [(UInt64, UInt64, String)]
    )
    func `an estimate is rounded, and never less than what is done`(_ total: UInt64, _ count: UInt64, _ text: String) {
        #expect(Self.line([(0, Self.snapshot(count, of: total))]).plainText.contains("\(count.grouped) of ~\(text)"))
        var exact = Self.snapshot(count, of: total)
        exact.total = .exact(total)
        #expect(Self.line([(0, exact)]).plainText.contains(" of \(total.grouped)"))
    }

    @Test func `the rate is measured over the last seconds`() {
        let slow = (0...60).map { (seconds: $0, snapshot: Self.snapshot(UInt64($0 * 10))) }
        let quick = (61...65).map { (seconds: $0, snapshot: Self.snapshot(UInt64(600 + ($0 - 60) * 1000))) }
        #expect(Self.line(slow).plainText.contains(" 10/s"))
        #expect(Self.line(slow + quick).plainText.contains(" 1,000/s"))
        #expect(Self.line([(0, Self.snapshot(0)), (10, Self.snapshot(4))]).plainText.contains(" 0.4/s"))
    }

    @Test func `while nothing is confirmed, it contains what is sent instead of a rate of 0`() {
        var waiting = Self.snapshot(2500)
        waiting.openCount = 1500
        let line = Self.line([(0, Self.snapshot(2500)), (5, waiting)])
        #expect(line.plainText == "25%, 2,500 of ~10,000, 1,500 unconfirmed")
        var confirmed = Self.snapshot(4000)
        confirmed.openCount = 1500
        #expect(Self.line([(0, waiting), (5, confirmed)]).plainText.contains(" 300/s, "))
    }

    @Test func `the work of an earlier run counts for the percentage, but not for the rate`() {
        let line = Self.line([(0, Self.snapshot(9000)), (5, Self.snapshot(9500))])
        #expect(line.plainText == "95%, 9,500 of ~10,000, 100/s, 0:05 left")
    }

    @Test func `without a connection, it contains the retry instead of the rate`() {
        var snapshot = Self.snapshot(0)
        snapshot.fraction = nil
        snapshot.total = nil
        let retry = ConnectionMonitor.Retry(number: 3, countMax: 8)
        snapshot.connection = .connecting(nil)
        #expect(Self.line([(0, snapshot), (1, snapshot)]).plainText == "0, connecting")
        snapshot.connection = .connecting(retry)
        #expect(Self.line([(0, snapshot), (1, snapshot)]).plainText == "0, connecting, retry 3 of 8")
        snapshot.connection = .waiting(retry, delay: .milliseconds(3100))
        #expect(Self.line([(0, snapshot), (1, snapshot)]).plainText == "0, connecting, retry 3 of 8 in 4 s")
    }

    @Test func `it is never too wide for any numbers`() {
        let seed = UInt64.random(in: 0 ... .max)
        var random = SplitMix64(seed: seed)
        let counts: [UInt64] = [0, 1, 9999, 10_000, 999_999, 1 << 40, .max - 1, .max]
        func count() -> UInt64 {
            random.next() % 2 == 0 ? counts[Int(random.next() % 8)] : random.next() >> (random.next() % 64)
        }
        for _ in 0..<TestEffort.count(2000, long: 20_000) {
            var line = ProgressLine()
            var elapsed = Duration.zero
            for _ in 0..<3 {
                var snapshot = ProgressSnapshot()
                snapshot.activity = random.next() % 3 == 0 ? "counting" : nil
                snapshot.unit = random.next() % 3 == 0 ? "batches" : nil
                snapshot.count = count()
                snapshot.rejectedCount = count()
                let total = count()
                snapshot.total = [nil, .exact(total), .estimated(total)][Int(random.next() % 3)]
                snapshot.fraction =
                    [nil, 0, 1, -3, 17, Double(total) / Double(UInt64.max), .nan][Int(random.next() % 7)]
                let retry = ConnectionMonitor.Retry(number: Int(count() >> 1), countMax: Int(count() >> 1))
                snapshot.connection =
                    [
                        .idle, .connected, .connecting(retry), .waiting(retry, delay: .seconds(Int64(count() >> 1))),
                    ][Int(random.next() % 4)]
                elapsed += .milliseconds(Int64(random.next() % 100_000))
                line.update(snapshot, elapsed: elapsed)
            }
            for columnCount in [0, 1, 2, 10, 20, 40, 79, 80, 81, 132, Int.max] {
                let text = line.text(columnCount: columnCount)
                let isFit = text.utf8.count <= min(79, max(0, columnCount - 1))
                #expect(isFit && text.utf8.allSatisfy { (0x20...0x7E).contains($0) }, "\(text), seed \(seed)")
            }
        }
    }

    @Test func `the progress of a batch counts outcomes, and a stream has no percentage`() {
        var counts = OutcomeCounts()
        counts.add(LineOutcome(.accepted), count: 300)
        counts.add(LineOutcome(.rejected, status: 8), count: 100)
        var earlier = OutcomeCounts()
        earlier.add(LineOutcome(.accepted), count: 100)
        let progress = SendProgress(
            sentCount: 500,
            hasReadAll: false,
            outcomeCounts: counts,
            lineCount: 800,
            fraction: 0.5,
            openCount: 200
        )
        let snapshot = ProgressSnapshot(progress, earlierCounts: earlier, connection: .connected)
        #expect(snapshot.count == 400 && snapshot.rejectedCount == 100 && snapshot.fraction == 0.25)
        #expect(snapshot.total?.count == 1600)
        var ended = progress
        ended.hasReadAll = true
        let last = ProgressSnapshot(ended, earlierCounts: earlier, connection: .connected)
        #expect(last.total?.count == 600 && last.fraction == 400.0 / 600)
        var stream = progress
        stream.fraction = nil
        let streamed = ProgressSnapshot(stream, earlierCounts: earlier, connection: .connected)
        #expect(streamed.fraction == nil && streamed.total == nil)
    }
}

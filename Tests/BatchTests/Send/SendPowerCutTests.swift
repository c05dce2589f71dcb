// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Dispatch
import Foundation
import NIOCore
import TestSupport
import Testing

@testable import Batch

/// A batch on a machine that loses power repeatedly: unsynchronized data may be present completely, partly or not at
/// all.
@Suite(.timeLimit(.minutes(2))) struct SendPowerCutTests {
    static let seedCount: UInt64 = TestEffort.count(50, long: 1000)
    let folder: SendFolder

    init() throws { self.folder = try SendFolder() }

    /// A batch with the outcomes of its lines at a gateway.
    private struct Batch {
        let lineCount: UInt64
        var processedCounts: [UInt64: Int] = [:]
        var lastCounts = OutcomeCounts()

        static func isBad(_ line: UInt64) -> Bool { line % 31 == 3 }

        func text() throws -> String {
            try (1...self.lineCount).map { line in
                guard !Self.isBad(line) else { return "no JSON\n" }
                let token = try DeviceToken(bytes: Array(repeating: UInt8(line % 251), count: 24) + Self.bytes(line))
                let id = String(repeating: "x", count: Int(line * 7 % 90))
                return "{\"token\":\"\(token.hexadecimal)\",\"id\":\"\(id)\",\"payload\":{}}\n"
            }.joined()
        }

        private static func bytes(_ line: UInt64) -> [UInt8] { withUnsafeBytes(of: line.bigEndian) { Array($0) } }
    }

    /// The gateway's outcome for a line, which is always the same.
    private static func outcome(_ line: UInt64) -> DeliveryOutcome {
        line % 7 == 5 ? .rejected(.binary(.invalidPayloadSize)) : .accepted
    }

    private func source(_ disk: CrashingDisk, _ policy: DeliveryPolicy) throws -> (SendSource, SendJournal.Past) {
        let input = try SendInput(path: self.folder.file("batch.jsonl"))
        let journal = try SendJournal(
            path: self.folder.file("journal"),
            input: "batch",
            onOperation: disk.onOperation,
            lineCount: { try input.lineCount() }
        )
        let results = try SendResults(
            path: self.folder.file("results"),
            isOnlyExceptions: false,
            journal: journal,
            retriesIndeterminate: policy == .atLeastOnce,
            onOperation: disk.onOperation
        )
        let batchState = BatchSendState(
            input: input,
            batch: try OpenedBatch(input, BatchReader(format: .jsonLines, options: BatchOptions(now: 1_700_000_000))),
            results: results,
            policy: policy,
            suppressesRejectedTokens: false,
            onBadLine: { _ in }
        )
        return (SendSource(input: input, batchState: batchState), journal.past)
    }

    /// Sends for a number of steps, or to the end.
    private func send(
        _ source: SendSource,
        _ disk: CrashingDisk,
        stepCountMax: Int,
        _ random: inout SplitMix64
    ) throws {
        let woken = DispatchSemaphore(value: 0)
        source.start { woken.signal() }
        var out: [GivenLine] = []
        for _ in 0..<stepCountMax {
            let (items, supply) = GivenLine.take(Int(random.next() % 20) + 1, from: source)
            if !items.isEmpty { disk.record(.give(items.map(\.line))) }
            out += items
            let count = supply == .ended ? out.count : Int(random.next() % UInt64(out.count + 1))
            for _ in 0..<count {
                let item = out.remove(at: Int(random.next() % UInt64(out.count)))
                item.settle(Self.outcome(item.line))
            }
            if supply == .ended { break }
            if supply == .waiting, out.isEmpty {
                try #require(woken.wait(timeout: .now() + .seconds(30)) == .success, "The source sleeps.")
            }
        }
        source.end()
        for item in out where random.next() % 2 == 0 {
            item.settle(.indeterminate(nil))
        }
        #expect(source.finish() == nil)
    }

    @Test(arguments: [DeliveryPolicy.atLeastOnce, .atMostOnce])
    func `after power failures, nothing is lost and no duplicate is unflagged`(_ policy: DeliveryPolicy) throws {
        var doubledCount = 0
        for seed in 0..<(Self.seedCount / 2) {
            var random = SplitMix64(seed: seed + (policy == .atLeastOnce ? 0 : 1_000_000))
            var batch = Batch(lineCount: random.next() % 90 + 10)
            try self.folder.write("batch.jsonl", try batch.text())
            let paths = ["journal", "results"].map { self.folder.file($0) }
            var files: [String: [UInt8]] = [:]
            for cut in 0...4 {
                let disk = try CrashingDisk(paths: paths, files: files)
                let past: SendJournal.Past
                do {
                    let source: SendSource
                    (source, past) = try self.source(disk, policy)
                    if past.isComplete { break }
                    let stepCount = cut == 4 ? Int.max : Int(random.next() % 30)
                    try self.send(source, disk, stepCountMax: stepCount, &random)
                    batch.lastCounts = source.progress.outcomeCounts
                } catch {
                    Issue.record("seed \(seed), cut \(cut): \(error)")
                    break
                }
                // The power fails at some point during the run, or after it.
                let count = cut == 4 ? disk.eventCount : Int(random.next() % UInt64(disk.eventCount + 1))
                for line in disk.given(before: count) where Self.outcome(line) == .accepted {
                    batch.processedCounts[line, default: 0] += 1
                }
                guard cut < 4 else { break }
                files = disk.files(after: count, &random)
            }
            doubledCount += batch.processedCounts.values.count { $0 > 1 }
            try self.check(batch, policy, seed)
        }
        #expect(policy == .atMostOnce ? doubledCount == 0 : doubledCount > Self.seedCount, "\(doubledCount)")
    }

    private func check(_ batch: Batch, _ policy: DeliveryPolicy, _ seed: UInt64) throws {
        var lines: [UInt64] = []
        var outcomeCounts = OutcomeCounts()
        for text in self.folder.read("results").split(separator: "\n") {
            let object = (try? JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any]) ?? [:]
            guard let line = (object["line"] as? Int).map(UInt64.init), let name = object["outcome"] as? String,
                let outcome = DeliveryOutcome.Kind.allCases.first(where: { "\($0.name)" == name })
            else {
                Issue.record("seed \(seed): \(text)")
                continue
            }
            let isFlagged = object["possibleDuplicate"] as? Bool ?? false
            let count = batch.processedCounts[line] ?? 0
            lines.append(line)
            let status = (object["status"] as? Int).map { UInt16($0) }
            outcomeCounts.add(LineOutcome(outcome, status: status, isDuplicate: isFlagged), count: 1)
            // A hundred thousand expectations would take most of the time.
            let faults = [
                "is no notification": outcome != .invalid && Batch.isBad(line),
                "is lost": outcome == .accepted && count == 0,
                "went twice and is not flagged": count > 1 && !isFlagged,
                "went twice": count > 1 && policy == .atMostOnce,
                "stays indeterminate": outcome == .indeterminate && policy == .atLeastOnce,
            ]
            for (fault, isFound) in faults where isFound { Issue.record("seed \(seed): line \(line) \(fault)") }
        }
        #expect(lines.sorted() == Array(1...batch.lineCount), "seed \(seed)")
        #expect(outcomeCounts == batch.lastCounts, "seed \(seed)")
        // The journal itself may still be locked.
        try self.folder.write("copy", self.folder.bytes("journal"))
        let past = try SendJournal(path: self.folder.file("copy"), input: "batch") { batch.lineCount }.past
        #expect(past.isComplete && past.outcomeCounts == outcomeCounts, "seed \(seed)")
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSWire
import Dispatch
import Foundation
import TestSupport
import Testing

@testable import Batch

/// Batches that are killed at random moments, and whose results or journal are then damaged at random.
@Suite(.timeLimit(.minutes(2))) struct RandomDamageTests {
    private static let seedCount: UInt64 = TestEffort.count(60, long: 2000)
    private static let lineCount: UInt64 = 90
    let folder: SendFolder

    init() throws { self.folder = try SendFolder() }

    private func source(_ policy: DeliveryPolicy, _ disk: CrashingDisk) throws -> SendSource {
        let input = try SendInput(path: self.folder.file("tokens"))
        let results = self.folder.file("results")
        try SendJournal.checkEmptied(self.folder.file("journal"), results: results)
        let journal = try SendJournal(
            path: self.folder.file("journal"),
            input: "batch",
            onOperation: disk.onOperation,
            lineCount: { Self.lineCount }
        )
        var options = BatchOptions(now: 1_700_000_000)
        options.commonPayload = Array("{\"aps\":{}}".utf8)
        let batchState = BatchSendState(
            input: input,
            batch: try OpenedBatch(input, BatchReader(format: .tokens, options: options)),
            results: try SendResults(
                path: results,
                isOnlyExceptions: false,
                journal: journal,
                retriesIndeterminate: policy == .atLeastOnce,
                onOperation: disk.onOperation
            ),
            policy: policy,
            suppressesRejectedTokens: false,
            onBadLine: { _ in }
        )
        return SendSource(input: input, batchState: batchState)
    }

    /// Sends to the end.
    private func send(_ source: SendSource, _ disk: CrashingDisk, _ random: inout SplitMix64) throws {
        let woken = DispatchSemaphore(value: 0)
        source.start { woken.signal() }
        var out: [GivenLine] = []
        while true {
            let (items, supply) = GivenLine.take(Int(random.next() % 12) + 1, from: source)
            if !items.isEmpty { disk.record(.give(items.map(\.line))) }
            out += items
            let count = supply == .ended ? out.count : Int(random.next() % UInt64(out.count + 1))
            for _ in 0..<count {
                let item = out.remove(at: Int(random.next() % UInt64(out.count)))
                item.settle(item.line % 7 == 5 ? .rejected(.binary(.invalidPayloadSize)) : .accepted)
            }
            if supply == .ended { break }
            if supply == .waiting, out.isEmpty {
                try #require(woken.wait(timeout: .now() + .seconds(30)) == .success, "The source sleeps.")
            }
        }
        #expect(source.finish() == nil)
    }

    /// Damages bytes in one of many ways; the last ones leave the first bytes as they are.
    private static func damaged(_ bytes: [UInt8], _ random: inout SplitMix64) -> [UInt8] {
        guard !bytes.isEmpty else { return bytes }
        func position() -> Int { Int(random.next() % UInt64(bytes.count)) }
        var damaged = bytes
        switch random.next() % 9 {
        case 0: damaged[position()] ^= 1 << UInt8(random.next() % 8)
        case 1: for _ in 0..<20 { damaged[position()] = UInt8(truncatingIfNeeded: random.next()) }
        case 2: damaged.removeSubrange(position()...)
        case 3: damaged = damaged.map { _ in UInt8(ascii: "x") }
        case 4: damaged.insert(contentsOf: bytes.prefix { $0 != 0x0A } + [0x0A], at: 0)
        case 5: for index in position()..<bytes.count { damaged[index] = 0 }
        case 6:
            var lines = bytes.split(separator: 0x0A).map { $0 + [0x0A] }
            lines.swapAt(0, Int(random.next() % UInt64(lines.count)))
            damaged = Array(lines.joined())
        case 7: damaged += bytes.suffix(40)
        default: damaged += (0..<30).map { _ in UInt8(truncatingIfNeeded: random.next()) }
        }
        return damaged
    }

    @Test(arguments: [DeliveryPolicy.atLeastOnce, .atMostOnce], ["results", "journal"])
    func `damage is refused, or the batch ends with one result per line and no unflagged duplicate`(
        _ policy: DeliveryPolicy,
        _ name: String
    ) throws {
        let tokens = (1...Self.lineCount).map { String(repeating: "a", count: 56) + String(format: "%08x\n", $0) }
        try self.folder.write("tokens", tokens.joined())
        let paths = ["journal", "results"].map { self.folder.file($0) }
        var refusedCount = 0
        for seed in 0..<Self.seedCount {
            var random = SplitMix64(seed: seed)
            var disk = try CrashingDisk(paths: paths, files: [:])
            try self.send(try self.source(policy, disk), disk, &random)
            // Mostly late, since the journal refers to no results in the beginning.
            let count = disk.eventCount - Int(random.next() % UInt64(disk.eventCount + 1) % (random.next() % 20 + 1))
            var given = disk.given(before: count)
            var files = disk.files(ofKillAfter: count)
            let known = Set(Self.lines(files[paths[1]] ?? []).map(\.line))
            let bytes = Self.damaged(files[self.folder.file(name)] ?? [], &random)
            files[self.folder.file(name)] = bytes
            disk = try CrashingDisk(paths: paths, files: files)
            do {
                try self.send(try self.source(policy, disk), disk, &random)
            } catch let failure as BatchFileError {
                #expect(failure.kind == .badData, "seed \(seed): \(failure)")
                // The incomplete last record of a journal may be gone, and an incomplete title may be complete.
                let now = self.folder.bytes(name)
                let isTitled = !bytes.contains(0x0A) && now.starts(with: bytes)
                let isKept = name == "results" ? now == bytes : isTitled || bytes.starts(with: now)
                #expect(isKept, "seed \(seed): \(failure); \(bytes.count) bytes, \(now.count) now")
                refusedCount += 1
                continue
            }
            given += disk.given(before: disk.eventCount)
            let lines = Self.lines(self.folder.bytes("results"))
            #expect(lines.map(\.line).sorted() == Array(1...Self.lineCount), "seed \(seed)")
            let counts = Dictionary(given.map { ($0, 1) }, uniquingKeysWith: +)
            for (line, isFlagged) in lines where counts[line, default: 0] > 1 {
                // Nothing but the journal knows of a line that has no result yet.
                guard name == "results" || known.contains(line), policy == .atMostOnce || !isFlagged else { continue }
                Issue.record("seed \(seed): line \(line) went twice")
            }
        }
        #expect(refusedCount > Self.seedCount / 8 && refusedCount < Self.seedCount, "\(refusedCount)")
    }

    private static func lines(_ results: [UInt8]) -> [(line: UInt64, isFlagged: Bool)] {
        results.split(separator: 0x0A).map { text in
            let object = (try? JSONSerialization.jsonObject(with: Data(text)) as? [String: Any]) ?? [:]
            return (UInt64(object["line"] as? Int ?? 0), object["possibleDuplicate"] as? Bool ?? false)
        }
    }
}

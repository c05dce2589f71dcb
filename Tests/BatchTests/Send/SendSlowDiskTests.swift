// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Dispatch
import Foundation
import NIOConcurrencyHelpers
import TestSupport
import Testing

@testable import Batch

/// A slow disk, which must not slow down connections.
@Suite(.timeLimit(.minutes(1))) struct SendSlowDiskTests {
    let folder: SendFolder

    init() throws { self.folder = try SendFolder() }

    /// Blocks the operations on a file until the gate is opened.
    final class Gate: Sendable {
        private let lock = ConditionLock(value: true)
        private let arrival = DispatchSemaphore(value: 0)

        func close() {
            self.lock.lock()
            self.lock.unlock(withValue: false)
        }

        func open() {
            self.lock.lock()
            self.lock.unlock(withValue: true)
        }

        /// Waits until an operation is blocked.
        func awaitArrival() -> Bool { self.arrival.wait(timeout: .now() + .seconds(30)) == .success }

        func pass() {
            if !self.lock.lock(whenValue: true, timeoutSeconds: 0) {
                self.arrival.signal()
                self.lock.lock(whenValue: true)
            }
            self.lock.unlock()
        }

        func onOperation(writes: Bool, synchronizes: Bool) -> OnFileOperation {
            { _, operation in
                switch operation {
                case .write where writes, .synchronize where synchronizes: self.pass()
                default: break
                }
            }
        }
    }

    private func source(lineCount: Int, _ onOperation: @escaping OnFileOperation, hasJournal: Bool) throws -> SendSource
    {
        let lines = (1...lineCount).map { "\(String(repeating: "a", count: 56))\(String(format: "%08x", $0))\n" }
        try self.folder.write("tokens", lines.joined())
        let input = try SendInput(path: self.folder.file("tokens"))
        let journal =
            try hasJournal
            ? SendJournal(
                path: self.folder.file("journal"),
                input: "batch",
                onOperation: onOperation,
                lineCount: { try input.lineCount() }
            ) : nil
        var options = BatchOptions(now: 1_700_000_000)
        options.commonPayload = Array("{\"aps\":{}}".utf8)
        let batchState = BatchSendState(
            input: input,
            batch: try OpenedBatch(input, BatchReader(format: .tokens, options: options)),
            results: try SendResults(
                path: self.folder.file("results"),
                isOnlyExceptions: false,
                journal: journal,
                retriesIndeterminate: true,
                onOperation: onOperation
            ),
            policy: .atLeastOnce,
            suppressesRejectedTokens: true,
            onBadLine: { _ in }
        )
        return SendSource(input: input, batchState: batchState)
    }

    /// Takes lines until this number was given, or no more come.
    private func take(_ count: Int, from source: SendSource, _ woken: DispatchSemaphore) throws -> [GivenLine] {
        var taken: [GivenLine] = []
        while taken.count < count {
            let (items, supply) = GivenLine.take(min(50, count - taken.count), from: source)
            taken += items
            if supply == .ended { break }
            guard supply == .waiting else { continue }
            try #require(woken.wait(timeout: .now() + .seconds(30)) == .success, "Nobody says that there is more.")
        }
        return taken
    }

    @Test(arguments: [(true, false), (false, true), (false, false)])
    func `while a disk blocks, outcomes are accepted and a request for lines returns immediately`(
        _ isWrite: Bool,
        _ isResultsOnly: Bool
    ) throws {
        let gate = Gate()
        let blocks = gate.onOperation(writes: isWrite || isResultsOnly, synchronizes: !isWrite && !isResultsOnly)
        let source = try self.source(lineCount: 2000, blocks, hasJournal: !isResultsOnly)
        let woken = DispatchSemaphore(value: 0)
        source.start { woken.signal() }
        let first = try self.take(100, from: source, woken)
        gate.close()
        // Each of these calls would wait for the gate if it wrote to the disk.
        for item in first { item.settle(.accepted) }
        #expect(gate.awaitArrival(), "Nobody writes.")
        let (more, _) = GivenLine.take(20, from: source)
        #expect(more.count == 20, "The intent on the disk goes further.")
        for item in more { item.settle(.rejected(.binary(.invalidToken))) }
        #expect(source.progress.outcomeCounts.total == 120)
        var (items, supply) = GivenLine.take(2000, from: source)
        if !isResultsOnly { #expect(supply == .waiting, "There is no further intent on the disk.") }
        gate.open()
        var last = try self.take(2000, from: source, woken)
        items += last
        last = []
        for item in items { item.settle(.accepted) }
        supply = GivenLine.take(1, from: source).supply
        #expect(supply == .ended)
        #expect(source.finish() == nil)
        let lines = self.folder.read("results").split(separator: "\n")
        #expect(lines.count == 2000 && source.progress.outcomeCounts.total == 2000)
        #expect(lines.count { $0.contains("rejected") } == 20)
        if !isResultsOnly { #expect(self.folder.records.last == "complete") }
    }

    @Test func `results that wait for a disk are bounded`() throws {
        let gate = Gate()
        let lineCount = TestEffort.count(30_000, long: 100_000)
        let source = try self.source(
            lineCount: lineCount,
            gate.onOperation(writes: true, synchronizes: false),
            hasJournal: false
        )
        let woken = DispatchSemaphore(value: 0)
        source.start { woken.signal() }
        gate.close()
        var count = 0
        var supply = ProviderSupply.available
        while supply != .waiting || woken.wait(timeout: .now() + .seconds(1)) == .success {
            let items = GivenLine.take(100, from: source)
            supply = items.supply
            count += items.lines.count
            for item in items.lines { item.settle(.accepted) }
            try #require(supply != .ended, "All lines were given, and none of their results is written.")
        }
        // A result has about 115 bytes, and a few more blocks may be in use.
        #expect((15_000...25_000).contains(count), "\(count)")
        gate.open()
        for item in try self.take(lineCount, from: source, woken) {
            item.settle(.accepted)
        }
        #expect(source.finish() == nil && source.progress.outcomeCounts[.accepted] == lineCount)
    }
}

// SPDX-License-Identifier: Apache-2.0

import Foundation
import TokenStore
import TestSupport
import Testing

/// Concurrent readers and writers of one file.
@Suite("Purge list at the same time", .timeLimit(.minutes(2)))
struct PurgeConcurrencyTests {
    private static let portionCount = 500
    private static let portions = 0..<20

    /// The entries of a portion, identified by their time of failure.
    private static func portion(_ number: Int, writer: UInt8 = 0) -> [PurgeEntry] {
        (0..<Self.portionCount).map { index in
            PurgeListTests.entry(
                [writer, UInt8(number), UInt8(index >> 8), UInt8(index & 255)],
                failedAt: Int64(1000 + number)
            )
        }
    }

    /// Runs blocking work on its own thread, since readers on the threads of tasks would block the writer.
    private static func onThread<Value: Sendable>(
        _ body: @escaping @Sendable () throws -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread { continuation.resume(with: Result { try body() }) }
        }
    }

    private static let deadline = Duration.seconds(60)

    /// Reads the list repeatedly until it is complete.
    ///
    /// - Returns: the last count, or -1 for a partial transaction.
    private static func readAll(_ reader: PurgeList) throws -> Int {
        let start = ContinuousClock.now
        var last = 0
        while last < Self.portions.count * Self.portionCount, ContinuousClock.now - start < Self.deadline {
            var count = 0
            try reader.entries { _ in count += 1 }
            guard count.isMultiple(of: Self.portionCount), count >= last else { return -1 }
            last = count
        }
        return last
    }

    @Test("Readers see only complete transactions, and never wait for the writer to end")
    func readersSeeWholeTransactions() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/purge.db"
        let list = try PurgeList(path: path)
        try await withThrowingTaskGroup(of: Int.self) { group in
            for isOwnConnection in [false, true, true] {
                group.addTask {
                    try await Self.onThread {
                        try Self.readAll(isOwnConnection ? PurgeList(path: path, isMade: false) : list)
                    }
                }
            }
            group.addTask {
                try await Self.onThread {
                    for number in Self.portions { try list.record(Self.portion(number)) }
                    return Self.portions.count * Self.portionCount
                }
            }
            for try await count in group { #expect(count == Self.portions.count * Self.portionCount) }
        }
    }

    @Test("Lists that are created concurrently at one path are one list")
    func madeTogether() async throws {
        for _ in 0..<10 {
            let folder = try TemporaryFolder()
            let path = folder.path + "/purge.db"
            try await withThrowingTaskGroup(of: Void.self) { group in
                for writer in 0..<4 as Range<UInt8> {
                    group.addTask {
                        _ = try await Self.onThread {
                            try PurgeList(path: path).record(Self.portion(0, writer: writer))
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect(try PurgeList(path: path).statistics().count == 4 * Self.portionCount)
        }
    }
}

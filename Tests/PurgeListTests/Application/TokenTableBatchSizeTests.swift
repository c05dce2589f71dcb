// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import PurgeList

/// Goal: batches hold the lock for as long as is meant, whatever the disk does.
@Suite struct TokenTableBatchSizeTests {
    @Test(arguments: [1, 20, 40, 500, 5000, 200_000])
    func `batches come to the time that is meant`(microsecondsPerRow: Int) {
        var size = TokenTableBatchSize(rowCountMax: 10_000)
        for _ in 0..<20 {
            size.note(rowCount: size.rowCount, duration: .microseconds(microsecondsPerRow * size.rowCount))
        }
        #expect(size.rowCount == min(10_000, max(1, 105_000 / microsecondsPerRow)))
    }

    /// A size that came to 3000 rows, each of which takes 35 µs.
    private var settled: TokenTableBatchSize {
        var size = TokenTableBatchSize(rowCountMax: 10_000)
        for _ in 0..<20 { size.note(rowCount: size.rowCount, duration: .microseconds(35 * size.rowCount)) }
        return size
    }

    @Test func `a slow batch counts at once, and for the three behind it`() {
        var size = self.settled
        #expect(size.rowCount == 3000)
        size.note(rowCount: 3000, duration: .milliseconds(210))
        var rowCounts = [size.rowCount]
        for _ in 0..<5 {
            size.note(rowCount: size.rowCount, duration: .microseconds(35 * size.rowCount))
            rowCounts.append(size.rowCount)
        }
        // Then with the slow one together, until it is forgotten.
        #expect(rowCounts[0] == 1500 && rowCounts[1...3].allSatisfy { (2000..<2500).contains($0) }, "\(rowCounts)")
        #expect(rowCounts[4] == 3000, "\(rowCounts)")
    }

    @Test func `commits that take their time whatever their size do not make batches smaller and smaller`() {
        var size = self.settled
        var random = SplitMix64(seed: 1)
        var rowCounts: [Int] = []
        for _ in 0..<2000 {
            let commit = Int.random(in: 50_000...130_000, using: &random)
            size.note(rowCount: size.rowCount, duration: .microseconds(35 * size.rowCount + commit))
            rowCounts.append(size.rowCount)
        }
        #expect(rowCounts.suffix(1000).reduce(0, +) / 1000 > 100)
    }

    @Test func `a few rows in a short time say nothing, and a few in a long time do`() {
        var size = self.settled
        size.note(rowCount: 10, duration: .milliseconds(8))
        #expect(size.rowCount == 3000)
        size.note(rowCount: 10, duration: .milliseconds(95))
        #expect(size.rowCount == 750)
        size.halve()
        #expect(size.rowCount == 375)
    }

    @Test func `one stall does not make the next batches tiny`() {
        var size = self.settled
        size.note(rowCount: 3000, duration: .seconds(3))
        #expect(size.rowCount == 750)
    }

    @Test func `there is always a row, and never more than the most`() {
        var size = TokenTableBatchSize(rowCountMax: 3)
        #expect(size.rowCount == 3)
        size.note(rowCount: 3, duration: .zero)
        #expect(size.rowCount == 3)
        for _ in 0..<4 { size.note(rowCount: size.rowCount, duration: .seconds(60)) }
        #expect(size.rowCount == 1)
        size.halve()
        #expect(size.rowCount == 1)
    }
}

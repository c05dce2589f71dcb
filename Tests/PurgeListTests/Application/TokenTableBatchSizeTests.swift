// SPDX-License-Identifier: Apache-2.0

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

    @Test func `the slowest of the last four batches counts`() {
        var size = TokenTableBatchSize(rowCountMax: 10_000)
        for _ in 0..<20 { size.note(rowCount: size.rowCount, duration: .microseconds(35 * size.rowCount)) }
        #expect(size.rowCount == 3000)
        size.note(rowCount: 3000, duration: .milliseconds(210))
        for _ in 0..<3 {
            #expect(size.rowCount == 1500)
            size.note(rowCount: 1500, duration: .microseconds(35 * 1500))
        }
        #expect(size.rowCount == 1500)
        size.note(rowCount: 1500, duration: .microseconds(35 * 1500))
        #expect(size.rowCount == 2251)
        size.note(rowCount: 2251, duration: .microseconds(35 * 2251))
        #expect(size.rowCount == 3000)
    }

    @Test func `a few rows in a short time say nothing, and a few in a long time do`() {
        var size = TokenTableBatchSize(rowCountMax: 10_000)
        for _ in 0..<20 { size.note(rowCount: size.rowCount, duration: .microseconds(35 * size.rowCount)) }
        size.note(rowCount: 10, duration: .milliseconds(8))
        #expect(size.rowCount == 3000)
        size.note(rowCount: 10, duration: .milliseconds(90))
        #expect(size.rowCount == 11)
        size.halve()
        #expect(size.rowCount == 5)
    }

    @Test func `one stall does not make the next batches tiny`() {
        var size = TokenTableBatchSize(rowCountMax: 10_000)
        for _ in 0..<20 { size.note(rowCount: size.rowCount, duration: .microseconds(35 * size.rowCount)) }
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

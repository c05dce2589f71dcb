// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import PurgeList

struct TokenTableNumbersTests {
    @Test(arguments: [
        [], [0], [1, 2, 3], [127, 128, 255, 256], [-1], [-300, -299, 0, 300], [.min, -1, 0, .max], [.max],
        [.min, .max],
    ])
    func `numbers come back as they were`(_ numbers: [Int64]) {
        var packed = TokenTableNumbers()
        for number in numbers { packed.append(number) }
        #expect(packed.isWhole && Array(packed) == numbers)
        #expect(Array(packed) == numbers, "each time anew")
    }

    @Test(arguments: 0..<20 as Range<UInt64>)
    func `random numbers come back as they were`(_ seed: UInt64) {
        var random = SplitMix64(seed: seed)
        let numbers = Set(
            (0..<200).map { _ in Int64(truncatingIfNeeded: random.next()) >> Int64.random(in: 0..<64, using: &random) }
        )
        .sorted()
        var packed = TokenTableNumbers()
        for number in numbers { packed.append(number) }
        #expect(Array(packed) == numbers, "seed \(seed)")
    }

    @Test func `beyond its bound there are none, rather than some`() {
        var packed = TokenTableNumbers(byteCountMax: 100)
        for number in 1...100 as ClosedRange<Int64> { packed.append(number) }
        #expect(packed.isWhole && Array(packed) == Array(1...100))
        for number in 101...300 as ClosedRange<Int64> { packed.append(number) }
        #expect(!packed.isWhole && Array(packed) == [])
    }
}

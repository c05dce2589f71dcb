// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import APNSSession

@Suite struct ReceivedIdentifiersTests {
    /// Goal: an identifier that occurred twice is never taken for one that occurred once.
    ///
    /// Method: random runs of numbers in either byte order, compared with a count of each.
    @Test(arguments: 0..<200 as Range<UInt64>) func `an identifier that occurred twice is known`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var identifiers = ReceivedIdentifiers()
        var counts: [UInt32: Int] = [:]
        let isSwapped = random.chance(1, of: 3)
        let spread: UInt32 = [10, 300, 100_000, .max].randomElement(using: &random) ?? 10
        for _ in 0..<random.below(60) + 1 {
            var number = UInt32.random(in: 0...spread, using: &random)
            if random.chance(1, of: 8) { number = .max - number % 8 }
            for _ in 0..<random.below(30) {
                let identifier = isSwapped ? number.byteSwapped : number
                _ = identifiers.insert(identifier)
                counts[identifier, default: 0] += 1
                number &+= random.chance(9, of: 10) ? 1 : 3
            }
        }
        for (identifier, count) in counts { #expect(identifiers.hasOne(identifier) == (count == 1), "seed \(seed)") }
    }

    @Test func `many scattered identifiers take bounded memory, and none is wrongly unique`() {
        var random = SplitMix64(seed: 1)
        var identifiers = ReceivedIdentifiers()
        var counts: [UInt32: Int] = [:]
        for _ in 0..<3 * ReceivedIdentifiers.rangeCountMax {
            let identifier = UInt32.random(in: 0...200_000, using: &random)
            _ = identifiers.insert(identifier)
            counts[identifier, default: 0] += 1
        }
        for (identifier, count) in counts where count > 1 { #expect(!identifiers.hasOne(identifier)) }
        // Numbers that increase stay unique, whatever is between them.
        var increasing = ReceivedIdentifiers()
        for number in 0..<UInt32(3 * ReceivedIdentifiers.rangeCountMax) { _ = increasing.insert(number * 5) }
        #expect(increasing.hasOne(UInt32(3 * ReceivedIdentifiers.rangeCountMax - 1) * 5))
    }
}

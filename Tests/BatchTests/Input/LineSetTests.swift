// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import Batch

@Suite struct LineSetTests {
    @Test(arguments: 1...40) func `a set of ranges contains the same lines as a plain set`(_ seed: UInt64) {
        var random = SystemSeed(state: seed)
        var lines = LineSet()
        var plain: Set<UInt64> = []
        for _ in 0..<120 {
            let first = UInt64.random(in: 1...200, using: &random)
            let range = first..<(first + UInt64.random(in: 0...12, using: &random))
            lines.insert(range)
            plain.formUnion(range)
            #expect(lines.count == UInt64(plain.count))
            #expect((0...220).allSatisfy { lines.contains($0) == plain.contains($0) })
            for (range, next) in zip(lines.ranges, lines.ranges.dropFirst()) {
                #expect(range.upperBound < next.lowerBound, "They ascend, and do not touch.")
            }
            #expect(lines.ranges.allSatisfy { !$0.isEmpty })
        }
    }

    @Test func `consecutive lines become one range`() {
        var lines = LineSet()
        for line: UInt64 in 1...1000 { lines.insert(line..<(line + 1)) }
        #expect(lines.ranges == [1..<1001])
    }
}

/// A random number generator with a seed.
private struct SystemSeed: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        self.state = self.state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return self.state ^ (self.state >> 29)
    }
}

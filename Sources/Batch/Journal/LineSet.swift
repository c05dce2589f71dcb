// SPDX-License-Identifier: Apache-2.0

/// A set of line numbers, stored as ranges; it is small if most lines come in order.
package struct LineSet: Equatable, Sendable {
    /// Ascending and not adjacent.
    package private(set) var ranges: [Range<UInt64>] = []

    /// The number of lines.
    package var count: UInt64 { self.ranges.reduce(0) { $0 + $1.upperBound - $1.lowerBound } }

    /// Whether a line is in the set.
    package func contains(_ line: UInt64) -> Bool {
        let position = self.position(of: line)
        return position < self.ranges.count && self.ranges[position].contains(line)
    }

    /// Whether all of the lines are in the set.
    package func contains(_ lines: Range<UInt64>) -> Bool {
        guard !lines.isEmpty else { return true }
        let position = self.position(of: lines.lowerBound)
        guard position < self.ranges.count else { return false }
        return self.ranges[position].lowerBound <= lines.lowerBound
            && lines.upperBound <= self.ranges[position].upperBound
    }

    /// Whether any of the lines is in the set.
    func overlaps(_ lines: Range<UInt64>) -> Bool {
        let position = self.position(of: lines.lowerBound)
        return position < self.ranges.count && self.ranges[position].overlaps(lines)
    }

    /// Adds lines.
    package mutating func insert(_ lines: Range<UInt64>) {
        guard !lines.isEmpty else { return }
        if let last = self.ranges.last, last.upperBound == lines.lowerBound {
            self.ranges[self.ranges.count - 1] = last.lowerBound..<lines.upperBound
            return
        }
        // Ranges that end before the new one stay; ranges that touch it are merged with it.
        var first = self.position(of: lines.lowerBound)
        if first > 0, self.ranges[first - 1].upperBound == lines.lowerBound { first -= 1 }
        var joined = lines
        var end = first
        while end < self.ranges.count, self.ranges[end].lowerBound <= joined.upperBound {
            joined =
                min(
                    joined.lowerBound,
                    self.ranges[end].lowerBound
                )..<max(joined.upperBound, self.ranges[end].upperBound)
            end += 1
        }
        self.ranges.replaceSubrange(first..<end, with: CollectionOfOne(joined))
    }

    /// The index of the first range that ends after a line.
    private func position(of line: UInt64) -> Int {
        var low = 0
        var high = self.ranges.count
        while low < high {
            let middle = (low + high) / 2
            if self.ranges[middle].upperBound <= line { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

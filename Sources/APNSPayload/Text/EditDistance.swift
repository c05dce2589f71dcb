// SPDX-License-Identifier: Apache-2.0

extension StringProtocol {
    /// The number of insertions, deletions, replacements and swaps of adjacent characters that turn this text into
    /// another.
    ///
    /// - Parameter other: the other text. Both should be short: the run time is proportional to the product of their
    ///   lengths.
    /// - Returns: the number; 0 if they are equal.
    package func editDistance(to other: some StringProtocol) -> Int {
        let (mine, its) = (Array(self), Array(other))
        guard !mine.isEmpty, !its.isEmpty else { return mine.count + its.count }
        var beforeLast: [Int] = []
        var last = Array(0...its.count)
        for row in 1...mine.count {
            var current = [row]
            for column in 1...its.count {
                let isSame = mine[row - 1] == its[column - 1]
                var distance = Swift.min(last[column] + 1, current[column - 1] + 1, last[column - 1] + (isSame ? 0 : 1))
                if row > 1, column > 1, mine[row - 1] == its[column - 2], mine[row - 2] == its[column - 1] {
                    distance = Swift.min(distance, beforeLast[column - 2] + 1)
                }
                current.append(distance)
            }
            (beforeLast, last) = (last, current)
        }
        return last[its.count]
    }
}

// SPDX-License-Identifier: Apache-2.0

import Foundation

/// The effort of a test run: a part of the repetitions by default, all of them with `Scripts/test --long`.
package enum TestEffort {
    /// Whether everything runs: all seeds, kills, memory and load tests.
    package static let isLong = ProcessInfo.processInfo.environment["TEST_LONG"] == "1"

    /// The number of repetitions: by default, and in the long run.
    package static func count<Number: BinaryInteger>(_ usual: Number, long: Number) -> Number {
        self.isLong ? long : usual
    }

    /// The seeds of repetitions, from 1; `TEST_SEEDS=7` or `TEST_SEEDS=7-9` runs only these.
    package static func seeds(_ usual: UInt64, long: UInt64) -> ClosedRange<UInt64> {
        let bounds = ProcessInfo.processInfo.environment["TEST_SEEDS"]?.split(separator: "-").compactMap { UInt64($0) }
        guard let first = bounds?.first, let last = bounds?.last, first <= last else {
            return 1...self.count(usual, long: long)
        }
        return first...last
    }

    /// Selects from many cases: by default one in `each`, in the long run all.
    package static func cases<Case>(_ all: [Case], each step: Int) -> [Case] {
        self.isLong ? all : stride(from: 0, to: all.count, by: step).map { all[$0] }
    }
}

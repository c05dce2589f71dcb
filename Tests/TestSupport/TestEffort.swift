// SPDX-License-Identifier: Apache-2.0

import Foundation

/// How much a run of the tests does: a part of what is repeated by default, all of it with `Scripts/test --long`.
package enum TestEffort {
    /// Whether everything runs: all seeds, kills, memory and load.
    package static let isLong = ProcessInfo.processInfo.environment["TEST_LONG"] == "1"

    /// How often something is repeated: so many times by default, and so many in the long run.
    package static func count<Number: BinaryInteger>(_ usual: Number, long: Number) -> Number {
        self.isLong ? long : usual
    }

    /// What is tried of many cases: one of so many by default, each in the long run.
    package static func cases<Case>(_ all: [Case], each step: Int) -> [Case] {
        self.isLong ? all : stride(from: 0, to: all.count, by: step).map { all[$0] }
    }
}

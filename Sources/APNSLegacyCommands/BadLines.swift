// SPDX-License-Identifier: Apache-2.0

import BatchFiles
import NIOConcurrencyHelpers

/// Tells about the first bad lines of an input, and counts all.
final class BadLines: Sendable {
    private let name: String
    private let say: @Sendable (String) -> Void
    private let further: String
    private let counter = NIOLockedValueBox<UInt64>(0)

    /// So many bad lines are told about one by one.
    private static let toldCountMax = 20

    /// - Parameters:
    ///   - name: that of the input.
    ///   - further: says where the others are.
    ///   - say: takes what is told.
    init(of name: String, further: String, _ say: @escaping @Sendable (String) -> Void) {
        self.name = name
        self.further = further
        self.say = say
    }

    /// How many there were.
    var count: UInt64 { self.counter.withLockedValue { $0 } }

    func add(_ problem: BatchProblem) {
        let count = self.counter.withLockedValue { count in
            count += 1
            return count
        }
        if count <= Self.toldCountMax { self.say("\(self.name), \(problem)") }
        if count == Self.toldCountMax + 1 { self.say(self.further) }
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Batch
import NIOConcurrencyHelpers

/// Reports the first invalid lines of an input, and counts all of them.
final class BadLines: Sendable {
    private let name: String
    private let emit: @Sendable (Diagnostic) -> Void
    private let advice: String
    private let counter = NIOLockedValueBox<UInt64>(0)

    /// The number of lines that are reported individually; more would hide the first ones.
    private static let reportedCountMax: UInt64 = 10

    init(of name: String, advice: String, _ emit: @escaping @Sendable (Diagnostic) -> Void) {
        self.name = name
        self.advice = advice
        self.emit = emit
    }

    /// The number of invalid lines.
    var count: UInt64 { self.counter.withLockedValue { $0 } }

    /// Adds an invalid line.
    func add(_ problem: BatchProblem) {
        let count = self.counter.withLockedValue { count in
            count += 1
            return count
        }
        guard count <= Self.reportedCountMax else { return }
        self.emit(Diagnostic(.warning, at: .init(problem, in: self.name), "\(problem.kind)"))
    }

    /// Reports how many lines were not reported individually; call it after the input was read.
    func finish() {
        let count = self.count
        guard count > Self.reportedCountMax else { return }
        let rest = (count - Self.reportedCountMax).grouped
        let sentence = "and \(rest) more invalid \(rest == "1" ? "line" : "lines")"
        self.emit(Diagnostic(.warning, sentence, advice: self.advice))
    }
}

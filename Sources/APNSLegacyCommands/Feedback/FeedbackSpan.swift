// SPDX-License-Identifier: Apache-2.0

import ArgumentParser

/// A length of time on the command line: a whole number and ms, s, m, h or d; seconds without a unit.
struct FeedbackSpan: ExpressibleByArgument, Sendable {
    let duration: Duration

    /// A month is longer than any drain or period should take.
    private static let secondsMax: Int64 = 31 * 86_400

    init?(argument: String) {
        let digits = argument.prefix { $0.isASCII && $0.isNumber }
        let milliseconds: [Substring: Int64] = [
            "ms": 1, "": 1000, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000,
        ]
        guard (1...10).contains(digits.count), let number = Int64(digits),
            let unit = milliseconds[argument.dropFirst(digits.count)], number * unit <= Self.secondsMax * 1000
        else { return nil }
        self.duration = .milliseconds(number * unit)
    }

    /// A number of seconds, as a default.
    init(seconds: Int64) { self.duration = .seconds(seconds) }
}

extension FeedbackSpan: CustomStringConvertible {
    var description: String { "\(self.duration.components.seconds)s" }
}

// SPDX-License-Identifier: Apache-2.0

import ArgumentParser

/// A span of time on the command line: `90s`, `30m`, `12h`, `1d`, `2w`, or plain seconds.
struct PurgeSpan: ExpressibleByArgument, Sendable {
    let seconds: Int64

    /// More than a century is a slip.
    private static let secondsMax: Int64 = 100 * 366 * 86_400

    init?(argument: String) {
        let units: [Character: Int64] = ["s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800]
        let unit = argument.last.flatMap { units[$0] }
        let digits = unit == nil ? argument[...] : argument.dropLast()
        guard (1...12).contains(digits.utf8.count), digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let number = Int64(digits), number * (unit ?? 1) <= Self.secondsMax
        else { return nil }
        self.seconds = number * (unit ?? 1)
    }
}

// SPDX-License-Identifier: Apache-2.0

/// Identifies an event by its log and its number in it.
///
/// Numbers start again after a restart, so a number alone would be ambiguous.
struct EventIdentifier: Hashable, Sendable, CustomStringConvertible {
    /// A random number of the log.
    let run: UInt64
    /// The number of the event, from 1; 0 before the first event.
    let number: UInt64

    init(run: UInt64, number: UInt64) {
        self.run = run
        self.number = number
    }

    /// Parses ``description``.
    init?(_ text: String) {
        let parts = text.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let run = UInt64(parts[0], radix: 16), let number = UInt64(parts[1]) else { return nil }
        self.init(run: run, number: number)
        guard self.description == text else { return nil }
    }

    var description: String {
        let digits = String(self.run, radix: 16)
        return String(repeating: "0", count: 16 - digits.utf8.count) + digits + "-\(self.number)"
    }
}

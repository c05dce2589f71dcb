// SPDX-License-Identifier: Apache-2.0

/// What names an event: the log that it is in, and its number there.
///
/// After a restart the numbers begin anew, so that a number alone would name another event.
struct EventIdentifier: Hashable, Sendable, CustomStringConvertible {
    /// Chosen at random for each log.
    let run: UInt64
    /// From 1; 0 for the time before the first event.
    let number: UInt64

    init(run: UInt64, number: UInt64) {
        self.run = run
        self.number = number
    }

    /// Reads what ``description`` wrote.
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

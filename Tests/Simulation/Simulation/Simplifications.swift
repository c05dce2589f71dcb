// SPDX-License-Identifier: Apache-2.0

/// What a seed is run without, to find the least that makes it fail.
struct Simplifications: Sendable, CustomStringConvertible {
    /// The kinds of trouble.
    enum Fault: String, CaseIterable, Sendable {
        case resets, stalls, refusals, trouble, shortIO, threads, deaths, powerFailures, disks, flips, secondInstances
    }

    private var missing: Set<Fault> = []

    /// The maximum number of notifications.
    private(set) var countMax = Int.max

    /// Whether the result is not printed.
    var isQuiet = false

    func contains(_ fault: Fault) -> Bool { !self.missing.contains(fault) }

    /// Leaves out everything without which it still fails.
    mutating func shrink(_ fails: (Simplifications) -> Bool) {
        for fault in Fault.allCases {
            var other = self
            other.missing.insert(fault)
            if fails(other) { self = other }
        }
        var count = Self.countMaxFirst
        while count > 0 {
            var other = self
            other.countMax = count
            if fails(other) { self = other }
            count /= 2
        }
    }

    /// The most notifications of a scenario.
    private static let countMaxFirst = 256

    var description: String {
        let missing = self.missing.map(\.rawValue).sorted().joined(separator: ", ")
        let count = self.countMax == .max ? "" : "at most \(self.countMax) notifications"
        let parts = [missing.isEmpty ? "" : "without \(missing)", count].filter { !$0.isEmpty }
        return parts.isEmpty ? "nothing is left out" : parts.joined(separator: "; ")
    }
}

/// Set before a run begins.
nonisolated(unsafe) var simplified = Simplifications()

// SPDX-License-Identifier: Apache-2.0

package import APNSWire

/// The outcome of a line, as results, journal and counts have it.
package struct LineOutcome: Equatable, Sendable {
    package let kind: DeliveryOutcome.Kind
    /// The status of a rejection.
    let status: UInt16?
    /// Whether the notification may have arrived twice.
    let isDuplicate: Bool

    package init(_ kind: DeliveryOutcome.Kind, status: UInt16? = nil, isDuplicate: Bool = false) {
        self.kind = kind
        self.status = status
        self.isDuplicate = isDuplicate
    }
}

/// The number of notifications of a batch by outcome.
package struct OutcomeCounts: Equatable, Sendable {
    /// Counts by outcome.
    package private(set) var counts: [DeliveryOutcome.Kind: UInt64] = [:]
    /// Counts of rejections by status.
    package private(set) var statuses: [UInt16: UInt64] = [:]
    /// The number of possible duplicates.
    package private(set) var possibleDuplicateCount: UInt64 = 0

    /// Creates empty counts.
    package init() {}

    package mutating func add(_ outcome: LineOutcome, count: UInt64) {
        self.counts[outcome.kind, default: 0] += count
        if let status = outcome.status { self.statuses[status, default: 0] += count }
        if outcome.isDuplicate { self.possibleDuplicateCount += count }
    }

    /// Adds other counts.
    package mutating func add(_ other: OutcomeCounts) {
        self.counts.merge(other.counts, uniquingKeysWith: +)
        self.statuses.merge(other.statuses, uniquingKeysWith: +)
        self.possibleDuplicateCount += other.possibleDuplicateCount
    }

    package subscript(_ outcome: DeliveryOutcome.Kind) -> UInt64 { self.counts[outcome, default: 0] }

    /// Whether notifications have an outcome that earlier counts do not include, and all of those are indeterminate.
    package func addsOnlyIndeterminate(to past: OutcomeCounts) -> Bool {
        self.total > past.total && past.total + self[.indeterminate] == self.total + past[.indeterminate]
    }

    /// The number of notifications that have an outcome.
    package var total: UInt64 { self.counts.values.reduce(0, +) }
}

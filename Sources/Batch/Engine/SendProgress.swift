// SPDX-License-Identifier: Apache-2.0

/// The progress of a batch.
package struct SendProgress: Sendable {
    /// The number of lines given to a connection, or that would be in a dry run.
    package var sentCount: UInt64
    /// Whether the whole input was read.
    package var hasReadAll: Bool
    /// The outcomes so far, including those of an earlier run with the same journal.
    package var outcomeCounts: OutcomeCounts
    /// The number of input lines taken, including blank lines.
    package var lineCount: UInt64
    /// The part of the input that was taken, 0 to 1; `nil` for a stream, whose length is unknown.
    package var fraction: Double?
    /// The number of notifications that were given to a connection and have no outcome yet.
    package var openCount: UInt64
    /// Whether the input has any bytes, after decompression.
    package var hasContent = true
}

/// A position in a batch between two of its records.
package struct BatchPosition: Equatable, Sendable {
    /// The line at which the next record begins, counted from 1; blank lines may come before it.
    package var nextLine: UInt64 = 1
    /// The approximate number of bytes of the file before it.
    package var byteCount: UInt64 = 0
    /// The number of lines before the first record, including the header of CSV.
    package var headLineCount: UInt64 = 0
}

/// Where an interrupted batch stopped, so that another run can continue from there.
package struct ResumePoint: Equatable, Sendable {
    /// The position before all records that were not taken or are unsent, except for ``unsentCount``.
    package var position = BatchPosition()
    /// The number of unsent lines before the position.
    package var unsentCount: UInt64 = 0
    /// The number of lines before the position whose outcome is not known.
    package var indeterminateCount: UInt64 = 0

    /// Whether continuing from here is the same as starting from the first line.
    package var isAtBeginning: Bool { self.position.nextLine <= self.position.headLineCount + 1 }
}

/// Finds the unsent lines at the end that no line with another outcome follows; another run can start there.
///
/// Invalid and suppressed lines do not count as another outcome: nothing was sent for them, so reading them again sends
/// nothing twice.
struct UnsentTail {
    private var unsent = LineSet()
    /// The last line with another outcome; 0 if there is none.
    private var lastOther: UInt64 = 0

    /// Adds the outcome of lines.
    mutating func add(_ lines: Range<UInt64>, isUnsent: Bool) {
        guard !lines.isEmpty else { return }
        if isUnsent { self.unsent.insert(lines) } else { self.lastOther = max(self.lastOther, lines.upperBound - 1) }
    }

    /// The first line of the tail; `nil` if there is none.
    var firstLine: UInt64? {
        self.unsent.ranges.first { $0.upperBound > self.lastOther + 1 }.map { max($0.lowerBound, self.lastOther + 1) }
    }

    /// The number of unsent lines that are not in the tail.
    var countBefore: UInt64 {
        self.unsent.ranges.reduce(0) { count, lines in
            let end = min(lines.upperBound, self.lastOther + 1)
            return count + (end > lines.lowerBound ? end - lines.lowerBound : 0)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

/// How far a batch is.
package struct SendProgress: Sendable {
    /// Lines that were given to a connection, or would be in a dry run.
    package var sentCount: UInt64
    /// Whether the input was read to its end.
    package var hasReadAll: Bool
    /// The outcomes so far, those of an earlier run with the same journal included.
    package var outcomeCounts: OutcomeCounts
    /// Lines of the input that were taken; blank ones are among them.
    package var lineCount: UInt64
    /// The part of the input that was taken, 0 to 1; `nil` for a stream, whose length nobody knows.
    package var fraction: Double?
    /// Notifications that were given to a connection, and have no outcome yet.
    package var openCount: UInt64
    /// Whether the input has any bytes, after decompression.
    package var hasContent = true
}

/// A place in a batch between two of its records.
package struct BatchPosition: Equatable, Sendable {
    /// The line at which the next record begins, counted from 1; blank lines may come before it.
    package var nextLine: UInt64 = 1
    /// About how many bytes of the file come before it.
    package var byteCount: UInt64 = 0
    /// The lines before the first record; in CSV, the header is in them.
    package var headLineCount: UInt64 = 0
}

/// Where a batch stopped that was not read to its end, so that another run can continue from there.
package struct ResumePoint: Equatable, Sendable {
    /// Before each record that was not taken, and before those that were and are unsent.
    package var position = BatchPosition()
    /// Unsent lines before the position.
    package var unsentCount: UInt64 = 0
    /// Lines before the position whose outcome is not known.
    package var indeterminateCount: UInt64 = 0

    /// Whether a run that begins with the first line does no more than one that continues from here.
    package var isAtBeginning: Bool { self.position.nextLine <= self.position.headLineCount + 1 }
}

/// Tells apart the lines that are unsent and followed by no other outcome, which another run can begin with.
///
/// Invalid and suppressed lines do not count as an outcome here: nothing was sent for them, so to read them again
/// sends nothing twice.
struct UnsentTail {
    private var unsent = LineSet()
    /// The last line with another outcome; 0 for none.
    private var lastOther: UInt64 = 0

    /// Takes the outcome of lines.
    mutating func add(_ lines: Range<UInt64>, isUnsent: Bool) {
        guard !lines.isEmpty else { return }
        if isUnsent { self.unsent.insert(lines) } else { self.lastOther = max(self.lastOther, lines.upperBound - 1) }
    }

    /// The first line of the tail; `nil` if there is none.
    var firstLine: UInt64? {
        self.unsent.ranges.first { $0.upperBound > self.lastOther + 1 }.map { max($0.lowerBound, self.lastOther + 1) }
    }

    /// How many unsent lines are not in the tail.
    var countBefore: UInt64 {
        self.unsent.ranges.reduce(0) { count, lines in
            let end = min(lines.upperBound, self.lastOther + 1)
            return count + (end > lines.lowerBound ? end - lines.lowerBound : 0)
        }
    }
}

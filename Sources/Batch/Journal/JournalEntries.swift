// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// Records to append to a ``SendJournal``, in memory.
struct JournalEntries {
    /// Consecutive lines with the same outcome, which are written as one record.
    private struct Run {
        var lines: Range<UInt64>
        let outcome: LineOutcome
        var resultByteCount: UInt64
        var hash: XXH64Hash?
    }

    private var pending = ""
    private var run: Run?
    private var spared: Range<UInt64>?

    /// When the records reach this number of bytes, they should be appended.
    private static let pendingByteCountMax = 32_768

    /// Whether there is nothing to append.
    var isEmpty: Bool { self.run == nil && self.spared == nil && self.pending.isEmpty }

    /// Whether the records should be appended now.
    var isFull: Bool { self.pending.utf8.count >= JournalEntries.pendingByteCountMax }

    /// Adds a record unchanged.
    mutating func append(_ record: String) {
        self.appendRun()
        self.appendSpared()
        self.pending += record + "\n"
    }

    /// Records that every line up to this one may be written.
    mutating func intend(through line: UInt64) {
        self.append("intent \(line)")
    }

    /// Records that lines this run intended to write were not written, and will not be.
    mutating func spare(_ lines: Range<UInt64>) {
        guard !lines.isEmpty else { return }
        if let spared = self.spared, spared.upperBound == lines.lowerBound {
            self.spared = spared.lowerBound..<lines.upperBound
        } else {
            self.appendSpared()
            self.spared = lines
        }
    }

    /// Records the outcome of lines.
    mutating func settle(
        _ lines: Range<UInt64>,
        _ outcome: LineOutcome,
        resultByteCount: UInt64,
        hash: XXH64Hash?
    ) {
        if let run = self.run, run.lines.upperBound == lines.lowerBound, run.outcome == outcome {
            self.run?.lines = run.lines.lowerBound..<lines.upperBound
            self.run?.resultByteCount = resultByteCount
            self.run?.hash = hash
        } else {
            self.appendRun()
            self.run = Run(lines: lines, outcome: outcome, resultByteCount: resultByteCount, hash: hash)
        }
    }

    /// Takes the records, each with its line break.
    mutating func take() -> String {
        self.appendRun()
        self.appendSpared()
        defer { self.pending = "" }
        return self.pending
    }

    private mutating func appendSpared() {
        guard let lines = self.spared else { return }
        self.spared = nil
        self.pending += "spare \(lines.lowerBound) \(lines.upperBound - 1)\n"
    }

    private mutating func appendRun() {
        guard let run = self.run else { return }
        self.run = nil
        let duplicate = run.outcome.isDuplicate ? "dup" : "-"
        let status = run.outcome.status.map(String.init) ?? "-"
        self.pending += "\(run.lines.lowerBound) \(run.lines.upperBound - 1) \(run.outcome.kind.name) \(status) "
        self.pending += "\(duplicate) \(run.resultByteCount) \(run.hash.map { $0.value.hexadecimal } ?? "-")\n"
    }
}

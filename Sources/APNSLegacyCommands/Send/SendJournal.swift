// SPDX-License-Identifier: Apache-2.0

import Glibc

/// The durable record of a batch: which lines may have been written, and which have an outcome.
///
/// The file is text, one record a line, only ever appended to; a last line without its end was cut off by a crash and
/// counts for nothing.
///
/// | record                            | means                                                                        |
/// |-----------------------------------|------------------------------------------------------------------------------|
/// | `apns-legacy journal 1 INPUT`     | the first line; INPUT tells this batch from others                           |
/// | `intent LINE`                     | this run may have written every line up to LINE                              |
/// | `FIRST LAST OUTCOME STATUS DUP AT`| lines FIRST to LAST have this outcome; the results file has AT octets then   |
/// | `spare FIRST LAST`                | this run has not written lines FIRST to LAST, and will not                   |
/// | `run`                             | another run begins; what the one before intended stays in doubt              |
/// | `complete`                        | every line has an outcome                                                    |
/// | `began SECONDS`                   | when a run began, in seconds since 1970                                      |
/// | `listed COUNT`                    | so many rejections of the run are on the purge list, or do not belong there  |
///
/// An intent is on the disk before the first octet of its lines goes to a socket. Outcomes follow when they are known:
/// lines whose outcome did not get to the file are found in doubt, and sent again as possible duplicates.
final class SendJournal {
    /// What an earlier run left.
    struct Past: Equatable, Sendable {
        /// The lines that have an outcome.
        var settled = LineSet()
        /// The lines that may have been written; those that have an outcome may be among them.
        var doubted = LineSet()
        /// Octets of the results file that belong to what is settled.
        var resultOctetCount: UInt64 = 0
        /// Counts of the outcomes.
        var tally = SendTally()
        /// Whether every line has an outcome.
        var isComplete = false
        /// Lines that were rejected, and whose tokens no run has put on a purge list.
        var unlistedCount: UInt64 = 0
        /// When the first run began, in seconds since 1970; `nil` where the journal does not say.
        var beganAt: Int64?
    }

    /// Lines one after the other with the same outcome, which become one record.
    private struct Run {
        var lines: Range<UInt64>
        var outcome: BatchOutcome
        var status: UInt16?
        var isDuplicate: Bool
        var resultOctetCount: UInt64
    }

    private let file: OutputFile
    private var pending = ""
    private var run: Run?
    private var spared: Range<UInt64>?

    /// Every line up to this one may be written by this run; 0 for none.
    private(set) var intendedThrough: UInt64 = 0

    /// What the last run left; empty where there was none.
    let past: Past

    private static let pendingOctetCountMax = 32_768

    /// Opens a journal, or begins one where there is none.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - input: what tells this batch from others, in one word.
    /// - Throws: ``CommandFailure`` where the file cannot be used, is held by another process, belongs to another
    ///   batch, or is damaged.
    init(path: String, input: String) throws {
        let file = try OutputFile(path: path, isKept: true)
        guard file.lock() else {
            throw CommandFailure(.tryAgain, "\(path) is in use by another process; wait for it to end.")
        }
        var reader = SendJournalReader(path: path, input: input)
        try file.read { try reader.take($0) }
        self.past = try reader.finish()
        try file.truncate(to: reader.wholeOctetCount)
        if reader.wholeOctetCount == 0 {
            let title = SendJournalReader.title + input + "\n"
            try Array(title.utf8).withUnsafeBytes { try file.append($0) }
            try file.synchronize()
        } else if !self.past.isComplete {
            self.pending = "run\n"
        }
        if !self.past.isComplete { self.pending += "began \(time(nil))\n" }
        self.file = file
    }

    /// Says that every line up to this one may be written, and waits until that is on the disk.
    func intend(through line: UInt64) throws {
        self.putRun()
        self.pending += "intent \(line)\n"
        try self.flush()
        try self.file.synchronize()
        self.intendedThrough = line
    }

    /// Says that lines that this run intended to write were not written, and will not be.
    func spare(_ lines: Range<UInt64>) {
        guard !lines.isEmpty else { return }
        if let spared = self.spared, spared.upperBound == lines.lowerBound {
            self.spared = spared.lowerBound..<lines.upperBound
        } else {
            self.putSpared()
            self.spared = lines
        }
    }

    /// Records the outcome of lines.
    ///
    /// - Returns: whether so much is waiting that it should be flushed.
    func settle(
        _ lines: Range<UInt64>,
        _ outcome: BatchOutcome,
        status: UInt16?,
        isDuplicate: Bool,
        resultOctetCount: UInt64
    ) -> Bool {
        if let run = self.run, run.lines.upperBound == lines.lowerBound, run.outcome == outcome, run.status == status,
            run.isDuplicate == isDuplicate
        {
            self.run?.lines = run.lines.lowerBound..<lines.upperBound
            self.run?.resultOctetCount = resultOctetCount
        } else {
            self.putRun()
            self.run = Run(
                lines: lines,
                outcome: outcome,
                status: status,
                isDuplicate: isDuplicate,
                resultOctetCount: resultOctetCount
            )
        }
        return self.pending.utf8.count >= SendJournal.pendingOctetCountMax
    }

    /// Whether something is recorded that the system does not have.
    var isFlushDue: Bool { self.run != nil || self.spared != nil || !self.pending.isEmpty }

    /// Gives what is recorded to the system.
    func flush() throws {
        self.putRun()
        self.putSpared()
        guard !self.pending.isEmpty else { return }
        try self.pending.withUTF8 { try self.file.append(UnsafeRawBufferPointer($0)) }
        self.pending = ""
    }

    /// Gives what is recorded to the system, and waits until it is on the disk.
    ///
    /// - Parameter isComplete: whether every line has an outcome.
    /// - Throws: ``CommandFailure`` where the file cannot be written.
    func finish(isComplete: Bool) throws {
        self.putRun()
        if isComplete { self.pending += "complete\n" }
        try self.flush()
        try self.file.synchronize()
    }

    /// Says that the tokens of so many rejections are on the purge list, as far as they belong there.
    func noteListed(_ count: UInt64) throws {
        self.pending += "listed \(count)\n"
        try self.flush()
        try self.file.synchronize()
    }

    private func putSpared() {
        guard let lines = self.spared else { return }
        self.spared = nil
        self.pending += "spare \(lines.lowerBound) \(lines.upperBound - 1)\n"
    }

    private func putRun() {
        guard let run = self.run else { return }
        self.run = nil
        let duplicate = run.isDuplicate ? "dup" : "-"
        let status = run.status.map(String.init) ?? "-"
        self.pending += "\(run.lines.lowerBound) \(run.lines.upperBound - 1) \(run.outcome.name) \(status) "
        self.pending += "\(duplicate) \(run.resultOctetCount)\n"
    }
}

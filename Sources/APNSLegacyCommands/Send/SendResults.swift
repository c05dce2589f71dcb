// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Glibc

/// What became of the lines of a batch: the results file, the journal, and the counts, which go together.
struct SendResults: ~Copyable {
    private let file: OutputFile?
    private var writer = BatchResultWriter()
    private let journal: SendJournal?
    private var entries = JournalEntries()
    /// Records that could not be appended.
    private var unappended = ""
    private let isOnlyExceptions: Bool
    /// Results of lines that another run with the same journal will send again, which go behind all others, so that
    /// that run can cut them off.
    private var provisional: [UInt8] = []
    private let retriesIndeterminate: Bool
    private var lastFlush = ContinuousClock.now
    private var groupCount: UInt64 = SendResults.groupCountMin
    private var lastIntent = ContinuousClock.now
    /// Every line up to this one may be written by this run; 0 for none.
    private var intendedThrough: UInt64 = 0
    /// The last line of the last intent, which may not be on the disk.
    private var recordedThrough: UInt64 = 0

    /// The counts, those of an earlier run with the same journal included.
    private(set) var tally: SendTally

    /// What an earlier run with the same journal left.
    let past: SendJournal.Past

    /// How many lines one intent covers: more when lines come quickly, so that waiting for the disk costs little, and
    /// few when they come slowly, so that few are in doubt after a crash.
    private static let groupCountMin: UInt64 = 64
    static let groupCountMax: UInt64 = 65_536
    private static let groupDuration = Duration.milliseconds(50)

    /// Results wait no longer than about twice this to be given to the system.
    static let flushDelay = Duration.milliseconds(20)

    /// Opens the results file.
    ///
    /// - Parameters:
    ///   - path: the file, `-` for standard output, `nil` for none.
    ///   - isOnlyExceptions: whether what was accepted, and not doubtful, gets no line.
    ///   - journal: the journal, where there is one; the results of an earlier run are kept then.
    ///   - retriesIndeterminate: whether another run with the same journal sends what is indeterminate again.
    ///   - operations: what is asked of the system.
    /// - Throws: ``CommandFailure`` where the file cannot be opened, or is shorter than the journal says.
    init(
        path: String?,
        isOnlyExceptions: Bool,
        journal: SendJournal?,
        retriesIndeterminate: Bool,
        operations: FileOperations = .system
    ) throws {
        self.retriesIndeterminate = retriesIndeterminate
        let past = journal.map { $0.past } ?? SendJournal.Past()
        self.past = past
        self.tally = past.tally
        self.isOnlyExceptions = isOnlyExceptions
        if let path {
            if journal != nil { try SendResults.check(path, past) }
            let file = try OutputFile(path: path, isKept: journal != nil, operations: operations)
            if journal != nil { try file.truncate(to: past.resultOctetCount) }
            self.file = file
        } else {
            self.file = nil
        }
        self.journal = journal
        if let journal { self.entries = journal.opening }
    }

    /// Makes sure that the results that a journal counts on are in a file.
    ///
    /// - Throws: ``CommandFailure`` where they are not.
    static func check(_ path: String, _ past: SendJournal.Past) throws {
        guard past.resultOctetCount > 0, path != "-" else { return }
        var status = stat()
        let isThere = stat(path, &status) == 0
        guard !isThere || status.st_mode & S_IFMT == S_IFREG else { return }
        let octetCount = isThere ? UInt64(max(0, status.st_size)) : 0
        guard octetCount < past.resultOctetCount else { return }
        throw CommandFailure(
            .dataError,
            "\(path) is shorter than the journal says: it has \(octetCount) of \(past.resultOctetCount) bytes, so "
                + "results are missing. Nothing was sent. Restore it, or remove both to send everything again."
        )
    }

    /// Whether an earlier run settled a line.
    func isSettled(_ line: UInt64) -> Bool {
        !self.past.settled.ranges.isEmpty && self.past.settled.contains(line)
    }

    /// Whether a line may have been written in an earlier run that did not come to know its outcome.
    func isInDoubt(_ line: UInt64) -> Bool {
        !self.past.doubted.ranges.isEmpty && self.past.doubted.contains(line)
    }

    /// Makes sure that it is on the disk that a line may be written.
    mutating func intend(_ line: UInt64) throws {
        guard let journal = self.journal, line > self.intendedThrough else { return }
        let now = ContinuousClock.now
        let isQuick = now - self.lastIntent < SendResults.groupDuration
        self.groupCount =
            isQuick
            ? min(self.groupCount * 2, SendResults.groupCountMax) : max(self.groupCount / 2, SendResults.groupCountMin)
        let last = line + self.groupCount - 1
        self.entries.intend(through: last)
        self.recordedThrough = last
        try self.flush()
        try journal.synchronize()
        self.intendedThrough = last
        self.lastIntent = ContinuousClock.now
    }

    /// Takes the outcome of lines that needs no line each in the results.
    mutating func settle(_ lines: Range<UInt64>, _ outcome: BatchOutcome, status: UInt16?, isDuplicate: Bool) throws {
        self.tally.add(outcome, status: status, isDuplicate: isDuplicate, count: UInt64(lines.count))
        try self.record(lines, outcome, status: status, isDuplicate: isDuplicate)
        try self.flushWhenDue()
    }

    /// Whether an outcome has a line of its own in the results.
    func isWritten(_ outcome: BatchOutcome, isDuplicate: Bool) -> Bool {
        guard self.file != nil else { return false }
        return !(self.isOnlyExceptions && outcome == .accepted && !isDuplicate)
    }

    /// Whether lines with an outcome must be taken one by one.
    func needsLines(_ outcome: BatchOutcome, isDuplicate: Bool) -> Bool {
        !self.past.doubted.ranges.isEmpty || self.isWritten(outcome, isDuplicate: isDuplicate)
            || self.isProvisional(outcome)
    }

    /// Takes the outcome of one line, and writes it to the results.
    mutating func write(
        line: UInt64,
        id: UnsafeRawBufferPointer,
        token: borrowing DeviceToken,
        _ outcome: BatchOutcome,
        status: UInt16?,
        attempts: Int,
        isDuplicate: Bool,
        reason: String? = nil
    ) throws {
        self.tally.add(outcome, status: status, isDuplicate: isDuplicate, count: 1)
        if self.isProvisional(outcome) {
            // What is known not to have been written is in no doubt in the next run.
            if outcome == .unsent, !isDuplicate { self.entries.spare(line..<(line + 1)) }
            return try self.writeProvisionally(
                line: line,
                id: id,
                token: token,
                outcome,
                attempts: attempts,
                isDuplicate: isDuplicate,
                reason: reason
            )
        }
        if self.isWritten(outcome, isDuplicate: isDuplicate) {
            for _ in 0..<2 {
                let fits = self.writer.append(
                    lineNumber: Int(line),
                    id: id,
                    token: token,
                    outcome: outcome,
                    status: status,
                    attempts: attempts,
                    isPossibleDuplicate: isDuplicate,
                    reason: reason
                )
                if fits { break }
                try self.flushResults()
            }
        }
        try self.record(line..<(line + 1), outcome, status: status, isDuplicate: isDuplicate)
    }

    /// Takes a line that could not be read.
    mutating func write(_ problem: BatchProblem) throws {
        self.tally.add(.invalid, count: 1)
        if self.file != nil {
            for _ in 0..<2 {
                if self.writer.append(problem) { break }
                try self.flushResults()
            }
        }
        let line = UInt64(problem.lineNumber)
        try self.record(line..<(line + 1), .invalid, status: nil, isDuplicate: false)
    }

    /// Whether something waits to be given to the system.
    var isFlushDue: Bool { self.writer.octetCount > 0 || !self.entries.isEmpty }

    /// Gives everything to the system when some time has passed.
    mutating func flushWhenDue() throws {
        let now = ContinuousClock.now
        guard now - self.lastFlush >= SendResults.flushDelay else { return }
        self.lastFlush = now
        try self.flush()
    }

    /// Gives everything to the system; the results are on the disk before the journal counts on them.
    mutating func flush() throws {
        try self.flushResults()
        guard let journal = self.journal else { return }
        self.unappended += self.entries.take()
        guard !self.unappended.isEmpty else { return }
        try self.file?.synchronize()
        try journal.append(self.unappended)
        self.unappended = ""
    }

    /// Ends the files.
    ///
    /// - Parameters:
    ///   - isComplete: whether every line has an outcome that stays.
    ///   - lastGivenLine: the last line that may have been written by this run.
    /// - Throws: ``CommandFailure`` where a file cannot be written.
    mutating func finish(isComplete: Bool, lastGivenLine: UInt64) throws {
        if self.recordedThrough > lastGivenLine {
            // An intent covers more lines than were given; what was not given is in no doubt.
            self.entries.spare((lastGivenLine + 1)..<(self.recordedThrough + 1))
        }
        guard let journal = self.journal else { return try self.flushResults() }
        try self.flush()
        try self.provisional.withUnsafeBytes { try self.file?.append($0) }
        self.provisional = []
        try self.file?.synchronize()
        if isComplete, !self.past.isComplete { try journal.append("complete\n") }
        try journal.synchronize()
    }

    /// Bytes of the results file so far; of a stream, none is counted on.
    private var resultOctetCount: UInt64 {
        guard let file = self.file, file.isCut else { return self.past.resultOctetCount }
        return file.octetCount + UInt64(self.writer.octetCount)
    }

    private mutating func flushResults() throws {
        guard self.writer.octetCount > 0 else { return }
        try self.file?.append(self.writer.octets)
        self.writer.removeAll()
    }

    /// Whether another run with the same journal will send a line with this outcome.
    private func isProvisional(_ outcome: BatchOutcome) -> Bool {
        guard self.journal != nil else { return false }
        return outcome == .unsent || (outcome == .indeterminate && self.retriesIndeterminate)
    }

    private mutating func writeProvisionally(
        line: UInt64,
        id: UnsafeRawBufferPointer,
        token: borrowing DeviceToken,
        _ outcome: BatchOutcome,
        attempts: Int,
        isDuplicate: Bool,
        reason: String?
    ) throws {
        guard self.file != nil else { return }
        var writer = BatchResultWriter(capacity: 1024 + id.count)
        _ = writer.append(
            lineNumber: Int(line),
            id: id,
            token: token,
            outcome: outcome,
            attempts: attempts,
            isPossibleDuplicate: isDuplicate,
            reason: reason
        )
        self.provisional.append(contentsOf: writer.octets)
    }

    private mutating func record(
        _ lines: Range<UInt64>,
        _ outcome: BatchOutcome,
        status: UInt16?,
        isDuplicate: Bool
    ) throws {
        guard self.journal != nil else { return }
        self.entries.settle(
            lines,
            outcome,
            status: status,
            isDuplicate: isDuplicate,
            resultOctetCount: self.resultOctetCount
        )
        if self.entries.isFull { try self.flush() }
    }
}

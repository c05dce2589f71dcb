// SPDX-License-Identifier: Apache-2.0

package import APNSWire
import Glibc

/// What became of the lines of a batch, in memory: results, records of the journal, and the counts, which go together.
///
/// Nothing here waits for a disk: ``takePortion()`` gives what ``SendFiles`` is to write, and ``complete(_:)`` takes it
/// back.
package struct SendResults: ~Copyable {
    /// Where it goes.
    let files: SendFiles

    private let hasFile: Bool
    private let hasJournal: Bool
    /// Whether the results go to a file that keeps them, on whose length the journal can count.
    private let isCounted: Bool
    private let isOnlyExceptions: Bool
    private let retriesIndeterminate: Bool

    private var writer = BatchResultWriter()
    /// Full blocks of results.
    private var full: [ResultBlock] = []
    private var spare: [ResultBlock] = []
    /// Bytes of results before those in `writer`.
    private var resultByteCount: UInt64
    /// Bytes of results that are being written, or wait for that.
    private var waitingByteCount = 0
    private var entries = JournalEntries()
    /// Results of lines that another run with the same journal will send again, which go behind all others, so that
    /// that run can cut them off.
    private var provisional: [UInt8] = []

    private var groupCount: UInt64 = SendResults.groupCountMin
    private var lastIntent = ContinuousClock.now
    /// Every line up to this one may be written by this run; 0 for none.
    private var intendedThrough: UInt64 = 0
    /// The last line of the last intent, which may not be on the disk.
    private var recordedThrough: UInt64 = 0

    /// The counts, those of an earlier run with the same journal included.
    package private(set) var outcomeCounts: OutcomeCounts

    /// What an earlier run with the same journal left.
    package let past: SendJournal.Past

    /// How many lines one intent covers: more when lines come quickly, so that waiting for the disk costs little, and
    /// few when they come slowly, so that few are in doubt after a crash.
    private static let groupCountMin: UInt64 = 64
    package static let groupCountMax: UInt64 = 65_536
    private static let groupDuration = Duration.milliseconds(50)

    /// So many bytes of results wait for a slow disk before no more lines are given.
    ///
    /// The results of lines that were given before may come on top, which the window of the connections bounds.
    private static let waitingByteCountMax = 2 << 20
    private static let spareCountMax = 8

    /// Opens the results file.
    ///
    /// - Parameters:
    ///   - path: the file, `-` for standard output, `nil` for none.
    ///   - isOnlyExceptions: whether what was accepted, and not doubtful, gets no line.
    ///   - journal: the journal, where there is one; the results of an earlier run are kept then.
    ///   - retriesIndeterminate: whether another run with the same journal sends what is indeterminate again.
    ///   - operations: what is asked of the system.
    ///   - standardOutput: the descriptor that `-` stands for.
    /// - Throws: ``BatchFileError`` where the file cannot be opened, or is shorter than the journal says.
    package init(
        path: String?,
        isOnlyExceptions: Bool,
        journal: SendJournal?,
        retriesIndeterminate: Bool,
        operations: FileOperations = .system,
        standardOutput: CInt = 1
    ) throws {
        self.retriesIndeterminate = retriesIndeterminate
        let past = journal.map { $0.past } ?? SendJournal.Past()
        self.past = past
        self.outcomeCounts = past.outcomeCounts
        self.isOnlyExceptions = isOnlyExceptions
        var file: OutputFile?
        if let path {
            if journal != nil { try SendResults.check(path, past) }
            file = try OutputFile(
                path: path,
                isKept: journal != nil,
                operations: operations,
                standardOutput: standardOutput
            )
            if journal != nil { try file?.truncate(to: past.resultByteCount) }
        }
        self.hasFile = file != nil
        self.isCounted = file?.isCut ?? false
        self.hasJournal = journal != nil
        self.resultByteCount = past.resultByteCount
        self.files = SendFiles(results: file, journal: journal)
        if let journal { self.entries = journal.opening }
    }

    /// Makes sure that the results that a journal counts on are in a file.
    ///
    /// - Throws: ``BatchFileError`` where they are not.
    package static func check(_ path: String, _ past: SendJournal.Past) throws {
        guard past.resultByteCount > 0, path != "-" else { return }
        var status = stat()
        let isThere = unsafe stat(path, &status) == 0
        guard !isThere || status.st_mode & S_IFMT == S_IFREG else { return }
        let byteCount = isThere ? UInt64(max(0, status.st_size)) : 0
        guard byteCount < past.resultByteCount else { return }
        throw BatchFileError(
            .badData,
            "\(path) is shorter than the journal says: it has \(byteCount) of \(past.resultByteCount) bytes, so "
                + "results are missing. Nothing was sent. Restore it, or remove both to send everything again."
        )
    }

    /// Whether a line may have been written in an earlier run that did not come to know its outcome.
    package func isInDoubt(_ line: UInt64) -> Bool {
        !self.past.doubted.ranges.isEmpty && self.past.doubted.contains(line)
    }

    /// Whether it is on the disk that a line may be written; if not, the next portion sees to it.
    mutating func intend(_ line: UInt64) -> Bool {
        guard self.hasJournal, line > self.intendedThrough else { return true }
        guard line > self.recordedThrough else { return false }
        let isQuick = ContinuousClock.now - self.lastIntent < SendResults.groupDuration
        self.groupCount =
            isQuick
            ? min(self.groupCount * 2, SendResults.groupCountMax) : max(self.groupCount / 2, SendResults.groupCountMin)
        self.recordedThrough = line + self.groupCount - 1
        self.entries.intend(through: self.recordedThrough)
        return false
    }

    // MARK: Writing

    /// Whether so much waits for the disk that no more lines should be given.
    var isFull: Bool { self.waitingByteCount >= SendResults.waitingByteCountMax }

    /// Whether there is something to write.
    var isPortionDue: Bool { self.writer.byteCount > 0 || !self.full.isEmpty || !self.entries.isEmpty }

    /// Whether it should be written at once: it is much, or a line waits for its intent.
    var isPortionUrgent: Bool {
        if !self.full.isEmpty || self.entries.isFull { return true }
        return !self.entries.isEmpty && self.recordedThrough > self.intendedThrough
    }

    /// Takes what is to be written.
    mutating func takePortion() -> SendPortion {
        self.sealBlock()
        var portion = SendPortion(results: self.full, records: self.entries.take())
        self.full = []
        if self.recordedThrough > self.intendedThrough { portion.intent = self.recordedThrough }
        return portion
    }

    /// Takes note that a portion was written, and what was to be on the disk is there.
    mutating func complete(_ portion: SendPortion) {
        self.waitingByteCount = 0
        for block in self.full { self.waitingByteCount += block.writer.byteCount }
        for block in portion.results.prefix(SendResults.spareCountMax - self.spare.count) { self.spare.append(block) }
        guard let intent = portion.intent else { return }
        self.intendedThrough = intent
        self.lastIntent = ContinuousClock.now
    }

    /// Puts the results aside that were written to memory, so that there is room for others.
    private mutating func sealBlock() {
        guard self.writer.byteCount > 0 else { return }
        let block = self.spare.popLast() ?? ResultBlock()
        self.resultByteCount += UInt64(self.writer.byteCount)
        self.waitingByteCount += self.writer.byteCount
        swap(&self.writer, &block.writer)
        self.full.append(block)
    }

    // MARK: Outcomes

    /// Takes the outcome of lines that needs no line each in the results.
    package mutating func settle(
        _ lines: Range<UInt64>,
        _ outcome: DeliveryOutcome.Kind,
        status: UInt16?,
        isDuplicate: Bool
    ) {
        self.outcomeCounts.add(outcome, status: status, isDuplicate: isDuplicate, count: UInt64(lines.count))
        self.record(lines, outcome, status: status, isDuplicate: isDuplicate)
    }

    /// Whether an outcome has a line of its own in the results.
    func isWritten(_ outcome: DeliveryOutcome.Kind, isDuplicate: Bool) -> Bool {
        guard self.hasFile else { return false }
        return !(self.isOnlyExceptions && outcome == .accepted && !isDuplicate)
    }

    /// Whether lines with an outcome must be taken one by one.
    func needsLines(_ outcome: DeliveryOutcome.Kind, isDuplicate: Bool) -> Bool {
        !self.past.doubted.ranges.isEmpty || self.isWritten(outcome, isDuplicate: isDuplicate)
            || self.isProvisional(outcome)
    }

    /// Takes the outcome of one line, and writes it to the results.
    package mutating func write(
        line: UInt64,
        id: UnsafeRawBufferPointer,
        token: borrowing DeviceToken,
        _ outcome: DeliveryOutcome.Kind,
        status: UInt16?,
        attempts: Int,
        isDuplicate: Bool,
        reason: String? = nil
    ) {
        self.outcomeCounts.add(outcome, status: status, isDuplicate: isDuplicate, count: 1)
        if self.isProvisional(outcome) {
            // What is known not to have been written is in no doubt in the next run.
            if outcome == .unsent, !isDuplicate { self.entries.spare(line..<(line + 1)) }
            return unsafe self.writeProvisionally(
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
                let fits = unsafe self.writer.append(
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
                self.sealBlock()
            }
        }
        self.record(line..<(line + 1), outcome, status: status, isDuplicate: isDuplicate)
    }

    /// Takes a line that could not be read.
    package mutating func write(_ problem: BatchProblem) {
        self.outcomeCounts.add(.invalid, count: 1)
        if self.hasFile {
            for _ in 0..<2 {
                if self.writer.append(problem) { break }
                self.sealBlock()
            }
        }
        let line = UInt64(problem.lineNumber)
        self.record(line..<(line + 1), .invalid, status: nil, isDuplicate: false)
    }

    /// Ends the files.
    ///
    /// - Parameters:
    ///   - isComplete: whether every line has an outcome that stays.
    ///   - lastGivenLine: the last line that may have been written by this run.
    /// - Throws: ``BatchFileError`` where a file cannot be written.
    package mutating func finish(isComplete: Bool, lastGivenLine: UInt64) throws {
        if self.recordedThrough > lastGivenLine {
            // An intent covers more lines than were given; what was not given is in no doubt.
            self.entries.spare((lastGivenLine + 1)..<(self.recordedThrough + 1))
        }
        try self.files.write(self.takePortion())
        try self.files.finish(provisional: self.provisional, isComplete: isComplete && !self.past.isComplete)
        self.provisional = []
    }

    /// Whether another run with the same journal will send a line with this outcome.
    private func isProvisional(_ outcome: DeliveryOutcome.Kind) -> Bool {
        guard self.hasJournal else { return false }
        return outcome == .unsent || (outcome == .indeterminate && self.retriesIndeterminate)
    }

    private mutating func writeProvisionally(
        line: UInt64,
        id: UnsafeRawBufferPointer,
        token: borrowing DeviceToken,
        _ outcome: DeliveryOutcome.Kind,
        attempts: Int,
        isDuplicate: Bool,
        reason: String?
    ) {
        guard self.hasFile else { return }
        var writer = BatchResultWriter(capacity: 1024 + id.count)
        _ = unsafe writer.append(
            lineNumber: Int(line),
            id: id,
            token: token,
            outcome: outcome,
            attempts: attempts,
            isPossibleDuplicate: isDuplicate,
            reason: reason
        )
        unsafe self.provisional.append(contentsOf: writer.bytes)
    }

    private mutating func record(
        _ lines: Range<UInt64>,
        _ outcome: DeliveryOutcome.Kind,
        status: UInt16?,
        isDuplicate: Bool
    ) {
        guard self.hasJournal else { return }
        // Of a stream, nothing is counted on.
        let byteCount = self.resultByteCount + UInt64(self.writer.byteCount)
        self.entries.settle(
            lines,
            outcome,
            status: status,
            isDuplicate: isDuplicate,
            resultByteCount: self.isCounted ? byteCount : self.past.resultByteCount
        )
    }
}

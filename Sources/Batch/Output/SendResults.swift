// SPDX-License-Identifier: Apache-2.0

package import APNSWire
import FileSupport
import Glibc
import APNSJSON
import SystemPackage

/// The outcomes of the lines of a batch, in memory: results, journal records and counts, which belong together.
///
/// Nothing here waits for a disk: ``takePortion()`` returns what ``SendFiles`` writes next, and ``complete(_:)`` takes
/// the memory back.
package struct SendResults: ~Copyable {
    /// The files that are written.
    let files: SendFiles

    private let hasFile: Bool
    private let hasJournal: Bool
    /// Whether the results go to a regular file, whose length the journal can record.
    private let isCounted: Bool
    private let isOnlyExceptions: Bool
    private let retriesIndeterminate: Bool

    private var writer = BatchResultWriter()
    /// Full blocks of results.
    private var full: [ResultBlock] = []
    private var spare: [ResultBlock] = []
    /// The number of bytes of results before those in `writer`.
    private var resultByteCount: UInt64
    /// The number of bytes of results that are being written or wait to be written.
    private var waitingByteCount = 0
    /// The hash of the results in the file and in memory.
    private var hash = XXH64Hash()
    private var entries = JournalEntries()
    /// Results of lines that another run with the same journal will send again.
    ///
    /// They are written after all others, so that the next run can remove them.
    private var provisional: [UInt8] = []

    private var groupCount: UInt64 = SendResults.groupCountMin
    private var lastIntent = ContinuousClock.now
    /// The last line that this run may write; 0 for none.
    private var intendedThrough: UInt64 = 0
    /// The last line of the last intent, which may not be on the disk yet.
    private var recordedThrough: UInt64 = 0

    /// The counts, including those of an earlier run with the same journal.
    package private(set) var outcomeCounts: OutcomeCounts

    /// The state that an earlier run with the same journal left.
    package let past: SendJournal.Past

    /// The number of lines of one intent: larger for fast input, so that fewer writes wait for the disk; smaller for
    /// slow input, so that fewer lines are in doubt after a crash.
    private static let groupCountMin: UInt64 = 64
    package static let groupCountMax: UInt64 = 65_536
    private static let groupDuration = Duration.milliseconds(50)

    /// While this many bytes of results wait for a slow disk, no more lines are sent.
    ///
    /// The results of lines that are already sent can exceed it; the connections' windows limit their number.
    private static let waitingByteCountMax = 2 << 20
    private static let spareCountMax = 8

    /// Opens the results file.
    ///
    /// - Throws: ``BatchFileError`` if the file cannot be opened, does not have the results that the journal records,
    ///   or has results of lines that the journal does not intend.
    package init(
        path: String?,
        isOnlyExceptions: Bool,
        journal: SendJournal?,
        firstLine: UInt64 = 1,
        retriesIndeterminate: Bool,
        onOperation: @escaping OnFileOperation = { _, _ in },
        standardOutput: CInt = 1
    ) throws {
        self.retriesIndeterminate = retriesIndeterminate
        let past = journal.map { $0.past } ?? SendJournal.Past(firstLine: firstLine)
        self.past = past
        self.outcomeCounts = past.outcomeCounts
        self.isOnlyExceptions = isOnlyExceptions
        var file: OutputFile?
        if let path {
            if journal != nil { try SendResults.checkLength(path, past) }
            file = try OutputFile(
                path: path,
                isKept: journal != nil,
                onOperation: onOperation,
                standardOutput: standardOutput
            )
        }
        if let journal, let file, file.isTruncatable {
            self.hash = try file.hash(first: past.resultByteCount)
            try SendResults.check(self.hash, file.name, past)
            if !journal.isNew { try SurplusResults.check(file, past, journal: journal.path) }
            if file.byteCount > past.resultByteCount {
                try file.truncate(to: past.resultByteCount)
                // After a power failure, none of the removed bytes may reappear among new results.
                try file.synchronize()
            }
        }
        self.hasFile = file != nil
        self.isCounted = file?.isTruncatable ?? false
        self.hasJournal = journal != nil
        self.resultByteCount = past.resultByteCount
        self.files = SendFiles(results: file, journal: journal)
        if let journal { self.entries = journal.opening }
    }

    /// Checks that a file contains the results that a journal records.
    ///
    /// - Throws: ``BatchFileError`` if it does not.
    package static func check(_ path: String, _ past: SendJournal.Past) throws {
        guard try SendResults.checkLength(path, past), past.resultHash != nil else { return }
        var hash = XXH64Hash()
        do throws(Errno) {
            let file = try FileDescriptor.opened(path)
            defer { try? file.close() }
            try hash.add(first: past.resultByteCount, of: file)
        } catch {
            throw BatchFileError(.unreadable, "cannot read \(path): \(error)")
        }
        try SendResults.check(hash, path, past)
    }

    private static func check(_ hash: XXH64Hash, _ path: String, _ past: SendJournal.Past) throws {
        guard let expected = past.resultHash, hash.value != expected else { return }
        throw BatchFileError(
            .badData,
            .resultsChanged,
            "\(path) does not have the results that the journal records (its first \(past.resultByteCount) bytes "
                + "changed); nothing was sent; restore it, or delete both files to send everything again"
        )
    }

    /// Checks that a file is as long as a journal records.
    ///
    /// Returns whether there is a regular file with results.
    @discardableResult
    private static func checkLength(_ path: String, _ past: SendJournal.Past) throws -> Bool {
        guard past.resultByteCount > 0, path != "-" else { return false }
        var status = stat()
        let isThere = unsafe stat(path, &status) == 0
        guard !isThere || status.st_mode & S_IFMT == S_IFREG else { return false }
        let byteCount = isThere ? UInt64(max(0, status.st_size)) : 0
        guard byteCount < past.resultByteCount else { return true }
        throw BatchFileError(
            .badData,
            .resultsChanged,
            "\(path) is shorter than the journal records (\(byteCount) of \(past.resultByteCount) bytes); nothing was "
                + "sent; restore it, or delete both files to send everything again"
        )
    }

    /// Whether an earlier run may have written a line and does not know its outcome.
    package func isInDoubt(_ line: UInt64) -> Bool {
        !self.past.doubted.ranges.isEmpty && self.past.doubted.contains(line)
    }

    /// Whether the intent to write a line is on the disk; if not, it becomes part of the next portion.
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

    /// Whether too much data waits for the disk to send more lines.
    var isFull: Bool { self.waitingByteCount >= SendResults.waitingByteCountMax }

    /// Whether there is something to write.
    var isPortionDue: Bool { self.writer.byteCount > 0 || !self.full.isEmpty || !self.entries.isEmpty }

    /// Whether to write it immediately, because it is large or a line waits for its intent.
    var isPortionUrgent: Bool {
        if !self.full.isEmpty || self.entries.isFull { return true }
        return !self.entries.isEmpty && self.recordedThrough > self.intendedThrough
    }

    /// Takes the next portion to write.
    mutating func takePortion() -> SendPortion {
        self.sealBlock()
        var portion = SendPortion(results: self.full, records: self.entries.take())
        self.full = []
        if self.recordedThrough > self.intendedThrough { portion.intent = self.recordedThrough }
        return portion
    }

    /// Records that a portion was written, and is on the disk where required.
    mutating func complete(_ portion: SendPortion) {
        self.waitingByteCount = 0
        for block in self.full { self.waitingByteCount += block.writer.byteCount }
        for block in portion.results.prefix(SendResults.spareCountMax - self.spare.count) { self.spare.append(block) }
        guard let intent = portion.intent else { return }
        self.intendedThrough = intent
        self.lastIntent = ContinuousClock.now
    }

    /// Moves the current results to the full blocks, to make room.
    private mutating func sealBlock() {
        guard self.writer.byteCount > 0 else { return }
        let block = self.spare.popLast() ?? ResultBlock()
        self.resultByteCount += UInt64(self.writer.byteCount)
        self.waitingByteCount += self.writer.byteCount
        swap(&self.writer, &block.writer)
        self.full.append(block)
    }

    // MARK: Outcomes

    /// Records an outcome of lines that do not appear in the results.
    package mutating func settle(_ lines: Range<UInt64>, _ outcome: LineOutcome) {
        self.outcomeCounts.add(outcome, count: UInt64(lines.count))
        self.record(lines, outcome)
    }

    /// Whether lines with an outcome appear in the results.
    func isWritten(_ outcome: LineOutcome) -> Bool {
        guard self.hasFile else { return false }
        return !(self.isOnlyExceptions && outcome.kind == .accepted && !outcome.isDuplicate)
    }

    /// Whether lines with an outcome must be recorded one by one.
    func needsLines(_ outcome: LineOutcome) -> Bool {
        !self.past.doubted.ranges.isEmpty || self.isWritten(outcome) || self.isProvisional(outcome.kind)
    }

    /// Records the outcome of one line, and writes it to the results.
    package mutating func write(
        _ result: borrowing LineResult,
        id: UnsafeRawBufferPointer,
        token: borrowing DeviceToken
    ) {
        let (line, outcome) = (result.line, result.outcome)
        self.outcomeCounts.add(outcome, count: 1)
        if self.isProvisional(outcome.kind) {
            // A line that was certainly not written is not in doubt in the next run.
            if outcome.kind == .unsent, !outcome.isDuplicate, line <= self.recordedThrough {
                self.entries.spare(line..<(line + 1))
            }
            return unsafe self.writeProvisionally(result, id: id, token: token)
        }
        if self.isWritten(outcome) {
            if unsafe !self.writer.append(result, id: id, token: token) {
                self.sealBlock()
                _ = unsafe self.writer.append(result, id: id, token: token)
            }
            self.hashResults()
        }
        self.record(line..<(line + 1), outcome)
    }

    /// Records an invalid line.
    package mutating func write(_ problem: BatchProblem) {
        let (line, outcome) = (UInt64(problem.lineNumber), LineOutcome(.invalid))
        self.outcomeCounts.add(outcome, count: 1)
        if self.hasFile {
            if !self.writer.append(problem) {
                self.sealBlock()
                _ = self.writer.append(problem)
            }
            self.hashResults()
        }
        self.record(line..<(line + 1), outcome)
    }

    /// Finishes the files.
    ///
    /// - Throws: ``BatchFileError`` if a file cannot be written.
    package mutating func finish(isComplete: Bool, lastGivenLine: UInt64) throws {
        if self.recordedThrough > lastGivenLine {
            // An intent covers more lines than were sent; the others are not in doubt.
            self.entries.spare((lastGivenLine + 1)..<(self.recordedThrough + 1))
        }
        try self.files.write(self.takePortion())
        try self.files.finish(provisional: self.provisional, isComplete: isComplete && !self.past.isComplete)
        self.provisional = []
    }

    /// Whether another run with the same journal will send a line with this outcome.
    private func isProvisional(_ outcome: DeliveryOutcome.Kind) -> Bool {
        guard self.hasJournal else { return false }
        return outcome.isSentAgain(withDuplicates: self.retriesIndeterminate)
    }

    private mutating func writeProvisionally(
        _ result: borrowing LineResult,
        id: UnsafeRawBufferPointer,
        token: borrowing DeviceToken
    ) {
        guard self.hasFile else { return }
        let reasonByteCount = (result.reason?.utf8.count ?? 0) * JSONWriter.escapeByteCountMax
        var writer = BatchResultWriter(capacity: 1024 + id.count + reasonByteCount)
        _ = unsafe writer.append(result, id: id, token: token)
        unsafe self.provisional.append(contentsOf: writer.bytes)
    }

    /// Adds the result that was written last to the hash, if the journal records one.
    @inline(__always)
    private mutating func hashResults() {
        guard self.isCounted, self.hasJournal else { return }
        unsafe self.hash.add(RawSpan(_unsafeBytes: self.writer.lastLine))
    }

    private mutating func record(_ lines: Range<UInt64>, _ outcome: LineOutcome) {
        guard self.hasJournal else { return }
        // For a stream, the length has no meaning.
        let byteCount = self.resultByteCount + UInt64(self.writer.byteCount)
        self.entries.settle(
            lines,
            outcome,
            resultByteCount: self.isCounted ? byteCount : self.past.resultByteCount,
            hash: self.isCounted ? self.hash : nil
        )
    }
}

/// The results in a file behind those that its journal records, which a killed run left.
///
/// They are of lines whose intent was on the disk before. Results of other lines prove that the journal lost records.
private enum SurplusResults {
    /// A longer line is skipped.
    private static let lineByteCountMax = 262_144
    private static let portionByteCount = 65_536

    /// Refuses results of lines that were sent without an intent in the journal: they would be sent again, and not be
    /// flagged as possible duplicates.
    ///
    /// - Throws: ``BatchFileError``.
    static func check(_ file: OutputFile, _ past: SendJournal.Past, journal: String) throws {
        guard file.byteCount > past.resultByteCount else { return }
        var lines = LineReader(lineByteCountMax: Self.lineByteCountMax, blockByteCount: Self.portionByteCount)
        var offset = past.resultByteCount
        while true {
            switch lines.next() {
            case .needMore:
                offset += UInt64(try unsafe lines.fill { try unsafe file.read(into: $0, at: offset) })
            case .tooLong: continue
            case .line(let line):
                guard let sent = unsafe Self.sentLine(line), !past.doubted.contains(sent) else { continue }
                throw BatchFileError(
                    .badData,
                    .recordsLost,
                    "\(file.name) has a result of line \(sent), which was not sent according to \(journal): the "
                        + "journal lost its last records, or the results are of another batch; nothing was sent; "
                        + "restore the journal, or delete both files to send everything again"
                )
            case .end: return
            }
        }
    }

    /// The line of the input that a result is of, if it says that the line was sent; `nil` for anything else, such as
    /// an incomplete result.
    private static func sentLine(_ result: UnsafeRawBufferPointer) -> UInt64? {
        guard let fields = unsafe JSONFields(Array(result)),
            let outcome = fields.string("outcome").flatMap({ DeliveryOutcome.Kind(name: $0) }),
            // What is unsent can be sent again without a duplicate.
            [.accepted, .rejected, .indeterminate].contains(outcome)
        else { return nil }
        return fields.integer("line")
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// Reads the state that earlier runs left in a journal, in portions, so that a long journal needs little memory.
///
/// After a power failure, data after the last synchronized record may be partly written, with zeros in place of missing
/// sectors. The file is ignored from the first such sector on. Any other damage is an error.
struct SendJournalReader {
    /// What is wrong with a line.
    private enum Problem: String, Error {
        case noRecord = "not a record"
        case checksum = "wrong checksum"
        case end = "damaged end of line"
        case order = "contradicts the records before it"
        case beyondInput = "lines that the input does not have"
        case unintended = "lines that the run did not intend to write"
        case settled = "lines that have an outcome already"
        case otherInput
    }

    private let path: String
    private let input: String
    private let formerInput: String
    private let lineCountMax: UInt64
    private var past = SendJournal.Past()
    /// The lines that the run being read intended to write, and did not write.
    private var spared = LineSet()
    private var intendedThrough: UInt64 = 0
    /// The lines of the run being read that belong to ``SendJournal/Past/unlisted``.
    private var unlisted: [UInt16: LineSet] = [:]
    private var lineCount = 0
    /// The bytes after the last line break.
    private var rest: [UInt8] = []
    /// The range of zeros in `rest`, of which only the first is kept.
    private var zeros: Range<Int>?
    private var tail: JournalTail?

    /// The number of bytes of complete lines so far; a crash cut off anything after them.
    private(set) var wholeByteCount: UInt64 = 0
    /// The checksum of the complete lines so far.
    private(set) var checksum = FNV1aHash()
    /// The format of the records that follow.
    private var format = 0
    /// Whether the format is the one that is written.
    var isCurrent: Bool { self.format == Self.formatMax }
    private var hasChecksums: Bool { self.format >= 2 }
    private var hasHashes: Bool { self.format >= 3 }

    private static let formatMax = 3
    private static let titles = (1...Self.formatMax).map { "apns-legacy journal \($0) " }
    /// The start of a journal.
    static var title: String { self.titles[Self.formatMax - 1] }
    /// After this record, which identifies the batch, a journal of an earlier format has the current one.
    static let upgrade = "format \(Self.formatMax) "
    /// The same in format 2, for a journal without checksums.
    private static let formerUpgrade = "format 2"

    /// Status 400 has many reasons, which the journal does not record.
    private static let tokenStatuses: Set<UInt16> = [8, 410]

    private static let lineByteCountMax = 4096
    private static let hashByteCount = 16
    /// The unit that a disk writes completely or not at all, in bytes.
    private static let sectorByteCount: UInt64 = 512
    /// The last second of the year 9999.
    private static let secondMax: Int64 = 253_402_300_799

    init(path: String, input: String, formerInput: String, lineCount: UInt64) {
        self.path = path
        self.input = input
        self.formerInput = formerInput
        self.lineCountMax = lineCount
    }

    /// Reads the next bytes of the file.
    mutating func read(_ bytes: ArraySlice<UInt8>) throws {
        for byte in bytes {
            if self.tail != nil {
                guard self.tail?.read(byte) == true else { throw self.refusal(.checksum, self.lineCount + 1) }
            } else if byte == 0 {
                self.readZero()
            } else {
                try self.skipZeros(before: byte)
                if self.tail == nil { try self.readText(byte) }
            }
        }
    }

    private mutating func readText(_ byte: UInt8) throws {
        guard byte == 0x0A else {
            guard self.rest.count < Self.lineByteCountMax else { throw self.refusal(.noRecord, self.lineCount + 1) }
            return self.rest.append(byte)
        }
        self.lineCount += 1
        let line = self.rest
        self.rest.removeAll(keepingCapacity: true)
        if self.lineCount == 1 {
            try self.readTitle(line)
        } else {
            do throws(Problem) {
                try self.readRecord(self.checked(line))
            } catch {
                throw self.refusal(error, self.lineCount)
            }
        }
        self.wholeByteCount += UInt64(line.count) + 1
    }

    // MARK: Damage by a power failure

    private mutating func readZero() {
        let start = self.zeros?.lowerBound ?? self.rest.count
        self.zeros = start..<((self.zeros?.upperBound ?? start) + 1)
    }

    /// Checks zeros that end here: either they replace sectors that were not written, or the file is damaged.
    private mutating func skipZeros(before byte: UInt8) throws {
        guard let zeros = self.zeros else { return }
        let start = self.wholeByteCount + UInt64(zeros.lowerBound)
        let end = self.wholeByteCount + UInt64(zeros.upperBound)
        // Each append starts and ends with a record, so missing data starts at a record or at a sector.
        guard self.lineCount > 0, zeros.lowerBound == 0 || start.isMultiple(of: Self.sectorByteCount),
            end.isMultiple(of: Self.sectorByteCount)
        else { throw self.refusal(.noRecord, self.lineCount + 1) }
        self.tail = JournalTail(firstByte: byte)
    }

    /// Ends the file and returns its state.
    mutating func finish() throws -> SendJournal.Past {
        if self.tail == nil, self.zeros == nil, !self.rest.isEmpty {
            if self.lineCount == 0 {
                // Only an incomplete title may be overwritten; any other file belongs to something else.
                let text = String(decoding: self.rest, as: UTF8.self)
                guard Self.title.hasPrefix(text) || Self.titles.contains(where: { text.hasPrefix($0) }) else {
                    throw self.refusal(.noRecord, 1)
                }
            } else if self.hasChecksums, (try? self.checked(self.rest.dropLast())) != nil {
                // After the checksum, only the line break may follow.
                throw self.refusal(.end, self.lineCount + 1)
            }
        } else if self.lineCount == 0, !self.rest.isEmpty {
            throw self.refusal(.noRecord, 1)
        }
        self.endRun()
        return self.past
    }

    private func refusal(_ problem: Problem, _ number: Int) -> BatchFileError {
        guard problem != .otherInput else {
            return BatchFileError(
                .badData,
                .otherBatch,
                "\(self.path) is the journal of another batch: the input or the payload changed; choose another file "
                    + "for --journal, or delete this one to send everything"
            )
        }
        guard number > 1 || problem != .noRecord else {
            return BatchFileError(
                .badData,
                .notAJournal,
                "\(self.path) is not a journal of apns-legacy, or its first line is damaged; nothing was sent; choose "
                    + "another file for --journal, or restore it"
            )
        }
        return BatchFileError(
            .badData,
            in: self.path,
            line: number,
            "damaged journal: \(problem.rawValue); nothing was sent; restore it, or delete it and the results to send "
                + "everything again"
        )
    }

    // MARK: Records

    private mutating func readTitle(_ line: [UInt8]) throws {
        let text = String(decoding: line, as: UTF8.self)
        guard let index = Self.titles.firstIndex(where: { text.hasPrefix($0) }) else {
            throw self.refusal(.noRecord, 1)
        }
        self.format = index + 1
        do throws(Problem) {
            let input = self.isCurrent ? self.input : self.formerInput
            guard try self.checked(line) == Self.titles[index] + input else { throw .otherInput }
        } catch {
            throw self.refusal(error, 1)
        }
    }

    /// The record in a line, without its checksum.
    private mutating func checked(_ line: some BidirectionalCollection<UInt8>) throws(Problem) -> String {
        let isUpgrade =
            !self.hasChecksums
            && [Self.upgrade, Self.formerUpgrade].contains { line.starts(with: $0.utf8) }
        guard self.hasChecksums || isUpgrade else {
            self.checksum.add(line)
            return String(decoding: line, as: UTF8.self)
        }
        let digits = line.suffix(Self.hashByteCount)
        let record = line.dropLast(Self.hashByteCount + 1)
        guard line.count > Self.hashByteCount, line.dropLast(Self.hashByteCount).last == 0x20 else {
            throw .checksum
        }
        var checksum = self.checksum
        checksum.add(record)
        guard digits.elementsEqual(checksum.hexadecimal) else { throw .checksum }
        self.checksum = checksum
        return String(decoding: record, as: UTF8.self)
    }

    private mutating func readRecord(_ text: String) throws(Problem) {
        let words = text.split(separator: " ", omittingEmptySubsequences: false)
        // The batch is complete; only a record of the purge list may follow.
        guard !self.past.isComplete || words.first == "listed" else { throw .order }
        switch (words.first, words.count) {
        case ("complete", 1): self.past.isComplete = true
        case ("format", 2) where text == Self.formerUpgrade && !self.hasChecksums: self.format = 2
        case ("format", 3) where text.hasPrefix(Self.upgrade) && !self.isCurrent:
            guard words[2] == self.input else { throw .otherInput }
            self.format = Self.formatMax
        case ("began", 2):
            guard let time = Int64(words[1]), (0...Self.secondMax).contains(time) else { throw .noRecord }
            self.past.beganAt = min(self.past.beganAt ?? time, time)
        case ("listed", 2):
            guard let count = UInt64(words[1]) else { throw .noRecord }
            self.past.unlistedCount -= min(count, self.past.unlistedCount)
            // A run lists its own rejections, and then those of earlier runs, as far as it read their lines.
            let lines = self.unlisted.values.map(\.count) + self.past.unlisted.values.map(\.count)
            if count >= lines.reduce(0, +) { self.past.unlisted = [:] }
            self.unlisted = [:]
        case ("run", 1): self.endRun()
        case ("intent", 2):
            guard let line = UInt64(words[1]) else { throw .noRecord }
            guard line > self.intendedThrough else { throw .order }
            // An intent covers many lines, and may end after the last line of the input.
            guard line >= 1, line - 1 < self.lineCountMax + SendResults.groupCountMax else { throw .beyondInput }
            self.intendedThrough = line
        case ("spare", 3):
            let lines = try Self.lines(words[1], words[2])
            guard lines.upperBound - 1 <= self.intendedThrough else { throw .unintended }
            self.spared.insert(lines)
        case (_, 6) where !self.hasHashes, (_, 7) where self.hasHashes: try self.readOutcome(words)
        default: throw .noRecord
        }
    }

    private mutating func readOutcome(_ words: [Substring]) throws(Problem) {
        let lines = try Self.lines(words[0], words[1])
        guard let outcome = DeliveryOutcome.Kind(name: words[2]),
            words[3] == "-" || UInt16(words[3]) != nil, words[4] == "-" || words[4] == "dup",
            let resultByteCount = UInt64(words[5]), resultByteCount <= Int64.max
        else { throw .noRecord }
        guard lines.upperBound - 1 <= self.lineCountMax else { throw .beyondInput }
        guard self.isIntended(lines, outcome) else { throw .unintended }
        guard !self.past.settled.overlaps(lines) else { throw .settled }
        // In format 1, the byte count starts again if the results did not go to a file.
        guard resultByteCount >= self.past.resultByteCount || !self.hasChecksums else { throw .order }
        // The sums do not overflow: no line counts twice, and the input has all of them.
        self.past.settled.insert(lines)
        if outcome == .rejected {
            self.past.unlistedCount += lines.upperBound - lines.lowerBound
            if let status = UInt16(words[3]), Self.tokenStatuses.contains(status) {
                self.unlisted[status, default: LineSet()].insert(lines)
            }
        }
        let counted = LineOutcome(outcome, status: UInt16(words[3]), isDuplicate: words[4] == "dup")
        self.past.outcomeCounts.add(counted, count: lines.upperBound - lines.lowerBound)
        if self.hasHashes { try self.readHash(words[6], resultByteCount) }
        self.past.resultByteCount = max(self.past.resultByteCount, resultByteCount)
    }

    /// Takes the hash of the results; without one, the run did not write to their file.
    private mutating func readHash(_ text: Substring, _ byteCount: UInt64) throws(Problem) {
        guard text != "-" else {
            guard byteCount == self.past.resultByteCount else { throw .order }
            return
        }
        guard text.utf8.count == Self.hashByteCount, let hash = UInt64(text, radix: 16) else { throw .noRecord }
        self.past.resultHash = hash
    }

    /// Whether lines may have this outcome; some outcomes require that they were intended.
    private func isIntended(_ lines: Range<UInt64>, _ outcome: DeliveryOutcome.Kind) -> Bool {
        switch outcome {
        case .invalid, .suppressed: return true
        case .accepted, .rejected, .unsent: return lines.upperBound - 1 <= self.intendedThrough
        case .indeterminate:
            // With at-most-once delivery, lines that an earlier run intended keep their state.
            let first = max(lines.lowerBound, self.intendedThrough + 1)
            return first >= lines.upperBound || self.past.doubted.contains(first..<lines.upperBound)
        }
    }

    private mutating func endRun() {
        var first: UInt64 = 1
        for spared in self.spared.ranges where spared.lowerBound <= self.intendedThrough {
            self.past.doubted.insert(first..<max(first, spared.lowerBound))
            first = spared.upperBound
        }
        self.past.doubted.insert(first..<max(first, self.intendedThrough + 1))
        self.intendedThrough = 0
        self.spared = LineSet()
        for (status, lines) in self.unlisted {
            for range in lines.ranges { self.past.unlisted[status, default: LineSet()].insert(range) }
        }
        self.unlisted = [:]
    }

    private static func lines(_ first: Substring, _ last: Substring) throws(Problem) -> Range<UInt64> {
        guard let first = UInt64(first), let last = UInt64(last), 1 <= first, first <= last, last < UInt64.max else {
            throw .noRecord
        }
        return first..<(last + 1)
    }
}

/// Checks the bytes after a gap that a power failure left in a journal.
///
/// A run continues after some records only once they and everything before them are on the disk. If anything follows
/// such a record, the gap is damage of another kind.
private struct JournalTail {
    private var line: [UInt8] = []
    private var mustEnd = false

    private static let lastRecords = ["intent ", "complete ", "listed "]
    private static let wordByteCountMax = 9

    init(firstByte byte: UInt8) { _ = self.read(byte) }

    /// Returns whether the byte is allowed here.
    mutating func read(_ byte: UInt8) -> Bool {
        guard !self.mustEnd else { return false }
        guard byte == 0x0A else {
            if self.line.count < Self.wordByteCountMax { self.line.append(byte) }
            return true
        }
        self.mustEnd = Self.lastRecords.contains { self.line.starts(with: $0.utf8) }
        self.line.removeAll(keepingCapacity: true)
        return true
    }
}

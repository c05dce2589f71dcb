// SPDX-License-Identifier: Apache-2.0

import Glibc

/// The durable record of a batch: which lines may have been written, and which have an outcome.
///
/// The file is text, one record a line, only ever appended to. Each record ends with a checksum over it and everything
/// before it. A last line without its end was cut off by a crash and counts for nothing.
///
/// | record                            | means                                                                        |
/// |-----------------------------------|------------------------------------------------------------------------------|
/// | `apns-legacy journal 2 INPUT`     | the first line; INPUT tells this batch from others                           |
/// | `intent LINE`                     | this run may have written every line up to LINE                              |
/// | `FIRST LAST OUTCOME STATUS DUP AT`| lines FIRST to LAST have this outcome; the results file has AT bytes then    |
/// | `spare FIRST LAST`                | this run has not written lines FIRST to LAST, and will not                   |
/// | `run`                             | another run begins; what the one before intended stays in doubt              |
/// | `complete`                        | every line has an outcome                                                    |
/// | `began SECONDS`                   | when a run began, in seconds since 1970                                      |
/// | `listed COUNT`                    | so many rejections of the run are on the purge list, or do not belong there  |
/// | `format 2`                        | from here on, records have checksums, in a journal that began without        |
///
/// An intent is on the disk before the first byte of its lines goes to a socket. Outcomes follow when they are known
/// and their results are on the disk: lines whose outcome did not get to the file are found in doubt, and sent again as
/// possible duplicates.
package final class SendJournal {
    /// What an earlier run left.
    package struct Past: Equatable, Sendable {
        /// The lines that have an outcome.
        package var settled = LineSet()
        /// The lines that may have been written; those that have an outcome may be among them.
        package var doubted = LineSet()
        /// Bytes of the results file that belong to what is settled.
        package var resultByteCount: UInt64 = 0
        /// Counts of the outcomes.
        package var outcomeCounts = OutcomeCounts()
        /// Whether every line has an outcome.
        package var isComplete = false
        /// Lines that were rejected, and whose tokens no run has put on a purge list.
        package var unlistedCount: UInt64 = 0
        /// When the first run began, in seconds since 1970; `nil` where the journal does not say.
        package var beganAt: Int64?

        /// The state before the first run.
        ///
        /// - Parameter firstLine: the first line to send; earlier lines are skipped.
        package init(firstLine: UInt64 = 1) {
            if firstLine > 1 { self.settled.insert(1..<firstLine) }
        }
    }

    private let file: OutputFile
    /// Over everything in the file.
    private var checksum: FNV1aHash

    /// What the last run left; empty where there was none.
    package let past: Past

    /// What a run is to append before anything else.
    let opening: JournalEntries

    /// The file.
    package var path: String { self.file.name }

    /// Opens a journal, or creates it if missing.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - input: what tells this batch from others, in one word.
    ///   - operations: what is asked of the system.
    ///   - lineCount: counts the lines of the input; it is asked only where there are records.
    /// - Throws: ``BatchFileError`` where the file cannot be used, is held by another process, belongs to another
    ///   batch, or is damaged.
    package init(
        path: String,
        input: String,
        operations: FileOperations = .system,
        lineCount: () throws -> UInt64
    ) throws {
        try SendJournal.checkKind(path)
        let file = try OutputFile(path: path, isKept: true, operations: operations)
        try file.lock()
        var reader = SendJournalReader(
            path: path,
            input: input,
            lineCount: file.byteCount == 0 ? 0 : try lineCount()
        )
        try file.read { try reader.take($0) }
        self.past = try reader.finish()
        self.checksum = reader.checksum
        self.file = file
        if reader.wholeByteCount < file.byteCount {
            try file.truncate(to: reader.wholeByteCount)
            // So that after a power cut nothing of it stands among the records to come.
            try file.synchronize()
        }
        var opening = JournalEntries()
        if reader.wholeByteCount > 0, !self.past.isComplete {
            if !reader.hasChecksums { opening.append(SendJournalReader.upgrade) }
            opening.append("run")
        }
        if !self.past.isComplete { opening.append("began \(time(nil))") }
        self.opening = opening
        if reader.wholeByteCount == 0 {
            try self.append(SendJournalReader.title + input + "\n")
            try self.synchronize()
        }
    }

    /// Opens the journal of a batch, or creates it if missing.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - input: the batch, which must be a file.
    ///   - payload: that of lines without their own.
    ///   - results: the results file, where there is one.
    /// - Throws: ``BatchFileError`` where the file cannot be used.
    package convenience init(path: String, of input: SendInput, payload: [UInt8]?, results: String?) throws {
        guard let content = try input.content() else {
            throw BatchFileError(
                .unsuitable,
                "--journal requires a batch in a file; save standard input or the stream to a file first"
            )
        }
        try SendJournal.checkEmptied(path, results: results)
        var hash = FNV1aHash()
        hash.add(content.head)
        hash.add(content.tail)
        hash.add(payload ?? [])
        let name = "\(content.byteCount)-\(String(hash.value, radix: 16))"
        try self.init(path: path, input: name) { try input.lineCount() }
    }

    /// Refuses an empty journal if there are results: its records were lost, and all notifications would be sent again
    /// without being flagged as possible duplicates.
    private static func checkEmptied(_ journal: String, results: String?) throws {
        var (status, resultsStatus) = (stat(), stat())
        guard let results, unsafe stat(journal, &status) == 0, status.st_size == 0,
            unsafe stat(results, &resultsStatus) == 0, resultsStatus.st_mode & S_IFMT == S_IFREG,
            resultsStatus.st_size > 0
        else { return }
        throw BatchFileError(
            .badData,
            "\(journal) is empty, but \(results) has results, so records of the journal were lost; nothing was sent; "
                + "restore it, or delete both files to send everything again"
        )
    }

    /// Only a regular file keeps its content.
    private static func checkKind(_ path: String) throws {
        var status = stat()
        guard unsafe path == "-" || (stat(path, &status) == 0 && status.st_mode & S_IFMT != S_IFREG) else { return }
        throw BatchFileError(.unsuitable, "--journal \(path) is not a regular file; choose another file")
    }

    /// Appends records, each with the end of its line.
    ///
    /// - Throws: ``BatchFileError`` where the file cannot be written; it is as it was then.
    package func append(_ records: String) throws {
        var checksum = self.checksum
        var bytes: [UInt8] = []
        for record in records.utf8.split(separator: 0x0A) {
            checksum.add(record)
            bytes.append(contentsOf: record)
            bytes.append(0x20)
            bytes.append(contentsOf: checksum.hexadecimal)
            bytes.append(0x0A)
        }
        try self.file.append(bytes.span)
        self.checksum = checksum
    }

    /// Waits until what was appended is on the disk.
    package func synchronize() throws { try self.file.synchronize() }

    /// Says that the tokens of so many rejections are on the purge list, as far as they belong there.
    package func noteListed(_ count: UInt64) throws {
        try self.append("listed \(count)\n")
        try self.synchronize()
    }
}

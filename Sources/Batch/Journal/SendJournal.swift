// SPDX-License-Identifier: Apache-2.0

import APNSWire
import FileSupport
import Glibc

/// The durable record of a batch: which lines may have been written, and which have an outcome.
///
/// The file is append-only text with one record per line. Each record ends with a checksum of itself and everything
/// before it. A last line without a line break was cut off by a crash and is ignored.
///
/// | record                         | means                                                                       |
/// |--------------------------------|-----------------------------------------------------------------------------|
/// | `apns-legacy journal 3 INPUT`  | the first line; INPUT identifies the batch                                  |
/// | `intent LINE`                  | this run may have written any line up to LINE                               |
/// | `FIRST LAST OUTCOME STATUS DUP AT HASH` | lines FIRST to LAST have this outcome; HASH is of AT bytes of results |
/// | `spare FIRST LAST`             | this run did not and will not write lines FIRST to LAST                     |
/// | `run`                          | another run starts; lines intended by the one before stay in doubt          |
/// | `complete`                     | every line has an outcome                                                   |
/// | `began SECONDS`                | when a run began, in seconds since 1970                                     |
/// | `listed COUNT`                 | this many rejections are on the purge list or not meant for it              |
/// | `format 3 INPUT`               | from here on, the format is 3; only in a journal of an earlier one          |
///
/// Format 2 had no hashes of the results, and another INPUT; format 1 had no checksums either.
///
/// An intent is on the disk before the first byte of its lines is written to a socket. Outcomes are recorded after
/// their results are on the disk. If a crash comes between, the lines are in doubt, and the next run sends them again
/// as possible duplicates.
package final class SendJournal {
    /// The state that earlier runs left.
    package struct Past: Equatable, Sendable {
        /// The lines that have an outcome.
        package var settled = LineSet()
        /// The lines that may have been written; lines with an outcome may be among them.
        package var doubted = LineSet()
        /// The number of bytes of the results file that belong to settled lines.
        package var resultByteCount: UInt64 = 0
        /// The hash of these bytes; `nil` if there are none, or an earlier version of the program recorded them.
        package var resultHash: UInt64?
        /// The counts of the outcomes.
        package var outcomeCounts = OutcomeCounts()
        /// Whether every line has an outcome.
        package var isComplete = false
        /// The number of rejected lines whose tokens no run has added to a purge list.
        package var unlistedCount: UInt64 = 0
        /// Those of these lines whose status alone shows that the token is invalid (8) or dead (410), by status.
        ///
        /// If a run that added some of them stopped early, all of them are still here.
        package var unlisted: [UInt16: LineSet] = [:]
        /// The start of the first run, in seconds since 1970; `nil` if the journal does not record it.
        package var beganAt: Int64?

        /// The lines whose tokens another run can add to a purge list, by status.
        ///
        /// There are none without the time of the first run, since devices that registered later are alive. If nothing
        /// was accepted, tokens with status 8 may belong to another environment.
        package var listable: [UInt16: LineSet] {
            guard self.beganAt != nil else { return [:] }
            return self.unlisted.filter { $0.key == 410 || self.outcomeCounts[.accepted] > 0 }
        }

        /// The number of these lines.
        package var listableCount: UInt64 { self.listable.values.reduce(0) { $0 + $1.count } }

        /// The state before the first run.
        package init(firstLine: UInt64 = 1) {
            if firstLine > 1 { self.settled.insert(1..<firstLine) }
        }
    }

    private let file: OutputFile
    /// The checksum of the whole file.
    private var checksum: FNV1aHash

    /// The state that the last run left; empty if there was none.
    package let past: Past

    /// Records that a run appends before any others.
    let opening: JournalEntries

    /// Whether the file was missing, so that results that are there already are not of this batch.
    let isNew: Bool

    /// The path of the file.
    package var path: String { self.file.name }

    /// Opens a journal, or creates it if missing.
    ///
    /// - Throws: ``BatchFileError`` if the file cannot be used, is locked by another process, belongs to another batch,
    ///   or is damaged.
    package init(
        path: String,
        input: String,
        formerInput: String? = nil,
        onOperation: @escaping OnFileOperation = { _, _ in },
        lineCount: () throws -> UInt64
    ) throws {
        try SendJournal.checkKind(path)
        self.isNew = FileIdentity(path: path) == nil
        let file = try OutputFile(path: path, isKept: true, onOperation: onOperation)
        // The path may lead to another file by now.
        guard file.isTruncatable else { throw SendJournal.unsuitable(path) }
        try file.lock()
        var reader = SendJournalReader(
            path: path,
            input: input,
            formerInput: formerInput ?? input,
            lineCount: file.byteCount == 0 ? 0 : try lineCount()
        )
        try file.read { try reader.read($0) }
        self.past = try reader.finish()
        self.checksum = reader.checksum
        self.file = file
        if reader.wholeByteCount < file.byteCount {
            try file.truncate(to: reader.wholeByteCount)
            // After a power failure, none of the removed bytes may reappear among new records.
            try file.synchronize()
        }
        var opening = JournalEntries()
        if reader.wholeByteCount > 0, !self.past.isComplete {
            if !reader.isCurrent { opening.append("\(SendJournalReader.upgrade)\(input)") }
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
    /// - Throws: ``BatchFileError`` if the file cannot be used.
    package convenience init(path: String, of input: SendInput, payload: [UInt8]?, results: String?) throws {
        try SendJournal.checkKind(path)
        guard let content = try input.content() else {
            throw BatchFileError(
                .unsuitable,
                "--journal requires a batch in a file; save standard input or the stream to a file first"
            )
        }
        try SendJournal.checkEmptied(path, results: results)
        var (hash, formerHash) = (content.hash, FNV1aHash())
        let payload = payload ?? []
        unsafe hash.add(payload.span.bytes)
        for part in [content.head, content.tail, payload] { formerHash.add(part) }
        try self.init(
            path: path,
            input: "\(content.byteCount)-\(hash.value.hexadecimal)",
            formerInput: "\(content.byteCount)-\(String(formerHash.value, radix: 16))",
            lineCount: { content.lineCount }
        )
    }

    /// Rejects an empty journal if there are results: its records were lost, and all notifications would be sent again
    /// without being flagged as possible duplicates.
    static func checkEmptied(_ journal: String, results: String?) throws {
        var (status, resultsStatus) = (stat(), stat())
        guard let results, unsafe stat(journal, &status) == 0, status.st_size == 0,
            unsafe stat(results, &resultsStatus) == 0, resultsStatus.st_mode & S_IFMT == S_IFREG,
            resultsStatus.st_size > 0
        else { return }
        throw BatchFileError(
            .badData,
            .recordsLost,
            "\(journal) is empty, but \(results) has results, so records of the journal were lost; nothing was sent; "
                + "restore it, or delete both files to send everything again"
        )
    }

    /// Rejects anything but a regular file, since nothing else keeps its content; the file is not opened.
    ///
    /// - Throws: ``BatchFileError``.
    package static func checkKind(_ path: String) throws {
        guard path == "-" || FileIdentity(path: path)?.isRegular == false else { return }
        throw SendJournal.unsuitable(path)
    }

    private static func unsuitable(_ path: String) -> BatchFileError {
        BatchFileError(.unsuitable, "--journal \(path) is not a regular file; choose another file")
    }

    /// Appends records, each with its line break.
    ///
    /// - Throws: ``BatchFileError`` if the file cannot be written; the file is then unchanged.
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

    /// Waits until the appended records are on the disk.
    package func synchronize() throws { try self.file.synchronize() }

    /// Checks that the path still leads to the file, and that it has what was written.
    func checkPresence() throws { try self.file.checkPresence() }

    /// Records that the tokens of this many rejections are on the purge list or do not belong there.
    package func recordListed(_ count: UInt64) throws {
        try self.append("listed \(count)\n")
        try self.synchronize()
    }
}

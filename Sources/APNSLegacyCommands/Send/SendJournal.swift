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
/// | `intent LINE`                     | every line up to LINE may have been written                                  |
/// | `FIRST LAST OUTCOME STATUS DUP AT`| lines FIRST to LAST have this outcome; the results file has AT octets then   |
/// | `complete`                        | every line has an outcome                                                    |
///
/// An intent is on the disk before the first octet of its lines goes to a socket. Outcomes follow when they are known:
/// lines whose outcome did not get to the file are found in doubt, and sent again as possible duplicates.
final class SendJournal {
    /// What an earlier run left.
    struct Past: Equatable, Sendable {
        /// The lines that have an outcome.
        var settled = LineSet()
        /// Every line up to this one may have been written; 0 for none.
        var intendedThrough: UInt64 = 0
        /// Octets of the results file that belong to what is settled.
        var resultOctetCount: UInt64 = 0
        /// Counts of the outcomes.
        var tally = SendTally()
        /// Whether every line has an outcome.
        var isComplete = false
    }

    private let file: OutputFile
    private var pending = ""
    private(set) var intendedThrough: UInt64

    /// What the last run left; empty where there was none.
    let past: Past

    private static let title = "apns-legacy journal 1 "
    private static let pendingOctetCountMax = 32_768

    /// Opens a journal, or begins one where there is none.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - input: what tells this batch from others, in one word.
    /// - Throws: ``CommandFailure`` where the file cannot be used, is held by another process, belongs to another batch,
    ///   or is damaged.
    init(path: String, input: String) throws {
        let file = try OutputFile(path: path, isKept: true)
        guard file.lock() else {
            throw CommandFailure(.tryAgain, "\(path) is in use by another process; wait for it to end.")
        }
        let octets = try file.contents()
        let end = octets.lastIndex(of: 0x0A).map { $0 + 1 } ?? 0
        try file.truncate(to: UInt64(end))
        if end == 0 {
            self.past = Past()
            let title = SendJournal.title + input + "\n"
            try Array(title.utf8).withUnsafeBytes { try file.append($0) }
            try file.synchronize()
        } else {
            self.past = try SendJournal.read(octets[..<end], path: path, input: input)
        }
        self.intendedThrough = self.past.intendedThrough
        self.file = file
    }

    /// Says that every line up to this one may be written, and waits until that is on the disk.
    func intend(through line: UInt64) throws {
        self.pending += "intent \(line)\n"
        try self.flush()
        try self.file.synchronize()
        self.intendedThrough = line
    }

    /// Records the outcome of lines.
    ///
    /// - Returns: whether so much is waiting that it should be flushed.
    func settle(
        _ lines: Range<UInt64>,
        _ outcome: BatchOutcome,
        status: UInt8?,
        isDuplicate: Bool,
        resultOctetCount: UInt64
    ) -> Bool {
        let duplicate = isDuplicate ? "dup" : "-"
        let status = status.map(String.init) ?? "-"
        self.pending +=
            "\(lines.lowerBound) \(lines.upperBound - 1) \(outcome.name) \(status) \(duplicate) \(resultOctetCount)\n"
        return self.pending.utf8.count >= SendJournal.pendingOctetCountMax
    }

    /// Gives what is recorded to the system.
    func flush() throws {
        guard !self.pending.isEmpty else { return }
        try self.pending.withUTF8 { try self.file.append(UnsafeRawBufferPointer($0)) }
        self.pending = ""
    }

    /// Says that every line has an outcome.
    func complete() throws {
        self.pending += "complete\n"
        try self.flush()
        try self.file.synchronize()
    }

    // MARK: Reading

    private static func read(_ octets: ArraySlice<UInt8>, path: String, input: String) throws -> Past {
        var past = Past()
        var number = 0
        for line in octets.split(separator: 0x0A) {
            number += 1
            let text = String(decoding: line, as: UTF8.self)
            if number == 1 {
                guard text.hasPrefix(self.title) else {
                    throw CommandFailure(
                        .dataError,
                        "\(path) is no journal of apns-legacy; give --journal another file."
                    )
                }
                guard text == self.title + input else {
                    throw CommandFailure(
                        .dataError,
                        "\(path) is the journal of another batch: the input or the payload is not what it was. "
                            + "Give --journal another file, or remove this one to send everything."
                    )
                }
            } else if !self.take(text, into: &past) {
                throw CommandFailure(
                    .dataError,
                    "\(path), line \(number): this is no record; the journal is damaged. Nothing was sent."
                )
            }
        }
        return past
    }

    private static func take(_ text: String, into past: inout Past) -> Bool {
        let words = text.split(separator: " ", omittingEmptySubsequences: false)
        if words == ["complete"] {
            past.isComplete = true
            return true
        }
        if words.count == 2, words[0] == "intent", let line = UInt64(words[1]) {
            past.intendedThrough = max(past.intendedThrough, line)
            return true
        }
        guard words.count == 6, let first = UInt64(words[0]), let last = UInt64(words[1]), 1 <= first, first <= last,
            last < UInt64.max, let outcome = BatchOutcome.allCases.first(where: { words[2] == "\($0.name)" }),
            words[3] == "-" || UInt8(words[3]) != nil, words[4] == "-" || words[4] == "dup",
            let resultOctetCount = UInt64(words[5])
        else { return false }
        past.settled.insert(first..<(last + 1))
        past.tally.add(
            outcome,
            status: UInt8(words[3]),
            isDuplicate: words[4] == "dup",
            count: last - first + 1
        )
        past.resultOctetCount = max(past.resultOctetCount, resultOctetCount)
        return true
    }
}

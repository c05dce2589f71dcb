// SPDX-License-Identifier: Apache-2.0

/// Results for the file, in reusable memory.
final class ResultBlock: @unchecked Sendable {
    // A block has one owner at a time: it is passed on between threads, and never shared.
    var writer = BatchResultWriter()
}

/// The bytes to write to the files of a batch at one time.
struct SendPortion: Sendable {
    /// Results, in order.
    var results: [ResultBlock] = []
    /// Records of the journal, each with its line break.
    var records = ""
    /// The last line of an intent among the records, which must be on the disk before the line is sent.
    var intent: UInt64?

    var isEmpty: Bool { self.results.isEmpty && self.records.isEmpty }
}

/// The results file and the journal of a batch, which are written by one thread at a time.
final class SendFiles: @unchecked Sendable {
    // ``SendSource`` makes sure that one thread at a time uses the state.
    private let results: OutputFile?
    private let journal: SendJournal?
    /// The part that is not written yet.
    private var rest = SendPortion()

    init(results: OutputFile?, journal: SendJournal?) {
        self.results = results
        self.journal = journal
    }

    /// Writes a portion, and synchronizes intents, and results before the records that refer to them.
    ///
    /// - Throws: ``BatchFileError`` if a file cannot be written; the next call writes the rest.
    func write(_ portion: SendPortion) throws {
        self.rest.results += portion.results
        self.rest.records += portion.records
        self.rest.intent = portion.intent ?? self.rest.intent
        // What is appended to a truncated file gives it a hole and its length.
        try self.checkPresence()
        while let block = self.rest.results.first {
            try unsafe self.results?.append(Span(_unsafeBytes: block.writer.bytes))
            block.writer.removeAll()
            self.rest.results.removeFirst()
        }
        try self.writeRecords()
        try self.checkPresence()
    }

    private func writeRecords() throws {
        guard let journal = self.journal, !self.rest.records.isEmpty else { return }
        try self.results?.synchronize()
        try journal.append(self.rest.records)
        self.rest.records = ""
        guard self.rest.intent != nil else { return }
        try journal.synchronize()
        self.rest.intent = nil
    }

    /// Checks that no file was removed, replaced or truncated, since another run would then send notifications again.
    private func checkPresence() throws {
        try self.journal?.checkPresence()
        try self.results?.checkPresence()
    }

    /// Finishes the files of a batch with a journal.
    ///
    /// - Throws: ``BatchFileError`` if a file cannot be written.
    func finish(provisional: [UInt8], isComplete: Bool) throws {
        guard let journal = self.journal else { return }
        try self.checkPresence()
        try self.results?.append(provisional.span)
        try self.results?.synchronize()
        if isComplete { try journal.append("complete\n") }
        try journal.synchronize()
        try self.checkPresence()
    }
}

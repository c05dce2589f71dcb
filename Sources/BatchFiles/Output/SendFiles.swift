// SPDX-License-Identifier: Apache-2.0

/// Results as they go to the file, in memory that is used again.
final class ResultBlock: @unchecked Sendable {
    // Whoever holds a block has it for itself: blocks are handed on, and never used by two threads at a time.
    var writer = BatchResultWriter()
}

/// What is to be written to the files of a batch at a time.
struct SendPortion: Sendable {
    /// Results, in their order.
    var results: [ResultBlock] = []
    /// Records of the journal, each with the end of its line.
    var records = ""
    /// The last line of an intent among the records, which is to be on the disk.
    var intent: UInt64?

    var isEmpty: Bool { self.results.isEmpty && self.records.isEmpty }
}

/// The results file and the journal of a batch, which are written by one thread at a time.
final class SendFiles: @unchecked Sendable {
    // All that changes is used by one thread at a time, as ``SendSource`` sees to.
    private let results: OutputFile?
    private let journal: SendJournal?
    /// What could not be written yet.
    private var rest = SendPortion()

    init(results: OutputFile?, journal: SendJournal?) {
        self.results = results
        self.journal = journal
    }

    /// Writes, and waits until what must be on the disk is there: results before the records that count on them, and
    /// intents.
    ///
    /// - Throws: ``BatchFileError`` where a file cannot be written; what is left is written by the next call.
    func write(_ portion: SendPortion) throws {
        self.rest.results += portion.results
        self.rest.records += portion.records
        self.rest.intent = portion.intent ?? self.rest.intent
        while let block = self.rest.results.first {
            try unsafe self.results?.append(Span(_unsafeBytes: block.writer.bytes))
            block.writer.removeAll()
            self.rest.results.removeFirst()
        }
        guard let journal = self.journal, !self.rest.records.isEmpty else { return }
        try self.results?.synchronize()
        try journal.append(self.rest.records)
        self.rest.records = ""
        guard self.rest.intent != nil else { return }
        try journal.synchronize()
        self.rest.intent = nil
    }

    /// Ends the files of a batch with a journal.
    ///
    /// - Parameters:
    ///   - provisional: results of lines that another run sends again.
    ///   - isComplete: whether every line has an outcome that stays.
    /// - Throws: ``BatchFileError`` where a file cannot be written.
    func finish(provisional: [UInt8], isComplete: Bool) throws {
        guard let journal = self.journal else { return }
        try self.results?.append(provisional.span)
        try self.results?.synchronize()
        if isComplete { try journal.append("complete\n") }
        try journal.synchronize()
    }
}

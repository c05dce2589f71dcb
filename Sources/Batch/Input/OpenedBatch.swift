// SPDX-License-Identifier: Apache-2.0

package import APNSWire

/// A batch or a list of dead tokens whose first line was read, so that nothing is created or sent for an input that is
/// refused as a whole.
package struct OpenedBatch: ~Copyable {
    private let input: SendInput
    private(set) var reader: BatchReader
    /// The last record.
    private(set) var record = BatchRecord()
    /// What the reader returned first, until it is used.
    private(set) var first: BatchReadResult?
    /// The number of bytes that were read.
    private(set) var readByteCount: UInt64 = 0

    /// Reads the first line, and waits for it.
    ///
    /// - Throws: ``BatchFileError`` if the input cannot be read or is refused.
    package init(_ input: SendInput, _ reader: consuming BatchReader) throws {
        self.input = input
        self.reader = reader
        var first = try self.next()
        while first == .needMore {
            try self.read()
            first = try self.next()
        }
        self.first = first
    }

    /// Reads the next line in memory.
    ///
    /// Returns the result of the reader, but not ``BatchReadResult/refused``.
    ///
    /// - Throws: ``BatchFileError`` if the input is refused.
    mutating func next() throws(BatchFileError) -> BatchReadResult {
        if let first = self.first {
            self.first = nil
            return first
        }
        let result = self.reader.next(&self.record)
        guard result == .refused, let problem = self.reader.problem else { return result }
        throw BatchFileError(.badData, in: self.input.name, problem)
    }

    /// Reads more bytes, and waits for them.
    ///
    /// - Throws: ``BatchFileError`` if the input cannot be read.
    mutating func read() throws {
        let input = self.input
        let count = try unsafe self.reader.fill { memory in try unsafe input.readNow(into: memory) }
        if count == 0 { input.waitAtEnd() }
        self.readByteCount += UInt64(count)
    }

    /// Reads all lines without sending them, to find the tokens that an earlier run left to add to the purge list.
    ///
    /// - Throws: ``BatchFileError`` if the input cannot be read.
    package consuming func forEachRejected(
        _ past: SendJournal.Past,
        _ body: (_ token: DeviceToken, _ status: UInt16) -> Void
    ) throws {
        let listable = past.listable
        while true {
            switch try self.next() {
            case .record:
                let line = UInt64(self.record.lineNumber)
                if let status = listable.first(where: { $0.value.contains(line) })?.key {
                    body(self.record.token, status)
                }
            case .needMore: try self.read()
            case .bad: break
            case .refused, .end: return
            }
        }
    }
}

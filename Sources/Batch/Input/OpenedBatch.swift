// SPDX-License-Identifier: Apache-2.0

package import APNSWire

extension BatchReader {
    /// Reads more bytes of an input, and waits for them.
    ///
    /// Returns the number of bytes; 0 at the end.
    @discardableResult
    mutating func fill(from input: SendInput) throws -> Int {
        let count = try unsafe self.fill { memory in try unsafe input.readNow(into: memory) }
        if count == 0 { input.waitAtEnd() }
        return count
    }
}

/// A batch whose first line was read, so that nothing is created or sent for an input that is refused as a whole.
package struct OpenedBatch: ~Copyable {
    var reader: BatchReader
    /// The first record, if ``first`` is a record.
    let record: BatchRecord
    /// What the reader returned first.
    let first: BatchReadResult
    /// The number of bytes that were read.
    let readByteCount: UInt64

    /// Reads the first line, and waits for it.
    ///
    /// - Throws: ``BatchFileError`` if the input cannot be read or is refused.
    package init(_ input: SendInput, _ reader: consuming BatchReader) throws {
        var record = BatchRecord()
        var readByteCount: UInt64 = 0
        var first = reader.next(&record)
        while first == .needMore {
            readByteCount += UInt64(try reader.fill(from: input))
            first = reader.next(&record)
        }
        if first == .refused {
            let refusal = reader.problem.map { BatchFileError(.badData, in: input.name, $0) }
            throw refusal ?? BatchFileError(.badData, "")
        }
        self.reader = reader
        self.record = record
        self.first = first
        self.readByteCount = readByteCount
    }

    /// Reads all lines without sending them, to find the tokens that an earlier run left to add to the purge list.
    ///
    /// - Throws: ``BatchFileError`` if the input cannot be read.
    package consuming func forEachRejected(
        _ past: SendJournal.Past,
        of input: SendInput,
        _ take: (_ token: DeviceToken, _ status: UInt16) -> Void
    ) throws {
        let listable = past.listable
        var (record, result) = (self.record, self.first)
        while true {
            switch result {
            case .record:
                let line = UInt64(record.lineNumber)
                if let status = listable.first(where: { $0.value.contains(line) })?.key { take(record.token, status) }
            case .needMore: try self.reader.fill(from: input)
            case .bad: break
            case .refused, .end: return
            }
            result = self.reader.next(&record)
        }
    }
}

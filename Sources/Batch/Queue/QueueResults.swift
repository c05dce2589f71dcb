// SPDX-License-Identifier: Apache-2.0

#if PostgreSQL
import APNSWire
import NIOConcurrencyHelpers
import TokenStore

/// Writes what became of the chunks of a worker, as ``SendSource`` writes its results, and counts it.
///
/// One thread at a time writes.
package final class QueueResults: @unchecked Sendable {
    private let file: OutputFile?
    private let isOnlyExceptions: Bool
    private var writer = BatchResultWriter()
    private let counts = NIOLockedValueBox(OutcomeCounts())

    package init(file: OutputFile?, isOnlyExceptions: Bool) {
        self.file = file
        self.isOnlyExceptions = isOnlyExceptions
    }

    /// The counts of everything that was written.
    package var outcomeCounts: OutcomeCounts { self.counts.withLockedValue { $0 } }

    /// Writes the results of the notifications of a chunk whose outcome is final.
    ///
    /// - Throws: ``BatchFileError`` if the file cannot be written.
    func write(_ chunk: QueueClaim) throws {
        var counts = OutcomeCounts()
        for index in chunk.account.finalIndices {
            guard let outcome = chunk.account.outcomes[index] else { continue }
            let line = LineOutcome(outcome.kind, status: outcome.status, isDuplicate: outcome.isDuplicate)
            counts.add(line, count: 1)
            guard self.file != nil, outcome.isException || !self.isOnlyExceptions,
                let token = try? DeviceToken(bytes: chunk.contents.token(index))
            else { continue }
            var result = LineResult(
                chunk.contents[index].line,
                line,
                timestamp: outcome.timestamp,
                attempts: outcome.attempts,
                reason: outcome.reason
            )
            (result.apnsID, result.apnsUniqueID) = (outcome.apnsID, outcome.apnsUniqueID)
            try unsafe chunk.contents.id(index).withUnsafeBytes { id in
                if unsafe !self.writer.append(result, id: id, token: token) {
                    try self.flush()
                    _ = unsafe self.writer.append(result, id: id, token: token)
                }
            }
        }
        try self.flush()
        self.counts.withLockedValue { $0.add(counts) }
    }

    private func flush() throws {
        guard self.writer.byteCount > 0 else { return }
        defer { self.writer.removeAll() }
        try unsafe self.file?.append(Span(_unsafeBytes: self.writer.bytes))
    }
}
#endif

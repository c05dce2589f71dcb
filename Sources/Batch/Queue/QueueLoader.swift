// SPDX-License-Identifier: Apache-2.0

#if PostgreSQL
package import TokenStore

/// Loads a batch into a queue, in the formats that ``SendSource`` reads.
package struct QueueLoader {
    /// What was loaded.
    package struct Report: Sendable {
        package fileprivate(set) var batch: Int64 = 0
        package fileprivate(set) var notificationCount: UInt64 = 0
        package fileprivate(set) var chunkCount = 0
        package fileprivate(set) var badLineCount: UInt64 = 0
        /// Whether reading was abandoned; the batch is then not ready.
        package fileprivate(set) var isStopped = false
    }

    private let database: QueueDatabase
    /// The number of notifications in a chunk.
    private let chunkCountMax: Int
    private let onBadLine: (BatchProblem) -> Void
    private let onRead: (_ notificationCount: UInt64) -> Void

    /// A chunk with long payloads has fewer notifications than others.
    private static let chunkByteCountMax = 1 << 20
    /// The most bytes in one transaction.
    private static let portionByteCountMax = 4 << 20

    private var report = Report()
    private var chunk = QueueChunkContents()
    private var portion: [QueueChunkContents] = []
    private var payloadByteCountMax = 0

    package init(
        _ database: QueueDatabase,
        chunkCountMax: Int,
        onBadLine: @escaping (BatchProblem) -> Void,
        onRead: @escaping (_ notificationCount: UInt64) -> Void
    ) {
        self.database = database
        self.chunkCountMax = chunkCountMax
        self.onBadLine = onBadLine
        self.onRead = onRead
    }

    /// Loads an input to its end, or until reading is abandoned.
    ///
    /// - Throws: ``BatchFileError`` for the input, `QueueError` and `TokenTableError` for the queue. A batch that was
    ///   begun then stays in the state `loading`.
    package mutating func load(
        _ input: SendInput,
        _ batch: consuming OpenedBatch,
        as properties: QueueDatabase.Batch,
        onBegin: (Int64) -> Void
    ) throws -> Report {
        var properties = properties
        unsafe properties.payload = batch.reader.common.map { unsafe Array($0) }
        self.payloadByteCountMax = properties.payload?.count ?? 0
        self.report.batch = try self.database.begin(properties)
        onBegin(self.report.batch)
        let commonStart = unsafe batch.reader.common?.baseAddress
        reading: while !input.isAbandoned {
            switch try batch.next() {
            case .record: try unsafe self.add(batch.record, commonStart)
            case .bad:
                self.report.badLineCount += 1
                if let problem = batch.reader.problem { self.onBadLine(problem) }
            case .needMore:
                self.onRead(self.report.notificationCount)
                if input.waitForBytes() { try batch.read() }
            case .refused, .end: break reading
            }
        }
        self.report.isStopped = input.isAbandoned
        guard !self.report.isStopped else { return self.report }
        try self.seal()
        try self.write()
        try self.database.makeReady(
            self.report.batch,
            payloadByteCountMax: self.payloadByteCountMax,
            badLineCount: self.report.badLineCount
        )
        return self.report
    }

    private mutating func add(_ record: BatchRecord, _ commonStart: UnsafeRawPointer?) throws {
        let isCommon = unsafe commonStart != nil && record.payload.baseAddress == commonStart
        unsafe self.chunk.append(
            line: UInt64(record.lineNumber),
            token: record.token,
            id: record.id,
            payload: isCommon ? nil : record.payload,
            expiry: record.expiry,
            priority: record.priority
        )
        self.payloadByteCountMax = unsafe max(self.payloadByteCountMax, record.payload.count)
        self.report.notificationCount += 1
        if self.chunk.count >= self.chunkCountMax || self.chunk.byteCount >= Self.chunkByteCountMax { try self.seal() }
    }

    /// Ends the chunk, and writes the portion if it is large.
    private mutating func seal() throws {
        guard self.chunk.count > 0 else { return }
        self.portion.append(self.chunk)
        self.chunk = QueueChunkContents()
        if self.portion.reduce(0, { $0 + $1.byteCount }) >= Self.portionByteCountMax { try self.write() }
    }

    private mutating func write() throws {
        guard !self.portion.isEmpty else { return }
        try self.database.add(self.portion, to: self.report.batch, from: Int32(clamping: self.report.chunkCount))
        self.report.chunkCount += self.portion.count
        self.portion.removeAll(keepingCapacity: true)
    }
}
#endif

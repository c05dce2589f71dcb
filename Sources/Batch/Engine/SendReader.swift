// SPDX-License-Identifier: Apache-2.0

package import APNSWire
import Dispatch
import NIOConcurrencyHelpers

/// A test of a token; called on the thread that reads.
package typealias TokenPredicate = @Sendable (borrowing DeviceToken) throws -> Bool

/// Reads a batch ahead on its own thread, so that no event loop waits for a disk, a pipe or the purge list.
final class SendReader: @unchecked Sendable {
    /// The result of a request for lines.
    enum NextBlock {
        case block(SendBlock)
        /// There are none yet; the reader calls back when there are.
        case later
        /// There are no more after this position, or the input is at fault.
        case end(Result<BatchPosition, any Error>)
    }

    private struct State: Sendable {
        var blocks: [SendBlock] = []
        var spare: [SendBlock] = []
        var end: Result<BatchPosition, any Error>?
        var isReading = false
        /// Whether the thread may be looking up tokens.
        var isParsing = false
        var isAwaited = false
        var wake: @Sendable () -> Void = {}
    }

    private let input: SendInput
    private let queue = DispatchQueue(label: "apns-legacy.send.input")
    private let state = NIOLockedValueBox(State())
    private let parsed = DispatchSemaphore(value: 0)
    // Used by one job of the queue at a time.
    private var parser: SendParser

    /// The number of blocks that are read ahead.
    private static let blockCountMax = 3
    /// Reading resumes when only this many are left: waking the thread for each block costs more than the block.
    private static let blockCountLow = 1

    init(
        _ input: SendInput,
        _ batch: consuming OpenedBatch,
        past: SendJournal.Past,
        sendsDoubted: Bool,
        isDead: TokenPredicate?
    ) {
        self.input = input
        self.parser = SendParser(input, batch, past: past, sendsDoubted: sendsDoubted, isDead: isDead)
    }

    /// Reads the beginning of a file, so that no connection is made for an input that is refused.
    func prepare() {
        guard self.input.byteCountTotal != nil else { return }
        self.state.withLockedValue { self.schedule(&$0) }
        self.queue.sync {}
    }

    /// Sets what to call when there are lines after there were none.
    func whenReady(_ wake: @escaping @Sendable () -> Void) {
        self.state.withLockedValue { $0.wake = wake }
    }

    /// The next lines, without waiting.
    func next() -> NextBlock {
        self.state.withLockedValue { state in
            self.schedule(&state)
            if !state.blocks.isEmpty { return .block(state.blocks.removeFirst()) }
            if let end = state.end { return .end(end) }
            state.isAwaited = true
            return .later
        }
    }

    /// Takes back a block whose lines were all used.
    func reuse(_ block: SendBlock) {
        self.state.withLockedValue { state in
            if state.spare.count < SendReader.blockCountMax { state.spare.append(block) }
            self.schedule(&state)
        }
    }

    /// Stops reading, and waits until no token is being looked up.
    func stop() {
        self.input.abandon()
        while self.state.withLockedValue({ $0.isParsing }) { self.parsed.wait() }
    }

    private func schedule(_ state: inout State) {
        guard !state.isReading, state.end == nil, state.blocks.count <= SendReader.blockCountLow else { return }
        state.isReading = true
        self.queue.async { self.readAhead() }
    }

    /// Reads until enough is read ahead; runs on the queue.
    private func readAhead() {
        while let block = self.nextSpare() {
            unsafe block.removeAll(common: self.parser.common)
            block.start = self.parser.position
            let stop = self.parser.parse(into: block)
            block.end = self.parser.position
            self.endParsing(with: block, stop)
            guard case .needMore = stop else { continue }
            do {
                try self.parser.batch.read()
            } catch {
                self.end(.failure(error))
            }
        }
    }

    /// Memory for more lines; `nil` if none are to be read now.
    private func nextSpare() -> SendBlock? {
        self.state.withLockedValue { state in
            guard state.end == nil, !self.input.isAbandoned, state.blocks.count < SendReader.blockCountMax else {
                state.isReading = false
                return nil
            }
            state.isParsing = true
            return state.spare.popLast() ?? SendBlock()
        }
    }

    private func endParsing(with block: SendBlock, _ stop: SendParser.Stop) {
        let wake = self.state.withLockedValue { state in
            state.isParsing = false
            if block.count > 0 { state.blocks.append(block) } else { state.spare.append(block) }
            if case .end(let end) = stop { state.end = end.map { block.end } }
            return self.takeWake(&state, isDue: block.count > 0 || state.end != nil)
        }
        self.parsed.signal()
        wake?()
    }

    private func end(_ end: Result<BatchPosition, any Error>) {
        let wake = self.state.withLockedValue { state in
            state.end = end
            return self.takeWake(&state, isDue: true)
        }
        wake?()
    }

    private func takeWake(_ state: inout State, isDue: Bool) -> (@Sendable () -> Void)? {
        guard isDue, state.isAwaited else { return nil }
        state.isAwaited = false
        return state.wake
    }
}

/// Splits the bytes of a batch into lines, and decides what to do with each.
///
/// A structure, so that one access to it covers a whole block.
private struct SendParser: ~Copyable {
    /// Why there is no further line.
    enum Stop {
        case full
        case needMore
        case end(Result<Void, any Error>)
    }

    private let input: SendInput
    var batch: OpenedBatch
    private let past: SendJournal.Past
    /// The lines whose tokens an earlier run left to add to the purge list, by status.
    private let listable: [UInt16: LineSet]
    private let sendsDoubted: Bool
    private let isDead: TokenPredicate?
    /// Whether each line is due, so that nothing is looked up.
    private let isPlain: Bool
    /// The kind of a line that was read, but found no room.
    private var waiting: SendBlock.Kind?
    /// The line of the first record; `nil` until it came.
    private var firstLine: UInt64?

    init(
        _ input: SendInput,
        _ batch: consuming OpenedBatch,
        past: SendJournal.Past,
        sendsDoubted: Bool,
        isDead: TokenPredicate?
    ) {
        self.input = input
        self.batch = batch
        self.past = past
        self.listable = past.listable
        self.sendsDoubted = sendsDoubted
        self.isDead = isDead
        self.isPlain = past.settled.ranges.isEmpty && past.doubted.ranges.isEmpty && isDead == nil
    }

    /// The payload of lines without their own; valid as long as the reader.
    var common: UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(self.batch.reader.common ?? .init(start: nil, count: 0))
    }

    /// Behind the last record that found room.
    var position: BatchPosition {
        guard self.batch.first == nil else { return BatchPosition() }
        let unreadByteCount = self.batch.reader.lines.filled - self.batch.reader.lines.position
        // What is read may be more than the file has, as where it is compressed.
        let readByteCount = self.batch.readByteCount
        let part = Double(readByteCount - UInt64(unreadByteCount)) / Double(max(1, readByteCount))
        return BatchPosition(
            nextLine: self.waiting == nil ? UInt64(self.batch.reader.lines.lineNumber) + 1 : self.waitingLine,
            byteCount: UInt64(part * Double(self.input.readByteCount)),
            headLineCount: self.firstLine.map { $0 - 1 } ?? 0
        )
    }

    /// The line of what was read last.
    private var waitingLine: UInt64 {
        UInt64(self.waiting == .bad ? self.batch.reader.problem?.lineNumber ?? 1 : self.batch.record.lineNumber)
    }

    mutating func parse(into block: SendBlock) -> Stop {
        do {
            while true {
                if let kind = self.waiting {
                    guard self.append(kind, to: block) else { return .full }
                    self.waiting = nil
                }
                switch try self.batch.next() {
                case .record:
                    self.firstLine = self.firstLine ?? UInt64(self.batch.record.lineNumber)
                    self.waiting = self.isPlain ? .due : try self.kind()
                case .bad:
                    self.firstLine = self.firstLine ?? UInt64(self.batch.reader.problem?.lineNumber ?? 1)
                    self.waiting = self.isSettled(self.batch.reader.problem?.lineNumber) ? nil : .bad
                case .needMore: return .needMore
                case .refused, .end: return .end(.success(()))
                }
            }
        } catch {
            return .end(.failure(error))
        }
    }

    private func append(_ kind: SendBlock.Kind, to block: SendBlock) -> Bool {
        guard kind == .bad else {
            guard block.append(self.batch.record, kind) else { return false }
            if self.batch.record.hasFields { block.setFields(self.batch.reader.requestFields) }
            return true
        }
        return self.batch.reader.problem.map { block.append($0, self.batch.record.token) } ?? true
    }

    /// Whether an earlier run settled a line.
    private func isSettled(_ line: Int?) -> Bool {
        !self.past.settled.ranges.isEmpty && self.past.settled.contains(UInt64(line ?? 0))
    }

    /// What to do with the record; `nil` if it has an outcome already.
    private func kind() throws -> SendBlock.Kind? {
        if self.isSettled(self.batch.record.lineNumber) {
            let status = self.listable.first { $0.value.contains(UInt64(self.batch.record.lineNumber)) }?.key
            return status.map { .rejected(status: $0) }
        }
        if !self.sendsDoubted, !self.past.doubted.ranges.isEmpty,
            self.past.doubted.contains(UInt64(self.batch.record.lineNumber))
        {
            return .doubted
        }
        if let isDead = self.isDead, try isDead(self.batch.record.token) { return .dead }
        return .due
    }
}

/// Lines of a batch that were read ahead, in memory that is reused.
///
/// A block has one owner: blocks are passed on, and two threads never use one at the same time.
@safe final class SendBlock: @unchecked Sendable {
    /// What to do with a line.
    enum Kind: Equatable {
        /// Send it.
        case due
        /// Report it as invalid, for the next reason in ``SendBlock/problems``.
        case bad
        /// Suppress it, because its token is on the purge list.
        case dead
        /// Do not write it again, because an earlier run may have written it.
        case doubted
        /// Only add the token to the purge list: an earlier run had this status for the line.
        case rejected(status: UInt16)
    }

    /// One line.
    struct Entry {
        fileprivate(set) var kind: Kind
        fileprivate(set) var line: UInt64
        fileprivate(set) var token: DeviceToken
        fileprivate(set) var expiry: UInt32?
        fileprivate(set) var priority: UInt8?
        /// Whether ``SendBlock/fields`` has fields of its request.
        fileprivate(set) var hasFields = false
        fileprivate var isCommon = false
        fileprivate var offset = 0
        fileprivate var payloadByteCount = 0
        fileprivate var idByteCount = 0
    }

    /// The number of lines in a block.
    static let countMax = 1024
    /// Enough for that many usual lines; a longer line gets a block of its own.
    private static let byteCountUsual = 131_072

    private let entries = UnsafeMutablePointer<Entry>.allocate(capacity: SendBlock.countMax)
    private var bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: SendBlock.byteCountUsual, alignment: 16)
    private var byteCount = 0
    /// The payload of lines without their own.
    private var common = unsafe UnsafeRawBufferPointer(start: nil, count: 0)

    /// The number of lines.
    private(set) var count = 0
    /// Where the input stood before the first line, and behind the last.
    var (start, end) = (BatchPosition(), BatchPosition())
    /// What is wrong with the invalid lines, in order.
    private(set) var problems: [BatchProblem] = []
    /// What only requests over HTTP/2 have, by the indices of the lines.
    private(set) var fields: [Int: RequestFields] = [:]

    // Entries need no deinitialization.
    deinit {
        unsafe self.entries.deallocate()
        unsafe self.bytes.deallocate()
    }

    /// Empties the block.
    func removeAll(common: UnsafeRawBufferPointer) {
        self.count = 0
        self.byteCount = 0
        self.problems.removeAll(keepingCapacity: true)
        if !self.fields.isEmpty { self.fields.removeAll(keepingCapacity: true) }
        unsafe self.common = unsafe common
    }

    /// Appends a line, with its payload and id.
    ///
    /// Returns whether there was room.
    func append(_ record: borrowing BatchRecord, _ kind: Kind) -> Bool {
        let start = unsafe record.payload.baseAddress
        let isCommon = unsafe self.common.baseAddress != nil && start == self.common.baseAddress
        let payloadByteCount = unsafe isCommon ? 0 : record.payload.count
        guard unsafe self.hasRoom(for: payloadByteCount + record.id.count) else { return false }
        let offset = self.byteCount
        if !isCommon { unsafe self.copy(record.payload) }
        unsafe self.copy(record.id)
        // In place, because moving an entry costs more than reading a token.
        unsafe (self.entries + self.count).initialize(
            to: Entry(
                kind: kind,
                line: UInt64(record.lineNumber),
                token: record.token,
                expiry: record.expiry,
                priority: record.priority,
                hasFields: record.hasFields,
                isCommon: isCommon,
                offset: offset,
                payloadByteCount: payloadByteCount,
                idByteCount: record.id.count
            )
        )
        self.count += 1
        return true
    }

    /// Keeps the fields of the request of the line that was appended last.
    func setFields(_ fields: RequestFields) { self.fields[self.count - 1] = fields }

    /// Appends an invalid line.
    ///
    /// Returns whether there was room.
    func append(_ problem: BatchProblem, _ token: DeviceToken) -> Bool {
        guard self.count < SendBlock.countMax else { return false }
        let entry = Entry(kind: .bad, line: UInt64(problem.lineNumber), token: token)
        unsafe (self.entries + self.count).initialize(to: entry)
        self.count += 1
        self.problems.append(problem)
        return true
    }

    /// Calls `body` with a line, its payload and its id.
    @inline(__always)
    func withEntry<Value>(
        at index: Int,
        _ body: (borrowing Entry, _ payload: UnsafeRawBufferPointer, _ id: UnsafeRawBufferPointer) throws -> Value
    ) rethrows -> Value {
        precondition(index < self.count, "There is no such line.")
        let entry = unsafe self.entries + index
        let payloadEnd = unsafe entry.pointee.offset + entry.pointee.payloadByteCount
        let payload =
            unsafe entry.pointee.isCommon
            ? self.common : UnsafeRawBufferPointer(rebasing: self.bytes[entry.pointee.offset..<payloadEnd])
        let id = unsafe UnsafeRawBufferPointer(
            rebasing: self.bytes[payloadEnd..<(payloadEnd + entry.pointee.idByteCount)]
        )
        return try unsafe body(entry.pointee, payload, id)
    }

    /// Whether there is room; an empty block makes room.
    private func hasRoom(for byteCount: Int) -> Bool {
        guard self.count < SendBlock.countMax else { return false }
        guard unsafe byteCount > self.bytes.count - self.byteCount else { return true }
        guard self.count == 0 else { return false }
        unsafe self.bytes.deallocate()
        unsafe self.bytes = .allocate(byteCount: byteCount, alignment: 16)
        return true
    }

    private func copy(_ source: UnsafeRawBufferPointer) {
        guard unsafe !source.isEmpty else { return }
        unsafe UnsafeMutableRawBufferPointer(rebasing: self.bytes[self.byteCount...]).copyMemory(from: source)
        self.byteCount += source.count
    }
}

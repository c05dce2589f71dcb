// SPDX-License-Identifier: Apache-2.0

import APNSWire

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
                isCommon: isCommon,
                offset: offset,
                payloadByteCount: payloadByteCount,
                idByteCount: record.id.count
            )
        )
        self.count += 1
        return true
    }

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

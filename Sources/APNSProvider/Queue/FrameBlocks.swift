// SPDX-License-Identifier: Apache-2.0

import APNSWire
import DequeModule
import NIOCore

/// The frames of a queue, in blocks.
struct FrameBlocks: ~Copyable, QueueStorage {
    private var open = FrameBlock()
    private var sealed = UniqueDeque<FrameBlock>()
    /// An empty block for reuse.
    private var spare: FrameBlock?
    /// The number of blocks that were taken and may be returned.
    private var dequeuedCount = 0

    /// The receivers of the outcomes of unsettled notifications.
    var submissions = OpenSubmissions()

    /// The tokens that are suppressed for now.
    var rejected: RejectedTokens

    /// The next number at each of the last clock checks, oldest first; `nil` if waiting notifications have no deadline.
    var clockMarks: Deque<UInt64>?

    /// Whether connections are not woken for a short time, although something may wait.
    var isResting = false

    /// The maximum number of full blocks that wait to be written.
    private static let sealedCountMax = 16
    /// At this number of waiting blocks, callers that wait for room are woken: waking one for each block would cost
    /// more than the block.
    private static let sealedCountLow = 4

    init(rejected: RejectedTokens) { self.rejected = rejected }

    var hasRoom: Bool { self.sealed.count < FrameBlocks.sealedCountMax }

    var isLow: Bool { self.sealed.count <= FrameBlocks.sealedCountLow }

    /// Whether a full block is waiting, the unit of writing.
    var hasFullBlock: Bool { !self.sealed.isEmpty }

    var isEmpty: Bool { self.sealed.isEmpty && self.open.isEmpty }

    /// Whether anything waits, including in a block that may be returned.
    var hasWaiting: Bool { self.dequeuedCount > 0 || !self.isEmpty }

    /// Returns whether it fit.
    mutating func append(_ notification: borrowing PushNotification, command: Command, number: UInt64) -> Bool {
        if self.open.append(notification, command: command, number: number) { return true }
        guard self.sealed.count < FrameBlocks.sealedCountMax else { return false }
        self.sealed.append(self.replaceOpen())
        return self.open.append(notification, command: command, number: number)
    }

    /// Removes and returns the next block to write, if there is one.
    mutating func dequeue() -> FrameBlock? {
        if let block = self.sealed.popFirst() {
            self.dequeuedCount += 1
            return block
        }
        guard !self.open.isEmpty else { return nil }
        self.dequeuedCount += 1
        return self.replaceOpen()
    }

    /// Returns a block: for reuse, or to be written next.
    mutating func recycle(_ block: consuming FrameBlock) {
        self.dequeuedCount -= 1
        if block.isEmpty { self.spare = consume block } else { self.sealed.prepend(block) }
    }

    /// Removes notifications that wait and have a lower number.
    ///
    /// Returns the numbers, as ranges.
    mutating func removeAll(before end: UInt64 = .max) -> [Range<UInt64>] {
        var ranges: [Range<UInt64>] = []
        while var block = self.dequeue() {
            ranges += block.removeAll(before: end)
            guard block.isEmpty else {
                self.recycle(block)
                break
            }
            self.recycle(block)
        }
        return ranges
    }

    /// Removes notifications that wait, except those in blocks that were taken.
    ///
    /// Returns those of the numbers, which are ascending, that were removed, as ranges.
    mutating func remove(_ numbers: [Range<UInt64>]) -> [Range<UInt64>] {
        guard let first = numbers.first, let last = numbers.last else { return [] }
        let bounds = first.lowerBound..<last.upperBound
        var removed: [Range<UInt64>] = []
        // What is left moves together: in an outage, only withdrawals make room.
        for index in 0..<self.sealed.count {
            guard var block = self.sealed.popFirst() else { break }
            removed += block.remove(numbers, bounds)
            if index > 0, !self.sealed.isEmpty { self.sealed[self.sealed.count - 1].append(framesOf: &block) }
            if block.isEmpty { self.spare = consume block } else { self.sealed.append(block) }
        }
        return removed + self.open.remove(numbers, bounds)
    }

    /// Replaces the open block by an empty one.
    ///
    /// Returns the previous open block.
    private mutating func replaceOpen() -> FrameBlock {
        var block = self.spare.take() ?? FrameBlock()
        swap(&self.open, &block)
        return block
    }
}

/// Frames of single notifications that wait for a connection.
///
/// It is not copyable, since a copy would write to the same memory; therefore its owner can send it to another thread.
@safe
struct FrameBlock: ~Copyable, @unchecked Sendable {
    private let memory: UnsafeMutableRawBufferPointer
    private var byteCount = 0
    private var drainedByteCount = 0
    private var count = 0
    private var drainedCount = 0
    private var marks = NotificationMarks()

    init() { unsafe self.memory = .allocate(byteCount: FrameStore.chunkByteCount, alignment: 16) }

    deinit { unsafe self.memory.deallocate() }

    var isEmpty: Bool { self.drainedCount == self.count }

    /// Returns whether it fit.
    mutating func append(_ notification: borrowing PushNotification, command: Command, number: UInt64) -> Bool {
        let free = unsafe UnsafeMutableRawBufferPointer(rebasing: self.memory[self.byteCount...])
        guard var encoder = unsafe FrameEncoder(writingInto: free) else { return false }
        let expiry = notification.expiry.wireValue
        let priority = notification.priority?.rawValue
        let isAppended = unsafe notification.payload.withUnsafeReadableBytes { payload in
            unsafe encoder.append(
                token: notification.token,
                payload: payload,
                expiry: expiry,
                priority: priority,
                identifier: 0,
                command: command
            )
        }
        guard isAppended else { return false }
        self.byteCount += encoder.byteCount
        unsafe self.marks.append(tag: number, note: UnsafeRawBufferPointer(start: nil, count: 0), index: self.count)
        self.count += 1
        return true
    }

    /// Moves frames to a batch.
    ///
    /// Returns whether all frames were moved.
    mutating func drain(into batch: inout NotificationBatch) -> Bool {
        guard !self.isEmpty else { return true }
        let frames = unsafe UnsafeRawBufferPointer(rebasing: self.memory[self.drainedByteCount..<self.byteCount])
        let moved = unsafe batch.append(
            frames: frames,
            count: self.count - self.drainedCount,
            marks: self.marks,
            from: self.drainedCount
        )
        self.drainedCount += moved.count
        self.drainedByteCount += moved.byteCount
        guard self.isEmpty else { return false }
        self.clear()
        return true
    }

    /// Removes the frames whose numbers are less than another one.
    ///
    /// Returns their numbers, as ranges.
    mutating func removeAll(before end: UInt64) -> [Range<UInt64>] {
        var ranges: [Range<UInt64>] = []
        self.marks.forEachTagRange(in: self.drainedCount..<self.count) { numbers in
            let part = numbers.clamped(to: 0..<end)
            if !part.isEmpty { ranges.append(part) }
        }
        let count = ranges.reduce(0) { $0 + $1.count }
        guard count > 0 else { return [] }
        let frames = unsafe UnsafeRawBufferPointer(rebasing: self.memory[self.drainedByteCount..<self.byteCount])
        self.drainedByteCount += unsafe FrameScanner.offset(passing: count, in: frames)
        self.drainedCount += count
        if self.isEmpty { self.clear() }
        return ranges
    }

    /// Removes the frames with some numbers, which are ascending and within bounds.
    ///
    /// Returns those that were removed, as ranges.
    mutating func remove(_ numbers: [Range<UInt64>], _ bounds: Range<UInt64>) -> [Range<UInt64>] {
        let indices = self.drainedCount..<self.count
        var isAffected = false
        self.marks.forEachTagRange(in: indices) { isAffected = isAffected || $0.overlaps(bounds) }
        guard isAffected else { return [] }
        let memory = unsafe self.memory
        var (removed, next): ([Range<UInt64>], Int) = ([], 0)
        var (marks, keptCount) = (NotificationMarks(), indices.lowerBound)
        var (source, target) = (self.drainedByteCount, self.drainedByteCount)
        self.marks.forEachTagRange(in: indices) { tags in
            for number in tags {
                let frame = unsafe FrameScanner.frame(at: source, in: UnsafeRawBufferPointer(memory))
                guard let byteCount = frame?.byteCount else { return }
                while next < numbers.count, numbers[next].upperBound <= number { next += 1 }
                if next < numbers.count, numbers[next].contains(number) {
                    removed.append(consecutive: number)
                } else {
                    let bytes = unsafe UnsafeRawBufferPointer(rebasing: memory[source..<(source + byteCount)])
                    unsafe UnsafeMutableRawBufferPointer(rebasing: memory[target...]).copyMemory(from: bytes)
                    unsafe marks.append(
                        tag: number,
                        note: UnsafeRawBufferPointer(start: nil, count: 0),
                        index: keptCount
                    )
                    target += byteCount
                    keptCount += 1
                }
                source += byteCount
            }
        }
        (self.marks, self.count, self.byteCount) = (marks, keptCount, target)
        if self.isEmpty { self.clear() }
        return removed
    }

    /// Moves the frames of another block to the end of this block, if all of them fit.
    mutating func append(framesOf block: inout FrameBlock) {
        let frames = unsafe UnsafeRawBufferPointer(rebasing: block.memory[block.drainedByteCount..<block.byteCount])
        let free = unsafe UnsafeMutableRawBufferPointer(rebasing: self.memory[self.byteCount...])
        guard frames.count <= free.count else { return }
        unsafe free.copyMemory(from: frames)
        self.byteCount += frames.count
        var (marks, count) = (self.marks, self.count)
        block.marks.forEachTagRange(in: block.drainedCount..<block.count) { tags in
            marks.append(tags: tags, index: count)
            count += tags.count
        }
        (self.marks, self.count) = (marks, count)
        block.clear()
    }

    private mutating func clear() {
        self.byteCount = 0
        self.drainedByteCount = 0
        self.count = 0
        self.drainedCount = 0
        self.marks = NotificationMarks()
    }
}

extension [Range<UInt64>] {
    /// Appends a number, to the last range if it follows it.
    fileprivate mutating func append(consecutive number: UInt64) {
        if let last = self.last, last.upperBound == number {
            self[self.count - 1] = last.lowerBound..<(number + 1)
        } else {
            self.append(number..<(number + 1))
        }
    }
}

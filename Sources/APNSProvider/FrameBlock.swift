// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore

/// Frames that were put in one by one and wait for a connection.
struct FrameBlock: Sendable {
    private let memory: FrameMemory
    private var byteCount = 0
    private var drainedByteCount = 0
    private var count = 0
    private var drainedCount = 0
    private var marks = NotificationMarks()

    init() { self.memory = FrameMemory() }

    var isEmpty: Bool { self.drainedCount == self.count }

    /// - Returns: whether there was room.
    mutating func append(_ notification: borrowing Notification, command: Command, number: UInt64) -> Bool {
        let free = UnsafeMutableRawBufferPointer(rebasing: self.memory.bytes[self.byteCount...])
        guard var encoder = FrameEncoder(writingInto: free) else { return false }
        let expiry = notification.expiry
        let priority = notification.priority
        let isAppended = notification.payload.withUnsafeReadableBytes { payload in
            encoder.append(
                command: command,
                identifier: 0,
                expiry: expiry,
                priority: priority,
                token: notification.token,
                payload: payload
            )
        }
        guard isAppended else { return false }
        self.byteCount += encoder.byteCount
        self.marks.append(tag: number, note: UnsafeRawBufferPointer(start: nil, count: 0), index: self.count)
        self.count += 1
        return true
    }

    /// Moves frames to a batch.
    ///
    /// - Returns: whether that was all of them.
    mutating func drain(into batch: inout NotificationBatch) -> Bool {
        guard !self.isEmpty else { return true }
        let frames = UnsafeRawBufferPointer(rebasing: self.memory.bytes[self.drainedByteCount..<self.byteCount])
        let moved = batch.append(
            frames: frames,
            count: self.count - self.drainedCount,
            marks: self.marks,
            from: self.drainedCount
        )
        self.drainedCount += moved.count
        self.drainedByteCount += moved.byteCount
        guard self.isEmpty else { return false }
        self.byteCount = 0
        self.drainedByteCount = 0
        self.count = 0
        self.drainedCount = 0
        self.marks = NotificationMarks()
        return true
    }

    /// The numbers of those that wait, as ranges.
    func forEachNumberRange(_ body: (Range<UInt64>) -> Void) {
        self.marks.forEachTagRange(in: self.drainedCount..<self.count, body)
    }
}

/// Memory for frames, freed with the last block that has it.
private final class FrameMemory: @unchecked Sendable {
    // Only the block that made it writes to it, and blocks are passed on under a lock.
    let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: FrameStore.chunkByteCount, alignment: 16)

    deinit { self.bytes.deallocate() }
}

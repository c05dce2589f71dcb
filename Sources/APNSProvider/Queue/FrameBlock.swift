// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore

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
        let priority = notification.priority
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

    private mutating func clear() {
        self.byteCount = 0
        self.drainedByteCount = 0
        self.count = 0
        self.drainedCount = 0
        self.marks = NotificationMarks()
    }
}

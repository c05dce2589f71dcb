// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore

/// The unprocessed bytes of a stream: the beginning of a message from earlier reads, and the newest read.
///
/// Only a message that spans two reads is copied.
struct FrameBytes {
    /// Most incomplete messages are complete after this many more bytes.
    private static let joinedByteCountUsual = 512

    /// The beginning of a message, possibly followed by more than its end.
    private var begin = ByteBuffer()
    private var newest = ByteBuffer()
    /// How many of the last bytes of `begin` are also the first of `newest`.
    private var sharedCount = 0

    /// The bytes to parse next: one message if it spans two reads, otherwise everything.
    var next: (bytes: ByteBuffer, messageCountMax: Int) {
        self.begin.readableBytes > 0 ? (self.begin, 1) : (self.newest, .max)
    }

    var isEmpty: Bool { self.begin.readableBytes == 0 && self.newest.readableBytes == 0 }

    mutating func append(_ bytes: consuming ByteBuffer) {
        if self.newest.readableBytes == 0 {
            self.newest = bytes
        } else {
            self.newest.writeBuffer(&bytes)
        }
    }

    /// Marks bytes of ``next`` as processed.
    mutating func consume(byteCount: Int) {
        guard self.begin.readableBytes > 0 else {
            self.newest.moveReaderIndex(forwardBy: byteCount)
            return
        }
        guard byteCount > 0 else { return }
        self.newest.moveReaderIndex(forwardBy: byteCount - (self.begin.readableBytes - self.sharedCount))
        self.begin = ByteBuffer()
        self.sharedCount = 0
    }

    /// Removes and returns all bytes in order of arrival.
    mutating func drain(_ body: (ByteBuffer) -> Void) {
        if self.begin.readableBytes > 0 {
            body(self.begin)
            self.newest.moveReaderIndex(forwardBy: self.sharedCount)
        }
        if self.newest.readableBytes > 0 { body(self.newest) }
        self = FrameBytes()
    }

    /// Adds bytes to an incomplete message.
    ///
    /// Returns whether there were any.
    mutating func extend() -> Bool {
        guard self.begin.readableBytes > 0 else {
            guard self.newest.readableBytes > 0 else { return false }
            // A slice would retain the memory of the whole read.
            self.begin = ByteBuffer(bytes: self.newest.readableBytesView)
            self.newest = ByteBuffer()
            return false
        }
        let unshared = self.newest.readableBytes - self.sharedCount
        guard unshared > 0 else {
            self.newest = ByteBuffer()
            self.sharedCount = 0
            return false
        }
        let count = self.sharedCount == 0 ? min(unshared, Self.joinedByteCountUsual) : unshared
        self.begin.writeBytes(
            self.newest.viewBytes(at: self.newest.readerIndex + self.sharedCount, length: count) ?? .init()
        )
        self.sharedCount += count
        return true
    }
}

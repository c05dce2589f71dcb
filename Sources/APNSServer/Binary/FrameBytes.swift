// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore

/// The bytes of a stream that are not taken yet: the begin of a message from earlier reads, and the newest read.
///
/// Only the one message that two reads share is copied.
struct FrameBytes {
    /// With so many bytes more, most messages that were begun are whole.
    private static let joinedByteCountUsual = 512

    /// The begin of a message, sometimes with more than its end behind it.
    private var begin = ByteBuffer()
    private var newest = ByteBuffer()
    /// How many of the last bytes of `begin` are also the first of `newest`.
    private var sharedCount = 0

    /// What is to be read next: one message where two reads share it, else all that there is.
    var next: (bytes: ByteBuffer, messageCountMax: Int) {
        self.begin.readableBytes > 0 ? (self.begin, 1) : (self.newest, .max)
    }

    mutating func append(_ bytes: consuming ByteBuffer) {
        if self.newest.readableBytes == 0 {
            self.newest = bytes
        } else {
            self.newest.writeBuffer(&bytes)
        }
    }

    /// Notes that bytes of ``next`` were taken.
    mutating func take(byteCount: Int) {
        guard self.begin.readableBytes > 0 else {
            self.newest.moveReaderIndex(forwardBy: byteCount)
            return
        }
        guard byteCount > 0 else { return }
        self.newest.moveReaderIndex(forwardBy: byteCount - (self.begin.readableBytes - self.sharedCount))
        self.begin = ByteBuffer()
        self.sharedCount = 0
    }

    /// Takes all bytes out, in the order in which they came.
    mutating func takeAll(_ body: (ByteBuffer) -> Void) {
        if self.begin.readableBytes > 0 {
            body(self.begin)
            self.newest.moveReaderIndex(forwardBy: self.sharedCount)
        }
        if self.newest.readableBytes > 0 { body(self.newest) }
        self = FrameBytes()
    }

    /// Gets more bytes for a message that is not whole.
    ///
    /// - Returns: whether there were any.
    mutating func extend() -> Bool {
        guard self.begin.readableBytes > 0 else {
            guard self.newest.readableBytes > 0 else { return false }
            // A slice would keep all the memory of the read.
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

// SPDX-License-Identifier: Apache-2.0

import APNSWire
import NIOCore

/// The octets of a stream that are not taken yet: the begin of a message from earlier reads, and the newest read.
///
/// Only the one message that two reads share is copied.
struct FrameOctets {
    /// More than the longest message, so that the message that was begun is whole with so many octets more.
    private static let joinedOctetCount = WireLimits.frameOctetCountMax + 512

    /// The begin of a message; empty, or too short for a whole message.
    private var begin = ByteBuffer()
    private var newest = ByteBuffer()

    /// The command of the next message, `nil` for none of those that exist.
    var nextCommand: Command? {
        let octets = self.begin.readableBytes > 0 ? self.begin : self.newest
        return octets.getInteger(at: octets.readerIndex, as: UInt8.self).flatMap(Command.init)
    }

    mutating func append(_ octets: consuming ByteBuffer) {
        if self.newest.readableBytes == 0 {
            self.newest = octets
        } else {
            self.newest.writeBuffer(&octets)
        }
    }

    /// Takes the next message; `nil` where it is not whole.
    mutating func next(limits: FrameLimits) throws(WireError) -> NotificationFrame? {
        if self.begin.readableBytes > 0 { return try self.nextShared(limits: limits) }
        if let frame = try NotificationFrame(parsing: &self.newest, limits: limits) { return frame }
        if self.newest.readableBytes > 0 {
            // A slice would keep all the memory of the read.
            self.begin = ByteBuffer(bytes: self.newest.readableBytesView)
        }
        self.newest = ByteBuffer()
        return nil
    }

    private mutating func nextShared(limits: FrameLimits) throws(WireError) -> NotificationFrame? {
        guard self.newest.readableBytes > 0 else { return nil }
        let beginCount = self.begin.readableBytes
        let addedCount = min(self.newest.readableBytes, Self.joinedOctetCount)
        if var added = self.newest.getSlice(at: self.newest.readerIndex, length: addedCount) {
            self.begin.writeBuffer(&added)
        }
        let joinedCount = self.begin.readableBytes
        guard let frame = try NotificationFrame(parsing: &self.begin, limits: limits) else {
            self.newest.moveReaderIndex(forwardBy: addedCount)
            return nil
        }
        let takenCount = joinedCount - self.begin.readableBytes
        self.newest.moveReaderIndex(forwardBy: takenCount - beginCount)
        self.begin = ByteBuffer()
        return frame
    }
}

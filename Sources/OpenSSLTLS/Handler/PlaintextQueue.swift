// SPDX-License-Identifier: Apache-2.0

import NIOCore

/// Writes that are waiting to be encrypted, and how many of them were flushed.
struct PlaintextQueue {
    private struct Write {
        var bytes: ByteBuffer
        let promise: EventLoopPromise<Void>?
    }

    private var writes = CircularBuffer<Write>()
    private var flushedCount = 0
    private var flushedByteCount = 0
    private var byteCount = 0

    /// Whether a flushed write is waiting, even an empty one.
    var hasFlushed: Bool { self.flushedCount > 0 }

    /// The number of bytes in all flushed writes.
    var flushedBytes: Int { self.flushedByteCount }

    mutating func append(_ bytes: ByteBuffer, promise: EventLoopPromise<Void>?) {
        self.byteCount += bytes.readableBytes
        self.writes.append(Write(bytes: bytes, promise: promise))
    }

    mutating func markFlushed() {
        self.flushedCount = self.writes.count
        self.flushedByteCount = self.byteCount
    }

    /// Lends the flushed bytes for the next record; there may be none.
    ///
    /// Contiguous bytes are lent without a copy; smaller pieces are gathered in `scratch`.
    func withNextRecord<Result>(
        byteCountMax: Int,
        scratch: inout ByteBuffer,
        _ body: (UnsafeRawBufferPointer) -> Result
    ) -> Result {
        let wanted = min(byteCountMax, self.flushedByteCount)
        guard wanted > 0 else { return unsafe body(UnsafeRawBufferPointer(start: nil, count: 0)) }
        if let first = self.writes.first?.bytes, first.readableBytes >= wanted {
            return unsafe first.withUnsafeReadableBytes {
                unsafe body(UnsafeRawBufferPointer(rebasing: $0.prefix(wanted)))
            }
        }
        scratch.clear(minimumCapacity: byteCountMax)
        var missing = wanted
        for write in self.writes {
            let view = write.bytes.readableBytesView.prefix(missing)
            scratch.writeBytes(view)
            missing -= view.count
            if missing == 0 { break }
        }
        return unsafe scratch.withUnsafeReadableBytes(body)
    }

    /// Removes the next flushed bytes, which were written to a record.
    ///
    /// Returns the promises of the writes whose last byte was among them, in order.
    mutating func consume(_ byteCount: Int) -> RecordPromises {
        var promises = RecordPromises()
        var left = byteCount
        self.flushedByteCount -= byteCount
        self.byteCount -= byteCount
        while self.flushedCount > 0 {
            let start = self.writes.startIndex
            let readable = self.writes[start].bytes.readableBytes
            guard readable <= left else {
                self.writes[start].bytes.moveReaderIndex(forwardBy: left)
                break
            }
            left -= readable
            self.flushedCount -= 1
            promises.append(self.writes.removeFirst().promise)
        }
        return promises
    }

    /// Removes the writes that were not flushed.
    mutating func takeUnflushed() -> RecordPromises {
        var promises = RecordPromises()
        let start = self.writes.index(self.writes.startIndex, offsetBy: self.flushedCount)
        for write in self.writes[start...] { promises.append(write.promise) }
        self.writes.removeLast(self.writes.count - self.flushedCount)
        self.byteCount = self.flushedByteCount
        return promises
    }

    /// Removes all writes.
    mutating func takeAll() -> RecordPromises {
        self.flushedCount = 0
        self.flushedByteCount = 0
        return self.takeUnflushed()
    }
}

// SPDX-License-Identifier: Apache-2.0

import NIOCore

/// Writes that are waiting to be encrypted, and how many of them were flushed.
struct PlaintextQueue {
    private struct Write {
        var octets: ByteBuffer
        let promise: EventLoopPromise<Void>?
    }

    private var writes = CircularBuffer<Write>()
    private var flushedCount = 0
    private var flushedOctetCount = 0
    private var octetCount = 0

    /// Whether a flushed write, even one without octets, is waiting.
    var hasFlushed: Bool { self.flushedCount > 0 }

    /// The octets of all flushed writes.
    var flushedOctets: Int { self.flushedOctetCount }

    mutating func append(_ octets: ByteBuffer, promise: EventLoopPromise<Void>?) {
        self.octetCount += octets.readableBytes
        self.writes.append(Write(octets: octets, promise: promise))
    }

    mutating func markFlushed() {
        self.flushedCount = self.writes.count
        self.flushedOctetCount = self.octetCount
    }

    /// Lends the flushed octets that the next record should hold, as few as none.
    ///
    /// Octets that already lie in one piece are lent as they are; smaller pieces are gathered in `scratch`.
    func withNextRecord<Result>(
        octetCountMax: Int,
        scratch: inout ByteBuffer,
        _ body: (UnsafeRawBufferPointer) -> Result
    ) -> Result {
        let wanted = min(octetCountMax, self.flushedOctetCount)
        guard wanted > 0 else { return body(UnsafeRawBufferPointer(start: nil, count: 0)) }
        if let first = self.writes.first?.octets, first.readableBytes >= wanted {
            return first.withUnsafeReadableBytes { body(UnsafeRawBufferPointer(rebasing: $0.prefix(wanted))) }
        }
        scratch.clear(minimumCapacity: octetCountMax)
        var missing = wanted
        for write in self.writes {
            let view = write.octets.readableBytesView.prefix(missing)
            scratch.writeBytes(view)
            missing -= view.count
            if missing == 0 { break }
        }
        return scratch.withUnsafeReadableBytes(body)
    }

    /// Takes out the next flushed octets, which a record now holds.
    ///
    /// - Returns: The promises of the writes whose last octet was among them, in order.
    mutating func consume(_ octetCount: Int) -> RecordPromises {
        var promises = RecordPromises()
        var left = octetCount
        self.flushedOctetCount -= octetCount
        self.octetCount -= octetCount
        while self.flushedCount > 0 {
            let start = self.writes.startIndex
            let readable = self.writes[start].octets.readableBytes
            guard readable <= left else {
                self.writes[start].octets.moveReaderIndex(forwardBy: left)
                break
            }
            left -= readable
            self.flushedCount -= 1
            promises.append(self.writes.removeFirst().promise)
        }
        return promises
    }

    /// Takes out the writes that were not flushed.
    mutating func takeUnflushed() -> RecordPromises {
        var promises = RecordPromises()
        let start = self.writes.index(self.writes.startIndex, offsetBy: self.flushedCount)
        for write in self.writes[start...] { promises.append(write.promise) }
        self.writes.removeLast(self.writes.count - self.flushedCount)
        self.octetCount = self.flushedOctetCount
        return promises
    }

    /// Takes out all writes.
    mutating func takeAll() -> RecordPromises {
        self.flushedCount = 0
        self.flushedOctetCount = 0
        return self.takeUnflushed()
    }
}

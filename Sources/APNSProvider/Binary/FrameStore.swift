// SPDX-License-Identifier: Apache-2.0

package import APNSSession
package import APNSWire
package import NIOCore

/// The unsettled frames of one session, in the order of their numbers, for sending them again if necessary.
package struct FrameStore {
    /// Consecutive frames.
    struct Chunk: Sendable {
        var frames: ByteBuffer
        var firstNumber: UInt64
        var count: Int
        var firstIdentifier: UInt32
        var marks: NotificationMarks

        var endNumber: UInt64 { self.firstNumber + UInt64(self.count) }
        var byteCount: Int { self.frames.capacity + self.marks.byteCount }
    }

    /// The maximum number of bytes of a chunk: about the size of one write.
    static let chunkByteCount = 65_536

    /// The number of chunks to keep for reuse: about a full window of typical notifications.
    private static let spareCountMax = 256

    private var chunks = CircularBuffer<Chunk>()
    /// Memory of settled chunks for reuse, most recent first, since it is still in the processor's cache.
    private var spare: [ByteBuffer] = []
    private let allocator = ByteBufferAllocator()

    /// The bytes of memory used by the frames.
    private(set) var byteCount = 0

    /// Creates an empty store.
    package init() {}

    /// Requests new notifications from a source.
    ///
    /// Returns their frames, and whether the source may have more.
    package mutating func fetch(
        from source: any NotificationSource,
        number: UInt64,
        countMax: Int,
        command: Command,
        identifier: UInt32
    ) -> (frames: ByteBuffer, count: Int, supply: ProviderSupply) {
        var frames = self.spare.popLast() ?? self.allocator.buffer(capacity: FrameStore.chunkByteCount)
        frames.clear(minimumCapacity: FrameStore.chunkByteCount)
        var marks = NotificationMarks()
        var count = 0
        var supply = ProviderSupply.waiting
        unsafe frames.writeWithUnsafeMutableBytes(minimumWritableBytes: FrameStore.chunkByteCount) { memory in
            guard let encoder = unsafe FrameEncoder(writingInto: memory) else { return 0 }
            var batch = NotificationBatch(
                encoder: encoder,
                command: command,
                firstIdentifier: identifier,
                countMax: countMax
            )
            supply = source.fill(&batch)
            marks = batch.marks
            count = batch.count
            return batch.byteCount
        }
        if frames.readableBytes < FrameStore.chunkByteCount / 2 {
            // Occasional notifications must not use a whole chunk each.
            self.spare.append(frames)
            frames = self.allocator.buffer(buffer: frames)
        }
        guard count > 0 else { return (frames, 0, supply) }
        let chunk = Chunk(
            frames: frames,
            firstNumber: number,
            count: count,
            firstIdentifier: identifier,
            marks: marks
        )
        self.byteCount += chunk.byteCount
        self.chunks.append(chunk)
        return (frames, count, supply)
    }

    /// Frames that were already taken, with the identifiers of another connection.
    ///
    /// Returns the frames from `number`, as far as they are contiguous.
    mutating func frames(from number: UInt64, countMax: UInt64, identifier: UInt32) -> (frames: ByteBuffer, count: Int)
    {
        guard let position = self.position(of: number) else { return (ByteBuffer(), 0) }
        let index = Int(number - self.chunks[position].firstNumber)
        let count = min(self.chunks[position].count - index, Int(clamping: countMax))
        if index == 0, count == self.chunks[position].count {
            if self.chunks[position].firstIdentifier != identifier {
                self.chunks[position].firstIdentifier = identifier
                unsafe self.chunks[position].frames.withUnsafeMutableReadableBytes {
                    _ = unsafe FrameScanner.number($0, from: identifier)
                }
            }
            return (self.chunks[position].frames, count)
        }
        var part = unsafe self.chunks[position].frames.withUnsafeReadableBytes { bytes in
            let start = unsafe FrameScanner.offset(passing: index, in: bytes)
            let end = unsafe FrameScanner.offset(passing: count, from: start, in: bytes)
            return unsafe ByteBuffer(bytes: bytes[start..<end])
        }
        unsafe part.withUnsafeMutableReadableBytes { _ = unsafe FrameScanner.number($0, from: identifier) }
        return (part, count)
    }

    /// The number of complete frames from `number` within this many bytes.
    func count(from number: UInt64, withinBytes byteCount: Int) -> UInt64 {
        var count: UInt64 = 0
        var left = byteCount
        var next = number
        while left > 0, let position = self.position(of: next) {
            let chunk = self.chunks[position]
            let index = Int(next - chunk.firstNumber)
            let found = unsafe chunk.frames.withUnsafeReadableBytes { bytes in
                let start = unsafe FrameScanner.offset(passing: index, in: bytes)
                guard bytes.count - start > left else { return (chunk.count - index, bytes.count - start) }
                var found = 0
                var offset = start
                while let frame = unsafe FrameScanner.frame(at: offset, in: bytes),
                    offset + frame.byteCount - start <= left
                {
                    offset += frame.byteCount
                    found += 1
                }
                return (found, left)
            }
            count += UInt64(found.0)
            next += UInt64(found.0)
            left -= found.1
        }
        return count
    }

    /// Reports settled notifications to the source, and removes them.
    package mutating func settle(_ settlement: Settlement, to source: any NotificationSource) {
        var next = settlement.numbers.lowerBound
        while next < settlement.numbers.upperBound, let chunk = self.chunks.first {
            let start = Int(next - chunk.firstNumber)
            let end = min(chunk.count, Int(settlement.numbers.upperBound - chunk.firstNumber))
            source.settle(
                SettledNotifications(
                    report: settlement.report,
                    marks: chunk.marks,
                    indices: start..<end,
                    tokens: .frames(chunk.frames)
                )
            )
            next = chunk.firstNumber + UInt64(end)
            if end == chunk.count {
                self.byteCount -= chunk.byteCount
                self.reuse(self.chunks.removeFirst().frames)
            }
        }
    }

    private mutating func reuse(_ frames: ByteBuffer) {
        guard frames.capacity >= FrameStore.chunkByteCount, self.spare.count < FrameStore.spareCountMax else { return }
        self.spare.append(frames)
    }

    /// The position of the chunk with a number, by binary search.
    private func position(of number: UInt64) -> CircularBuffer<Chunk>.Index? {
        var low = 0
        var high = self.chunks.count
        while low < high {
            let middle = (low + high) / 2
            let index = self.chunks.index(self.chunks.startIndex, offsetBy: middle)
            if self.chunks[index].endNumber <= number { low = middle + 1 } else { high = middle }
        }
        guard low < self.chunks.count else { return nil }
        let index = self.chunks.index(self.chunks.startIndex, offsetBy: low)
        return self.chunks[index].firstNumber <= number ? index : nil
    }
}

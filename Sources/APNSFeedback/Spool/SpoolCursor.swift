// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// Reads the tuples of a segment one by one.
struct SpoolCursor: Sendable {
    /// Why there is no next tuple.
    enum EndReason: Sendable {
        /// Nothing more may be read yet, or the segment has ended.
        case drained
        /// The last record is incomplete, and its bytes cannot all be as received; this number of its tuples is valid.
        case torn(tupleCount: UInt64)
        case damaged(offset: Int)
        /// The bytes at this offset in the service's stream are not a tuple.
        case malformed(offset: UInt64, tokenByteCount: Int)
        case unreadable(SpoolError)
    }

    private static let headerByteCount = 6

    /// Times before this day of the year 2008 are implausible, since the service did not exist.
    private static let firstTime: Int64 = 1_199_145_600

    /// How far the service's clock may be ahead, in seconds.
    private static let clockSecondsMax: Int64 = 86_400

    private var reader: SpoolReader
    private var bytes: [UInt8] = []
    private var index = 0
    private var offset: UInt64 = 0
    /// The number of bytes of the segment's content that were read as complete tuples.
    private(set) var segmentOffset: UInt64 = 0

    /// The number of tuples before the bytes of an incomplete record, while those are read.
    private var tornAt: UInt64?
    /// The number of leading bytes that match a checksum; `nil` for all.
    private var verifiedByteCount: Int?

    private(set) var endReason: EndReason?
    private(set) var tupleCount: UInt64 = 0
    /// Tuples with an implausible time.
    private(set) var futureTupleCount: UInt64 = 0

    /// The time until which the bytes were read.
    ///
    /// Later times of tuples are set to it, since they would override later registrations.
    private var readBy: Int64

    init(_ reader: SpoolReader, readBy: Int64) {
        self.reader = reader
        self.readBy = readBy
    }

    /// The topic and environment of the tuples.
    var scope: TokenScope { self.reader.header.scope }

    /// Continues after the end of the earlier bytes, up to an offset, with bytes read until this time.
    mutating func extend(to byteCount: Int, readBy: Int64) {
        self.reader.limit(to: byteCount)
        self.readBy = readBy
        if case .drained = self.endReason { self.endReason = nil }
    }

    /// Continues after the end of the earlier bytes, with bytes that are not in the segment.
    mutating func feed(_ bytes: [UInt8]) {
        self.bytes = self.partial + bytes
        self.index = 0
        self.endReason = nil
    }

    /// Continues with a segment that begins with the bytes of the current incomplete tuple.
    mutating func restart(_ reader: SpoolReader) {
        self.reader = reader
        self.bytes = []
        self.index = 0
        self.segmentOffset = 0
    }

    /// Skips tuples that were already delivered.
    mutating func skip(toOffset offset: UInt64) {
        while self.segmentOffset < offset, self.next() != nil {}
    }

    /// Whether the segment contains the end of the service's list.
    var isEnded: Bool { self.reader.isEnded }

    /// Whether all bytes so far were delivered, except an incomplete tuple that may be completed.
    var isDrained: Bool { if case .drained = self.endReason { true } else { false } }

    /// The bytes of an incomplete tuple.
    var partial: [UInt8] { Array(self.bytes[self.index...]) }

    mutating func next() -> FeedbackTuple? {
        guard self.endReason == nil else { return nil }
        while true {
            let left = self.bytes.count - self.index
            if left >= Self.headerByteCount {
                let tokenByteCount = Int(self.bytes[self.index + 4]) << 8 | Int(self.bytes[self.index + 5])
                guard (1...WireLimits.tokenByteCountMax).contains(tokenByteCount) else {
                    self.endReason =
                        self.tornEnding ?? .malformed(offset: self.offset, tokenByteCount: tokenByteCount)
                    return nil
                }
                if left >= Self.headerByteCount + tokenByteCount {
                    if self.tornAt != nil, !self.isPlausible || self.endsInHole(Self.headerByteCount + tokenByteCount) {
                        self.endReason = self.tornEnding
                        return nil
                    }
                    return self.readTuple(tokenByteCount)
                }
            }
            guard self.tornAt == nil else {
                // A kill leaves the beginning of a tuple; anything else is not from the service.
                self.endReason = left < 4 || self.isPlausible ? .drained : self.tornEnding
                return nil
            }
            guard self.refill() else { return nil }
        }
    }

    private var tornEnding: EndReason? { self.tornAt.map { .torn(tupleCount: self.tupleCount - $0) } }

    /// Whether the next tuple is plausible without a checksum: after a power failure, the bytes may be arbitrary.
    private var isPlausible: Bool {
        if let count = self.verifiedByteCount, self.index + 4 <= count { return true }
        let time = Int64(SpoolFormat.number(self.bytes[self.index...]))
        return time >= Self.firstTime && time <= self.readBy + Self.clockSecondsMax
    }

    /// Whether the end of the next tuple, which has no checksum, was not written before a power failure: what is
    /// missing reads as zeros, and so does what follows.
    private func endsInHole(_ byteCount: Int) -> Bool {
        let end = self.index + byteCount
        if let count = self.verifiedByteCount, end <= count { return false }
        // A token may end with a zero, but a time does not begin with one.
        return self.bytes[end - 1] == 0 && end < self.bytes.count && self.bytes[end] == 0
    }

    private mutating func readTuple(_ tokenByteCount: Int) -> FeedbackTuple? {
        let start = self.index + Self.headerByteCount
        let time = Int64(SpoolFormat.number(self.bytes[self.index...]))
        // The length is already checked.
        guard let token = try? DeviceToken(bytes: self.bytes[start..<start + tokenByteCount]) else { return nil }
        self.index = start + tokenByteCount
        self.offset += UInt64(Self.headerByteCount + tokenByteCount)
        self.segmentOffset += UInt64(Self.headerByteCount + tokenByteCount)
        self.tupleCount += 1
        if time > self.readBy { self.futureTupleCount += 1 }
        return FeedbackTuple(token: token, failedAt: UInt32(clamping: min(time, self.readBy)))
    }

    private mutating func refill() -> Bool {
        do throws(SpoolError) {
            switch try self.reader.next() {
            case .bytes(let bytes):
                self.bytes = self.partial + bytes
                self.index = 0
                return true
            case .end: self.endReason = .drained
            case .zeros: self.endReason = .torn(tupleCount: 0)
            case .cutShort(let bytes):
                // These came from the service and exist nowhere else.
                self.verifiedByteCount = self.bytes.count - self.index
                self.bytes = self.partial + bytes
                self.index = 0
                self.tornAt = self.tupleCount
                return true
            case .damaged(let offset): self.endReason = .damaged(offset: offset)
            }
        } catch {
            self.endReason = .unreadable(error)
        }
        return false
    }
}

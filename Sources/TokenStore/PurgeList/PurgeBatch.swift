// SPDX-License-Identifier: Apache-2.0

import SystemPackage

/// Entries to be recorded, in a compact form.
struct PurgeBatch {
    struct Record {
        /// The topic and environment.
        var scope: Int64
        /// The first bytes of the token, big-endian, which decide nearly every comparison.
        var prefix: UInt64
        var tokenOffset: Int
        var tokenByteCount: Int
        var failedAt: Int64
        var firstSeen: Int64
        var source: PurgeRow.Source

        /// Everything but the token and its scope.
        var values: PurgeRow { PurgeRow(time: self.failedAt, firstSeen: self.firstSeen, source: self.source) }

        var tokenRange: Range<Int> { self.tokenOffset..<self.tokenOffset + self.tokenByteCount }

        /// Whether this record is before another one in the order of the list; each token is in its batch's bytes.
        func precedes(_ other: Record, in bytes: [UInt8], _ otherBytes: [UInt8]) -> Bool {
            if self.scope != other.scope { return self.scope < other.scope }
            if self.prefix != other.prefix { return self.prefix < other.prefix }
            return bytes[self.tokenRange].lexicographicallyPrecedes(otherBytes[other.tokenRange])
        }
    }

    private(set) var records: [Record] = []
    private(set) var tokens: [UInt8] = []

    mutating func append(_ entry: PurgeEntry, scope: Int64, source: PurgeRow.Source) {
        let offset = self.tokens.count
        self.tokens.append(contentsOf: entry.token)
        var prefix: UInt64 = 0
        for index in 0..<8 {
            prefix = prefix << 8 | (index < entry.token.count ? UInt64(entry.token[index]) : 0)
        }
        self.records.append(
            Record(
                scope: scope,
                prefix: prefix,
                tokenOffset: offset,
                tokenByteCount: entry.token.count,
                failedAt: entry.failedAtSeconds,
                firstSeen: entry.firstSeenSeconds,
                source: source
            )
        )
    }

    /// Appends a record of another batch, whose token is in `bytes`.
    mutating func append(_ record: Record, in bytes: [UInt8]) {
        var record = record
        let range = record.tokenRange
        record.tokenOffset = self.tokens.count
        self.tokens.append(contentsOf: bytes[range])
        self.records.append(record)
    }

    /// Sorts the records in the order of the list.
    mutating func sort() {
        let tokens = self.tokens
        self.records.sort { $0.precedes($1, in: tokens, tokens) }
    }

    mutating func removeAll() {
        self.records.removeAll(keepingCapacity: true)
        self.tokens.removeAll(keepingCapacity: true)
    }
}

/// A sorted batch in a file, read sequentially.
struct PurgeRun {
    private let file: FileDescriptor
    private var offset: Int64
    private let end: Int64
    private(set) var bytes: [UInt8] = []
    private var index = 0
    /// The current record, whose token is in ``bytes``.
    private(set) var record: PurgeBatch.Record?

    /// The buffer size in bytes.
    static let blockByteCount = 65_536
    private static let headByteCount = 7 * 8

    init(_ file: FileDescriptor, _ range: Range<Int64>) {
        self.file = file
        self.offset = range.lowerBound
        self.end = range.upperBound
    }

    /// Appends a record in the format of this reader, which only this process reads.
    static func encode(_ record: PurgeBatch.Record, in tokens: [UInt8], to bytes: inout [UInt8]) {
        let numbers = (
            record.scope, record.prefix, record.tokenByteCount, record.failedAt, record.firstSeen,
            record.source.identifier, record.source.checksum
        )
        unsafe withUnsafeBytes(of: numbers) { unsafe bytes.append(contentsOf: $0) }
        bytes.append(contentsOf: tokens[record.tokenRange])
    }

    static func byteCount(of batch: PurgeBatch) -> Int {
        batch.records.count * Self.headByteCount + batch.tokens.count
    }

    /// Reads the next record; after the last one, ``record`` is `nil`.
    mutating func advance() throws {
        if self.bytes.count - self.index < Self.headByteCount + PurgeLimits.tokenByteCountMax { try self.refill() }
        guard self.index < self.bytes.count else {
            self.record = nil
            return
        }
        let record = unsafe self.bytes.withUnsafeBytes { bytes in
            func number<Number: FixedWidthInteger>(_ position: Int, as type: Number.Type = Number.self) -> Number {
                unsafe bytes.loadUnaligned(fromByteOffset: self.index + 8 * position, as: type)
            }
            return PurgeBatch.Record(
                scope: number(0),
                prefix: number(1),
                tokenOffset: self.index + Self.headByteCount,
                tokenByteCount: number(2),
                failedAt: number(3),
                firstSeen: number(4),
                source: PurgeRow.Source(identifier: number(5), checksum: number(6))
            )
        }
        self.index = record.tokenRange.upperBound
        self.record = record
    }

    private mutating func refill() throws {
        guard self.offset < self.end else { return }
        let kept = self.bytes.count - self.index
        let wanted = min(Self.blockByteCount, Int(self.end - self.offset))
        var bytes = Array(self.bytes[self.index...])
        bytes.append(contentsOf: repeatElement(0, count: wanted))
        var count = 0
        while count < wanted {
            let got = try unsafe bytes.withUnsafeMutableBytes { bytes in
                try unsafe self.file.read(
                    fromAbsoluteOffset: self.offset + Int64(count),
                    into: UnsafeMutableRawBufferPointer(rebasing: bytes[(kept + count)...])
                )
            }
            // The file has no name, so no other process can have truncated it.
            guard got > 0 else { throw Errno.ioError }
            count += got
        }
        self.bytes = bytes
        self.index = 0
        self.offset += Int64(wanted)
    }
}

// SPDX-License-Identifier: Apache-2.0

import SystemPackage

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

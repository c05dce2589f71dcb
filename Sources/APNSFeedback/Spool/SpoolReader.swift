// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Reads the records of a segment in order, and verifies their checksums.
struct SpoolReader: Sendable {
    enum Record: Hashable {
        /// Complete and undamaged bytes.
        case bytes([UInt8])
        /// The segment has ended, or nothing more may be read yet.
        case end
        /// The last record is incomplete because of a crash; these bytes of it exist.
        case cutShort([UInt8])
        /// From here the file contains only zeros, as a file system may produce after a power failure.
        case zeros
        /// The file is damaged at this offset.
        case damaged(offset: Int)
    }

    /// Why a file cannot be read.
    enum Unreadable: Hashable {
        /// It was written by a newer release.
        case newerVersion(Int)
        /// Its header is damaged.
        case damaged
        /// The process was killed while it wrote the header, so nothing had been read.
        case empty
    }

    let header: SpoolHeader
    /// Whether the end of the segment was read, which means that the service's list has ended.
    private(set) var isEnded = false
    private let version: UInt8
    private let file: SpoolFile
    private var fileByteCount: Int
    private var offset: Int
    private var contentOffset: UInt64 = 0

    /// Opens a segment.
    static func open(path: String) throws(SpoolError) -> (reader: SpoolReader?, unreadable: Unreadable?) {
        let file = try SpoolFile(path: path, O_RDONLY)
        let count = try file.byteCount()
        let start = try file.read(byteCount: SpoolFormat.markByteCount, at: 0)
        guard start.starts(with: SpoolFormat.mark.prefix(start.count)) else { return (nil, .damaged) }
        guard start.count == SpoolFormat.markByteCount, let version = start.last else { return (nil, .empty) }
        guard (1...SpoolFormat.version).contains(version) else {
            return (nil, version > SpoolFormat.version ? .newerVersion(Int(version)) : .damaged)
        }
        let lengthByteCount = 4 + SpoolFormat.lengthChecksumByteCount(version: version)
        let length = try file.read(byteCount: lengthByteCount, at: start.count)
        guard length.count == lengthByteCount else { return (nil, .empty) }
        let textByteCount = SpoolFormat.number(length)
        guard textByteCount <= SpoolFormat.textByteCountMax, Self.agrees(length, at: 0) else {
            return (nil, .damaged)
        }
        let rest = try file.read(
            byteCount: textByteCount + SpoolDigest.byteCount,
            at: start.count + lengthByteCount
        )
        guard rest.count == textByteCount + SpoolDigest.byteCount else {
            // A length without a checksum may be wrong, and the file may contain more than a header.
            return (nil, version == 1 ? .damaged : .empty)
        }
        let text = Array(rest.prefix(textByteCount))
        guard let digest = SpoolDigest.of(text, at: 0), rest.dropFirst(textByteCount).elementsEqual(digest),
            let header = SpoolHeader(text: text)
        else { return (nil, .damaged) }
        let offset = start.count + lengthByteCount + rest.count
        return (SpoolReader(header, version, file, fileByteCount: count, offset: offset), nil)
    }

    private init(_ header: SpoolHeader, _ version: UInt8, _ file: SpoolFile, fileByteCount: Int, offset: Int) {
        self.header = header
        self.version = version
        self.file = file
        self.fileByteCount = fileByteCount
        self.offset = offset
    }

    /// Whether a length matches its checksum, as far as it has one.
    private static func agrees(_ length: [UInt8], at offset: UInt64) -> Bool {
        let checksum = length.dropFirst(4)
        guard !checksum.isEmpty else { return true }
        return SpoolFormat.lengthChecksum(length.prefix(4), at: offset)?.elementsEqual(checksum) ?? false
    }

    /// Limits reading to this offset, since what follows is being written.
    mutating func limit(to byteCount: Int) { self.fileByteCount = byteCount }

    /// Reads the next record.
    mutating func next() throws(SpoolError) -> Record {
        let left = self.fileByteCount - self.offset
        guard left > 0 else { return .end }
        let headByteCount = SpoolFormat.recordHeaderByteCount(version: self.version)
        let head = try self.file.read(byteCount: min(left, headByteCount), at: self.offset)
        guard head.count == headByteCount else { return try self.cutShort([]) }
        let lengthByteCount = 4 + SpoolFormat.lengthChecksumByteCount(version: self.version)
        let count = SpoolFormat.number(head)
        guard count <= SpoolFormat.recordByteCountMax,
            Self.agrees(Array(head.prefix(lengthByteCount)), at: self.contentOffset)
        else { return try self.fault() }
        let end = self.offset + head.count + count
        let bytes = try self.file.read(byteCount: min(count, left - head.count), at: self.offset + head.count)
        guard bytes.count == count else { return try self.cutShort(bytes) }
        guard let digest = SpoolDigest.of(bytes, at: self.contentOffset),
            head.dropFirst(lengthByteCount).elementsEqual(digest)
        else { return try self.fault() }
        if count == 0 {
            guard end == self.fileByteCount else { return .damaged(offset: end) }
            self.isEnded = true
            return .end
        }
        self.offset = end
        self.contentOffset += UInt64(count)
        return .bytes(bytes)
    }

    /// Handles an incomplete record; in a segment with an end, it is not truncated: its length is wrong.
    private func cutShort(_ bytes: [UInt8]) throws(SpoolError) -> Record {
        guard self.version == 1, try self.hasEnd() else { return .cutShort(bytes) }
        return .damaged(offset: self.offset)
    }

    /// Whether the file ends with the mark of an end, after any number of records.
    private func hasEnd() throws(SpoolError) -> Bool {
        let headerByteCount = SpoolFormat.recordHeaderByteCount(version: self.version)
        let mark = try self.file.read(byteCount: headerByteCount, at: max(0, self.fileByteCount - headerByteCount))
        // Four zeros may also be in a token.
        guard mark.prefix(4).allSatisfy({ $0 == 0 }) else { return false }
        var left = self.fileByteCount - self.offset - 2 * headerByteCount
        while left >= 0 {
            let digest = SpoolDigest.of([], at: self.contentOffset + UInt64(left))
            if digest?.elementsEqual(mark.dropFirst(4)) == true { return true }
            left -= headerByteCount
        }
        return false
    }

    /// A file system may return zeros for bytes that were not written before a power failure.
    private func fault() throws(SpoolError) -> Record {
        var offset = self.offset
        while offset < self.fileByteCount {
            let bytes = try self.file.read(
                byteCount: min(SpoolFormat.recordByteCountMax, self.fileByteCount - offset),
                at: offset
            )
            guard !bytes.isEmpty, bytes.allSatisfy({ $0 == 0 }) else { return .damaged(offset: self.offset) }
            offset += bytes.count
        }
        return .zeros
    }
}

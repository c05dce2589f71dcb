// SPDX-License-Identifier: Apache-2.0

import Glibc

/// Reads the records of a segment in order, each with its checksum verified.
struct SpoolReader: Sendable {
    enum Record: Hashable {
        /// Octets that are whole and undamaged.
        case octets([UInt8])
        /// Nothing more is in the segment, or nothing more may be read yet.
        case end
        /// The last record was not finished when a crash came. `octets` is what there is of it where its end is not
        /// there; where all of it is there and does not agree with its checksum, nothing.
        case torn(octets: [UInt8])
        /// At this offset the file is damaged.
        case damaged(offset: Int)
    }

    /// What keeps a file from being read at all.
    enum Unreadable: Hashable {
        /// A newer release made it.
        case newerVersion(Int)
        /// Its header is damaged.
        case damaged
        /// The process was killed while it wrote the header, so nothing had been read.
        case empty
    }

    let header: SpoolHeader
    private let file: SpoolFile
    private var fileOctetCount: Int
    private var offset: Int
    private var contentOffset: UInt64 = 0

    /// Opens a segment.
    static func open(path: String) throws(SpoolError) -> (reader: SpoolReader?, unreadable: Unreadable?) {
        let file = try SpoolFile(path: path, O_RDONLY)
        let count = try file.octetCount()
        let start = try file.read(octetCount: SpoolFormat.markOctetCount + 4, at: 0)
        let mark = start.prefix(SpoolFormat.mark.count)
        guard start.count == SpoolFormat.markOctetCount + 4 else {
            return (
                nil, SpoolFormat.mark.starts(with: mark) || mark.elementsEqual(SpoolFormat.mark) ? .empty : .damaged
            )
        }
        guard mark.elementsEqual(SpoolFormat.mark) else {
            return (nil, .damaged)
        }
        let version = start[SpoolFormat.mark.count]
        guard version == SpoolFormat.version else {
            return (nil, version > SpoolFormat.version ? .newerVersion(Int(version)) : .damaged)
        }
        let textOctetCount = SpoolFormat.number(start.dropFirst(SpoolFormat.markOctetCount))
        guard textOctetCount <= SpoolFormat.textOctetCountMax else { return (nil, .damaged) }
        let rest = try file.read(octetCount: textOctetCount + SpoolDigest.octetCount, at: start.count)
        guard rest.count == textOctetCount + SpoolDigest.octetCount else { return (nil, .empty) }
        let text = Array(rest.prefix(textOctetCount))
        guard let digest = SpoolDigest.of(text, at: 0), rest.dropFirst(textOctetCount).elementsEqual(digest),
            let header = SpoolHeader(text: text)
        else { return (nil, .damaged) }
        return (SpoolReader(header: header, file: file, fileOctetCount: count, offset: start.count + rest.count), nil)
    }

    private init(header: SpoolHeader, file: SpoolFile, fileOctetCount: Int, offset: Int) {
        self.header = header
        self.file = file
        self.fileOctetCount = fileOctetCount
        self.offset = offset
    }

    /// Reads no further than this from now on, since what follows is being written.
    mutating func limit(to octetCount: Int) { self.fileOctetCount = octetCount }

    /// Reads the next record.
    mutating func next() throws(SpoolError) -> Record {
        let left = self.fileOctetCount - self.offset
        guard left > 0 else { return .end }
        let head = try self.file.read(octetCount: min(left, SpoolFormat.recordHeaderOctetCount), at: self.offset)
        guard head.count == SpoolFormat.recordHeaderOctetCount else { return try self.cutShort([]) }
        let count = SpoolFormat.number(head)
        guard count <= SpoolFormat.recordOctetCountMax else { return try self.fault(.damaged(offset: self.offset)) }
        let end = self.offset + head.count + count
        let octets = try self.file.read(octetCount: min(count, left - head.count), at: self.offset + head.count)
        guard octets.count == count else { return try self.cutShort(octets) }
        guard let digest = SpoolDigest.of(octets, at: self.contentOffset), head.dropFirst(4).elementsEqual(digest)
        else {
            // Only the last record may be as it is because it was never finished.
            let isLast = end == self.fileOctetCount
            return try self.fault(isLast && count > 0 ? .torn(octets: []) : .damaged(offset: self.offset))
        }
        if count == 0 {
            guard end == self.fileOctetCount else { return .damaged(offset: end) }
            return .end
        }
        self.offset = end
        self.contentOffset += UInt64(count)
        return .octets(octets)
    }

    /// A record that goes past the end of a segment that has an end was not cut short: its length is wrong.
    private func cutShort(_ octets: [UInt8]) throws(SpoolError) -> Record {
        try self.hasEnd() ? try self.fault(.damaged(offset: self.offset)) : .torn(octets: octets)
    }

    /// Whether the file ends with the mark of an end, behind any number of records.
    private func hasEnd() throws(SpoolError) -> Bool {
        let headerOctetCount = SpoolFormat.recordHeaderOctetCount
        let mark = try self.file.read(octetCount: headerOctetCount, at: max(0, self.fileOctetCount - headerOctetCount))
        // Four zeros may also be in a token.
        guard mark.prefix(4).allSatisfy({ $0 == 0 }) else { return false }
        var left = self.fileOctetCount - self.offset - 2 * headerOctetCount
        while left >= 0 {
            let digest = SpoolDigest.of([], at: self.contentOffset + UInt64(left))
            if digest?.elementsEqual(mark.dropFirst(4)) == true { return true }
            left -= headerOctetCount
        }
        return false
    }

    /// A file system may show zeros where octets were on their way when the power failed.
    private func fault(_ record: Record) throws(SpoolError) -> Record {
        var offset = self.offset
        while offset < self.fileOctetCount {
            let octets = try self.file.read(
                octetCount: min(SpoolFormat.recordOctetCountMax, self.fileOctetCount - offset),
                at: offset
            )
            guard !octets.isEmpty, octets.allSatisfy({ $0 == 0 }) else { return record }
            offset += octets.count
        }
        return .torn(octets: [])
    }
}

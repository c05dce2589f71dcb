// SPDX-License-Identifier: Apache-2.0

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
                failedAt: entry.failedAt,
                firstSeen: entry.firstSeen,
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

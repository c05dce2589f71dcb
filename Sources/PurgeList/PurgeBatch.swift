// SPDX-License-Identifier: Apache-2.0

/// Entries on their way into the list, packed, and sorted by key: in order, an upsert finds its page at hand.
struct PurgeBatch {
    struct Record {
        /// The topic and environment.
        var scope: Int64
        /// The first octets of the token, big-endian, which decide nearly every comparison.
        var prefix: UInt64
        var tokenOffset: Int
        var tokenOctetCount: Int
        var failedAt: Int64
        var firstSeen: Int64
        var source: Int64
    }

    private(set) var records: [Record] = []
    private(set) var tokens: [UInt8] = []

    mutating func append(_ entry: PurgeEntry, scope: Int64, source: Int64) {
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
                tokenOctetCount: entry.token.count,
                failedAt: entry.failedAt,
                firstSeen: entry.firstSeen,
                source: source
            )
        )
    }

    mutating func sort() {
        self.tokens.withUnsafeBytes { tokens in
            self.records.sort { left, right in
                if left.scope != right.scope { return left.scope < right.scope }
                if left.prefix != right.prefix { return left.prefix < right.prefix }
                let one = UnsafeRawBufferPointer(rebasing: tokens[left.tokenOffset...].prefix(left.tokenOctetCount))
                let other = UnsafeRawBufferPointer(rebasing: tokens[right.tokenOffset...].prefix(right.tokenOctetCount))
                return one.lexicographicallyPrecedes(other)
            }
        }
    }

    mutating func removeAll() {
        self.records.removeAll(keepingCapacity: true)
        self.tokens.removeAll(keepingCapacity: true)
    }
}

// SPDX-License-Identifier: Apache-2.0

import GRDB
import GRDBSQLite
import Glibc

/// A row without its token, which it has in `dead_token` or `registered_token`.
struct PurgeRow {
    /// The failure or the registration.
    var time: Int64
    var firstSeen: Int64
    /// `nil` for a registration.
    var source: Source?

    /// The source of an entry.
    struct Source {
        var identifier: Int64
        /// The checksum of its name.
        var checksum: UInt64

        init(identifier: Int64, checksum: UInt64) {
            self.identifier = identifier
            self.checksum = checksum
        }

        init(identifier: Int64, name: String) {
            self.identifier = identifier
            var checksum = CRC64()
            checksum.add(name)
            self.checksum = checksum.value
        }
    }

    /// The checksum for a token of a scope.
    func checksum(_ token: UnsafeRawBufferPointer, in scope: PurgeScope) -> UInt64 {
        unsafe scope.checksum(
            token,
            time: self.time,
            firstSeen: self.firstSeen,
            sourceChecksum: self.source?.checksum ?? 0
        )
    }
}

/// Reads the dead or the registered tokens of a list in a transaction, and verifies them.
final class PurgeRows: PurgeRowReader {
    /// The tables with a row for each token.
    enum Table {
        case dead
        case registered
    }

    private let table: Table
    private let hasChecksums: Bool
    private let scan: PurgeStatement
    private let find: PurgeStatement
    private var sources: RowCache<Int64, PurgeRow.Source>
    private var sourceNames: RowCache<Int64, String>

    init(_ database: Database, _ table: Table, hasChecksums: Bool) throws {
        self.table = table
        self.hasChecksums = hasChecksums
        let columns =
            switch (table, hasChecksums) {
            case (.dead, true): "token, failed_at, first_seen, source, checksum, scope FROM dead_token"
            case (.dead, false): "token, failed_at, first_seen, source, 0, scope FROM dead"
            case (.registered, true): "token, registered_at, 0, 0, checksum, scope FROM registered_token"
            case (.registered, false): "token, registered_at, 0, 0, 0, scope FROM registration"
            }
        self.scan = try PurgeStatement(
            database,
            sql: "SELECT \(columns) WHERE scope = ?1 AND token > ?2 ORDER BY token"
        )
        self.find = try PurgeStatement(database, sql: "SELECT \(columns) WHERE scope = ?1 AND token = ?2")
        func name(_ identifier: Int64) throws -> String? {
            try String.fetchOne(database, sql: "SELECT name FROM source WHERE id = ?", arguments: [identifier])
        }
        self.sourceNames = RowCache(lookUp: name)
        self.sources = RowCache { identifier in
            try name(identifier).map { PurgeRow.Source(identifier: identifier, name: $0) }
        }
    }

    /// Returns the name of the source of a row.
    func sourceName(_ row: PurgeRow) throws -> String {
        try row.source.map { try self.sourceNames.value($0.identifier) } ?? ""
    }

    /// Reads the row of a token.
    func find(_ token: UnsafeRawBufferPointer, in scope: PurgeScope) throws -> PurgeRow? {
        var found: PurgeRow?
        self.find.bind(scope.identifier, at: 1)
        unsafe self.find.bind(token, at: 2)
        try self.find.forEachRow { row in
            found = try self.verified(row, in: scope).row
            return false
        }
        return found
    }

    /// Calls `body` with the tokens of a scope after another one, in order, until it returns `false`.
    ///
    /// - Throws: `DatabaseError` for a damaged row; and at the end of all rows, if they do not match their total.
    func forEach(
        in scope: PurgeScope,
        after first: [UInt8],
        _ body: (_ token: UnsafeRawBufferPointer, PurgeRow) throws -> Bool
    ) throws {
        var total = PurgeTotal()
        var last = PreviousToken(first)
        var isStopped = false
        try unsafe first.withUnsafeBytes { first in
            self.scan.bind(scope.identifier, at: 1)
            unsafe self.scan.bind(first, at: 2)
            try self.scan.forEachRow { row in
                let verified = try self.verified(row, in: scope)
                let token = unsafe row.bytes(0)
                // A look-up finds only what is in order.
                guard unsafe last.advance(to: token) else { throw PurgeDamage.order.error }
                total.add(verified.checksum)
                isStopped = try unsafe !body(token, verified.row)
                return !isStopped
            }
        }
        guard self.hasChecksums, first.isEmpty, !isStopped else { return }
        guard total == scope[self.table] else { throw PurgeDamage.total.error }
    }

    private func verified(_ row: SQLiteRow, in scope: PurgeScope) throws -> (row: PurgeRow, checksum: UInt64) {
        guard row.kind(0) == .blob, (1..<6).allSatisfy({ row.kind($0) == .integer }) else {
            throw PurgeDamage.kind.error
        }
        // SQLite does not compare the scope of each row that it reads in order, but that of one that it looks up.
        guard row.integer(5) == scope.identifier else { throw PurgeDamage.order.error }
        let token = unsafe row.bytes(0)
        guard (1...PurgeLimits.tokenByteCountMax).contains(token.count) else { throw PurgeDamage.tokenByteCount.error }
        let (time, firstSeen) = (row.integer(1), row.integer(2))
        guard PurgeLimits.times.contains(time), PurgeLimits.times.contains(firstSeen) else {
            throw PurgeDamage.time.error
        }
        let source = try self.table == .dead ? self.sources.value(row.integer(3)) : nil
        let found = PurgeRow(time: time, firstSeen: firstSeen, source: source)
        guard self.hasChecksums else { return (found, 0) }
        let checksum = unsafe found.checksum(token, in: scope)
        guard checksum == UInt64(bitPattern: row.integer(4)) else { throw PurgeDamage.checksum.error }
        return (found, checksum)
    }
}

/// The last token of a scan.
private struct PreviousToken {
    private var bytes = [UInt8](repeating: 0, count: PurgeLimits.tokenByteCountMax)
    private var byteCount: Int

    init(_ token: [UInt8]) {
        self.byteCount = min(token.count, self.bytes.count)
        self.bytes.replaceSubrange(..<self.byteCount, with: token.prefix(self.byteCount))
    }

    /// Replaces the token with the next one, of at most 100 bytes.
    ///
    /// Returns whether the next one is greater.
    mutating func advance(to token: UnsafeRawBufferPointer) -> Bool {
        guard let next = token.baseAddress else { return false }
        let byteCount = self.byteCount
        let order = unsafe self.bytes.withUnsafeMutableBytes { bytes in
            guard let last = bytes.baseAddress else { return 0 }
            let order = unsafe memcmp(last, next, min(byteCount, token.count))
            unsafe memcpy(last, next, token.count)
            return Int(order)
        }
        self.byteCount = token.count
        return order < 0 || order == 0 && byteCount < token.count
    }
}

/// Caches values of a table within a transaction.
struct RowCache<Key: Hashable, Value> {
    private let lookUp: (Key) throws -> Value?
    private var values: [Key: Value] = [:]
    private var last: (key: Key, value: Value)?

    /// The maximum number of cached values.
    private static var countMax: Int { 1024 }

    init(lookUp: @escaping (Key) throws -> Value?) {
        self.lookUp = lookUp
    }

    /// - Throws: `DatabaseError` if there is no such row.
    mutating func value(_ key: Key) throws -> Value {
        if let last, last.key == key { return last.value }
        if let value = self.values[key] {
            self.last = (key, value)
            return value
        }
        guard let value = try self.lookUp(key) else { throw PurgeDamage.missingRow.error }
        if self.values.count >= Self.countMax { self.values.removeAll(keepingCapacity: true) }
        self.values[key] = value
        self.last = (key, value)
        return value
    }
}

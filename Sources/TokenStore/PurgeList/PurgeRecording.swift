// SPDX-License-Identifier: Apache-2.0

import APNSWire
import GRDB

/// One transaction that records entries.
struct PurgeRecording {
    private let insert: PurgeStatement
    private let insertMany: PurgeStatement
    private let update: PurgeStatement
    /// `nil` if there are no registrations, the usual case.
    private let findRegistration: PurgeStatement?
    private var scopes: RowIDCache<TokenScope>
    private var sources: RowIDCache<PurgeName>
    private let path: String
    private let batchEntryCount: Int
    private var batch = PurgeBatch()
    /// Earlier batches, if any.
    private var runs: PurgeRuns?
    /// The rows of the next statement.
    private var rows = PurgeBatch()
    private(set) var change = PurgeChange()

    init(_ database: Database, path: String, batchEntryCount: Int) throws {
        self.path = path
        self.batchEntryCount = batchEntryCount
        self.insert = try PurgeRecording.insertion(database, rowCount: 1)
        self.insertMany = try PurgeRecording.insertion(database, rowCount: PurgeLimits.statementRowCount)
        self.update = try PurgeStatement(
            database,
            sql: """
                UPDATE dead SET failed_at = max(failed_at, ?3), first_seen = min(first_seen, ?4),
                source = CASE WHEN failed_at < ?3 THEN ?5 ELSE source END
                WHERE scope = ?1 AND token = ?2 AND (failed_at < ?3 OR first_seen > ?4)
                """
        )
        let hasRegistrations =
            try Bool.fetchOne(database, sql: "SELECT EXISTS (SELECT 1 FROM registration)") ?? false
        self.findRegistration =
            try hasRegistrations
            ? PurgeStatement(
                database,
                sql: "SELECT 1 FROM registration WHERE scope = ?1 AND token = ?2 AND registered_at > ?3"
            ) : nil
        self.scopes = PurgeRecording.scopes(database)
        self.sources = PurgeRecording.sources(database)
    }

    private static func insertion(_ database: Database, rowCount: Int) throws -> PurgeStatement {
        let rows = Array(repeating: "(?, ?, ?, ?, ?)", count: rowCount).joined(separator: ", ")
        return try PurgeStatement(
            database,
            sql: """
                INSERT INTO dead (scope, token, failed_at, first_seen, source) VALUES \(rows)
                ON CONFLICT DO NOTHING
                """
        )
    }

    private static func scopes(_ database: Database) -> RowIDCache<TokenScope> {
        RowIDCache { scope in
            try PurgeEntry.check(scope.topic, field: "topic")
            return try PurgeList.add(scope, to: database)
        }
    }

    private static func sources(_ database: Database) -> RowIDCache<PurgeName> {
        RowIDCache { name in
            try PurgeEntry.check(name.text, field: "source")
            try database.execute(
                sql: "INSERT INTO source (name) VALUES (?) ON CONFLICT DO NOTHING",
                arguments: [name.text]
            )
            return try Int64.fetchOne(database, sql: "SELECT id FROM source WHERE name = ?", arguments: [name.text])
        }
    }

    mutating func add(_ entry: PurgeEntry) throws {
        try entry.checkValues()
        let scope = try self.scopes.identifier(TokenScope(topic: entry.topic, environment: entry.environment))
        let source = try self.sources.identifier(PurgeName(entry.source))
        self.batch.append(entry, scope: scope, source: source)
        if self.batch.records.count >= self.batchEntryCount { try self.setAside() }
    }

    /// Writes a full batch to a file; if that fails, writes everything to the list.
    private mutating func setAside() throws {
        self.batch.sort()
        if self.runs == nil { self.runs = PurgeRuns(beside: self.path) }
        guard let runs, runs.append(self.batch) else { return try self.flush() }
        self.batch.removeAll()
        if runs.isFull { try self.flush() }
    }

    /// Writes everything that was added.
    mutating func flush() throws {
        self.batch.sort()
        if let runs, !runs.isEmpty {
            if runs.append(self.batch) { self.batch.removeAll() }
            try runs.merge { record, bytes in try self.take(record, in: bytes) }
        }
        for record in self.batch.records { try self.take(record, in: self.batch.tokens) }
        self.batch.removeAll()
        try self.writeRows()
    }

    /// Adds the next record in the order of the list.
    private mutating func take(_ record: PurgeBatch.Record, in bytes: [UInt8]) throws {
        guard try !self.isSuperseded(record, in: bytes) else {
            self.change.supersededCount += 1
            return
        }
        self.rows.append(record, in: bytes)
        if self.rows.records.count == PurgeLimits.statementRowCount { try self.writeRows() }
    }

    private func isSuperseded(_ record: PurgeBatch.Record, in bytes: [UInt8]) throws -> Bool {
        guard let statement = self.findRegistration else { return false }
        return try unsafe bytes[record.tokenRange].withUnsafeBytes { token in
            statement.bind(record.scope, at: 1)
            unsafe statement.bind(token, at: 2)
            statement.bind(record.failedAt, at: 3)
            return try statement.hasRow()
        }
    }

    /// Writes the pending rows: a full statement at once, which is much faster than single rows, or the last few one by
    /// one.
    private mutating func writeRows() throws {
        let rows = self.rows.records
        try unsafe self.rows.tokens.withUnsafeBytes { tokens in
            if rows.count == PurgeLimits.statementRowCount {
                try unsafe self.write(rows[...], tokens, self.insertMany)
            } else {
                for index in rows.indices { try unsafe self.write(rows[index...index], tokens, self.insert) }
            }
        }
        self.rows.removeAll()
    }

    /// Inserts rows with one statement, and updates existing ones.
    private mutating func write(
        _ rows: ArraySlice<PurgeBatch.Record>,
        _ tokens: UnsafeRawBufferPointer,
        _ insert: PurgeStatement
    ) throws {
        var index: Int32 = 1
        for row in rows { unsafe Self.bind(row, tokens, to: insert, at: &index) }
        let addedCount = try insert.run()
        self.change.addedCount += addedCount
        guard addedCount < rows.count else { return }
        var updatedCount = 0
        for row in rows {
            index = 1
            unsafe Self.bind(row, tokens, to: self.update, at: &index)
            updatedCount += try self.update.run()
        }
        self.change.updatedCount += updatedCount
        self.change.unchangedCount += rows.count - addedCount - updatedCount
    }

    private static func bind(
        _ row: PurgeBatch.Record,
        _ tokens: UnsafeRawBufferPointer,
        to statement: PurgeStatement,
        at index: inout Int32
    ) {
        statement.bind(row.scope, at: index)
        unsafe statement.bind(UnsafeRawBufferPointer(rebasing: tokens[row.tokenRange]), at: index + 1)
        statement.bind(row.failedAt, at: index + 2)
        statement.bind(row.firstSeen, at: index + 3)
        statement.bind(row.source, at: index + 4)
        index += 5
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSWire
import GRDB

/// One transaction that records entries.
struct PurgeRecording {
    private let scopes: PurgeScopes
    private let insert: PurgeInsertion
    private let insertMany: PurgeInsertion
    private let update: PurgeStatement
    private let dead: PurgeRows
    /// `nil` if there are no registrations, the usual case.
    private let registered: PurgeRows?
    private var sources: RowCache<PurgeName, PurgeRow.Source>
    private var scopeIdentifiers: RowCache<TokenScope, Int64>
    private var scopeMembers: RowCache<Int64, PurgeScope>
    private let path: String
    private let batchEntryCount: Int
    private let latestFailure = PurgeList.latestFailure
    private let now = PurgeList.now
    private var batch = PurgeBatch()
    /// Earlier batches, if any.
    private var runs: PurgeRuns?
    /// The rows of the next statement.
    private var rows = PurgeBatch()
    private(set) var change = PurgeChange()

    init(_ database: Database, path: String, batchEntryCount: Int) throws {
        self.path = path
        self.batchEntryCount = batchEntryCount
        let scopes = try PurgeScopes(database)
        self.scopes = scopes
        self.insert = try PurgeInsertion(database, .dead)
        self.insertMany = try PurgeInsertion(database, .dead, rowCount: PurgeLimits.statementRowCount)
        self.update = try PurgeStatement(
            database,
            sql: """
                UPDATE dead_token SET failed_at = ?3, first_seen = ?4, source = ?5, checksum = ?6
                WHERE scope = ?1 AND token = ?2
                """
        )
        self.dead = try PurgeRows(database, .dead, hasChecksums: true)
        let hasRegistrations = scopes.all.contains { $0[.registered].count != 0 }
        self.registered = try hasRegistrations ? PurgeRows(database, .registered, hasChecksums: true) : nil
        self.sources = Self.sources(database)
        self.scopeIdentifiers = RowCache { scope in
            try PurgeEntry.check(scope.topic, field: "topic")
            return try scopes.add(scope).identifier
        }
        self.scopeMembers = RowCache { scopes[identifier: $0] }
    }

    private static func sources(_ database: Database) -> RowCache<PurgeName, PurgeRow.Source> {
        RowCache { name in
            try PurgeEntry.check(name.text, field: "source")
            try database.execute(
                sql: "INSERT INTO source (name) VALUES (?) ON CONFLICT DO NOTHING",
                arguments: [name.text]
            )
            return try Int64.fetchOne(database, sql: "SELECT id FROM source WHERE name = ?", arguments: [name.text])
                .map { PurgeRow.Source(identifier: $0, name: name.text) }
        }
    }

    mutating func add(_ entry: PurgeEntry) throws {
        try entry.checkValues()
        let scope = try self.scopeIdentifiers.value(TokenScope(topic: entry.topic, environment: entry.environment))
        let source = try self.sources.value(PurgeName(entry.source))
        var entry = entry
        if entry.failedAtSeconds > self.latestFailure { entry.failedAtSeconds = self.now }
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
            try runs.merge { record, bytes in try self.add(record, in: bytes) }
        }
        for record in self.batch.records { try self.add(record, in: self.batch.tokens) }
        self.batch.removeAll()
        try self.writeRows()
        try self.scopes.store()
    }

    /// Adds the next record in the order of the list.
    private mutating func add(_ record: PurgeBatch.Record, in bytes: [UInt8]) throws {
        guard try !self.isSuperseded(record, in: bytes) else {
            self.change.supersededCount += 1
            return
        }
        self.rows.append(record, in: bytes)
        if self.rows.records.count == PurgeLimits.statementRowCount { try self.writeRows() }
    }

    private mutating func isSuperseded(_ record: PurgeBatch.Record, in bytes: [UInt8]) throws -> Bool {
        guard let registered = self.registered else { return false }
        let scope = try self.scopeMembers.value(record.scope)
        let registration = try unsafe bytes[record.tokenRange].withUnsafeBytes { token in
            try unsafe registered.find(token, in: scope)
        }
        return registration.map { record.values.isSuperseded(byRegistrationAt: $0.time) } ?? false
    }

    /// Writes the pending rows: a full statement at once, which is much faster than single rows, or the last few one by
    /// one.
    private mutating func writeRows() throws {
        let (rows, tokens) = (self.rows.records, self.rows.tokens)
        try unsafe tokens.withUnsafeBytes { tokens in
            guard try unsafe rows.count < PurgeLimits.statementRowCount || !self.insertAll(rows, tokens) else { return }
            for row in rows { try unsafe self.write(row, Self.token(row, tokens)) }
        }
        self.rows.removeAll()
    }

    /// Inserts rows with one statement.
    ///
    /// Returns whether they were inserted; otherwise, some are on the list.
    private mutating func insertAll(_ rows: [PurgeBatch.Record], _ tokens: UnsafeRawBufferPointer) throws -> Bool {
        var index: Int32 = 1
        var checksums: [UInt64] = []
        checksums.reserveCapacity(rows.count)
        for row in rows {
            let scope = try self.scopeMembers.value(row.scope)
            let token = unsafe Self.token(row, tokens)
            unsafe checksums.append(self.insertMany.bind(token, row.values, in: scope, at: &index))
        }
        do {
            try self.insertMany.run()
        } catch let error as DatabaseError where error.extendedResultCode == .SQLITE_CONSTRAINT_PRIMARYKEY {
            return false
        }
        for (row, checksum) in zip(rows, checksums) { self.scopes.update(row.scope) { $0[.dead].add(checksum) } }
        self.change.addedCount += rows.count
        return true
    }

    /// Inserts a row, or updates the existing one.
    private mutating func write(_ record: PurgeBatch.Record, _ token: UnsafeRawBufferPointer) throws {
        let scope = try self.scopeMembers.value(record.scope)
        let new = record.values
        guard let old = try unsafe self.dead.find(token, in: scope) else {
            let checksum = try unsafe self.insert.insert(token, new, in: scope)
            self.scopes.update(record.scope) { $0[.dead].add(checksum) }
            self.change.addedCount += 1
            return
        }
        guard let row = old.updated(with: new, latestFailure: self.latestFailure) else {
            self.change.unchangedCount += 1
            return
        }
        let (oldChecksum, checksum) = unsafe (old.checksum(token, in: scope), row.checksum(token, in: scope))
        self.update.bind(scope.identifier, at: 1)
        unsafe self.update.bind(token, at: 2)
        self.update.bind(row.time, at: 3)
        self.update.bind(row.firstSeen, at: 4)
        self.update.bind(row.source?.identifier ?? 0, at: 5)
        self.update.bind(Int64(bitPattern: checksum), at: 6)
        _ = try self.update.run()
        self.scopes.update(record.scope) { scope in
            scope[.dead].remove(oldChecksum)
            scope[.dead].add(checksum)
        }
        self.change.updatedCount += 1
    }

    private static func token(
        _ record: PurgeBatch.Record,
        _ tokens: UnsafeRawBufferPointer
    ) -> UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(rebasing: tokens[record.tokenRange])
    }
}

// SPDX-License-Identifier: Apache-2.0

import GRDB

/// One transaction that records.
struct PurgeRecording {
    private let database: Database
    private let insert: PurgeStatement
    private let update: PurgeStatement
    /// `nil` where nothing was ever forgotten, which is the usual case.
    private let findRegistration: PurgeStatement?
    private var scopes: PurgeNames<PurgeScope>
    private var sources: PurgeNames<PurgeName>
    private var batch = PurgeBatch()
    private(set) var change = PurgeChange()

    init(_ database: Database) throws {
        self.database = database
        self.insert = try PurgeStatement(
            database,
            sql: """
                INSERT INTO dead (scope, token, failed_at, first_seen, source) VALUES (?1, ?2, ?3, ?4, ?5)
                ON CONFLICT DO NOTHING
                """
        )
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

    private static func scopes(_ database: Database) -> PurgeNames<PurgeScope> {
        PurgeNames { scope in
            try PurgeEntry.check(scope.topic, field: "topic")
            return try PurgeList.add(scope, to: database)
        }
    }

    private static func sources(_ database: Database) -> PurgeNames<PurgeName> {
        PurgeNames { name in
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
        let scope = try self.scopes.identifier(PurgeScope(topic: entry.topic, environment: entry.environment))
        let source = try self.sources.identifier(PurgeName(entry.source))
        self.batch.append(entry, scope: scope, source: source)
        if self.batch.records.count >= PurgeLimits.batchEntryCount { try self.flush() }
    }

    mutating func flush() throws {
        self.batch.sort()
        try self.batch.tokens.withUnsafeBytes { tokens in
            for record in self.batch.records {
                let token = UnsafeRawBufferPointer(
                    rebasing: tokens[record.tokenOffset..<record.tokenOffset + record.tokenOctetCount]
                )
                if try self.isSuperseded(record, token) {
                    self.change.supersededCount += 1
                } else if try self.run(self.insert, record, token) {
                    self.change.addedCount += 1
                } else if try self.run(self.update, record, token) {
                    self.change.updatedCount += 1
                } else {
                    self.change.unchangedCount += 1
                }
            }
        }
        self.batch.removeAll()
    }

    private func isSuperseded(_ record: PurgeBatch.Record, _ token: UnsafeRawBufferPointer) throws -> Bool {
        guard let statement = self.findRegistration else { return false }
        statement.bind(record.scope, at: 1)
        statement.bind(token, at: 2)
        statement.bind(record.failedAt, at: 3)
        return try statement.hasRow()
    }

    private func run(
        _ statement: PurgeStatement,
        _ record: PurgeBatch.Record,
        _ token: UnsafeRawBufferPointer
    ) throws -> Bool {
        statement.bind(record.scope, at: 1)
        statement.bind(token, at: 2)
        statement.bind(record.failedAt, at: 3)
        statement.bind(record.firstSeen, at: 4)
        statement.bind(record.source, at: 5)
        return try statement.run() > 0
    }
}

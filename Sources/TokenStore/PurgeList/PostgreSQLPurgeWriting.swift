// SPDX-License-Identifier: Apache-2.0

#if PostgreSQL
import APNSWire
import PostgreSQL

/// One transaction that changes a list in a PostgreSQL database, by the rules of every list.
///
/// The rows of many tokens are read and written at once, because each statement is a round trip.
struct PostgreSQLPurgeWriting {
    /// A token of a topic and environment.
    private struct Key: Hashable {
        var scope: Int64
        var token: [UInt8]
    }

    /// What is recorded for a token.
    private enum Event {
        case failure(PurgeRow)
        case registration(PurgeRegistration)
    }

    private let connection: PostgreSQLPurgeConnection
    private let scopes: PurgeScopes
    private var sources: RowCache<PurgeName, Int64>
    private let latestFailure = PurgeList.latestFailure
    private let now = PurgeList.now
    private var events: [(token: [UInt8], scopes: [Int64], event: Event)] = []
    private var eventScopeCount = 0
    private(set) var change = PurgeChange()
    private(set) var result = PurgeForgetResult()

    /// The number of rows that are read and written at once.
    private static let batchRowCount = 4096

    init(_ connection: PostgreSQLPurgeConnection, _ scopes: PurgeScopes) {
        self.connection = connection
        self.scopes = scopes
        self.sources = RowCache { name in
            try PurgeEntry.check(name.text, field: "source")
            let sql = "INSERT INTO apns_purge_source (name) VALUES ($1) ON CONFLICT DO NOTHING"
            _ = try connection.query(sql, [name.text])
            return try connection.query("SELECT id FROM apns_purge_source WHERE name = $1", [name.text]).integer(0, 0)
        }
    }

    /// Returns a scope, which is added if missing.
    func add(_ scope: TokenScope) throws -> PurgeScope {
        if let known = self.scopes[scope] { return known }
        try PurgeEntry.check(scope.topic, field: "topic")
        let sql = "INSERT INTO apns_purge_scope (topic, environment) VALUES ($1, $2) RETURNING id"
        let rows = try self.connection.query(sql, [scope.topic, scope.environment.rawValue])
        let member = PurgeScope(identifier: rows.integer(0, 0), scope: scope)
        self.scopes.append(member)
        return member
    }

    mutating func add(_ entry: PurgeEntry) throws {
        try entry.checkValues()
        let scope = try self.add(TokenScope(topic: entry.topic, environment: entry.environment))
        let source = PurgeRow.Source(identifier: try self.sources.value(PurgeName(entry.source)), checksum: 0)
        let failedAt = entry.failedAtSeconds > self.latestFailure ? self.now : entry.failedAtSeconds
        let row = PurgeRow(time: failedAt, firstSeen: entry.firstSeenSeconds, source: source)
        try self.append(entry.token, [scope.identifier], .failure(row))
    }

    mutating func forget(_ registration: PurgeRegistration, in scopes: [PurgeScope]) throws {
        try registration.check()
        if scopes.isEmpty, registration.registeredAtSeconds != nil { self.result.unrememberedCount += 1 }
        try self.append(registration.token, scopes.map(\.identifier), .registration(registration))
    }

    private mutating func append(_ token: [UInt8], _ scopes: [Int64], _ event: Event) throws {
        self.events.append((token, scopes, event))
        self.eventScopeCount += max(1, scopes.count)
        if self.eventScopeCount >= Self.batchRowCount { try self.flush() }
    }

    /// Writes everything that was added.
    mutating func flush() throws {
        guard !self.events.isEmpty else { return }
        let keys = Set(self.events.flatMap { event in event.scopes.map { Key(scope: $0, token: event.token) } })
        var batch = try self.read(keys)
        for (token, scopes, event) in self.events {
            let keys = scopes.map { Key(scope: $0, token: token) }
            switch event {
            case .failure(let row): for key in keys { self.record(row, key, &batch) }
            case .registration(let registration): self.forget(registration, keys, &batch)
            }
        }
        self.events.removeAll(keepingCapacity: true)
        self.eventScopeCount = 0
        try self.write(batch)
    }

    // MARK: Rules

    /// The rows of some tokens, and which of them have changed.
    private struct Batch {
        var dead: [Key: PurgeRow] = [:]
        var registered: [Key: Int64] = [:]
        var changed: Set<Key> = []
        var registeredAgain: Set<Key> = []
    }

    private mutating func record(_ row: PurgeRow, _ key: Key, _ batch: inout Batch) {
        if let time = batch.registered[key], row.isSuperseded(byRegistrationAt: time) {
            self.change.supersededCount += 1
            return
        }
        guard let old = batch.dead[key] else {
            batch.dead[key] = row
            batch.changed.insert(key)
            self.change.addedCount += 1
            return
        }
        guard let new = old.updated(with: row, latestFailure: self.latestFailure) else {
            self.change.unchangedCount += 1
            return
        }
        batch.dead[key] = new
        batch.changed.insert(key)
        self.change.updatedCount += 1
    }

    private mutating func forget(_ registration: PurgeRegistration, _ keys: [Key], _ batch: inout Batch) {
        var isKnown = false
        for key in keys {
            if let time = registration.registeredAtSeconds, batch.registered[key].map({ $0 < time }) ?? true {
                batch.registered[key] = time
                batch.registeredAgain.insert(key)
            }
            guard let row = batch.dead[key] else { continue }
            isKnown = true
            guard row.isSuperseded(byRegistrationAt: registration.registeredAtSeconds) else {
                self.result.keptCount += 1
                continue
            }
            batch.dead[key] = nil
            batch.changed.insert(key)
            self.result.forgottenCount += 1
        }
        if !isKnown { self.result.unknownCount += 1 }
    }

    // MARK: Statements

    private func read(_ keys: Set<Key>) throws -> Batch {
        var batch = Batch()
        let parameters = Self.parameters(keys)
        let found = "JOIN unnest($1::bigint[], $2::bytea[]) AS k (scope, token) USING (scope, token)"
        let dead = try self.connection.query(
            "SELECT \(PostgreSQLPurgeRows.columns), scope FROM apns_dead_token \(found)",
            parameters
        )
        for row in 0..<dead.count {
            let key = unsafe Key(scope: dead.integer(row, 4), token: Array(dead.bytes(row, 0)))
            batch.dead[key] = PostgreSQLPurgeRows.row(dead, row)
        }
        let registered = try self.connection.query(
            "SELECT token, registered_at, scope FROM apns_registered_token \(found)",
            parameters
        )
        for row in 0..<registered.count {
            let key = unsafe Key(scope: registered.integer(row, 2), token: Array(registered.bytes(row, 0)))
            batch.registered[key] = registered.integer(row, 1)
        }
        return batch
    }

    private func write(_ batch: Batch) throws {
        let dead = batch.changed.compactMap { key in batch.dead[key].map { (key, $0) } }
        if !dead.isEmpty {
            func column(_ value: (PurgeRow) -> Int64) -> String {
                PostgreSQLArray.text(of: dead.map { value($0.1) })
            }
            _ = try self.connection.query(
                """
                INSERT INTO apns_dead_token (scope, token, failed_at, first_seen, source)
                SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::bigint[], $5::bigint[])
                ON CONFLICT (scope, token) DO UPDATE SET failed_at = EXCLUDED.failed_at,
                    first_seen = EXCLUDED.first_seen, source = EXCLUDED.source, changed_in = EXCLUDED.changed_in
                """,
                Self.parameters(dead.lazy.map(\.0))
                    + [column(\.time), column(\.firstSeen), column { $0.source?.identifier ?? 0 }]
            )
        }
        let removed = batch.changed.filter { batch.dead[$0] == nil }
        if !removed.isEmpty {
            let sql = """
                DELETE FROM apns_dead_token AS d USING unnest($1::bigint[], $2::bytea[]) AS k (scope, token)
                WHERE d.scope = k.scope AND d.token = k.token
                """
            _ = try self.connection.query(sql, Self.parameters(removed))
        }
        let registered = batch.registeredAgain.map { ($0, batch.registered[$0] ?? 0) }
        guard !registered.isEmpty else { return }
        let times = PostgreSQLArray.text(of: registered.lazy.map(\.1))
        _ = try self.connection.query(
            """
            INSERT INTO apns_registered_token (scope, token, registered_at)
            SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bigint[])
            ON CONFLICT (scope, token) DO UPDATE SET registered_at = EXCLUDED.registered_at
            """,
            Self.parameters(registered.lazy.map(\.0)) + [times]
        )
    }

    /// The arrays of scopes and tokens.
    private static func parameters(_ keys: some Sequence<Key>) -> [String] {
        let tokens = keys.lazy.map { key in Optional("\\x" + Hexadecimal.text(key.token)) }
        return [PostgreSQLArray.text(of: keys.lazy.map(\.scope)), PostgreSQLArray.text(of: tokens)]
    }
}
#endif

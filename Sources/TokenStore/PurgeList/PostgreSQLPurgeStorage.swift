// SPDX-License-Identifier: Apache-2.0

#if PostgreSQL
import APNSWire
import PostgreSQL
import Synchronization

/// A purge list in a PostgreSQL database, which many hosts share.
///
/// A reader has a snapshot. Writers wait for each other, so that registrations and failures that are recorded at the
/// same time are compared. Nothing depends on a session, so that a pooler may pass each transaction to another one.
final class PostgreSQLPurgeStorage: PurgeStorage {
    private let address: String
    private let idle = Mutex<[PostgreSQLPurgeConnection]>([])

    /// How long the server may take for a statement.
    private static let answerTimeout = Duration.seconds(60)
    /// The number of connections that are kept for the next transaction.
    private static let idleCountMax = 4

    init(_ address: String, isMade: Bool) throws {
        self.address = address
        let exists = try self.transaction(Self.beginReading) { try PostgreSQLPurgeSchema.isMade($0, path: address) }
        guard !exists else { return }
        guard isMade else { throw PurgeListError.missing(path: address) }
        try self.transaction(Self.beginWriting) { try PostgreSQLPurgeSchema.make($0) }
    }

    // MARK: Transactions

    /// An idle transaction is one whose reader is busy with something else, such as a table that is pruned.
    private static let beginReading =
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL idle_in_transaction_session_timeout = 0"
    private static let beginWriting =
        "BEGIN ISOLATION LEVEL READ COMMITTED; "
        + "SET LOCAL lock_timeout = \(Int(PurgeList.busyTimeout / .milliseconds(1)))"

    /// Runs a transaction on a free connection, or on a new one.
    private func transaction<Value>(
        _ begin: String,
        _ body: (PostgreSQLPurgeConnection) throws -> Value
    ) throws -> Value {
        let connection = try self.begin(begin)
        let value: Value
        do {
            value = try body(connection)
        } catch {
            if (try? connection.execute("ROLLBACK")) != nil { self.keep(connection) }
            throw error
        }
        try connection.execute("COMMIT")
        self.keep(connection)
        return value
    }

    /// Begins a transaction; the server may have closed a connection that was free.
    private func begin(_ statement: String) throws -> PostgreSQLPurgeConnection {
        while let connection = self.idle.withLock({ $0.popLast() }) {
            if (try? connection.execute(statement)) != nil { return connection }
        }
        let connection = try PostgreSQLPurgeConnection(self.address, timeout: Self.answerTimeout)
        try connection.execute(statement)
        return connection
    }

    private func keep(_ connection: PostgreSQLPurgeConnection) {
        self.idle.withLock { if $0.count < Self.idleCountMax { $0.append(connection) } }
    }

    func close() { self.idle.withLock { $0.removeAll() } }

    // MARK: Reading

    func read<Value>(_ body: (PurgeContent) throws -> Value) throws -> Value {
        try self.transaction(Self.beginReading) { try body(Self.content($0)) }
    }

    private static func content(_ connection: PostgreSQLPurgeConnection) throws -> PurgeContent {
        let dead = PostgreSQLPurgeRows(connection)
        return PurgeContent(scopes: try self.scopes(connection), dead: dead)
    }

    private static func scopes(_ connection: PostgreSQLPurgeConnection) throws -> PurgeScopes {
        let rows = try connection.query("SELECT id, topic, environment FROM apns_purge_scope ORDER BY id")
        let members = try (0..<rows.count).map { row in
            guard let environment = rows.text(row, 2).flatMap(PushEnvironment.init(rawValue:)) else {
                throw connection.damage(.kind)
            }
            let scope = TokenScope(topic: rows.text(row, 1) ?? "", environment: environment)
            return PurgeScope(identifier: rows.integer(row, 0), scope: scope)
        }
        return PurgeScopes(members) { scope in
            let sql = "SELECT count(*) FROM apns_dead_token WHERE scope = $1"
            return Int(try connection.query(sql, ["\(scope.identifier)"]).integer(0, 0))
        }
    }

    func snapshot() throws -> any PurgeSnapshot {
        Snapshot(connection: try self.begin(Self.beginReading))
    }

    /// A transaction, which ends with the connection.
    private struct Snapshot: PurgeSnapshot {
        let connection: PostgreSQLPurgeConnection

        func read<Value>(_ body: (PurgeContent) throws -> Value) throws -> Value {
            try body(PostgreSQLPurgeStorage.content(self.connection))
        }
    }

    func contains(_ token: UnsafeRawBufferPointer, in scopes: [PurgeScope]) throws -> Bool {
        let list = PostgreSQLArray.text(of: scopes.lazy.map(\.identifier))
        let parameters = unsafe [list, PostgreSQLArray.bytes(token)]
        return try self.transaction(Self.beginReading) { connection in
            let sql = "SELECT 1 FROM apns_dead_token WHERE scope = ANY ($1::bigint[]) AND token = $2::bytea LIMIT 1"
            return try connection.query(sql, parameters).count > 0
        }
    }

    // MARK: Changes

    /// Changes the list while no other transaction does.
    private func write<Value>(_ body: (PostgreSQLPurgeConnection) throws -> Value) throws -> Value {
        try self.transaction(Self.beginWriting) { connection in
            _ = try connection.query("SELECT version FROM apns_purge_list WHERE id = 1 FOR UPDATE")
            return try body(connection)
        }
    }

    func record(_ entries: some Sequence<PurgeEntry>, batchEntryCount: Int) throws -> PurgeChange {
        try self.write { connection in
            var writing = PostgreSQLPurgeWriting(connection, try Self.scopes(connection))
            for entry in entries { try writing.add(entry) }
            try writing.flush()
            return writing.change
        }
    }

    func forget(
        _ registrations: some Sequence<PurgeRegistration>,
        topic: String?,
        environment: PushEnvironment?
    ) throws -> PurgeForgetResult {
        try self.write { connection in
            var query = PurgeQuery()
            query.topic = topic
            query.environment = environment
            let known = try Self.scopes(connection)
            var scopes = known.matching(query)
            var writing = PostgreSQLPurgeWriting(connection, known)
            for registration in registrations {
                if scopes.isEmpty, registration.registeredAtSeconds != nil, let topic, let environment {
                    try PurgeEntry.check(topic, field: "topic")
                    scopes.append(try writing.add(TokenScope(topic: topic, environment: environment)))
                }
                try writing.forget(registration, in: scopes)
            }
            try writing.flush()
            return writing.result
        }
    }

    func add(_ scope: TokenScope) throws {
        try self.write { connection in
            let writing = PostgreSQLPurgeWriting(connection, try Self.scopes(connection))
            _ = try writing.add(scope)
        }
    }

    func expire(failedBefore time: Int64) throws -> Int {
        try self.write { connection in
            _ = try connection.query("DELETE FROM apns_registered_token WHERE registered_at < $1::bigint", ["\(time)"])
            let sql = "DELETE FROM apns_dead_token WHERE failed_at < $1::bigint"
            return try connection.query(sql, ["\(time)"]).changedCount
        }
    }

    // MARK: Consumers

    /// The transactions before this one have ended.
    private static let ended = "pg_snapshot_xmin(pg_current_snapshot())"
    private static let portionRowCount = 10_000

    func changes(for consumer: String, _ body: (PurgeEntry) throws -> Void) throws -> PurgeMark? {
        try self.transaction(Self.beginReading) { connection in
            // After the database was moved to another server, marks and rows may be of transactions that do not exist
            // there yet. Then a mark does not count, and such rows are passed each time.
            let mark = try connection.query(
                """
                SELECT \(Self.ended)::text, coalesce((SELECT mark FROM apns_purge_consumer
                    WHERE name = $1 AND mark <= \(Self.ended)), '0')::text
                """,
                [consumer]
            )
            let end = mark.text(0, 0) ?? "0"
            _ = try connection.query(
                """
                DECLARE changes NO SCROLL CURSOR FOR
                SELECT d.token, d.failed_at, d.first_seen, d.source, s.topic, s.environment, n.name
                FROM apns_dead_token AS d JOIN apns_purge_scope AS s ON s.id = d.scope
                    JOIN apns_purge_source AS n ON n.id = d.source
                WHERE d.changed_in >= $1::xid8 AND d.changed_in < $2::xid8
                    OR d.changed_in >= pg_snapshot_xmax(pg_current_snapshot())
                """,
                [mark.text(0, 1), end]
            )
            while true {
                let rows = try connection.query("FETCH \(Self.portionRowCount) FROM changes")
                guard rows.count > 0 else { return PurgeMark(transaction: end) }
                for row in 0..<rows.count {
                    guard let environment = rows.text(row, 5).flatMap(PushEnvironment.init(rawValue:)) else {
                        throw connection.damage(.kind)
                    }
                    try body(
                        PurgeEntry(
                            topic: rows.text(row, 4) ?? "",
                            environment: environment,
                            token: unsafe Array(rows.bytes(row, 0)),
                            failedAt: rows.integer(row, 1),
                            firstSeen: rows.integer(row, 2),
                            source: rows.text(row, 6) ?? ""
                        )
                    )
                }
            }
        }
    }

    func advance(_ consumer: String, to mark: PurgeMark) throws {
        try self.transaction(Self.beginWriting) { connection in
            let sql = """
                INSERT INTO apns_purge_consumer (name, mark) VALUES ($1, $2::xid8)
                ON CONFLICT (name) DO UPDATE SET mark = EXCLUDED.mark
                """
            _ = try connection.query(sql, [consumer, mark.transaction])
        }
    }

    // MARK: Leases

    func acquireLease(of name: String, for duration: Duration, holder: String) throws -> PurgeLease.Acquisition? {
        try self.transaction(Self.beginWriting) { connection in
            let rows = try connection.query(
                """
                INSERT INTO apns_feedback_lease AS l (name, epoch, holder, ends_at)
                VALUES ($1, 1, $2, clock_timestamp() + make_interval(secs => $3::double precision))
                ON CONFLICT (name) DO UPDATE
                    SET epoch = l.epoch + 1, holder = EXCLUDED.holder, ends_at = EXCLUDED.ends_at
                    WHERE l.ends_at <= clock_timestamp()
                RETURNING epoch
                """,
                [name, holder, "\(duration / .seconds(1))"]
            )
            if rows.count > 0 { return .acquired(PurgeLease(name: name, epoch: rows.integer(0, 0))) }
            let found = try connection.query("SELECT holder FROM apns_feedback_lease WHERE name = $1", [name])
            return .held(by: found.count > 0 ? found.text(0, 0) ?? "?" : "?")
        }
    }

    func renew(_ lease: PurgeLease, for duration: Duration) throws -> Bool {
        try self.transaction(Self.beginWriting) { connection in
            let rows = try connection.query(
                """
                UPDATE apns_feedback_lease SET ends_at = clock_timestamp() + make_interval(secs => $3::double precision)
                WHERE name = $1 AND epoch = $2::bigint
                """,
                [lease.name, "\(lease.epoch)", "\(duration / .seconds(1))"]
            )
            return rows.changedCount > 0
        }
    }

    // MARK: Damage

    /// The server verifies its own files.
    func checkIntegrity() throws {}

    func warning() throws -> String? { nil }
}

/// Reads the dead tokens of a list in a transaction.
struct PostgreSQLPurgeRows: PurgeRowReader {
    private let connection: PostgreSQLPurgeConnection
    private let names: SourceNames

    /// The number of rows that are read at once.
    private static let pageRowCount = 10_000

    /// The names of the sources that were read.
    private final class SourceNames {
        var names: RowCache<Int64, String>

        init(_ connection: PostgreSQLPurgeConnection) {
            self.names = RowCache { identifier in
                let sql = "SELECT name FROM apns_purge_source WHERE id = $1::bigint"
                let rows = try connection.query(sql, ["\(identifier)"])
                return rows.count > 0 ? rows.text(0, 0) : nil
            }
        }
    }

    init(_ connection: PostgreSQLPurgeConnection) {
        self.connection = connection
        self.names = SourceNames(connection)
    }

    func sourceName(_ row: PurgeRow) throws -> String {
        try PurgeListError.translated(path: self.connection.address) {
            try row.source.map { try self.names.names.value($0.identifier) } ?? ""
        }
    }

    func find(_ token: UnsafeRawBufferPointer, in scope: PurgeScope) throws -> PurgeRow? {
        let sql = "SELECT \(Self.columns) FROM apns_dead_token WHERE scope = $1::bigint AND token = $2::bytea"
        let rows = try unsafe self.connection.query(sql, ["\(scope.identifier)", PostgreSQLArray.bytes(token)])
        return rows.count > 0 ? Self.row(rows, 0) : nil
    }

    func forEach(
        in scope: PurgeScope,
        after first: [UInt8],
        _ body: (_ token: UnsafeRawBufferPointer, PurgeRow) throws -> Bool
    ) throws {
        let sql = """
            SELECT \(Self.columns) FROM apns_dead_token WHERE scope = $1::bigint AND token > $2::bytea
            ORDER BY token LIMIT \(Self.pageRowCount)
            """
        var last = unsafe first.withUnsafeBytes { unsafe PostgreSQLArray.bytes($0) }
        while true {
            let rows = try self.connection.query(sql, ["\(scope.identifier)", last])
            for row in 0..<rows.count where try unsafe !body(rows.bytes(row, 0), Self.row(rows, row)) { return }
            guard rows.count == Self.pageRowCount else { return }
            last = unsafe PostgreSQLArray.bytes(rows.bytes(rows.count - 1, 0))
        }
    }

    static let columns = "token, failed_at, first_seen, source"

    static func row(_ rows: PostgreSQLResult, _ row: Int) -> PurgeRow {
        let source = PurgeRow.Source(identifier: rows.integer(row, 3), checksum: 0)
        return PurgeRow(time: rows.integer(row, 1), firstSeen: rows.integer(row, 2), source: source)
    }
}

/// A connection to the server of a list, whose errors are those of the list.
///
/// Only one thread uses it at a time, as whoever took it from the idle ones.
struct PostgreSQLPurgeConnection: @unchecked Sendable {
    let address: String
    private let connection: PostgreSQLConnection

    init(_ address: String, timeout: Duration) throws {
        self.address = address
        self.connection = try Self.translated(address) { () throws(PostgreSQLError) in
            try PostgreSQLConnection(address, timeout: timeout)
        }
    }

    func query(_ sql: String, _ parameters: [String?] = []) throws -> PostgreSQLResult {
        try Self.translated(self.address) { () throws(PostgreSQLError) in try self.connection.query(sql, parameters) }
    }

    func execute(_ sql: String) throws {
        try Self.translated(self.address) { () throws(PostgreSQLError) in try self.connection.execute(sql) }
    }

    func damage(_ damage: PurgeDamage) -> PurgeListError { PurgeListError(damage.error, path: self.address) }

    private static func translated<Value>(
        _ address: String,
        _ body: () throws(PostgreSQLError) -> Value
    ) throws(PurgeListError) -> Value {
        do throws(PostgreSQLError) {
            return try body()
        } catch {
            let error = TokenTableError(error, of: address)
            if case .busy = error { throw .busy(path: address) }
            throw .server(error)
        }
    }
}

extension PostgreSQLArray {
    /// The text of an array of integers.
    static func text(of integers: some Sequence<Int64>) -> String {
        "{" + integers.lazy.map { "\($0)" }.joined(separator: ",") + "}"
    }

    /// The text of a `bytea`.
    static func bytes(_ bytes: UnsafeRawBufferPointer) -> String { unsafe "\\x" + Hexadecimal.text(Array(bytes)) }
}
#endif

// SPDX-License-Identifier: Apache-2.0

#if PostgreSQL
package import APNSWire
import PostgreSQL

/// A queue of notifications in a PostgreSQL database, for one thread at a time.
///
/// Each call is one transaction, and nothing depends on the session, so that a pooler may pass each of them to another
/// one. A connection that was lost is opened again by the next call.
package final class QueueDatabase: @unchecked Sendable {
    // One thread at a time uses it.
    private let address: String
    private var connection: PostgreSQLConnection?
    /// The database and its server, for messages.
    package private(set) var name: String

    /// How long the server may take for a statement.
    private let timeout: Duration

    /// Opens a database that has a queue, or is to have one.
    ///
    /// - Throws: `TokenTableError` for the server, `QueueError` if there is no queue.
    package init(_ address: String, timeout: Duration = .seconds(10), isNew: Bool = false) throws {
        self.address = address
        self.name = address
        self.timeout = timeout
        try self.translated { _ = try self.open() }
        if !isNew { try self.check() }
    }

    private func open() throws(PostgreSQLError) -> PostgreSQLConnection {
        if let connection { return connection }
        let opened = try PostgreSQLConnection(self.address, timeout: self.timeout)
        self.name = opened.name
        self.connection = opened
        return opened
    }

    /// Runs statements, and closes the connection if it may be in an unknown state.
    func run<Value>(_ body: (PostgreSQLConnection) throws -> Value) throws -> Value {
        try self.translated {
            let connection = try self.open()
            do { return try body(connection) } catch {
                if (error as? PostgreSQLError)?.isFinal ?? true { self.connection = nil }
                throw error
            }
        }
    }

    /// Runs one statement.
    func query(_ sql: String, _ parameters: [(any LosslessStringConvertible)?] = []) throws -> PostgreSQLResult {
        try self.run { try $0.query(sql, parameters.map { $0.map { String(describing: $0) } }) }
    }

    /// Runs statements as one transaction.
    func transaction<Value>(_ body: (PostgreSQLConnection) throws -> Value) throws -> Value {
        try self.run { connection in
            // Less than the time limit of the client, so that a statement is over when it gives up.
            let limit = Int(self.timeout * 4 / 5 / .milliseconds(1))
            // If this process is suspended, others do not wait for it.
            try connection.execute(
                """
                BEGIN; SET LOCAL lock_timeout = '2s'; SET LOCAL statement_timeout = \(limit); \
                SET LOCAL idle_in_transaction_session_timeout = \(limit); SELECT \(Self.durable)
                """
            )
            do {
                let value = try body(connection)
                try connection.execute("COMMIT")
                return value
            } catch {
                // A connection that is lost has no transaction any more.
                if (error as? PostgreSQLError)?.isFinal != true { try? connection.execute("ROLLBACK") }
                throw error
            }
        }
    }

    /// Makes the commit of a statement's transaction wait for the disk, also if the default of the server is not to:
    /// after a crash, the queue would not know what may have been sent.
    static let durable = """
        set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
            ELSE current_setting('synchronous_commit') END, true)
        """

    private func translated<Value>(_ body: () throws -> Value) throws -> Value {
        do { return try body() } catch let error as PostgreSQLError {
            switch TokenTableError(error, of: self.name) {
            case .busy: throw QueueError.busy(database: self.name)
            case .connectionLost(_, let detail): throw QueueError.connectionLost(database: self.name, detail: detail)
            case .notPermitted(_, let detail): throw QueueError.notPermitted(database: self.name, detail: detail)
            case let other: throw other
            }
        }
    }

    /// Whether an error may not come again.
    package static func isTransient(_ error: any Error) -> Bool {
        switch error as? QueueError {
        case .connectionLost, .busy: true
        default: false
        }
    }

    private var hasQueue: Bool {
        get throws { try !self.query("SELECT to_regclass('apns_queue.version')::text").isNull(0, 0) }
    }

    private func check() throws {
        guard try self.hasQueue else { throw QueueError.missing(database: self.name) }
        let version = try self.query("SELECT version FROM apns_queue.version").integer(0, 0)
        guard version == QueueSchema.version else { throw QueueError.version(version, database: self.name) }
    }

    /// Creates the tables.
    ///
    /// - Throws: `QueueError.present` if they exist.
    package func create() throws {
        guard try !self.hasQueue else { throw QueueError.present(database: self.name) }
        try self.transaction { try $0.execute(QueueSchema.sql) }
    }

    // MARK: Batches

    /// What the notifications of a batch have in common.
    package struct Batch: Hashable, Sendable {
        package var topic: String
        package var environment: PushEnvironment
        package var payload: [UInt8]?
        package var expiry: UInt32?
        package var priority: UInt8?

        package init(topic: String, environment: PushEnvironment) {
            self.topic = topic
            self.environment = environment
        }
    }

    /// Begins to load a batch.
    ///
    /// Returns its number.
    package func begin(_ batch: Batch) throws -> Int64 {
        try self.transaction { connection in
            let row = try connection.query(
                """
                INSERT INTO apns_queue.batch (topic, environment, payload, expiry, priority, state)
                VALUES ($1, $2, $3::bytea, $4::bigint, $5::smallint, 'loading') RETURNING id
                """,
                [
                    batch.topic, batch.environment.rawValue, batch.payload.map(Self.literal),
                    batch.expiry.map { "\($0)" }, batch.priority.map { "\($0)" },
                ]
            )
            let id = row.integer(0, 0)
            try connection.execute(
                """
                CREATE TABLE \(QueueSchema.partition(of: id)) PARTITION OF apns_queue.chunk FOR VALUES IN (\(id));
                ALTER TABLE \(QueueSchema.partition(of: id)) ALTER COLUMN tokens SET STORAGE EXTERNAL
                """
            )
            return id
        }
    }

    /// The form of bytes as a parameter.
    static func literal(_ bytes: [UInt8]) -> String { "\\x" + Hexadecimal.text(bytes) }

    /// Adds chunks to a batch, numbered from `first`.
    package func add(_ chunks: [QueueChunkContents], to batch: Int64, from first: Int32) throws {
        try self.transaction { connection in
            var rows = PostgreSQLRows(columnCount: 6)
            var states = PostgreSQLRows(columnCount: 3)
            for (index, chunk) in chunks.enumerated() {
                let number = first + Int32(clamping: index)
                rows.begin()
                rows.add(batch)
                rows.add(number)
                rows.add(Int32(clamping: chunk.count))
                rows.add(Int64(clamping: chunk.firstLine))
                rows.add(chunk.tokens)
                rows.add(chunk.items)
                states.begin()
                states.add(batch)
                states.add(number)
                states.add(Int32(clamping: chunk.count))
            }
            let columns = "batch, no, count"
            do {
                try connection.copy(
                    "COPY apns_queue.chunk (\(columns), first_line, tokens, items) FROM STDIN (FORMAT binary)",
                    rows
                )
            } catch let error as PostgreSQLError where error.state == "23514" {
                // There is no table for its chunks any more.
                throw QueueError.cancelled(batch)
            }
            try connection.copy("COPY apns_queue.chunk_state (\(columns)) FROM STDIN (FORMAT binary)", states)
        }
    }

    /// Makes a loaded batch ready to be sent.
    ///
    /// - Throws: `QueueError.cancelled` if it was cancelled meanwhile.
    package func makeReady(_ batch: Int64, payloadByteCountMax: Int, badLineCount: UInt64) throws {
        let changedCount: Int
        do {
            changedCount = try self.query(
                """
                UPDATE apns_queue.batch SET state = 'ready', payload_size_max = $2::integer, bad_lines = $3::bigint,
                    notifications = t.notifications, chunks = t.chunks, loaded_at = now()
                FROM (SELECT coalesce(sum(count), 0) AS notifications, count(*) AS chunks
                    FROM apns_queue.chunk_state WHERE batch = $1::bigint) AS t
                WHERE id = $1::bigint AND state = 'loading'
                """,
                [batch, payloadByteCountMax, badLineCount]
            ).changedCount
        } catch QueueError.connectionLost(_, let detail) {
            throw QueueError.uncertain(batch: batch, detail: detail)
        }
        guard changedCount == 1 else { throw QueueError.cancelled(batch) }
        // Not in the transaction above, and nothing depends on it: workers that do not hear of the batch find it.
        _ = try? self.query("SELECT pg_notify('\(QueueListener.channel)', '')")
    }

    /// Cancels a batch: no worker claims its chunks any more.
    ///
    /// - Throws: `QueueError` if there is no such batch, or if it is done.
    package func cancel(_ batch: Int64) throws {
        let changed = try self.query(
            """
            UPDATE apns_queue.batch SET state = 'cancelled', ended_at = coalesce(ended_at, now())
            WHERE id = $1::bigint AND state <> 'done'
            """,
            [batch]
        )
        if changed.changedCount == 0 {
            let isDone = try self.query("SELECT FROM apns_queue.batch WHERE id = $1::bigint", [batch]).count > 0
            throw isDone ? QueueError.done(batch) : QueueError.unknownBatch(batch)
        }
        try self.drop(batch)
    }

    /// Marks batches whose notifications all have an outcome as done, and drops the chunks of batches that have ended.
    package func finishBatches() throws {
        _ = try self.query(
            """
            UPDATE apns_queue.batch AS b SET state = 'done', ended_at = now(), accepted = t.accepted,
                rejected = t.rejected, indeterminate = t.indeterminate, invalid = t.invalid, duplicates = t.duplicates
            FROM (SELECT b.id, coalesce(sum(s.accepted), 0) AS accepted, coalesce(sum(s.rejected), 0) AS rejected,
                    coalesce(sum(s.indeterminate), 0) AS indeterminate, coalesce(sum(s.invalid), 0) AS invalid,
                    coalesce(sum(s.duplicates), 0) AS duplicates
                FROM apns_queue.batch AS b LEFT JOIN apns_queue.chunk_state AS s ON s.batch = b.id
                WHERE b.state = 'ready' GROUP BY b.id
                HAVING coalesce(sum(s.proved), 0) = coalesce(sum(s.count), 0)) AS t
            WHERE b.id = t.id AND b.state = 'ready'
            """
        )
        let ended = try self.query(
            """
            SELECT id FROM apns_queue.batch WHERE state IN ('cancelled', 'done')
            AND to_regclass('apns_queue.chunk_' || id) IS NOT NULL ORDER BY id LIMIT 16
            """
        )
        for row in 0..<ended.count { try self.drop(ended.integer(row, 0)) }
    }

    /// Drops the chunks of a batch that has ended; if something reads them, or this user may not, a later call does it.
    private func drop(_ batch: Int64) throws {
        do {
            // In one message: the table of all chunks is locked until the end of the transaction.
            try self.run { connection in
                try connection.execute(
                    "SET LOCAL lock_timeout = '2s'; DROP TABLE IF EXISTS \(QueueSchema.partition(of: batch))"
                )
            }
        } catch QueueError.busy, QueueError.notPermitted {}
    }
}
#endif

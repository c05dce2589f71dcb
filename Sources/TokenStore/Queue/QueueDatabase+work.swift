// SPDX-License-Identifier: Apache-2.0

#if PostgreSQL
package import APNSWire
import PostgreSQL

/// Which batches a worker sends.
package struct QueueScope: Hashable, Sendable {
    package var topic: String
    package var environment: PushEnvironment
    /// Batches with longer payloads are left to other workers.
    package var payloadByteCountMax: Int

    package init(topic: String, environment: PushEnvironment, payloadByteCountMax: Int) {
        self.topic = topic
        self.environment = environment
        self.payloadByteCountMax = payloadByteCountMax
    }
}

/// A chunk that a worker has claimed.
package struct QueueClaim: Sendable {
    package var account: QueueChunkAccount
    package let contents: QueueChunkContents
    /// The payload, the expiry and the priority of notifications without their own.
    package let common: (payload: [UInt8], expiry: UInt32?, priority: UInt8?)
}

/// The progress of all batches of a scope that are ready, by all workers.
package struct QueueProgress: Hashable, Sendable {
    package var notificationCount: Int64
    package var provedCount: Int64

    package init(notificationCount: Int64 = 0, provedCount: Int64 = 0) {
        (self.notificationCount, self.provedCount) = (notificationCount, provedCount)
    }
}

extension QueueDatabase {
    // MARK: Workers

    /// Inserts a worker, whose lease begins, and removes those that died long ago and hold no chunk.
    ///
    /// Returns its number.
    package func register(host: String, process: Int32, lease: Duration) throws -> Int64 {
        try self.query(
            """
            WITH dead AS (
                DELETE FROM apns_queue.worker AS w WHERE lease_until < now() - interval '1 hour'
                AND NOT EXISTS (SELECT FROM apns_queue.chunk_state AS s WHERE s.owner = w.id)
            )
            INSERT INTO apns_queue.worker (host, process, lease_until)
            VALUES ($1, $2::integer, now() + $3::float8 * interval '1 second') RETURNING id
            """,
            [host, process, lease / .seconds(1)]
        ).integer(0, 0)
    }

    /// Extends the lease of a worker, and records how many notifications it has proved.
    ///
    /// Returns whether the worker is still there, and its lease had not ended.
    package func renew(_ worker: Int64, lease: Duration, proved: Int64, rate: Double) throws -> Bool {
        try self.query(
            """
            UPDATE apns_queue.worker SET lease_until = now() + $2::float8 * interval '1 second',
                proved = $3::bigint, rate = $4::float8
            WHERE id = $1::bigint AND lease_until > now()
            """,
            [worker, lease / .seconds(1), proved, rate]
        ).changedCount == 1
    }

    /// Removes a worker, so that its chunks can be claimed at once.
    package func remove(_ worker: Int64) throws {
        _ = try self.query("DELETE FROM apns_queue.worker WHERE id = $1::bigint", [worker])
    }

    /// The progress of all workers, for one of them.
    package func progress(_ scope: QueueScope) throws -> QueueProgress {
        let row = try self.query(
            """
            SELECT coalesce(sum(s.count), 0)::bigint, coalesce(sum(s.proved), 0)::bigint
            FROM apns_queue.batch AS b JOIN apns_queue.chunk_state AS s ON s.batch = b.id
            WHERE b.state = 'ready' AND b.topic = $1 AND b.environment = $2
            """,
            [scope.topic, scope.environment.rawValue]
        )
        return QueueProgress(notificationCount: row.integer(0, 0), provedCount: row.integer(0, 1))
    }

    // MARK: Chunks

    /// Whether no chunk of a batch that a worker may send is left, also none that a living worker holds.
    package func isEmpty(_ scope: QueueScope) throws -> Bool {
        try self.query(
            """
            SELECT FROM apns_queue.batch AS b JOIN apns_queue.chunk_state AS s ON s.batch = b.id
            WHERE b.state = 'ready' AND b.topic = $1 AND b.environment = $2
                AND b.payload_size_max <= $3::integer AND s.proved < s.count LIMIT 1
            """,
            [scope.topic, scope.environment.rawValue, scope.payloadByteCountMax]
        ).count == 0
    }

    /// The ready batches of a topic whose payloads are too long for this worker.
    package func batchesTooLong(_ scope: QueueScope) throws -> [Int64] {
        let rows = try self.query(
            """
            SELECT id FROM apns_queue.batch WHERE state = 'ready' AND topic = $1 AND environment = $2
            AND payload_size_max > $3::integer ORDER BY id
            """,
            [scope.topic, scope.environment.rawValue, scope.payloadByteCountMax]
        )
        return (0..<rows.count).map { rows.integer($0, 0) }
    }

    /// Claims the first chunk behind a place that no living worker holds.
    ///
    /// Returns `nil` if there is none, or if the lease of this worker has ended.
    ///
    /// - Throws: `QueueError.damaged` if the chunk cannot be read.
    package func claim(
        _ worker: Int64,
        _ scope: QueueScope,
        after key: QueueChunkKey,
        rules: QueueRules
    ) throws -> QueueClaim? {
        let row = try self.query(
            Self.claimSQL,
            [worker, scope.topic, scope.environment.rawValue, scope.payloadByteCountMax, key.batch, key.number]
        )
        guard row.count > 0 else { return nil }
        let found = QueueChunkKey(batch: row.integer(0, 0), number: Int32(clamping: row.integer(0, 1)))
        let count = Int(row.integer(0, 3))
        let account = QueueChunkAccount(
            found,
            epoch: Int32(clamping: row.integer(0, 2)),
            count: count,
            written: Int(row.integer(0, 4)),
            proved: Int(row.integer(0, 5)),
            open: row.isNull(0, 6) ? nil : unsafe Array(row.bytes(0, 6)),
            rules: rules
        )
        let contents = QueueChunkContents(
            count: count,
            firstLine: UInt64(clamping: row.integer(0, 7)),
            tokens: unsafe Array(row.bytes(0, 8)),
            items: row.isNull(0, 9) ? nil : unsafe Array(row.bytes(0, 9))
        )
        guard let account, let contents else { throw QueueError.damaged(found) }
        let common = (
            payload: unsafe Array(row.bytes(0, 10)),
            expiry: row.isNull(0, 11) ? nil : UInt32(clamping: row.integer(0, 11)),
            priority: row.isNull(0, 12) ? nil : UInt8(clamping: row.integer(0, 12))
        )
        return QueueClaim(account: account, contents: contents, common: common)
    }

    /// Gives back chunks that a worker owns and does not know of: the answer to its claim was lost.
    package func release(_ worker: Int64, except held: [QueueChunkKey]) throws {
        let places = held.map { "(\($0.batch), \($0.number))" } + ["(0, 0)"]
        _ = try self.query(
            """
            UPDATE apns_queue.chunk_state SET owner = NULL
            WHERE owner = $1::bigint AND (batch, no) NOT IN (\(places.joined(separator: ", ")))
            """,
            [worker]
        )
    }

    private static let claimSQL = """
        WITH free AS (
            SELECT s.batch, s.no FROM apns_queue.batch AS b JOIN apns_queue.chunk_state AS s ON s.batch = b.id
            WHERE b.state = 'ready' AND b.topic = $2 AND b.environment = $3 AND b.payload_size_max <= $4::integer
                AND (s.batch, s.no) > ($5::bigint, $6::integer) AND s.proved < s.count
                AND (s.owner IS NULL
                    OR NOT EXISTS (SELECT FROM apns_queue.worker AS w WHERE w.id = s.owner AND w.lease_until > now()))
            ORDER BY s.batch, s.no LIMIT 1 FOR UPDATE OF s SKIP LOCKED
        ), claimed AS (
            UPDATE apns_queue.chunk_state AS s SET owner = $1::bigint, epoch = s.epoch + 1 FROM free
            WHERE s.batch = free.batch AND s.no = free.no
                AND EXISTS (SELECT FROM apns_queue.worker WHERE id = $1::bigint AND lease_until > now())
            RETURNING s.batch, s.no, s.epoch, s.count, s.written, s.proved, s.open
        )
        SELECT claimed.*, c.first_line, c.tokens, c.items, b.payload, b.expiry, b.priority
        FROM claimed JOIN apns_queue.batch AS b ON b.id = claimed.batch
        LEFT JOIN apns_queue.chunk AS c ON c.batch = claimed.batch AND c.no = claimed.no
        """

    /// Records that all of a chunk may have been written from now on.
    ///
    /// Returns whether the worker still has the chunk.
    package func mark(_ account: QueueChunkAccount) throws -> Bool {
        try self.query(
            """
            UPDATE apns_queue.chunk_state SET written = count FROM (SELECT \(Self.durable)) AS durable (setting)
            WHERE batch = $1::bigint AND no = $2::integer AND epoch = $3::integer AND owner IS NOT NULL
                AND durable.setting IS NOT NULL
            """,
            [account.key.batch, account.key.number, account.epoch]
        ).changedCount == 1
    }

    /// Records what became of a chunk, and gives it back.
    ///
    /// Can be repeated if its answer was lost. Returns whether the worker still had the chunk; if not, nothing changed.
    package func prove(_ chunk: QueueClaim, _ proof: QueueProof) throws -> Bool {
        let account = chunk.account
        let key: [String?] = ["\(account.key.batch)", "\(account.key.number)", "\(account.epoch)"]
        let counts = proof.counts
        let numbers = [
            Int64(proof.proved), Int64(proof.written), counts.accepted, counts.rejected, counts.indeterminate,
            counts.invalid, counts.duplicates,
        ]
        return try self.transaction { connection in
            let changedCount = try connection.query(
                """
                UPDATE apns_queue.chunk_state SET owner = NULL, proved = $4::integer, written = $5::integer,
                    accepted = accepted + $6::integer, rejected = rejected + $7::integer,
                    indeterminate = indeterminate + $8::integer, invalid = invalid + $9::integer,
                    duplicates = duplicates + $10::integer, open = $11::bytea
                WHERE batch = $1::bigint AND no = $2::integer AND epoch = $3::integer AND owner IS NOT NULL
                """,
                key + numbers.map { String($0) } + [proof.open.map(Self.literal)]
            ).changedCount
            guard changedCount == 1 else {
                // Only this worker can have given back the chunk in its epoch: the answer to its commit was lost.
                return try connection.query(
                    """
                    SELECT FROM apns_queue.chunk_state
                    WHERE batch = $1::bigint AND no = $2::integer AND epoch = $3::integer AND owner IS NULL
                    """,
                    key
                ).count == 1
            }
            if !proof.exceptions.isEmpty { try connection.copy(Self.outcomeSQL, Self.rows(chunk, proof.exceptions)) }
            return true
        }
    }

    private static let outcomeSQL = """
        COPY apns_queue.outcome
        (batch, no, index, outcome, status, unregistered, duplicate, attempts, reason, line, token, id)
        FROM STDIN (FORMAT binary)
        """

    private static func rows(_ chunk: QueueClaim, _ indices: [Int]) -> PostgreSQLRows {
        var rows = PostgreSQLRows(columnCount: 12)
        for index in indices {
            guard let outcome = chunk.account.outcomes[index] else { continue }
            rows.begin()
            rows.add(chunk.account.key.batch)
            rows.add(chunk.account.key.number)
            rows.add(Int32(clamping: index))
            rows.add("\(outcome.kind.name)".utf8)
            rows.add(outcome.status.map { Int32($0) })
            rows.add(outcome.timestamp.map { Int64(clamping: $0) })
            rows.add(outcome.isDuplicate)
            rows.add(Int32(clamping: outcome.attempts))
            rows.add(outcome.reason?.utf8)
            rows.add(Int64(clamping: chunk.contents[index].line))
            rows.add(chunk.contents.token(index))
            let id = chunk.contents.id(index)
            rows.add(id.isEmpty ? nil : id)
        }
        return rows
    }
}
#endif

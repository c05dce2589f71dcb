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

    /// Claims the first chunks behind a place that no living worker holds.
    ///
    /// Returns none if there are none, or if the lease of this worker has ended. A chunk that cannot be read is an
    /// error of its own.
    package func claim(
        _ worker: Int64,
        _ scope: QueueScope,
        after key: QueueChunkKey,
        countMax: Int,
        rules: QueueRules
    ) throws -> [Result<QueueClaim, QueueError>] {
        let place: [(any LosslessStringConvertible)?] = [key.batch, key.number, countMax]
        let rows = try self.query(
            Self.claimSQL,
            [worker, scope.topic, scope.environment.rawValue, scope.payloadByteCountMax] + place
        )
        return (0..<rows.count).map { row in
            let key = QueueChunkKey(batch: rows.integer(row, 0), number: Int32(clamping: rows.integer(row, 1)))
            return Self.claim(key, rows, row, rules).map { .success($0) } ?? .failure(.damaged(key))
        }
    }

    /// Reads a chunk that was claimed; `nil` if it is damaged.
    private static func claim(
        _ key: QueueChunkKey,
        _ rows: PostgreSQLResult,
        _ row: Int,
        _ rules: QueueRules
    ) -> QueueClaim? {
        let count = Int(rows.integer(row, 3))
        // First, since a damaged number of notifications is found without memory for that many.
        let contents = QueueChunkContents(
            count: count,
            firstLine: UInt64(clamping: rows.integer(row, 7)),
            tokens: unsafe Array(rows.bytes(row, 8)),
            items: rows.isNull(row, 9) ? nil : unsafe Array(rows.bytes(row, 9))
        )
        guard let contents else { return nil }
        let account = QueueChunkAccount(
            key,
            epoch: Int32(clamping: rows.integer(row, 2)),
            count: count,
            written: Int(rows.integer(row, 4)),
            proved: Int(rows.integer(row, 5)),
            open: rows.isNull(row, 6) ? nil : unsafe Array(rows.bytes(row, 6)),
            rules: rules
        )
        guard let account else { return nil }
        let common = (
            payload: unsafe Array(rows.bytes(row, 10)),
            expiry: rows.isNull(row, 11) ? nil : UInt32(clamping: rows.integer(row, 11)),
            priority: rows.isNull(row, 12) ? nil : UInt8(clamping: rows.integer(row, 12))
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
            ORDER BY s.batch, s.no LIMIT $7::integer FOR UPDATE OF s SKIP LOCKED
        ), claimed AS (
            UPDATE apns_queue.chunk_state AS s SET owner = $1::bigint, epoch = s.epoch + 1 FROM free
            WHERE s.batch = free.batch AND s.no = free.no
                AND EXISTS (SELECT FROM apns_queue.worker WHERE id = $1::bigint AND lease_until > now())
            RETURNING s.batch, s.no, s.epoch, s.count, s.written, s.proved, s.open
        )
        SELECT claimed.*, c.first_line, c.tokens, c.items, b.payload, b.expiry, b.priority
        FROM claimed JOIN apns_queue.batch AS b ON b.id = claimed.batch
        LEFT JOIN apns_queue.chunk AS c ON c.batch = claimed.batch AND c.no = claimed.no
        ORDER BY claimed.batch, claimed.no
        """

    /// Records that all of some chunks may have been written from now on.
    ///
    /// Returns those that the worker still has.
    package func mark(_ accounts: [QueueChunkAccount]) throws -> Set<QueueChunkKey> {
        Self.keys(
            try self.query(
                """
                UPDATE apns_queue.chunk_state AS s SET written = s.count
                FROM \(Self.givenSQL) AS k (batch, no, epoch), (SELECT \(Self.durable)) AS durable (setting)
                WHERE s.batch = k.batch AND s.no = k.no AND s.epoch = k.epoch AND s.owner IS NOT NULL
                    AND durable.setting IS NOT NULL
                RETURNING s.batch, s.no
                """,
                Self.given(accounts)
            )
        )
    }

    /// Chunks by their places and epochs, as parameters.
    private static let givenSQL = "unnest($1::bigint[], $2::integer[], $3::integer[])"

    private static func given(_ accounts: [QueueChunkAccount]) -> [String] {
        [
            Self.array(accounts) { $0.key.batch }, Self.array(accounts) { Int64($0.key.number) },
            Self.array(accounts) { Int64($0.epoch) },
        ]
    }

    private static func array<Row>(_ rows: [Row], _ number: (Row) -> Int64) -> String {
        PostgreSQLArray.text(of: rows.map(number))
    }

    private static func keys(_ rows: PostgreSQLResult) -> Set<QueueChunkKey> {
        Set(
            (0..<rows.count).map {
                QueueChunkKey(batch: rows.integer($0, 0), number: Int32(clamping: rows.integer($0, 1)))
            }
        )
    }

    /// Records what became of some chunks, and gives them back.
    ///
    /// Can be repeated if its answer was lost. Returns the chunks that the worker still had; of the others, nothing
    /// changed.
    ///
    /// It is one statement, so that a worker that is suspended or cut off never leaves a row locked: others take over
    /// from it when its lease ends.
    package func prove(_ chunks: [(claim: QueueClaim, proof: QueueProof)]) throws -> Set<QueueChunkKey> {
        let given = Self.given(chunks.map(\.claim.account))
        let owned = Self.keys(try self.query(Self.proveSQL, given + Self.values(chunks) + Self.exceptions(chunks)))
        guard owned.count < chunks.count else { return owned }
        // Only this worker can have given back a chunk in its epoch: the answer to an earlier commit was lost.
        let earlier = try self.query(
            """
            SELECT s.batch, s.no FROM apns_queue.chunk_state AS s
            JOIN \(Self.givenSQL) AS k (batch, no, epoch) ON s.batch = k.batch AND s.no = k.no AND s.epoch = k.epoch
            WHERE s.owner IS NULL
            """,
            given
        )
        return owned.union(Self.keys(earlier))
    }

    private static let proveSQL = """
        WITH given AS (
            SELECT * FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::integer[], $5::integer[],
                $6::integer[], $7::integer[], $8::integer[], $9::integer[], $10::integer[], $11::bytea[])
            AS k (batch, no, epoch, proved, written, accepted, rejected, indeterminate, invalid, duplicates, open)
        ), done AS (
            UPDATE apns_queue.chunk_state AS s SET owner = NULL, proved = k.proved, written = k.written,
                accepted = s.accepted + k.accepted, rejected = s.rejected + k.rejected,
                indeterminate = s.indeterminate + k.indeterminate, invalid = s.invalid + k.invalid,
                duplicates = s.duplicates + k.duplicates, open = k.open
            FROM given AS k, (SELECT \(QueueDatabase.durable)) AS durable (setting)
            WHERE s.batch = k.batch AND s.no = k.no AND s.epoch = k.epoch AND s.owner IS NOT NULL
                AND durable.setting IS NOT NULL
            RETURNING s.batch, s.no
        ), kept AS (
            INSERT INTO apns_queue.outcome
                (batch, no, index, outcome, status, unregistered, duplicate, attempts, reason, line, token, id)
            SELECT e.* FROM unnest($12::bigint[], $13::integer[], $14::integer[], $15::text[], $16::integer[],
                $17::bigint[], $18::boolean[], $19::integer[], $20::text[], $21::bigint[], $22::bytea[], $23::text[])
            AS e (batch, no, index, outcome, status, unregistered, duplicate, attempts, reason, line, token, id)
            JOIN done ON done.batch = e.batch AND done.no = e.no
        )
        SELECT batch, no FROM done
        """

    /// The columns of the chunks that change.
    private static func values(_ chunks: [(claim: QueueClaim, proof: QueueProof)]) -> [String] {
        func column(_ value: (QueueProof) -> Int64) -> String { Self.array(chunks) { value($0.proof) } }
        return [
            column { Int64($0.proved) }, column { Int64($0.written) }, column(\.counts.accepted),
            column(\.counts.rejected), column(\.counts.indeterminate), column(\.counts.invalid),
            column(\.counts.duplicates), PostgreSQLArray.text(of: chunks.map { $0.proof.open.map(Self.literal) }),
        ]
    }

    /// The columns of the rows of outcomes.
    private static func exceptions(_ chunks: [(claim: QueueClaim, proof: QueueProof)]) -> [String] {
        let rows = chunks.flatMap { claim, proof in
            proof.exceptions.compactMap { index in claim.account.outcomes[index].map { (claim, index, $0) } }
        }
        func column(_ value: (QueueClaim, Int, QueueOutcome) -> String?) -> String {
            PostgreSQLArray.text(of: rows.map { value($0.0, $0.1, $0.2) })
        }
        return [
            column { claim, _, _ in "\(claim.account.key.batch)" },
            column { claim, _, _ in "\(claim.account.key.number)" },
            column { _, index, _ in "\(index)" },
            column { _, _, outcome in "\(outcome.kind.name)" },
            column { _, _, outcome in outcome.status.map { "\($0)" } },
            column { _, _, outcome in outcome.timestamp.map { "\(Int64(clamping: $0))" } },
            column { _, _, outcome in "\(outcome.isDuplicate)" },
            column { _, _, outcome in "\(outcome.attempts)" },
            column { _, _, outcome in outcome.reason },
            column { claim, index, _ in "\(Int64(clamping: claim.contents[index].line))" },
            column { claim, index, _ in Self.literal(Array(claim.contents.token(index))) },
            column { claim, index, _ in
                let id = claim.contents.id(index)
                return id.isEmpty ? nil : String(decoding: id, as: UTF8.self)
            },
        ]
    }
}
#endif

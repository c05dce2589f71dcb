// SPDX-License-Identifier: Apache-2.0

#if PostgreSQL
import PostgreSQL

extension QueueDatabase {
    /// Reads the state of the newest batches and of all workers.
    ///
    /// - Parameter batchCountMax: the number of batches.
    package func status(batchCountMax: Int) throws -> QueueStatus {
        var status = QueueStatus()
        status.batches = try self.batches(batchCountMax: batchCountMax)
        status.workers = try self.workers()
        let dead = try self.run { connection in
            try connection.query(
                """
                SELECT relname::text, n_dead_tup FROM pg_stat_all_tables
                WHERE schemaname = 'apns_queue' AND n_dead_tup > 0 ORDER BY n_dead_tup DESC, relname LIMIT 5
                """
            )
        }
        status.deadTuples = (0..<dead.count).map { (dead.text($0, 0) ?? "", dead.integer($0, 1)) }
        let oldest = try self.run { try $0.query(Self.snapshotSQL) }
        if oldest.count > 0 {
            status.snapshot = .init(age: oldest.integer(0, 0), holder: oldest.text(0, 1) ?? "")
        }
        return status
    }

    /// Sessions, prepared transactions and replication slots can keep dead tuples; a session that another user owns is
    /// visible without its state, unless this user has the role `pg_read_all_stats`.
    private static let snapshotSQL = """
        SELECT age, holder FROM (
            SELECT age(backend_xmin)::bigint AS age, format('process %s of user %s (%s), %s%s', pid, usename,
                coalesce(nullif(application_name, ''), 'no name'), coalesce(state, 'state not visible'),
                ' for ' || extract(epoch FROM now() - xact_start)::bigint || ' s') AS holder
            FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()
            UNION ALL
            SELECT age(transaction)::bigint, format('prepared transaction of user %s since %s', owner, prepared)
            FROM pg_prepared_xacts WHERE database = current_database()
            UNION ALL
            SELECT age(xmin)::bigint, format('replication slot %s', slot_name) FROM pg_replication_slots
            WHERE xmin IS NOT NULL
        ) AS holders ORDER BY age DESC LIMIT 1
        """

    private func batches(batchCountMax: Int) throws -> [QueueStatus.Batch] {
        let rows = try self.run { connection in
            try connection.query(
                """
                SELECT b.id, b.topic, b.environment, b.state, coalesce(sum(s.count), 0)::bigint, b.bad_lines,
                    coalesce(sum(s.accepted), 0)::bigint, coalesce(sum(s.rejected), 0)::bigint,
                    coalesce(sum(s.indeterminate), 0)::bigint, coalesce(sum(s.invalid), 0)::bigint,
                    coalesce(sum(s.duplicates), 0)::bigint, coalesce(sum(s.written - s.proved), 0)::bigint,
                    coalesce(sum(s.written - s.proved) FILTER (WHERE s.owner IS NULL OR NOT EXISTS (
                        SELECT FROM apns_queue.worker AS w WHERE w.id = s.owner AND w.lease_until > now())), 0)::bigint
                FROM (SELECT * FROM apns_queue.batch ORDER BY id DESC LIMIT $1::integer) AS b
                LEFT JOIN apns_queue.chunk_state AS s ON s.batch = b.id
                GROUP BY b.id, b.topic, b.environment, b.state, b.bad_lines ORDER BY b.id
                """,
                ["\(batchCountMax)"]
            )
        }
        return (0..<rows.count).map { row in
            var batch = QueueStatus.Batch()
            batch.id = rows.integer(row, 0)
            batch.topic = rows.text(row, 1) ?? ""
            batch.environment = rows.text(row, 2) ?? ""
            batch.state = rows.text(row, 3) ?? ""
            (batch.notificationCount, batch.badLineCount) = (rows.integer(row, 4), rows.integer(row, 5))
            (batch.counts.accepted, batch.counts.rejected) = (rows.integer(row, 6), rows.integer(row, 7))
            (batch.counts.indeterminate, batch.counts.invalid) = (rows.integer(row, 8), rows.integer(row, 9))
            batch.counts.duplicates = rows.integer(row, 10)
            (batch.doubtCount, batch.orphanCount) = (rows.integer(row, 11), rows.integer(row, 12))
            return batch
        }
    }

    private func workers() throws -> [QueueStatus.Worker] {
        let rows = try self.run { connection in
            try connection.query(
                """
                SELECT w.id, w.host, w.process, extract(epoch FROM w.lease_until - now())::float8,
                    (SELECT count(*) FROM apns_queue.chunk_state AS s WHERE s.owner = w.id), w.proved,
                    CASE WHEN w.lease_until > now() THEN w.rate ELSE 0 END
                FROM apns_queue.worker AS w ORDER BY w.id LIMIT 1000
                """
            )
        }
        return (0..<rows.count).map { row in
            var worker = QueueStatus.Worker()
            (worker.id, worker.process) = (rows.integer(row, 0), rows.integer(row, 2))
            worker.host = rows.text(row, 1) ?? ""
            worker.leaseSeconds = rows.number(row, 3)
            (worker.heldCount, worker.provedCount) = (rows.integer(row, 4), rows.integer(row, 5))
            worker.rate = rows.number(row, 6)
            return worker
        }
    }

    // MARK: Verification

    /// What a queue contains that cannot be, and how much was compared.
    package struct Verification: Sendable {
        package var batchCount: Int64 = 0
        package var chunkCount: Int64 = 0
        /// One sentence for each difference, of which there may be more.
        package var differences: [String] = []
    }

    /// Compares the counts of batches, chunks and outcomes with each other.
    ///
    /// - Parameter differenceCountMax: the most differences to name.
    package func verify(differenceCountMax: Int) throws -> Verification {
        var verification = Verification()
        let rows = try self.transaction { connection in
            // One snapshot, so that workers may go on.
            try connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            let counts = try connection.query(
                "SELECT (SELECT count(*) FROM apns_queue.batch), (SELECT count(*) FROM apns_queue.chunk_state)"
            )
            (verification.batchCount, verification.chunkCount) = (counts.integer(0, 0), counts.integer(0, 1))
            return try connection.query(Self.verifySQL, ["\(differenceCountMax)"])
        }
        verification.differences = (0..<rows.count).compactMap { rows.text($0, 0) }
        return verification
    }

    private static let verifySQL = """
        WITH state AS (
            SELECT s.*, b.state, format('batch %s, chunk %s: ', s.batch, s.no) AS place,
                s.accepted + s.rejected + s.indeterminate + s.invalid AS total
            FROM apns_queue.chunk_state AS s LEFT JOIN apns_queue.batch AS b ON b.id = s.batch
        ), tally AS (
            SELECT batch, no, count(*) FILTER (WHERE outcome = 'accepted' AND NOT duplicate) AS accepted,
                count(*) FILTER (WHERE outcome = 'rejected') AS rejected,
                count(*) FILTER (WHERE outcome = 'indeterminate') AS indeterminate,
                count(*) FILTER (WHERE outcome = 'invalid') AS invalid,
                count(*) FILTER (WHERE duplicate) AS duplicates, max(index) AS last
            FROM apns_queue.outcome GROUP BY batch, no
        ), batch_sum AS (
            SELECT batch, count(*) AS chunks, sum(count) AS notifications, sum(accepted) AS accepted,
                sum(rejected) AS rejected, sum(indeterminate) AS indeterminate, sum(invalid) AS invalid,
                sum(duplicates) AS duplicates, sum(proved) AS proved
            FROM apns_queue.chunk_state GROUP BY batch
        ), difference AS (
            SELECT batch, no, place || format('%s notifications have an outcome, but their counts are %s',
                proved, total) AS text FROM state WHERE proved <> total
            UNION ALL SELECT batch, no, place || format('proved is %s, written %s and count %s',
                proved, written, count) FROM state WHERE NOT (0 <= proved AND proved <= written AND written <= count)
            UNION ALL SELECT batch, no, place || 'the batch does not exist' FROM state WHERE state IS NULL
            UNION ALL SELECT s.batch, s.no, s.place || format('%s %s are counted, but there are %s', v.counted, v.name,
                coalesce(v.found, 0))
            FROM state AS s LEFT JOIN tally AS r ON r.batch = s.batch AND r.no = s.no
            CROSS JOIN LATERAL (VALUES ('rejected', s.rejected, r.rejected), ('invalid', s.invalid, r.invalid),
                ('indeterminate', s.indeterminate, r.indeterminate),
                ('possible duplicates', s.duplicates, r.duplicates),
                ('accepted that are no possible duplicates', 0, r.accepted)) AS v (name, counted, found)
            WHERE v.counted <> coalesce(v.found, 0)
            UNION ALL SELECT r.batch, r.no, format('batch %s, chunk %s: ', r.batch, r.no)
                || 'there are outcomes of notifications that do not exist'
            FROM tally AS r LEFT JOIN state AS s ON s.batch = r.batch AND s.no = r.no
            WHERE s.count IS NULL OR r.last >= s.count
            UNION ALL SELECT coalesce(s.batch, c.batch), coalesce(s.no, c.no),
                format('batch %s, chunk %s: ', coalesce(s.batch, c.batch), coalesce(s.no, c.no))
                || CASE WHEN c.batch IS NULL THEN 'its notifications are missing' WHEN s.batch IS NULL
                    THEN 'its state is missing'
                    ELSE format('it has %s notifications, and its state %s', c.count, s.count) END
            FROM (SELECT * FROM state WHERE state IN ('loading', 'ready')) AS s
            FULL JOIN (SELECT c.batch, c.no, c.count FROM apns_queue.chunk AS c JOIN apns_queue.batch AS b
                ON b.id = c.batch WHERE b.state IN ('loading', 'ready')) AS c ON c.batch = s.batch AND c.no = s.no
            WHERE s.count IS DISTINCT FROM c.count AND (s.proved < s.count OR s.batch IS NULL)
            UNION ALL SELECT b.id, -1, format('batch %s: it was loaded with %s notifications in %s chunks, but has %s '
                'in %s', b.id, b.notifications, b.chunks, coalesce(t.notifications, 0), coalesce(t.chunks, 0))
            FROM apns_queue.batch AS b LEFT JOIN batch_sum AS t ON t.batch = b.id WHERE b.state IN ('ready', 'done')
                AND (b.notifications <> coalesce(t.notifications, 0) OR b.chunks <> coalesce(t.chunks, 0))
            UNION ALL SELECT b.id, -1, format('batch %s: it is done, but only %s of %s notifications have an outcome',
                b.id, coalesce(t.proved, 0), b.notifications)
            FROM apns_queue.batch AS b LEFT JOIN batch_sum AS t ON t.batch = b.id
            WHERE b.state = 'done' AND coalesce(t.proved, 0) <> b.notifications
            UNION ALL SELECT b.id, -1, format('batch %s: it is done with %s %s, but its chunks have %s', b.id, v.total,
                v.name, coalesce(v.found, 0))
            FROM apns_queue.batch AS b LEFT JOIN batch_sum AS t ON t.batch = b.id
            CROSS JOIN LATERAL (VALUES ('accepted', b.accepted, t.accepted), ('rejected', b.rejected, t.rejected),
                ('indeterminate', b.indeterminate, t.indeterminate), ('invalid', b.invalid, t.invalid),
                ('possible duplicates', b.duplicates, t.duplicates)) AS v (name, total, found)
            WHERE b.state = 'done' AND v.total <> coalesce(v.found, 0)
        )
        SELECT text FROM difference ORDER BY batch, no, text LIMIT $1::integer
        """
}
#endif

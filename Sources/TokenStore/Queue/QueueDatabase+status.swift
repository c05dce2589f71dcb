// SPDX-License-Identifier: Apache-2.0

#if PostgreSQL
import PostgreSQL

/// Rows of a report, as text.
package struct QueueTable: Sendable {
    package var columns: [String]
    package var rows: [[String]]

    /// The names of the columns and the rows, one below the other.
    package var lines: [String] {
        let all = [self.columns] + self.rows
        let widths = self.columns.indices.map { column in all.map { $0[column].count }.max() ?? 0 }
        return all.map { row in
            let cells = zip(row, widths).map { $0 + String(repeating: " ", count: $1 - $0.count) }
            return String(cells.joined(separator: "  ").reversed().drop { $0 == " " }.reversed())
        }
    }
}

extension QueueDatabase {
    /// Reads the state of at most that many batches, the newest ones, of all workers, and what may slow the database.
    package func status(batchCountMax: Int) throws -> [QueueTable] {
        let tables = [
            try self.query(Self.batchSQL, [batchCountMax]), try self.query(Self.workerSQL),
            try self.query(Self.tupleSQL), try self.query("\(Self.snapshotSQL) LIMIT 1"),
        ].map { result in
            let columns = 0..<result.columnCount
            let rows = (0..<result.count).map { row in columns.map { result.text(row, $0) ?? "" } }
            return QueueTable(columns: columns.map { result.name(ofColumn: $0) }, rows: rows)
        }
        return tables.filter { !$0.rows.isEmpty }
    }

    /// The numbers of the whole queue, by name.
    package func totals() throws -> [(name: String, count: Int64)] {
        let result = try self.query(Self.totalSQL)
        return (0..<result.columnCount).map { (result.name(ofColumn: $0), result.integer(0, $0)) }
    }

    private static let living = """
        EXISTS (SELECT FROM apns_queue.worker AS w WHERE w.id = s.owner AND w.lease_until > now())
        """

    private static let batchSQL = """
        SELECT b.id::text AS batch, b.topic, b.environment, b.state, coalesce(sum(s.count), 0)::text AS notifications,
            coalesce(sum(s.proved), 0)::text AS done, coalesce(sum(s.accepted), 0)::text AS accepted,
            coalesce(sum(s.rejected), 0)::text AS rejected,
            coalesce(sum(s.indeterminate), 0)::text AS indeterminate, coalesce(sum(s.invalid), 0)::text AS invalid,
            coalesce(sum(s.duplicates), 0)::text AS duplicates,
            coalesce(sum(s.written - s.proved), 0)::text AS "in doubt",
            coalesce(sum(s.written - s.proved) FILTER (WHERE NOT \(QueueDatabase.living)), 0)::text
                AS "of dead workers",
            b.bad_lines::text AS "bad lines"
        FROM (SELECT * FROM apns_queue.batch ORDER BY id DESC LIMIT $1::integer) AS b
        LEFT JOIN apns_queue.chunk_state AS s ON s.batch = b.id
        GROUP BY b.id, b.topic, b.environment, b.state, b.bad_lines ORDER BY b.id
        """

    private static let workerSQL = """
        SELECT w.id::text AS worker, w.host, w.process::text,
            CASE WHEN w.lease_until > now() THEN 'ends in ' ELSE 'expired since ' END
                || abs(extract(epoch FROM w.lease_until - now()))::bigint || ' s' AS lease,
            (SELECT count(*)::text FROM apns_queue.chunk_state AS s WHERE s.owner = w.id) AS chunks,
            w.proved::text AS done, w.rate::bigint::text AS "last rate"
        FROM apns_queue.worker AS w ORDER BY w.id LIMIT 1000
        """

    private static let tupleSQL = """
        SELECT relname::text AS table, n_dead_tup::text AS "dead tuples" FROM pg_stat_all_tables
        WHERE schemaname = 'apns_queue' AND n_dead_tup > 0 ORDER BY n_dead_tup DESC, relname LIMIT 5
        """

    /// Sessions, prepared transactions and replication slots can keep dead tuples; a session that another user owns is
    /// visible without its state, unless this user has the role `pg_read_all_stats`.
    private static let snapshotSQL = """
        SELECT holder AS "oldest snapshot", age::text AS "age in transactions" FROM (
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
        ) AS holders ORDER BY age DESC
        """

    private static let totalSQL = """
        WITH ready AS (
            SELECT coalesce(sum(s.count - s.proved), 0)::bigint AS rest
            FROM apns_queue.chunk_state AS s JOIN apns_queue.batch AS b ON b.id = s.batch AND b.state = 'ready'
        ), worker AS (
            SELECT count(*) AS workers, count(*) FILTER (WHERE lease_until <= now()) AS expired,
                coalesce(sum(rate) FILTER (WHERE lease_until > now()), 0) AS rate FROM apns_queue.worker
        )
        SELECT (SELECT count(*) FROM apns_queue.batch WHERE state = 'ready') AS ready, rest AS left,
            (SELECT coalesce(sum(written - proved), 0)::bigint FROM apns_queue.chunk_state) AS "inDoubt", workers,
            expired AS "expiredLeases", rate::bigint AS rate,
            CASE WHEN rate > 0 THEN ceil(rest / rate)::bigint ELSE 0 END AS "secondsLeft",
            (SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_all_tables WHERE schemaname = 'apns_queue')
                AS "deadTuples",
            coalesce((SELECT "age in transactions" FROM (\(QueueDatabase.snapshotSQL) LIMIT 1) AS oldest), '0')::bigint
                AS "oldestSnapshotAge"
        FROM ready, worker
        """

    // MARK: Verification

    /// Compares the counts of batches, chunks and outcomes with each other, in one snapshot, so that workers may go on.
    ///
    /// Returns one sentence for each difference, at most that many.
    package func verify(differenceCountMax: Int) throws -> [String] {
        let rows = try self.query(Self.verifySQL, [differenceCountMax])
        return (0..<rows.count).compactMap { rows.text($0, 0) }
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

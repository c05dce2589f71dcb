// SPDX-License-Identifier: Apache-2.0

#if PostgreSQL
/// The tables of a queue, in a schema of their own.
enum QueueSchema {
    /// The number that ``sql`` writes; another one needs another version of the program.
    static let version: Int64 = 1

    /// Creates everything.
    ///
    /// Chunks never change, and those of a batch are one table, which is dropped when the batch is done. What changes
    /// is narrow, is in no index, and has room on its page, so that an update needs no vacuum of an index.
    static let sql = """
        CREATE SCHEMA apns_queue;
        CREATE TABLE apns_queue.version (version integer NOT NULL);
        INSERT INTO apns_queue.version VALUES (\(Self.version));
        CREATE TABLE apns_queue.batch (
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            topic text NOT NULL, environment text NOT NULL, payload bytea, payload_size_max integer NOT NULL DEFAULT 0,
            expiry bigint, priority smallint,
            notifications bigint NOT NULL DEFAULT 0, chunks integer NOT NULL DEFAULT 0,
            bad_lines bigint NOT NULL DEFAULT 0,
            accepted bigint NOT NULL DEFAULT 0, rejected bigint NOT NULL DEFAULT 0,
            indeterminate bigint NOT NULL DEFAULT 0, invalid bigint NOT NULL DEFAULT 0,
            duplicates bigint NOT NULL DEFAULT 0,
            state text NOT NULL CHECK (state IN ('loading', 'ready', 'cancelled', 'done')),
            loaded_at timestamptz NOT NULL DEFAULT now(), ended_at timestamptz
        );
        CREATE TABLE apns_queue.chunk (
            batch bigint NOT NULL, no integer NOT NULL, count integer NOT NULL, first_line bigint NOT NULL,
            tokens bytea NOT NULL, items bytea, PRIMARY KEY (batch, no)
        ) PARTITION BY LIST (batch);
        CREATE TABLE apns_queue.chunk_state (
            batch bigint NOT NULL, no integer NOT NULL, count integer NOT NULL,
            owner bigint, epoch integer NOT NULL DEFAULT 0,
            written integer NOT NULL DEFAULT 0, proved integer NOT NULL DEFAULT 0,
            accepted integer NOT NULL DEFAULT 0, rejected integer NOT NULL DEFAULT 0,
            indeterminate integer NOT NULL DEFAULT 0, invalid integer NOT NULL DEFAULT 0,
            duplicates integer NOT NULL DEFAULT 0, open bytea, PRIMARY KEY (batch, no)
        ) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
        CREATE TABLE apns_queue.outcome (
            batch bigint NOT NULL, no integer NOT NULL, index integer NOT NULL,
            outcome text NOT NULL, status integer, unregistered bigint, duplicate boolean NOT NULL,
            attempts integer NOT NULL, reason text, line bigint NOT NULL, token bytea NOT NULL, id text,
            at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (batch, no, index)
        );
        CREATE TABLE apns_queue.worker (
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            host text NOT NULL, process integer NOT NULL, lease_until timestamptz NOT NULL,
            began_at timestamptz NOT NULL DEFAULT now(), proved bigint NOT NULL DEFAULT 0,
            rate double precision NOT NULL DEFAULT 0
        ) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
        """

    /// The table of the chunks of a batch.
    static func partition(of batch: Int64) -> String { "apns_queue.chunk_\(batch)" }
}
#endif

// SPDX-License-Identifier: Apache-2.0

#if PostgreSQL
import PostgreSQL

/// The tables of a purge list in a PostgreSQL database, in the first schema of the search path.
enum PostgreSQLPurgeSchema {
    private static let version = 1
    /// PostgreSQL 13 has 64-bit identifiers of transactions.
    private static let serverVersionMin = 130_000
    /// The lock under which tables are created.
    private static let lockIdentifier: Int64 = 0x4150_4E50

    /// Unlike `to_regclass`, this sees what another host created while this one waited for its lock.
    private static let exists =
        "EXISTS (SELECT FROM pg_catalog.pg_class WHERE relname = 'apns_purge_list' AND pg_table_is_visible(oid))"

    /// Whether the tables exist.
    ///
    /// - Throws: ``PurgeListError`` if a newer release created them, or the server is too old.
    static func isMade(_ connection: PostgreSQLPurgeConnection, path: String) throws -> Bool {
        let server = try connection.query(
            "SELECT current_setting('server_version_num')::bigint, \(Self.exists)"
        )
        guard server.integer(0, 0) >= Self.serverVersionMin else {
            throw PurgeListError.server(.invalidAddress(detail: "a purge list needs PostgreSQL 13 or later"))
        }
        guard server.isTrue(0, 1) else { return false }
        let rows = try connection.query("SELECT version::bigint FROM apns_purge_list WHERE id = 1")
        guard rows.count == 1 else { throw PurgeListError.notAPurgeList(path: path) }
        let found = Int(rows.integer(0, 0))
        guard found <= Self.version else {
            throw PurgeListError.newerVersion(path: path, found: found, known: Self.version)
        }
        return true
    }

    /// Creates the tables, unless another host has created them meanwhile.
    static func make(_ connection: PostgreSQLPurgeConnection) throws {
        _ = try connection.query("SELECT pg_advisory_xact_lock(\(self.lockIdentifier))")
        guard try !connection.query("SELECT \(self.exists)").isTrue(0, 0) else { return }
        try connection.execute(
            """
            CREATE TABLE apns_purge_list (id integer PRIMARY KEY CHECK (id = 1), version integer NOT NULL);
            CREATE TABLE apns_purge_scope (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                topic text NOT NULL,
                environment text NOT NULL CHECK (environment IN ('production', 'sandbox')),
                UNIQUE (topic, environment)
            );
            CREATE TABLE apns_purge_source (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE
            );
            CREATE TABLE apns_dead_token (
                scope bigint NOT NULL REFERENCES apns_purge_scope (id),
                token bytea NOT NULL CHECK (length(token) BETWEEN 1 AND 100),
                failed_at bigint NOT NULL,
                first_seen bigint NOT NULL,
                source bigint NOT NULL REFERENCES apns_purge_source (id),
                changed_in xid8 NOT NULL DEFAULT pg_current_xact_id(),
                PRIMARY KEY (scope, token)
            );
            CREATE INDEX apns_dead_token_changed_in ON apns_dead_token (changed_in);
            CREATE TABLE apns_registered_token (
                scope bigint NOT NULL REFERENCES apns_purge_scope (id),
                token bytea NOT NULL CHECK (length(token) BETWEEN 1 AND 100),
                registered_at bigint NOT NULL,
                PRIMARY KEY (scope, token)
            );
            CREATE TABLE apns_purge_consumer (name text PRIMARY KEY, mark xid8 NOT NULL);
            CREATE TABLE apns_feedback_lease (
                name text PRIMARY KEY, epoch bigint NOT NULL, holder text NOT NULL, ends_at timestamptz NOT NULL
            );
            INSERT INTO apns_purge_list VALUES (1, \(self.version))
            """
        )
    }
}

#endif

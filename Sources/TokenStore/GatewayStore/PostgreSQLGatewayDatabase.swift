// SPDX-License-Identifier: Apache-2.0

#if PostgreSQL
import APNSSession
import APNSWire
import PostgreSQL

/// The tables that several gateways share, for one thread at a time.
///
/// Each call is one transaction, and nothing depends on the session, so that a pooler may pass each of them to another
/// one. A connection that was lost is opened again by the next call.
final class PostgreSQLGatewayDatabase: @unchecked Sendable {
    // One thread at a time uses it.
    private let address: String
    /// Distinguishes the claims of this process from those of others.
    private let process: String
    private var connection: PostgreSQLConnection?

    /// How long the server may take for a statement.
    static let timeout = Duration.seconds(3)
    private static let pageRowCount = 50_000
    private static let version = 1
    /// The lock under which tables are created.
    private static let lockIdentifier: Int64 = 0x4150_4E47

    init(_ address: String, process: String) {
        self.address = address
        self.process = process
    }

    // MARK: Transactions

    private func open() throws -> PostgreSQLConnection {
        if let connection { return connection }
        let opened = try PostgreSQLConnection(self.address, timeout: Self.timeout)
        try self.prepare(opened)
        self.connection = opened
        return opened
    }

    func transaction<Value>(_ body: (PostgreSQLConnection) throws -> Value) throws -> Value {
        do {
            return try self.transaction(on: try self.open(), body)
        } catch {
            let failure = error as? PostgreSQLError
            if failure?.isFinal ?? true { self.connection = nil }
            throw failure.map { TokenTableError($0, of: "the shared database") } ?? error
        }
    }

    private func transaction<Value>(
        on connection: PostgreSQLConnection,
        _ body: (PostgreSQLConnection) throws -> Value
    ) throws -> Value {
        // Less than the time limit of the client, so that a statement is over when it gives up. If this process is
        // suspended, others do not wait for it.
        let limit = Int(Self.timeout * 4 / 5 / .milliseconds(1))
        try connection.execute(
            """
            BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = \(limit / 2); \
            SET LOCAL statement_timeout = \(limit); SET LOCAL idle_in_transaction_session_timeout = \(limit); \
            SELECT \(QueueDatabase.durable)
            """
        )
        do {
            let value = try body(connection)
            try connection.execute("COMMIT")
            return value
        } catch {
            // A connection that is lost has no transaction any more.
            if (error as? PostgreSQLError)?.isFinal != true { try connection.execute("ROLLBACK") }
            throw error
        }
    }

    /// Creates the tables, unless they are there.
    private func prepare(_ connection: PostgreSQLConnection) throws {
        let exists = """
            SELECT EXISTS (SELECT FROM pg_catalog.pg_class
                WHERE relname = 'apns_gateway_store' AND pg_table_is_visible(oid))
            """
        if try !connection.query(exists).isTrue(0, 0) {
            try self.transaction(on: connection) { connection in
                _ = try connection.query("SELECT pg_advisory_xact_lock(\(Self.lockIdentifier))")
                guard try !connection.query(exists).isTrue(0, 0) else { return }
                try connection.execute(Self.schema)
            }
        }
        let found = try connection.query("SELECT max(version)::bigint FROM apns_gateway_store").integer(0, 0)
        guard found == Self.version else {
            throw GatewayStoreError(path: "in PostgreSQL", detail: "another release created it (version \(found))")
        }
    }

    private static let schema = """
        CREATE TABLE apns_gateway_store (version integer NOT NULL);
        CREATE TABLE apns_gateway_resend (
            provider text NOT NULL, response bigint NOT NULL, place bigint NOT NULL,
            key bytea NOT NULL, content bytea, lifetime bigint,
            until timestamptz NOT NULL, claim text,
            PRIMARY KEY (provider, response, place)
        );
        CREATE INDEX apns_gateway_resend_key ON apns_gateway_resend (provider, key);
        CREATE INDEX apns_gateway_resend_until ON apns_gateway_resend (until);
        CREATE TABLE apns_gateway_feedback (
            topic text NOT NULL, environment text NOT NULL CHECK (environment IN ('production', 'sandbox')),
            token bytea NOT NULL, failed_at bigint NOT NULL, changed_in xid8 NOT NULL DEFAULT pg_current_xact_id(),
            PRIMARY KEY (topic, environment, token)
        );
        CREATE INDEX apns_gateway_feedback_changed_in ON apns_gateway_feedback (changed_in);
        INSERT INTO apns_gateway_store VALUES (\(version))
        """

    // MARK: Changes

    /// Carries out changes and adds dead tokens, in one transaction.
    ///
    /// Returns the answers by the numbers of the changes, as far as they are more than "done".
    func apply(
        _ entries: [SharedStoreQueue.Entry],
        _ dead: (tokens: [FeedbackPage.Bucket], list: TokenScope)?
    ) throws -> [UInt64: SharedStoreQueue.Answer] {
        try self.transaction { connection in
            var answers: [UInt64: SharedStoreQueue.Answer] = [:]
            try self.expect(entries, connection)
            for entry in entries {
                guard case .discard(let response, let provider, _) = entry.change else { continue }
                let sql = "DELETE FROM apns_gateway_resend WHERE provider = $1 AND response = $2::bigint"
                _ = try connection.query(sql, [provider, "\(response)"])
            }
            for number in try self.claim(entries, connection) { answers[number] = .absent }
            if let dead { try self.put(dead.tokens, in: dead.list, connection) }
            for entry in entries {
                if case .remove(let tokens, let list) = entry.change { try self.remove(tokens, in: list, connection) }
            }
            // What is read is as it is after all changes.
            var resends: [String: [ExpectedResend]] = [:]
            for entry in entries {
                switch entry.change {
                case .load(let provider):
                    let found = try resends[provider] ?? self.resends(of: provider, connection)
                    resends[provider] = found
                    answers[entry.number] = .resends(found)
                case .list(let list): answers[entry.number] = .list(try self.tokens(of: list, connection))
                case .expect, .discard, .claim, .remove: break
                }
            }
            return answers
        }
    }

    // MARK: Expected resends

    private func expect(_ entries: [SharedStoreQueue.Entry], _ connection: PostgreSQLConnection) throws {
        var rows: [(provider: String, place: ExpectedResend.Place, resend: ExpectedResend, seconds: Double)] = []
        for entry in entries {
            guard case .expect(let resends, let provider, let duration) = entry.change else { continue }
            // A provider's resends have places, which make their rows unique, so that trying again adds none.
            for resend in resends {
                guard let place = resend.place else { continue }
                rows.append((provider, place, resend, duration / .seconds(1)))
            }
        }
        guard !rows.isEmpty else { return }
        _ = try connection.query(
            """
            INSERT INTO apns_gateway_resend (provider, response, place, key, content, lifetime, until)
            SELECT provider, response, place, key, content, lifetime,
                clock_timestamp() + make_interval(secs => seconds)
            FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[], $5::bytea[], $6::bigint[],
                $7::double precision[]) AS r (provider, response, place, key, content, lifetime, seconds)
            ON CONFLICT DO NOTHING
            """,
            [
                PostgreSQLArray.text(of: rows.lazy.map(\.provider)),
                PostgreSQLArray.text(of: rows.lazy.map(\.place.response)),
                PostgreSQLArray.text(of: rows.lazy.map(\.place.index)),
                PostgreSQLArray.text(of: rows.lazy.map { $0.resend.key.literal }),
                PostgreSQLArray.text(of: rows.lazy.map { $0.resend.lifetime?.content.literal }),
                PostgreSQLArray.text(of: rows.lazy.map { $0.resend.lifetime.map { "\($0.milliseconds)" } }),
                PostgreSQLArray.text(of: rows.lazy.map { "\($0.seconds)" }),
            ]
        )
    }

    /// Claims resends; those in the same place first, then others with the same key.
    ///
    /// Returns the numbers of the changes that found nothing. A claim that is tried again finds itself.
    private func claim(
        _ entries: [SharedStoreQueue.Entry],
        _ connection: PostgreSQLConnection
    ) throws -> [UInt64] {
        let claims = entries.compactMap { entry -> (number: UInt64, resend: ExpectedResend, provider: String)? in
            guard case .claim(let resend, let provider) = entry.change else { return nil }
            return (entry.number, resend, provider)
        }
        guard !claims.isEmpty else { return [] }
        func name(_ number: UInt64) -> String { "\(self.process).\(number)" }
        let places = claims.filter { $0.resend.place != nil }
        let claimed = try connection.query(
            """
            WITH wanted AS (
                SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[])
                    AS w (provider, response, place, claim)
            ), locked AS (
                SELECT r.provider, r.response, r.place, w.claim FROM apns_gateway_resend AS r
                    JOIN wanted AS w USING (provider, response, place)
                WHERE r.until >= clock_timestamp() AND (r.claim IS NULL OR r.claim = w.claim)
                ORDER BY r.provider, r.response, r.place FOR UPDATE OF r
            )
            UPDATE apns_gateway_resend AS r SET claim = l.claim FROM locked AS l
            WHERE (r.provider, r.response, r.place) = (l.provider, l.response, l.place)
            RETURNING r.claim
            """,
            [
                PostgreSQLArray.text(of: places.lazy.map(\.provider)),
                PostgreSQLArray.text(of: places.lazy.map { $0.resend.place?.response ?? 0 }),
                PostgreSQLArray.text(of: places.lazy.map { $0.resend.place?.index ?? 0 }),
                PostgreSQLArray.text(of: places.lazy.map { name($0.number) }),
            ]
        )
        let found = Set((0..<claimed.count).compactMap { claimed.text($0, 0) })
        return try claims.filter { claim in
            guard !found.contains(name(claim.number)) else { return false }
            let other = try connection.query(
                """
                UPDATE apns_gateway_resend SET claim = $3 WHERE (provider, response, place) = (
                    SELECT provider, response, place FROM apns_gateway_resend
                    WHERE provider = $1 AND key = $2::bytea AND until >= clock_timestamp()
                        AND (claim IS NULL OR claim = $3)
                    ORDER BY claim NULLS LAST, response, place LIMIT 1 FOR UPDATE SKIP LOCKED
                )
                """,
                [claim.provider, claim.resend.key.literal, name(claim.number)]
            )
            return other.changedCount == 0
        }.map(\.number)
    }

    private func resends(of provider: String, _ connection: PostgreSQLConnection) throws -> [ExpectedResend] {
        let rows = try connection.query(
            """
            SELECT key, content, lifetime, response, place FROM apns_gateway_resend
            WHERE provider = $1 AND claim IS NULL AND until >= clock_timestamp() ORDER BY response, place
            """,
            [provider]
        )
        return (0..<rows.count).compactMap { row in
            guard let key = unsafe ResendKey(bytes: Array(rows.bytes(row, 0))) else { return nil }
            let place = ExpectedResend.Place(response: rows.integer(row, 3), index: rows.integer(row, 4))
            var resend = ExpectedResend(key: key, place: place)
            if !rows.isNull(row, 2), let content = unsafe ResendKey(bytes: Array(rows.bytes(row, 1))) {
                resend.lifetime = ExpectedResend.Lifetime(content: content, milliseconds: rows.integer(row, 2))
            }
            return resend
        }
    }

    /// Removes resends that are not expected any more.
    func expire() throws {
        try self.transaction { connection in
            _ = try connection.query("DELETE FROM apns_gateway_resend WHERE until < clock_timestamp()")
        }
    }

    // MARK: Dead tokens

    private func put(
        _ tokens: [FeedbackPage.Bucket],
        in list: TokenScope,
        _ connection: PostgreSQLConnection
    ) throws {
        let rows = tokens.joined()
        _ = try connection.query(
            """
            INSERT INTO apns_gateway_feedback AS f (topic, environment, token, failed_at)
            SELECT $1, $2, token, failed_at FROM unnest($3::bytea[], $4::bigint[]) AS d (token, failed_at)
            ORDER BY token
            ON CONFLICT (topic, environment, token) DO UPDATE
                SET failed_at = EXCLUDED.failed_at, changed_in = EXCLUDED.changed_in
                WHERE EXCLUDED.failed_at > f.failed_at
            """,
            [
                list.topic, list.environment.rawValue, PostgreSQLArray.text(of: rows.lazy.map { $0.key.literal }),
                PostgreSQLArray.text(of: rows.lazy.map { Int64($0.value) }),
            ]
        )
    }

    private func remove(
        _ tokens: FeedbackPage.Bucket,
        in list: TokenScope,
        _ connection: PostgreSQLConnection
    ) throws {
        _ = try connection.query(
            """
            DELETE FROM apns_gateway_feedback AS f USING unnest($3::bytea[], $4::bigint[]) AS d (token, failed_at)
            WHERE f.topic = $1 AND f.environment = $2 AND f.token = d.token AND f.failed_at <= d.failed_at
            """,
            [
                list.topic, list.environment.rawValue, PostgreSQLArray.text(of: tokens.lazy.map { $0.key.literal }),
                PostgreSQLArray.text(of: tokens.lazy.map { Int64($0.value) }),
            ]
        )
    }

    private func tokens(of list: TokenScope, _ connection: PostgreSQLConnection) throws -> FeedbackBuckets {
        var tokens = FeedbackBuckets()
        var last = "\\x"
        while true {
            let rows = try connection.query(
                """
                SELECT token, failed_at FROM apns_gateway_feedback
                WHERE topic = $1 AND environment = $2 AND token > $3::bytea ORDER BY token LIMIT \(Self.pageRowCount)
                """,
                [list.topic, list.environment.rawValue, last]
            )
            for row in 0..<rows.count {
                guard let (token, time) = Self.token(rows, row) else { continue }
                tokens[token] = time
            }
            guard rows.count == Self.pageRowCount else { return tokens }
            last = unsafe PostgreSQLArray.bytes(rows.bytes(rows.count - 1, 0))
        }
    }

    /// Reads the dead tokens that were added or changed since a transaction, and passes the transaction from which on
    /// to read the next time.
    func changes(
        since mark: String,
        _ body: (DeviceToken, UInt32, TokenScope) -> Void
    ) throws -> (mark: String, isLast: Bool) {
        try self.transaction { connection in
            // Rows of transactions from this one on may still be missing. After the database was moved to another
            // server, all are read again.
            let ended = "pg_snapshot_xmin(pg_current_snapshot())"
            let begin = try connection.query(
                "SELECT \(ended)::text, CASE WHEN $1::xid8 > \(ended) THEN '0' ELSE $1 END",
                [mark]
            )
            let rows = try connection.query(
                """
                SELECT token, failed_at, topic, environment, changed_in::text FROM apns_gateway_feedback
                WHERE changed_in >= $1::xid8 ORDER BY changed_in LIMIT \(Self.pageRowCount)
                """,
                [begin.text(0, 1)]
            )
            for row in 0..<rows.count {
                guard let (token, time) = Self.token(rows, row), let topic = rows.text(row, 2),
                    let environment = rows.text(row, 3).flatMap(PushEnvironment.init(rawValue:))
                else { continue }
                body(token, time, TokenScope(topic: topic, environment: environment))
            }
            let isLast = rows.count < Self.pageRowCount
            return ((isLast ? begin.text(0, 0) : rows.text(rows.count - 1, 4)) ?? "0", isLast)
        }
    }

    private static func token(_ rows: PostgreSQLResult, _ row: Int) -> (DeviceToken, UInt32)? {
        guard let token = unsafe try? DeviceToken(bytes: Array(rows.bytes(row, 0))) else { return nil }
        return (token, UInt32(clamping: rows.integer(row, 1)))
    }
}

extension ResendKey {
    fileprivate var literal: String { "\\x" + Hexadecimal.text(self.bytes) }
}

extension DeviceToken {
    fileprivate var literal: String { unsafe self.withUnsafeBytes { unsafe PostgreSQLArray.bytes($0) } }
}
#endif

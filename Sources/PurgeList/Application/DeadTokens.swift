// SPDX-License-Identifier: Apache-2.0

import GRDB
import GRDBSQLite

/// The part of a purge list that is held against a table, as it is at one moment.
struct DeadTokens {
    private enum Matching {
        /// Dead in all of these scopes.
        case all([Int64])
        /// Dead in the scope of the topic that the row names.
        case topicOfRow([String: Int64])
    }

    private let path: String
    private let matching: Matching
    private let filter: TokenFilter
    private let lookUp: Statement

    /// Reads the list through once, for the filter.
    init(_ database: Database, path: String, _ rules: TokenTableRules) throws {
        self.path = path
        let scopes = try Self.scopes(database, rules)
        self.matching =
            if case .column = rules.topic {
                .topicOfRow(Dictionary(uniqueKeysWithValues: scopes.map { ($0.scope.topic, $0.identifier) }))
            } else {
                .all(scopes.map(\.identifier))
            }
        // A token that is dead in all of them is in each, so one is enough for the filter.
        let filtered = rules.topic == .everyTopic ? scopes.prefix(1) : scopes[...]
        let counts = try filtered.map { scope in
            let sql = "SELECT count(*) FROM dead WHERE scope = ?"
            return try Int.fetchOne(database, sql: sql, arguments: [scope.identifier]) ?? 0
        }
        var filter = TokenFilter(entryCount: counts.reduce(0, +))
        let reading = try database.makeStatement(sql: "SELECT token FROM dead WHERE scope = ?1")
        let tokens = reading.sqliteStatement
        for scope in filtered {
            sqlite3_reset(tokens)
            sqlite3_bind_int64(tokens, 1, scope.identifier)
            var code = sqlite3_step(tokens)
            while code == SQLITE_ROW {
                filter.insert(TokenTableRow(statement: tokens).octets(0))
                code = sqlite3_step(tokens)
            }
            guard code == SQLITE_DONE else { throw DatabaseError(failureOf: reading.sqliteStatement) }
        }
        self.filter = filter
        self.lookUp = try database.makeStatement(sql: "SELECT failed_at FROM dead WHERE scope = ?1 AND token = ?2")
    }

    /// The topics of the rules that the list has entries for.
    static func scopes(
        _ database: Database,
        _ rules: TokenTableRules
    ) throws -> [(identifier: Int64, scope: PurgeScope)] {
        var query = PurgeQuery()
        query.environment = rules.environment
        if case .one(let topic) = rules.topic { query.topic = topic }
        let scopes = try PurgeList.scopes(database, matching: query).filter { scope in
            let sql = "SELECT EXISTS (SELECT 1 FROM dead WHERE scope = ?)"
            return try Bool.fetchOne(database, sql: sql, arguments: [scope.identifier]) ?? false
        }
        if rules.topic == .only, scopes.count > 1 {
            throw TokenTableError.severalTopics(scopes.map(\.scope.topic), rules.environment)
        }
        return scopes
    }

    /// When a token failed, as the rules see it; `nil` where it is not dead.
    ///
    /// Of several topics it is the earliest failure: what registered after that is alive in that topic.
    ///
    /// - Parameters:
    ///   - token: the octets.
    ///   - topic: gives the topic of the row; asked only where it matters.
    func failure(of token: UnsafeRawBufferPointer, topic: () -> String?) throws -> Int64? {
        guard self.filter.mayContain(token) else { return nil }
        switch self.matching {
        case .all(let scopes):
            var earliest: Int64?
            for scope in scopes {
                guard let failedAt = try self.find(token, scope) else { return nil }
                earliest = min(earliest ?? failedAt, failedAt)
            }
            return earliest
        case .topicOfRow(let scopes):
            guard let topic = topic(), let scope = scopes[topic] else { return nil }
            return try self.find(token, scope)
        }
    }

    private func find(_ token: UnsafeRawBufferPointer, _ scope: Int64) throws -> Int64? {
        let handle = self.lookUp.sqliteStatement
        sqlite3_bind_int64(handle, 1, scope)
        sqlite3_bind_blob(handle, 2, token.baseAddress, Int32(token.count), nil)
        defer {
            sqlite3_reset(handle)
            // The octets may be gone by the next look.
            sqlite3_clear_bindings(handle)
        }
        let code = sqlite3_step(handle)
        if code == SQLITE_DONE { return nil }
        guard code == SQLITE_ROW else { throw PurgeListError(DatabaseError(failureOf: handle), path: self.path) }
        return sqlite3_column_int64(handle, 0)
    }
}

extension DatabaseError {
    /// What SQLite says of a statement that failed; without its text and arguments, which hold tokens.
    init(failureOf statement: SQLiteStatement) {
        let connection = sqlite3_db_handle(statement)
        self.init(
            resultCode: ResultCode(rawValue: sqlite3_extended_errcode(connection)),
            message: String(cString: sqlite3_errmsg(connection))
        )
    }
}

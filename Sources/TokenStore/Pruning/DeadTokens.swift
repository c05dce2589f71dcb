// SPDX-License-Identifier: Apache-2.0

import APNSWire
import GRDB
import Glibc

/// The part of a purge list that is compared with a table, in one transaction.
struct DeadTokens {
    private let path: String
    private let rules: TokenTableRules
    private let scopes: [(identifier: Int64, scope: TokenScope)]
    /// The scopes ordered by the bytes of their topics.
    private let topics: [(bytes: [UInt8], scope: Int64)]
    private let filter: PurgeFilter
    private let lookUp: PurgeStatement
    private let details: PurgeStatement

    /// Reads the whole list once for the filter.
    init(_ database: Database, path: String, _ rules: TokenTableRules) throws {
        self.path = path
        self.rules = rules
        self.scopes = try Self.scopes(database, rules)
        self.topics = self.scopes.map { (Array($0.scope.topic.utf8), $0.identifier) }
            .sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
        // A token that is dead in all topics is in each, so one topic is enough for the filter.
        let filtered = rules.topic.isEveryTopic ? self.scopes.prefix(1) : self.scopes[...]
        self.filter = try PurgeFilter(database, scopes: filtered.map(\.identifier))
        self.lookUp = try PurgeStatement(database, sql: "SELECT failed_at FROM dead WHERE scope = ?1 AND token = ?2")
        self.details = try PurgeStatement(
            database,
            sql: "SELECT token, failed_at FROM dead WHERE scope = ?1 AND token > ?2 ORDER BY token"
        )
    }

    /// Returns the scopes of the rules' topics, without those that have no entries and no influence.
    private static func scopes(
        _ database: Database,
        _ rules: TokenTableRules
    ) throws -> [(identifier: Int64, scope: TokenScope)] {
        var query = PurgeQuery()
        query.environment = rules.environment
        if case .one(let topic) = rules.topic { query.topic = topic }
        let known = try PurgeList.scopes(database, matching: query)
        if case .everyTopic(let topics) = rules.topic { return try self.all(topics, of: known, rules.environment) }
        let scopes = try known.filter { scope in
            let sql = "SELECT EXISTS (SELECT 1 FROM dead WHERE scope = ?)"
            return try Bool.fetchOne(database, sql: sql, arguments: [scope.identifier]) ?? false
        }
        if rules.topic == .only, scopes.count > 1 {
            throw TokenTableError.severalTopics(scopes.map(\.scope.topic), rules.environment)
        }
        return scopes
    }

    /// Returns the scopes in which a token must be dead, including those without entries, in which nothing is dead.
    private static func all(
        _ topics: [String],
        of known: [(identifier: Int64, scope: TokenScope)],
        _ environment: Environment
    ) throws -> [(identifier: Int64, scope: TokenScope)] {
        let names = Set(topics.map(PurgeName.init))
        let missing = names.subtracting(known.map { PurgeName($0.scope.topic) }).map(\.text).sorted()
        guard missing.isEmpty else {
            throw TokenTableError.unknownTopics(missing, environment, found: known.map(\.scope.topic))
        }
        let scopes = known.filter { names.isEmpty || names.contains(PurgeName($0.scope.topic)) }
        guard scopes.count >= 2 else { throw TokenTableError.fewTopics(scopes.map(\.scope.topic), environment) }
        return scopes
    }

    /// Returns the scope of a row's topic; `nil` if nothing is dead in it.
    func scope(ofTopic topic: UnsafeRawBufferPointer) -> Int64? {
        var (first, end) = (0, self.topics.count)
        while first < end {
            let middle = (first + end) / 2
            let order = unsafe self.topics[middle].bytes.withUnsafeBytes { unsafe Self.order($0, topic) }
            if order == 0 { return self.topics[middle].scope }
            if order < 0 { first = middle + 1 } else { end = middle }
        }
        return nil
    }

    /// Compares bytes: negative, zero or positive.
    private static func order(_ one: UnsafeRawBufferPointer, _ other: UnsafeRawBufferPointer) -> Int {
        guard let start = one.baseAddress, let otherStart = other.baseAddress else { return one.count - other.count }
        let order = unsafe memcmp(start, otherStart, min(one.count, other.count))
        return order == 0 ? one.count - other.count : Int(order)
    }

    /// Returns when a token failed by the rules; `nil` if it is not dead.
    ///
    /// The scope is that of the row's topic, if the rules use a column.
    func failure(of token: UnsafeRawBufferPointer, in scope: Int64?) throws -> Int64? {
        guard unsafe self.filter.mayContain(token) else { return nil }
        guard case .column = self.rules.topic else { return try unsafe self.earliestFailure(of: token) }
        guard let scope else { return nil }
        return try unsafe self.find(token, scope)
    }

    /// Returns the earliest failure if a token is dead in every topic; a later registration is alive in one of them.
    private func earliestFailure(of token: UnsafeRawBufferPointer) throws -> Int64? {
        var earliest: Int64?
        for scope in self.scopes {
            guard let failedAt = try unsafe self.find(token, scope.identifier) else { return nil }
            earliest = min(earliest ?? failedAt, failedAt)
        }
        return earliest
    }

    private func find(_ token: UnsafeRawBufferPointer, _ scope: Int64) throws -> Int64? {
        try PurgeListError.translated(path: self.path) {
            var failedAt: Int64?
            self.lookUp.bind(scope, at: 1)
            unsafe self.lookUp.bind(token, at: 2)
            try self.lookUp.forEachRow { row in
                failedAt = try PurgeLimits.checked(time: row.integer(0))
                return false
            }
            return failedAt
        }
    }

    /// The position of a token in the order of topics and bytes.
    struct Position {
        fileprivate var scopeIndex = 0
        /// Before all tokens.
        fileprivate var token: [UInt8] = []
    }

    /// Reads the next tokens that are dead by the rules, ordered by topic and bytes.
    ///
    /// - Returns: this many tokens, or fewer at the end.
    func page(after position: inout Position, countMax: Int) throws -> [DeadToken] {
        let isEveryTopic = self.rules.topic.isEveryTopic
        let scopes = isEveryTopic ? self.scopes.prefix(1) : self.scopes[...]
        var page: [DeadToken] = []
        while position.scopeIndex < scopes.count {
            let (identifier, scope) = scopes[position.scopeIndex]
            try unsafe position.token.withUnsafeBytes { token in
                self.details.bind(identifier, at: 1)
                unsafe self.details.bind(token, at: 2)
                try self.details.forEachRow { row in
                    let bytes = unsafe row.bytes(0)
                    let time = row.integer(1)
                    let failedAt =
                        try unsafe isEveryTopic ? self.earliestFailure(of: bytes) : PurgeLimits.checked(time: time)
                    guard let failedAt else { return true }
                    unsafe page.append(DeadToken(scope: scope, bytes: Array(bytes), failedAt: failedAt))
                    return page.count < countMax
                }
            }
            if page.count >= countMax, let last = page.last {
                position.token = last.bytes
                return page
            }
            position = Position(scopeIndex: position.scopeIndex + 1)
        }
        return page
    }
}

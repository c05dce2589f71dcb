// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Glibc

/// The part of a purge list that is compared with a table, in one transaction.
struct DeadTokens {
    private let path: String
    private let rules: TokenTableRules
    private let scopes: [PurgeScope]
    /// The indices of the scopes, ordered by the bytes of their topics.
    private let topics: [(bytes: [UInt8], scope: Int)]
    private let filter: PurgeFilter
    private let rows: any PurgeRowReader

    /// Reads and verifies the list of these topics once.
    init(_ content: PurgeContent, path: String, _ rules: TokenTableRules) throws {
        self.path = path
        self.rules = rules
        let scopes = try Self.scopes(content.scopes, rules)
        self.scopes = scopes
        self.topics = scopes.enumerated().map { (Array($0.element.scope.topic.utf8), $0.offset) }
            .sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
        self.rows = content.dead
        // A token that is dead in all topics is in each, so one topic is enough for the filter.
        let filtered = rules.topic.isEveryTopic ? scopes.prefix(1) : scopes[...]
        self.filter = try PurgeFilter(content, Array(filtered), path: path)
        for scope in scopes.dropFirst(filtered.count) { try unsafe self.rows.forEach(in: scope) { _, _ in true } }
    }

    /// Returns the scopes of the rules' topics, without those that have no entries and no influence.
    private static func scopes(
        _ known: PurgeScopes,
        _ rules: TokenTableRules
    ) throws -> [PurgeScope] {
        var query = PurgeQuery()
        query.environment = rules.environment
        if case .one(let topic) = rules.topic { query.topic = topic }
        let matching = known.matching(query)
        if case .everyTopic(let topics) = rules.topic { return try self.all(topics, of: matching, rules.environment) }
        let scopes = try matching.filter { try known.entryCount($0) > 0 }
        if rules.topic == .only, scopes.count > 1 {
            throw TokenTableError.severalTopics(scopes.map(\.scope.topic), rules.environment)
        }
        return scopes
    }

    /// Returns the scopes in which a token must be dead, including those without entries, in which nothing is dead.
    private static func all(
        _ topics: [String],
        of known: [PurgeScope],
        _ environment: PushEnvironment
    ) throws -> [PurgeScope] {
        let names = Set(topics.map(PurgeName.init))
        let missing = names.subtracting(known.map { PurgeName($0.scope.topic) }).map(\.text).sorted()
        guard missing.isEmpty else {
            throw TokenTableError.unknownTopics(missing, environment, found: known.map(\.scope.topic))
        }
        let scopes = known.filter { names.isEmpty || names.contains(PurgeName($0.scope.topic)) }
        guard scopes.count >= 2 else { throw TokenTableError.fewTopics(scopes.map(\.scope.topic), environment) }
        return scopes
    }

    /// Returns the index of the scope of a row's topic; `nil` if nothing is dead in it.
    func scope(ofTopic topic: UnsafeRawBufferPointer) -> Int? {
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
    func failure(of token: UnsafeRawBufferPointer, in scope: Int?) throws -> Int64? {
        guard unsafe self.filter.mayContain(token) else { return nil }
        guard case .column = self.rules.topic else { return try unsafe self.earliestFailure(of: token) }
        guard let scope else { return nil }
        return try unsafe self.find(token, self.scopes[scope])
    }

    /// Returns the earliest failure if a token is dead in every topic; a later registration is alive in one of them.
    private func earliestFailure(of token: UnsafeRawBufferPointer) throws -> Int64? {
        var earliest: Int64?
        for scope in self.scopes {
            guard let failedAt = try unsafe self.find(token, scope) else { return nil }
            earliest = min(earliest ?? failedAt, failedAt)
        }
        return earliest
    }

    private func find(_ token: UnsafeRawBufferPointer, _ scope: PurgeScope) throws -> Int64? {
        try PurgeListError.translated(path: self.path) { try unsafe self.rows.find(token, in: scope)?.time }
    }

    /// The position of a token in the order of topics and bytes.
    struct Position {
        fileprivate var scopeIndex = 0
        /// Before all tokens.
        fileprivate var token: [UInt8] = []
    }

    /// Reads the next tokens that are dead by the rules, ordered by topic and bytes.
    ///
    /// Returns this many tokens, or fewer at the end.
    func page(after position: inout Position, countMax: Int) throws -> [DeadToken] {
        let isEveryTopic = self.rules.topic.isEveryTopic
        let scopes = isEveryTopic ? self.scopes.prefix(1) : self.scopes[...]
        var page: [DeadToken] = []
        while position.scopeIndex < scopes.count {
            let scope = scopes[position.scopeIndex]
            try unsafe self.rows.forEach(in: scope, after: position.token) { token, row in
                let failedAt = try unsafe isEveryTopic ? self.earliestFailure(of: token) : row.time
                guard let failedAt else { return true }
                unsafe page.append(DeadToken(scope: scope.scope, bytes: Array(token), failedAtSeconds: failedAt))
                return page.count < countMax
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

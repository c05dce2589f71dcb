// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// Writes statements that prune a token table of another database, in transactions of limited size.
///
/// Each token has its own time of failure, so that no row is pruned that registered later. Registrations before 2008
/// are not times: zero or a distant date for never, or a time in another unit. No value of the list can end a literal:
/// tokens are digits and letters, times are numbers or digits with `-`, `:` and a space, and a topic with anything but
/// letters, digits, `.`, `-` and `_` is omitted and counted.
public struct PruneScript: Hashable, Sendable {
    /// The type of the registration column.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Clock: String, Hashable, Sendable, CaseIterable {
        /// A timestamp of the database, compared in UTC.
        case timestamp
        /// In seconds since 1970.
        case seconds
        /// In milliseconds since 1970.
        case milliseconds
    }

    /// What was written.
    public struct Counts: Hashable, Sendable {
        /// The number of tokens in the statements.
        public var tokenCount = 0
        /// The number of transactions.
        public var batchCount = 0
        /// The number of tokens omitted because their topics cannot be in a literal.
        public var skippedCount = 0

        /// Creates zero counts.
        public init() {}
    }

    /// The maximum number of tokens per transaction; databases limit the nesting of conditions.
    public static let batchTokenCountMax = 500

    /// The SQL dialect.
    public var dialect: SQLDialect
    /// The table, with or without schema names and periods before it.
    public var table: String
    /// The column of the tokens.
    public var tokenColumn: String
    /// The rules for due rows.
    public var rules: TokenTableRules
    /// The format of the tokens in the table; by default lower-case hexadecimal digits.
    public var literal = TokenLiteral.hexadecimal
    /// The type of the registration column; by default a timestamp.
    public var clock = Clock.timestamp
    /// The value that marks a row inactive: `0` or `FALSE`; by default that of the dialect.
    public var inactiveValue: InactiveValue?
    /// The number of tokens per transaction, 1 to 500; by default 500.
    public var batchTokenCount = PruneScript.batchTokenCountMax

    /// The value that marks a row inactive.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum InactiveValue: String, Hashable, Sendable, CaseIterable {
        /// A number.
        case zero = "0"
        /// A Boolean.
        case no = "false"
    }

    /// Creates a script with defaults.
    ///
    /// - Parameters:
    ///   - dialect: the SQL dialect.
    ///   - table: the table.
    ///   - tokenColumn: the column of the tokens.
    ///   - rules: the rules for due rows.
    public init(dialect: SQLDialect, table: String, tokenColumn: String, rules: TokenTableRules) {
        self.dialect = dialect
        self.table = table
        self.tokenColumn = tokenColumn
        self.rules = rules
    }

    /// Writes the statements for all tokens that are dead by the rules.
    ///
    /// - Parameters:
    ///   - list: the purge list.
    ///   - write: receives one transaction at a time.
    /// - Returns: the counts.
    /// - Throws: ``PurgeListError``, ``TokenTableError``, and errors of `write`.
    public func write(_ list: PurgeList, _ write: (String) throws -> Void) throws -> Counts {
        let frame = try Frame(self)
        var counts = Counts()
        var batch: [DeadToken] = []
        func finish() throws {
            guard !batch.isEmpty else { return }
            let session = counts.batchCount == 0 ? frame.session.map { $0 + "\n" } : nil
            try write((session ?? "") + frame.transaction(self.conditions(batch, frame)))
            counts.batchCount += 1
            batch.removeAll(keepingCapacity: true)
        }
        try list.deadTokens(self.rules) { token in
            if case .column = self.rules.topic, !Self.isFit(topic: token.scope.topic) {
                counts.skippedCount += 1
                return
            }
            batch.append(token)
            counts.tokenCount += 1
            if batch.count >= self.batchTokenCount { try finish() }
        }
        try finish()
        return counts
    }

    /// The constant parts of all transactions.
    private struct Frame {
        let session: String?
        let head: String
        let tail: String
        let token: String
        let registration: String?
        let topic: String?

        init(_ script: PruneScript) throws {
            func quoted(_ name: String) throws -> String {
                guard SQLName.isFit(name) else { throw TokenTableError.name(name) }
                return script.dialect.identifier(name)
            }
            let parts = script.table.split(separator: ".", omittingEmptySubsequences: false)
            let table = try parts.map { try quoted(String($0)) }.joined(separator: ".")
            self.token = try quoted(script.tokenColumn)
            self.registration = try script.rules.registration.column.map(quoted)
            self.topic = try script.rules.topic.column.map(quoted)
            let needsUTC = self.registration != nil && script.clock == .timestamp
            self.session = needsUTC ? script.dialect.utc.session : nil
            var lines = [script.dialect.begin]
            if needsUTC, let utc = script.dialect.utc.transaction { lines.append(utc) }
            switch script.rules.action {
            case .delete: lines.append("DELETE FROM \(table) WHERE")
            case .deactivate(let column):
                let value = script.inactiveValue?.rawValue.uppercased() ?? script.dialect.inactive
                lines.append("UPDATE \(table) SET \(try quoted(column)) = \(value) WHERE")
            }
            if let registration = self.registration {
                let earliest = script.moment(RegistrationTime.plausible.lowerBound)
                lines[lines.count - 1] += " \(registration) >= \(earliest) AND ("
            }
            self.head = lines.joined(separator: "\n") + "\n"
            self.tail = (self.registration == nil ? "" : "\n)") + ";\nCOMMIT;\n"
        }

        func transaction(_ conditions: String) -> String { self.head + conditions + self.tail }
    }

    private struct Group: Hashable {
        let topic: String
        let failedAt: Int64
    }

    /// Returns the conditions of tokens, grouped by the second of failure.
    private func conditions(_ batch: [DeadToken], _ frame: Frame) -> String {
        let groups = Dictionary(grouping: batch) { token in
            Group(
                topic: frame.topic == nil ? "" : token.scope.topic,
                failedAt: frame.registration == nil ? 0 : token.failedAtSeconds
            )
        }
        let ordered = groups.sorted { ($0.key.topic, $0.key.failedAt) < ($1.key.topic, $1.key.failedAt) }
        return ordered.map { group, tokens in
            let literals = tokens.map { self.literal.text($0.bytes, self.dialect) }
            var terms = [
                literals.count == 1
                    ? "\(frame.token) = \(literals[0])" : "\(frame.token) IN (\(literals.joined(separator: ", ")))"
            ]
            if let topic = frame.topic { terms.append("\(topic) = '\(group.topic)'") }
            if let registration = frame.registration {
                terms.append("\(registration) < \(self.moment(group.failedAt - self.rules.graceSecondCount))")
            }
            return "(" + terms.joined(separator: " AND ") + ")"
        }.joined(separator: "\nOR ")
    }

    private func moment(_ seconds: Int64) -> String {
        switch self.clock {
        case .seconds: "\(seconds)"
        case .milliseconds: "\(seconds * 1000)"
        case .timestamp: "TIMESTAMP '\(ISO8601Time.unzonedText(seconds))'"
        }
    }

    /// Whether a topic can be in a literal of any database: only characters of bundle identifiers.
    private static func isFit(topic: String) -> Bool {
        topic.utf8.allSatisfy { SQLName.isAlphanumeric($0) || ".-_".utf8.contains($0) }
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSWire

/// Statements that prune a token table of another database, in transactions of a bounded number of tokens.
///
/// Each token comes with its own time of failure, so that no row goes that registered after it. A registration before
/// 2008 is none: zero or a distant date for never, or a time in another unit. Nothing of the list can
/// end a literal: tokens are digits and letters, times are numbers or digits with `-`, `:` and a space, and a topic
/// that has anything but letters, digits, `.`, `-` and `_` is left out and counted.
public struct PruneScript: Hashable, Sendable {
    /// How the column of registrations holds its times.
    ///
    /// There may be more in later versions.
    @nonexhaustive
    public enum Clock: String, Hashable, Sendable, CaseIterable {
        /// As a moment of the database, which is compared in UTC.
        case timestamp
        /// In seconds since 1970.
        case seconds
        /// In milliseconds since 1970.
        case milliseconds
    }

    /// What was written.
    public struct Counts: Hashable, Sendable {
        /// Tokens in the statements.
        public var tokenCount = 0
        /// Transactions.
        public var batchCount = 0
        /// Tokens left out, since their topic cannot stand in a literal.
        public var skippedCount = 0

        /// Nothing.
        public init() {}
    }

    /// The most tokens of a transaction; databases bound how deep a condition may be nested.
    public static let batchTokenCountMax = 500

    /// The database.
    public var dialect: SQLDialect
    /// The table, with the names of schemas before it and points between them, or not.
    public var table: String
    /// The column with the tokens.
    public var tokenColumn: String
    /// What makes a row due.
    public var rules: TokenTableRules
    /// How the tokens stand in the table; the default is lower-case hexadecimal digits.
    public var literal = TokenLiteral.hexadecimal
    /// How the times of registration stand in the table; the default is a timestamp.
    public var clock = Clock.timestamp
    /// What an inactive row has in its column: `0`, `FALSE`; by default as the database likes it.
    public var inactiveValue: InactiveValue?
    /// The tokens of a transaction, 1 to 500; the default is 500.
    public var batchTokenCount = PruneScript.batchTokenCountMax

    /// What an inactive row has in its column.
    ///
    /// There may be more in later versions.
    @nonexhaustive
    public enum InactiveValue: String, Hashable, Sendable, CaseIterable {
        /// A number.
        case zero = "0"
        /// A truth value.
        case no = "false"
    }

    /// Makes a script with defaults.
    ///
    /// - Parameters:
    ///   - dialect: the database.
    ///   - table: the table.
    ///   - tokenColumn: the column with the tokens.
    ///   - rules: what makes a row due.
    public init(dialect: SQLDialect, table: String, tokenColumn: String, rules: TokenTableRules) {
        self.dialect = dialect
        self.table = table
        self.tokenColumn = tokenColumn
        self.rules = rules
    }

    /// Writes the statements for all of a list that the rules mean.
    ///
    /// - Parameters:
    ///   - list: the purge list.
    ///   - write: is given one transaction after the other.
    /// - Returns: what was written.
    /// - Throws: ``PurgeListError``, ``TokenTableError``, and what `write` throws.
    public func write(_ list: PurgeList, _ write: (String) throws -> Void) throws -> Counts {
        let frame = try Frame(self)
        var counts = Counts()
        var batch: [DeadToken] = []
        func finish() throws {
            guard !batch.isEmpty else { return }
            if counts.batchCount == 0, let session = frame.session { try write(session + "\n") }
            try write(frame.transaction(self.conditions(batch, frame)))
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

    /// What stays the same from one transaction to the next.
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
            switch script.rules.registration {
            case .registered(let column), .created(let column): self.registration = try quoted(column)
            case .ignored: self.registration = nil
            }
            if case .column(let column) = script.rules.topic {
                self.topic = try quoted(column)
            } else {
                self.topic = nil
            }
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

    /// The conditions of the tokens, those together that failed in the same second.
    private func conditions(_ batch: [DeadToken], _ frame: Frame) -> String {
        let groups = Dictionary(grouping: batch) { token in
            Group(
                topic: frame.topic == nil ? "" : token.scope.topic,
                failedAt: frame.registration == nil ? 0 : token.failedAt
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

    /// Whether a topic can stand in a literal of any database: what bundle identifiers are made of.
    private static func isFit(topic: String) -> Bool {
        topic.utf8.allSatisfy { byte in
            (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
                || byte == UInt8(ascii: ".") || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
        }
    }
}

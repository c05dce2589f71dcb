// SPDX-License-Identifier: Apache-2.0

import GRDB

/// A validated token table in the database of an application.
struct TokenTable {
    /// The quoted name.
    let name: String
    /// The key columns: the row number, or the primary key of a table without one.
    let keys: [String]
    let hasRowNumbers: Bool
    let token: String
    let registration: String?
    let topic: String?
    let active: String?

    /// Inspects the table without changes.
    init(_ database: Database, table: String, tokenColumn: String, _ rules: TokenTableRules) throws {
        let name = try Self.name(of: table, database)
        let sql = "SELECT name, hidden, pk FROM pragma_table_xinfo(?)"
        let rows = try Row.fetchAll(database, sql: sql, arguments: [name])
        let columns = rows.map { Column(name: $0[0], isGenerated: $0[1] as Int >= 2, keyPosition: $0[2]) }
        func quoted(_ column: String) throws -> String {
            guard let index = SQLName.index(of: column, in: columns.map(\.name)) else {
                throw TokenTableError.missingColumn(column, table: name, found: columns.map(\.name))
            }
            return SQLName.quoted(columns[index].name)
        }
        self.name = "main." + SQLName.quoted(name)
        self.token = try quoted(tokenColumn)
        self.registration = try rules.registration.column.map(quoted)
        self.topic = try rules.topic.column.map(quoted)
        self.active = try rules.action.column.map(quoted)
        if let column = rules.action.column, let active = self.active {
            if columns.contains(where: { $0.isGenerated && SQLName.quoted($0.name) == active }) {
                throw TokenTableError.generatedColumn(column, table: name)
            }
            guard ![self.token, self.registration, self.topic].contains(active) else {
                throw TokenTableError.takenColumn(column)
            }
        }
        let rowNumber = ["rowid", "_rowid_", "oid"].first { SQLName.index(of: $0, in: columns.map(\.name)) == nil }
        self.hasRowNumbers = try Self.hasRowNumbers(name, database)
        if self.hasRowNumbers {
            guard let rowNumber else { throw TokenTableError.hiddenRowNumber(table: name) }
            self.keys = [rowNumber]
        } else {
            let keys = columns.filter { $0.keyPosition > 0 }.sorted { $0.keyPosition < $1.keyPosition }
            self.keys = keys.map { SQLName.quoted($0.name) }
        }
    }

    private struct Column {
        let name: String
        let isGenerated: Bool
        let keyPosition: Int
    }

    /// Finds the name as spelled in the database.
    private static func name(of table: String, _ database: Database) throws -> String {
        let rows = try Row.fetchAll(
            database,
            sql: "SELECT name, type, coalesce(sql, '') FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
        )
        let names = rows.map { $0[0] as String }
        guard let index = SQLName.index(of: table, in: names) else {
            throw TokenTableError.missingTable(table, found: names.filter { !$0.hasPrefix("sqlite_") })
        }
        let row = rows[index]
        let name = names[index]
        if row[1] == "view" { throw TokenTableError.notATable(name, kind: "view") }
        if (row[2] as String).lowercased().hasPrefix("create virtual") {
            throw TokenTableError.notATable(name, kind: "virtual table")
        }
        return name
    }

    private static func hasRowNumbers(_ name: String, _ database: Database) throws -> Bool {
        let sql = "SELECT wr FROM pragma_table_list(?) WHERE schema = 'main'"
        return try Int.fetchOne(database, sql: sql, arguments: [name]) == 0
    }

    // MARK: Statements

    /// The places of the values in a row of ``portionSQL(isFirst:)``.
    var layout: TokenTableLayout {
        TokenTableLayout(
            name: self.name,
            keyCount: self.keys.count,
            hasRowNumbers: self.hasRowNumbers,
            hasRegistration: self.registration != nil,
            hasTopic: self.topic != nil,
            active: self.active
        )
    }

    /// Returns the query for rows in the order of their keys, after the key in the arguments.
    func portionSQL(isFirst: Bool) -> String {
        let keys = self.keys.joined(separator: ", ")
        let places = self.keys.map { _ in "?" }.joined(separator: ", ")
        let condition = isFirst ? "" : " WHERE (\(keys)) > (\(places))"
        return "SELECT \(self.values) FROM \(self.name)\(condition) ORDER BY \(keys)"
    }

    private var values: String {
        (self.keys + [self.token, self.registration, self.topic, self.active].compactMap { $0 })
            .joined(separator: ", ")
    }

    /// Returns the statement that prunes one row if its token and registration are unchanged.
    ///
    /// The arguments are the key, the token and the registration.
    var pruneSQL: String {
        guard let active = self.active else { return "DELETE FROM \(self.name) WHERE \(self.condition)" }
        return "UPDATE \(self.name) SET \(active) = 0 WHERE \(self.condition)"
    }

    /// Returns the query that finds the same row, with the same arguments.
    var unchangedSQL: String { "SELECT 1 FROM \(self.name) WHERE \(self.condition)" }

    private var condition: String {
        let same = (self.keys + [self.token, self.registration].compactMap { $0 }).map { "\($0) IS ?" }
        return same.joined(separator: " AND ")
    }
}

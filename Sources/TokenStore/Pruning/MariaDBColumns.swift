// SPDX-License-Identifier: Apache-2.0

#if MariaDB
import MariaDB

/// A column of a table of MariaDB or MySQL, and its expressions in statements.
///
/// Values are compared as bytes: the collations of texts ignore the case of letters, or spaces at the end.
struct MariaDBColumn: ServerTableColumn {
    /// What the types of columns have in common here.
    enum Family {
        case integer
        case bits
        case decimal
        case float
        case text
        case enumeration
        case binary
        case timestamp
        case datetime
        case date
        case other
    }

    var name: String
    /// The name of the type, without its length.
    var type: String
    /// Precision and scale of a decimal number.
    var digits: (Int64, Int64)
    /// Character set and collation of a text.
    var collation: (set: String, name: String)
    var isGenerated: Bool
    /// Whether every change of the row sets it to the current time.
    var isTouched: Bool

    private static let families: [String: Family] = [
        "tinyint": .integer, "smallint": .integer, "mediumint": .integer, "int": .integer, "bigint": .integer,
        "year": .integer, "bit": .bits, "decimal": .decimal, "float": .float, "double": .float, "char": .text,
        "varchar": .text, "tinytext": .text, "text": .text, "mediumtext": .text, "longtext": .text,
        "enum": .enumeration, "set": .enumeration, "binary": .binary, "varbinary": .binary, "tinyblob": .binary,
        "blob": .binary, "mediumblob": .binary, "longblob": .binary, "timestamp": .timestamp, "datetime": .datetime,
        "date": .date,
    ]

    var family: Family { Self.families[self.type] ?? .other }
    var quoted: String { "t." + SQLDialect.mysql.identifier(self.name) }
    var isInteger: Bool { self.family == .integer }

    var kind: TokenTableValueKind {
        switch self.family {
        case .integer, .bits: .integer
        case .decimal, .float: .number
        case .binary: .blob
        default: .text
        }
    }

    // MARK: Values

    var text: String { "CONVERT(\(self.quoted) USING utf8mb4)" }

    /// A number, or a text or bytes.
    var value: String {
        switch self.family {
        case .integer, .binary: self.quoted
        case .bits: self.quoted + " + 0"
        case .decimal, .float: self.quoted + " + 0e0"
        default: self.text
        }
    }

    /// The token: bytes, or a text.
    var token: String { self.family == .binary ? self.quoted : self.text }

    /// The time as an ISO 8601 text, or its number, in any time zone of the session.
    var time: String {
        switch self.family {
        case .timestamp:
            // 0 is no time.
            "CASE WHEN UNIX_TIMESTAMP(\(self.quoted)) = 0 THEN '0000-00-00' ELSE DATE_FORMAT('1970-01-01' + "
                + "INTERVAL UNIX_TIMESTAMP(\(self.quoted)) SECOND, '%Y-%m-%dT%H:%i:%sZ') END"
        case .datetime: "DATE_FORMAT(\(self.quoted), '%Y-%m-%dT%H:%i:%s')"
        case .date: "DATE_FORMAT(\(self.quoted), '%Y-%m-%d')"
        default: self.value
        }
    }

    /// The value in a form that differs after every change.
    var compared: String {
        switch self.family {
        case .integer, .binary: self.quoted
        case .bits: self.quoted + " + 0"
        // Not as a text, which has fewer digits.
        case .float: self.quoted + " + 0e0"
        case .timestamp: "CAST(UNIX_TIMESTAMP(\(self.quoted)) AS BINARY)"
        default: "CAST(\(self.text) AS BINARY)"
        }
    }

    // MARK: Keys

    /// Whether rows can be found again by it: equality is exact, and has the order of `ORDER BY`.
    var isKey: Bool { self.family != .float && (self.family != .other || self.isAddress) }

    private var isAddress: Bool { ["uuid", "inet4", "inet6"].contains(self.type) }

    /// The value of a key as a result; an `ENUM` is ordered by its number.
    var key: String {
        switch self.family {
        case .integer, .binary: self.quoted
        case .bits, .enumeration: self.quoted + " + 0"
        default: self.text
        }
    }

    /// Whether the key is a text as a parameter.
    var hasTextKey: Bool { ![.integer, .binary, .bits, .enumeration].contains(self.family) }

    /// A parameter with which the key is compared by an index.
    var keyPlace: String {
        switch self.family {
        case .text: "CONVERT(? USING \(self.collation.set)) COLLATE \(self.collation.name)"
        case .decimal: "CAST(? AS DECIMAL(\(self.digits.0), \(self.digits.1)))"
        default: "?"
        }
    }
}

/// The columns of a token table of MariaDB or MySQL, and the statements for them.
struct MariaDBColumns {
    /// The qualified name.
    private let table: String
    /// The index of the key, by which rows are read and found again.
    private let index: String
    private let found: ServerTableColumns<MariaDBColumn>
    var layout: TokenTableLayout { self.found.layout }
    /// The kinds of the values in a page.
    let kinds: [TokenTableValueKind]
    /// The index of the registration in the form in which it is compared, after all other values.
    var comparedIndex: Int { self.kinds.count }

    /// Looks at the table, without changes.
    init(_ connection: MariaDBConnection, _ application: TokenTableApplication) throws {
        let (schema, name) = try Self.table(connection, application)
        self.table = [schema, name].map(SQLDialect.mysql.identifier).joined(separator: ".")
        let columns = try Self.columns(connection, schema, name)
        let key = try Self.key(connection, schema, name, columns)
        self.index = SQLDialect.mysql.identifier(key.index)
        self.found = try ServerTableColumns(application, table: name, columns, keys: key.names)
        self.kinds =
            self.found.keys.map { $0.isInteger ? .integer : $0.family == .binary ? .blob : .text } + self.found.kinds
    }

    // MARK: Looking at the table

    /// Finds the table, with or without a schema, and checks what it is.
    private static func table(
        _ connection: MariaDBConnection,
        _ application: TokenTableApplication
    ) throws -> (schema: String, name: String) {
        let parts = application.table.split(separator: ".", maxSplits: 1).map(String.init)
        let rows = try connection.query(
            """
            SELECT t.TABLE_NAME, t.TABLE_TYPE, t.TABLE_SCHEMA, t.ENGINE, e.TRANSACTIONS
            FROM information_schema.TABLES t LEFT JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE
            WHERE t.TABLE_SCHEMA = \(parts.count == 2 ? "?" : "DATABASE()") ORDER BY t.TABLE_NAME
            """,
            parts.count == 2 ? [.text(parts[0])] : []
        )
        let names = (0..<rows.count).map { rows.text($0, 0) ?? "" }
        guard let index = SQLName.index(of: parts.last ?? "", in: names) else {
            throw TokenTableError.missingTable(application.table, found: names)
        }
        let type = rows.text(index, 1) ?? ""
        guard ["BASE TABLE", "SYSTEM VERSIONED"].contains(type) else {
            throw TokenTableError.notATable(names[index], kind: type.lowercased())
        }
        guard rows.text(index, 4) == "YES" else {
            throw TokenTableError.noTransactions(table: names[index], engine: rows.text(index, 3) ?? "?")
        }
        return (rows.text(index, 2) ?? "", names[index])
    }

    private static func columns(
        _ connection: MariaDBConnection,
        _ schema: String,
        _ table: String
    ) throws -> [MariaDBColumn] {
        let rows = try connection.query(
            """
            SELECT COLUMN_NAME, DATA_TYPE, CAST(NUMERIC_PRECISION AS SIGNED), CAST(NUMERIC_SCALE AS SIGNED),
                CHARACTER_SET_NAME, COLLATION_NAME, EXTRA
            FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION
            """,
            [.text(schema), .text(table)]
        )
        return (0..<rows.count).map { row in
            let extra = rows.text(row, 6)?.uppercased() ?? ""
            return MariaDBColumn(
                name: rows.text(row, 0) ?? "",
                type: rows.text(row, 1)?.lowercased() ?? "",
                digits: (rows.integer(row, 2), rows.integer(row, 3)),
                collation: (rows.text(row, 4) ?? "", rows.text(row, 5) ?? ""),
                isGenerated: ["VIRTUAL", "STORED", "PERSISTENT"].contains { extra.contains($0) },
                isTouched: extra.contains("ON UPDATE")
            )
        }
    }

    /// Returns the columns of the primary key, or else of another unique key without NULL.
    private static func key(
        _ connection: MariaDBConnection,
        _ schema: String,
        _ table: String,
        _ columns: [MariaDBColumn]
    ) throws -> (index: String, names: [String]) {
        let rows = try connection.query(
            """
            SELECT INDEX_NAME, COLUMN_NAME, SUB_PART IS NULL AND NULLABLE <> 'YES' AND INDEX_TYPE = 'BTREE'
            FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND NON_UNIQUE = 0
            ORDER BY INDEX_NAME <> 'PRIMARY', INDEX_NAME, SEQ_IN_INDEX
            """,
            [.text(schema), .text(table)]
        )
        let usable = Set(columns.lazy.filter(\.isKey).map(\.name))
        var first = 0
        while first < rows.count {
            let index = rows.text(first, 0)
            let end = (first..<rows.count).first { rows.text($0, 0) != index } ?? rows.count
            // An expression has no name.
            let names = (first..<end).map { rows.integer($0, 2) == 1 ? rows.text($0, 1) ?? "" : "" }
            if let index, names.allSatisfy(usable.contains) { return (index, names) }
            first = end
        }
        return ("", [])
    }

    // MARK: Statements

    private var source: String { "\(self.table) AS t FORCE INDEX (\(self.index))" }

    /// Returns the query for a page of rows in the order of their key, after the key in the parameters.
    func pageSQL(isFirst: Bool, rowCount: Int) -> String {
        let keys = self.found.keys
        // An index is used for this form, and not for a comparison of rows.
        var condition = ""
        for key in keys.reversed() {
            let after = "\(key.quoted) > \(key.keyPlace)"
            condition =
                condition.isEmpty ? after : "(\(after) OR (\(key.quoted) = \(key.keyPlace) AND \(condition)))"
        }
        return "SELECT \(self.values) FROM \(self.source)\(isFirst ? "" : " WHERE \(condition)") "
            + "ORDER BY \(keys.map(\.quoted).joined(separator: ", ")) LIMIT \(rowCount)"
    }

    /// The parameters of the query for a page: each part of the key twice, but the last.
    func pageParameters(_ key: [MariaDBValue]) -> [MariaDBValue] {
        key.dropLast().flatMap { [$0, $0] } + key.suffix(1)
    }

    private var values: String {
        let found = self.found
        let optional = [found.registration?.time, found.topic?.text, found.active?.value, found.registration?.compared]
        return (found.keys.map(\.key) + [found.token.token] + optional.compactMap(\.self)).joined(separator: ", ")
    }

    /// Returns the statement that prunes some rows, whose keys, tokens and registrations are in the parameters.
    func changeSQL(rowCount: Int) -> String {
        let found = self.found
        var parts = found.keys.map { "\($0.quoted) = \($0.keyPlace)" }
        parts.append(
            found.token.family == .binary ? "\(found.token.quoted) = ?" : "CAST(\(found.token.text) AS BINARY) = ?"
        )
        if let registration = found.registration { parts.append("\(registration.compared) = ?") }
        let condition = [String](repeating: "(\(parts.joined(separator: " AND ")))", count: rowCount)
            .joined(separator: " OR ")
        guard let active = found.active else { return "DELETE t FROM \(self.source) WHERE \(condition)" }
        // The server would set the time of registration to now.
        let kept = found.registration.flatMap { $0.isTouched ? ", \($0.quoted) = \($0.quoted)" : nil } ?? ""
        let zero = active.kind == .text ? "'0'" : "0"
        return "UPDATE \(self.source) SET \(active.quoted) = \(zero)\(kept) WHERE \(condition)"
    }

    // MARK: Parameters

    func key(_ page: MariaDBResult, _ row: Int) -> [MariaDBValue] {
        self.found.keys.enumerated().map { page.value(row, $0.offset, isText: $0.element.hasTextKey) }
    }

    /// The key, the token and the registration of a row.
    func comparedValues(_ page: MariaDBResult, _ row: Int) -> [MariaDBValue] {
        var values = self.key(page, row) + [page.value(row, Int(self.layout.tokenIndex), isText: false)]
        if self.layout.hasRegistration { values.append(page.value(row, self.comparedIndex, isText: false)) }
        return values
    }
}
#endif

// SPDX-License-Identifier: Apache-2.0

#if PostgreSQL
import PostgreSQL

/// The columns of a token table of PostgreSQL, and the statements for them.
struct PostgreSQLColumns {
    private struct Column: ServerTableColumn {
        var name: String
        /// The name of the type, without its length.
        var type: String
        var isGenerated: Bool

        var quoted: String { "t." + SQLName.quoted(self.name) }
        var isInteger: Bool { PostgreSQLColumns.integerTypes.contains(self.type) }
        var kind: TokenTableValueKind {
            if self.isInteger || self.type == "boolean" { return .integer }
            if self.type == "bytea" { return .blob }
            return PostgreSQLColumns.numberTypes.contains(self.type) ? .number : .text
        }

        /// The kind of a registration, if the server sends its values as they are stored.
        ///
        /// Their texts would depend on the settings of the session, and writing them takes more time than all else.
        var timeKind: TokenTableValueKind? {
            switch self.type {
            case "timestamp with time zone": .timestamp(hasZone: true)
            case "timestamp without time zone": .timestamp(hasZone: false)
            case "date": .date
            default: nil
            }
        }
    }

    /// The qualified name.
    private let table: String
    private let found: ServerTableColumns<Column>
    var layout: TokenTableLayout { self.found.layout }
    /// The kinds of the values in a page.
    let kinds: [TokenTableValueKind]
    /// Whether tokens are bytes.
    var hasBinaryTokens: Bool { self.found.token.type == "bytea" }
    /// The index of the registration in the form in which it is compared, after all other values; `nil` if that is its
    /// number.
    var comparedIndex: Int? { self.found.registration?.timeKind == nil ? self.kinds.count : nil }

    /// Looks at the table, without changes.
    init(_ connection: PostgreSQLConnection, _ application: TokenTableApplication) throws {
        let (table, name) = try Self.table(connection, application)
        self.table = table.name
        self.found = try ServerTableColumns(
            application,
            table: name,
            Self.columns(connection, table.oid),
            keys: Self.keyNames(connection, table.oid)
        )
        var kinds = self.found.keys.map { _ in TokenTableValueKind.text } + self.found.kinds
        if let index = self.found.layout.registrationIndex, let kind = self.found.registration?.timeKind {
            kinds[Int(index)] = kind
        }
        self.kinds = kinds
    }

    // MARK: Looking at the table

    private static let integerTypes = ["smallint", "integer", "bigint"]
    private static let numberTypes = ["numeric", "real", "double precision"]

    /// Finds the table, with or without a schema, and checks what it is.
    private static func table(
        _ connection: PostgreSQLConnection,
        _ application: TokenTableApplication
    ) throws -> (table: (oid: String, name: String), shown: String) {
        let parts = application.table.split(separator: ".", maxSplits: 1).map(String.init)
        let schema: String? = parts.count == 2 ? parts[0] : nil
        let rows = try connection.query(
            """
            SELECT c.relname::text, c.oid::text, c.relkind::text,
                quote_ident(n.nspname) || '.' || quote_ident(c.relname), pg_is_in_recovery()
            FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
            WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND CASE WHEN $1::text IS NULL
                THEN pg_catalog.pg_table_is_visible(c.oid) AND n.nspname NOT IN ('pg_catalog', 'information_schema')
                ELSE lower(n.nspname) = lower($1) END
            ORDER BY c.relname
            """,
            [schema]
        )
        let names = (0..<rows.count).map { rows.text($0, 0) ?? "" }
        let wanted = parts.last ?? ""
        guard let index = SQLName.index(of: wanted, in: names) else {
            throw TokenTableError.missingTable(application.table, found: names)
        }
        let kinds = ["v": "view", "m": "materialized view", "f": "foreign table"]
        if let kind = kinds[rows.text(index, 2) ?? ""] { throw TokenTableError.notATable(names[index], kind: kind) }
        if rows.isTrue(index, 4), !application.isDryRun { throw TokenTableError.readOnly(path: connection.name) }
        return ((rows.text(index, 1) ?? "", rows.text(index, 3) ?? ""), names[index])
    }

    private static func columns(_ connection: PostgreSQLConnection, _ oid: String) throws -> [Column] {
        let rows = try connection.query(
            """
            SELECT attname::text, format_type(atttypid, NULL), attgenerated <> '' OR attidentity = 'a'
            FROM pg_catalog.pg_attribute WHERE attrelid = $1::oid AND attnum > 0 AND NOT attisdropped ORDER BY attnum
            """,
            [oid]
        )
        return (0..<rows.count).map { row in
            Column(name: rows.text(row, 0) ?? "", type: rows.text(row, 1) ?? "", isGenerated: rows.isTrue(row, 2))
        }
    }

    /// Returns the columns of the primary key, or else of another unique key without NULL.
    private static func keyNames(_ connection: PostgreSQLConnection, _ oid: String) throws -> [String] {
        let rows = try connection.query(
            """
            SELECT string_agg(a.attname::text, E'\\u0001' ORDER BY k.place) FROM pg_catalog.pg_index i
                CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(number, place)
                JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
            WHERE i.indrelid = $1::oid AND i.indisunique AND i.indisvalid AND i.indimmediate
                AND i.indpred IS NULL AND i.indexprs IS NULL AND k.place <= i.indnkeyatts
            GROUP BY i.indexrelid, i.indisprimary HAVING bool_and(a.attnotnull)
            ORDER BY i.indisprimary DESC, i.indexrelid LIMIT 1
            """,
            [oid]
        )
        guard rows.count > 0, let text = rows.text(0, 0) else { return [] }
        return text.split(separator: "\u{1}").map(String.init)
    }

    // MARK: Statements

    /// Returns the query for a page of rows in the order of their key, after the key in the parameters.
    func pageSQL(isFirst: Bool, rowCount: Int) -> String {
        let keys = self.found.keys.map(\.quoted).joined(separator: ", ")
        let places = self.found.keys.enumerated().map { "$\($0 + 1)::\($1.type)" }.joined(separator: ", ")
        let condition = isFirst ? "" : " WHERE (\(keys)) > (\(places))"
        return "SELECT \(self.values) FROM \(self.table) AS t\(condition) ORDER BY \(keys) LIMIT \(rowCount)"
    }

    private var values: String {
        let token = self.hasBinaryTokens ? self.found.token.quoted : self.found.token.quoted + "::text"
        var values = self.found.keys.map { $0.quoted + "::text" } + [token]
        if let registration = self.found.registration { values.append(Self.time(registration)) }
        values += [self.found.topic.map { $0.quoted + "::text" }, self.found.active.map(Self.value)].compactMap(\.self)
        if let registration = self.found.registration, registration.timeKind == nil {
            values.append(registration.quoted + "::text")
        }
        return values.joined(separator: ", ")
    }

    private static func value(_ column: Column) -> String {
        switch column.kind {
        case .integer: column.type == "boolean" ? column.quoted + "::int::bigint" : column.quoted + "::bigint"
        case .number: column.quoted + "::double precision"
        default: column.quoted + "::text"
        }
    }

    private static func time(_ column: Column) -> String {
        switch column.timeKind {
        case .timestamp: column.quoted
        case .date:
            "CASE WHEN isfinite(\(column.quoted)) THEN (\(column.quoted) - date '2000-01-01')::bigint END"
        default: self.value(column)
        }
    }

    /// The condition that a registration is that of a parameter, in SQL.
    private static func isSame(_ column: Column) -> String {
        let microseconds = "d.registration::bigint * interval '1 microsecond'"
        let time =
            switch column.timeKind {
            case .timestamp(hasZone: true): "timestamptz '2000-01-01 00:00:00+00' + \(microseconds)"
            case .timestamp(hasZone: false): "timestamp '2000-01-01 00:00:00' + \(microseconds)"
            case .date: "date '2000-01-01' + d.registration::integer"
            default: nil as String?
            }
        return time.map { "\(column.quoted) = \($0)" } ?? "\(column.quoted)::text IS NOT DISTINCT FROM d.registration"
    }

    /// Whether rows are deactivated instead of deleted.
    var deactivates: Bool { self.found.active != nil }

    /// The statement that prunes the rows whose keys, tokens and registrations are in the parameters, each an array.
    var changeSQL: String {
        let (rows, condition) = self.compared
        guard let active = self.found.active else {
            return "DELETE FROM \(self.table) AS t USING \(rows) WHERE \(condition)"
        }
        let zero = active.type == "boolean" ? "false" : active.kind == .text ? "'0'" : "0"
        return "UPDATE \(self.table) AS t SET \(SQLName.quoted(active.name)) = \(zero) FROM \(rows) WHERE \(condition)"
    }

    /// The query for the number of these rows.
    var unchangedSQL: String {
        let (rows, condition) = self.compared
        return "SELECT count(*) FROM \(self.table) AS t, \(rows) WHERE \(condition)"
    }

    /// The rows in the parameters, and the condition that rows of the table are as they were read.
    private var compared: (rows: String, condition: String) {
        var types = self.found.keys.map(\.type) + [self.hasBinaryTokens ? "bytea" : "text"]
        var names = self.found.keys.indices.map { "k\($0)" } + ["token"]
        var conditions = zip(self.found.keys, names).map { "\($0.quoted) = d.\($1)" }
        conditions.append("\(self.found.token.quoted)\(self.hasBinaryTokens ? "" : "::text") = d.token")
        if let registration = self.found.registration {
            types.append("text")
            names.append("registration")
            conditions.append(Self.isSame(registration))
        }
        let arrays = types.enumerated().map { "$\($0 + 1)::\($1)[]" }.joined(separator: ", ")
        return ("unnest(\(arrays)) AS d(\(names.joined(separator: ", ")))", conditions.joined(separator: " AND "))
    }
}
#endif

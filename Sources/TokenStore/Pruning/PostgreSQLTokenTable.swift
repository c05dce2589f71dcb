// SPDX-License-Identifier: Apache-2.0

#if PostgreSQL
import APNSWire
import PostgreSQL

/// A token table of a PostgreSQL database.
///
/// A batch is one statement, which changes the rows whose token and registration are those that were read.
struct PostgreSQLTokenTable: ServerTokenTable {
    private let connection: PostgreSQLConnection
    private let columns: PostgreSQLColumns

    init(_ connection: PostgreSQLConnection, _ application: TokenTableApplication) throws {
        self.connection = connection
        self.columns = try PostgreSQLColumns(connection, application)
    }

    var layout: TokenTableLayout { self.columns.layout }
    var kinds: [TokenTableValueKind] { self.columns.kinds }

    func page(after key: [String?]?, rowCount: Int) throws(PostgreSQLError) -> PostgreSQLResult {
        try self.connection.query(self.columns.pageSQL(isFirst: key == nil, rowCount: rowCount), key ?? [])
    }

    func key(_ page: PostgreSQLResult, _ row: Int) -> [String?] {
        (0..<self.layout.keyCount).map { page.text(row, $0) }
    }

    func comparedValues(_ page: PostgreSQLResult, _ row: Int) -> [String?] {
        var values = self.key(page, row)
        let token = Int(self.layout.tokenIndex)
        if self.columns.hasBinaryTokens {
            unsafe values.append("\\x" + Hexadecimal.text(Array(page.bytes(row, token))))
        } else {
            values.append(page.text(row, token))
        }
        if let registration = self.layout.registrationIndex {
            let index = self.columns.comparedIndex
            values.append(index.map { page.text(row, $0) } ?? "\(page.integer(row, Int(registration)))")
        }
        return values
    }

    func begin() throws(PostgreSQLError) {
        try self.connection.execute(
            """
            BEGIN; SET LOCAL lock_timeout = \(Int(ServerTableLimits.rowLockTimeout / .milliseconds(1))); \
            SET LOCAL statement_timeout = \(Int(ServerTableLimits.changeTimeout / .milliseconds(1)))
            """
        )
    }

    func change(_ rows: ArraySlice<[String?]>) throws(PostgreSQLError) -> Int {
        try self.connection.query(self.columns.changeSQL, self.arrays(rows)).changedCount
    }

    /// A trigger, a rule or a policy for rows ignored the statement for them; deactivated rows are still found.
    func ignoredCount(_ rows: ArraySlice<[String?]>, changedCount: Int) throws(PostgreSQLError) -> Int {
        let count = try self.connection.query(self.columns.unchangedSQL, self.arrays(rows)).integer(0, 0)
        return Int(count) - (self.columns.deactivates ? changedCount : 0)
    }

    private func arrays(_ rows: ArraySlice<[String?]>) -> [String?] {
        (0..<self.layout.comparedCount).map { column in PostgreSQLArray.text(of: rows.lazy.map { $0[column] }) }
    }

    func commit() throws(PostgreSQLError) { try self.connection.execute("COMMIT") }

    func rollback() throws(PostgreSQLError) { try self.connection.execute("ROLLBACK") }

    func translated(_ error: PostgreSQLError) -> TokenTableError { TokenTableError(error, of: self.connection.name) }
}

extension PostgreSQLResult: ServerTablePage {}

/// Arrays in text form.
enum PostgreSQLArray {
    /// Returns the text of an array, whose quoted elements may contain anything.
    static func text(of elements: some Sequence<String?>) -> String {
        var text = "{"
        var isFirst = true
        for element in elements {
            if !isFirst { text += "," }
            isFirst = false
            guard let element else {
                text += "NULL"
                continue
            }
            text += "\""
            for scalar in element.unicodeScalars {
                if scalar == "\"" || scalar == "\\" { text += "\\" }
                // No text of PostgreSQL has a NUL.
                text.unicodeScalars.append(scalar == "\0" ? "\u{FFFD}" : scalar)
            }
            text += "\""
        }
        return text + "}"
    }
}

extension PostgreSQLError: DatabaseServerError {
    var isTransient: Bool { ["40001", "40P01", "55P03", "57014"].contains(self.state) }
    var isRefusal: Bool { ["23", "27", "44"].contains(self.stateClass) || self.state == "P0001" }
    var isFinal: Bool { self.kind != .statement }
}

extension TokenTableError {
    /// Converts an error of PostgreSQL.
    init(_ error: PostgreSQLError, of database: String) {
        switch (error.kind, error.state ?? "") {
        case (.address, _): self = .invalidAddress(detail: error.message)
        // A wrong user or password, or a database that does not exist; another attempt would not help.
        case (_, let state) where state.hasPrefix("28") || state == "3D000":
            self = .notAdmitted(database: database, detail: error.message)
        case (_, "25006"): self = .readOnly(path: database)
        case (_, "40001"), (_, "40P01"), (_, "55P03"), (_, "57014"): self = .busy(path: database)
        case (_, "53100"): self = .full(path: database)
        case (_, "XX001"), (_, "XX002"): self = .corrupt(path: database, detail: error.message)
        case (_, "42501"): self = .notPermitted(database: database, detail: error.message)
        case (.connection, _), (.timeout, _), (_, "57P01"), (_, "57P02"), (_, "57P03"):
            self = .connectionLost(database: database, detail: error.message)
        case (.statement, let state):
            self = .statementFailed(database: database, state: state, detail: error.message)
        }
    }
}
#endif

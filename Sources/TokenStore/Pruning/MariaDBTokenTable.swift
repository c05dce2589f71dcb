// SPDX-License-Identifier: Apache-2.0

#if MariaDB
import MariaDB

/// A token table of a MariaDB or MySQL database.
///
/// A batch is some statements, each of which changes the rows of a group whose token and registration are those that
/// were read.
final class MariaDBTokenTable: ServerTokenTable {
    private let connection: MariaDBConnection
    private let columns: MariaDBColumns
    /// Prepared when they are needed, since a dry run may not be allowed to change rows.
    private var changeStatement: MariaDBStatement?
    private var nextPageStatement: MariaDBStatement?

    /// The number of rows of one statement: the cost of a statement is shared, and that of its condition for a row
    /// increases with it.
    private static let groupRowCount = 32

    init(_ connection: MariaDBConnection, _ application: TokenTableApplication) throws {
        self.connection = connection
        try Self.prepareSession(connection, lockTimeout: application.lockTimeout)
        self.columns = try MariaDBColumns(connection, application)
    }

    /// Sets what the statements depend on, which the server, its user or an option file may have set otherwise.
    private static func prepareSession(_ connection: MariaDBConnection, lockTimeout: Duration) throws {
        let lockSeconds = min(max(1, Int(lockTimeout / .seconds(1))), self.metadataLockSecondCountMax)
        var settings = [
            // In strict mode, a value out of a variable's range would be refused.
            "SESSION sql_mode = ''", "NAMES utf8mb4", "SESSION time_zone = '+00:00'", "SESSION autocommit = 1",
            "SESSION sql_safe_updates = 0", "SESSION lock_wait_timeout = \(lockSeconds)",
            // Whole seconds. MySQL cannot do without waiting.
            "SESSION innodb_lock_wait_timeout = \(connection.isMariaDB ? 0 : 1)",
        ]
        let sql = "SHOW VARIABLES WHERE Variable_name IN ('log_bin', 'binlog_format') AND Value IN ('ON', 'STATEMENT')"
        // The server refuses changes at this level if it logs statements.
        if try connection.query(sql).count < 2 { settings.append("SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED") }
        settings.append("SESSION sql_mode = 'STRICT_ALL_TABLES'")
        for setting in settings { try connection.execute("SET " + setting) }
    }

    /// The longest time that a statement waits for a change of the table itself; shorter than that of a read.
    private static let metadataLockSecondCountMax = 30

    var layout: TokenTableLayout { self.columns.layout }
    var kinds: [TokenTableValueKind] { self.columns.kinds }

    func page(after key: [MariaDBValue]?, rowCount: Int) throws(MariaDBError) -> MariaDBResult {
        guard let key else { return try self.connection.query(self.columns.pageSQL(isFirst: true, rowCount: rowCount)) }
        let statement = try self.prepared(
            \.nextPageStatement,
            self.columns.pageSQL(isFirst: false, rowCount: rowCount)
        )
        return try statement.run(self.columns.pageParameters(key))
    }

    func key(_ page: MariaDBResult, _ row: Int) -> [MariaDBValue] { self.columns.key(page, row) }

    func comparedValues(_ page: MariaDBResult, _ row: Int) -> [MariaDBValue] { self.columns.comparedValues(page, row) }

    func begin() throws(MariaDBError) { try self.connection.execute("START TRANSACTION") }

    func change(_ rows: ArraySlice<[MariaDBValue]>) throws(MariaDBError) -> Int {
        let statement = try self.prepared(\.changeStatement, self.changeSQL)
        var (changedCount, rest) = (0, rows)
        let deadline = ContinuousClock.now + ServerTableLimits.changeTimeout
        while let last = rest.prefix(Self.groupRowCount).last {
            guard ContinuousClock.now < deadline else { throw .overdue }
            let group = rest.prefix(Self.groupRowCount)
            rest = rest.dropFirst(group.count)
            // The last one again does not change the result.
            let repeated = repeatElement(last, count: Self.groupRowCount - group.count)
            changedCount += try statement.run((group + repeated).flatMap(\.self)).changedCount
        }
        return changedCount
    }

    /// Its triggers cannot ignore a statement, and it has no rules or policies for rows.
    func ignoredCount(_ rows: ArraySlice<[MariaDBValue]>, changedCount: Int) throws(MariaDBError) -> Int { 0 }

    private func prepared(
        _ statement: ReferenceWritableKeyPath<MariaDBTokenTable, MariaDBStatement?>,
        _ sql: @autoclosure () -> String
    ) throws(MariaDBError) -> MariaDBStatement {
        if let prepared = self[keyPath: statement] { return prepared }
        let prepared = try self.connection.prepare(sql())
        self[keyPath: statement] = prepared
        return prepared
    }

    private var changeSQL: String {
        let sql = self.columns.changeSQL(rowCount: Self.groupRowCount)
        guard self.connection.isMariaDB else { return sql }
        return "SET STATEMENT max_statement_time = \(Int(ServerTableLimits.changeTimeout / .seconds(1))) FOR \(sql)"
    }

    func commit() throws(MariaDBError) { try self.connection.execute("COMMIT") }

    func rollback() throws(MariaDBError) { try self.connection.execute("ROLLBACK") }

    func translated(_ error: MariaDBError) -> TokenTableError { TokenTableError(error, of: self.connection.name) }
}

extension MariaDBResult: ServerTablePage {}

extension MariaDBError: DatabaseServerError {
    var isTransient: Bool { Self.transientNumbers.contains(self.number) }
    /// Of a trigger or a constraint; that of MySQL for CHECK has no class of its own.
    var isRefusal: Bool { self.stateClass == "23" || self.stateClass == "45" || self.number == 3819 }
    var isFinal: Bool { self.kind == .connection }

    /// The row has changed since it was read, a lock, a deadlock, and the time limits of either server.
    fileprivate static let transientNumbers: Set<UInt32> = [1020, 1205, 1213, 1317, 1969, 3024, 3572]
}

extension TokenTableError {
    /// Converts an error of MariaDB or MySQL.
    init(_ error: MariaDBError, of database: String) {
        switch error.number {
        // No such database.
        case 1049: self = .invalidAddress(detail: error.message)
        case 1290, 1792, 1836: self = .readOnly(path: database)
        case _ where error.isTransient: self = .busy(path: database)
        case 1021, 1114: self = .full(path: database)
        case 1034, 1194, 1195: self = .corrupt(path: database, detail: error.message)
        // For a database, a table, a column, and an operation.
        case 1044, 1142, 1143, 1227: self = .notPermitted(database: database, detail: error.message)
        // A password or user, and TLS.
        case 1045, 1698, 2026: self = .notAdmitted(database: database, detail: error.message)
        case _ where error.kind == .connection: self = .connectionLost(database: database, detail: error.message)
        default: self = .statementFailed(database: database, state: error.state, detail: error.message)
        }
    }
}
#endif

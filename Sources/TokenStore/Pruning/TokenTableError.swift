// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import GRDB

/// The error of a token table that cannot be pruned.
///
/// No case contains a token. Rows that the report of the same run counts as pruned stay pruned.
///
/// Later versions may add cases.
@nonexhaustive
public enum TokenTableError: Error, Hashable, Sendable {
    /// The file does not exist.
    case missingFile(path: String)
    /// The path is a folder, a device or the like.
    case notAFile(path: String)
    /// The file cannot be opened.
    case cannotOpen(path: String)
    /// The file is not an SQLite database.
    case notADatabase(path: String)
    /// The file or its folder is read-only.
    case readOnly(path: String)
    /// The file is damaged; the text is SQLite's message.
    case corrupt(path: String, detail: String)
    /// The disk is full.
    case full(path: String)
    /// The file cannot be read or written; the text is SQLite's message.
    case inputOutput(path: String, detail: String)
    /// Another process held its lock for too long.
    case busy(path: String)
    /// The database has no such table; the existing ones.
    case missingTable(String, found: [String])
    /// The table is a view or a virtual table.
    case notATable(String, kind: String)
    /// The table has no such column; the existing ones.
    case missingColumn(String, table: String, found: [String])
    /// The column to be set to 0 is computed from others.
    case generatedColumn(String, table: String)
    /// The column to be set to 0 has another purpose in the rules.
    case takenColumn(String)
    /// The column to be set to 0 contains text in a due row; the names are quoted.
    case notAFlag(column: String, table: String)
    /// The names of columns hide all names of the row number.
    case hiddenRowNumber(table: String)
    /// A name is empty or contains a zero byte.
    case name(String)
    /// The table has rows, and the column has no token in any of them.
    case noTokens(column: String, table: String, rowCount: Int)
    /// The table has rows, and the column has no time in any of them.
    case noTimes(column: String, table: String, rowCount: Int)
    /// The list has several topics, and the rules do not specify one.
    case severalTopics([String], PushEnvironment)
    /// Tokens must be dead in several topics, but the list has only these.
    case fewTopics([String], PushEnvironment)
    /// Tokens must be dead in these topics, too, which the list does not have; it has others.
    case unknownTopics([String], PushEnvironment, found: [String])
    /// The table has no primary key, and no other unique key without NULL.
    case noKey(table: String)
    /// The engine of the table has no transactions, so that a batch cannot be done wholly or not at all.
    case noTransactions(table: String, engine: String)
    /// The address of a database server cannot be used.
    case invalidAddress(detail: String)
    /// There is no connection to the database server, or it was lost.
    case connectionLost(database: String, detail: String)
    /// The connection was lost during a commit, so that its rows may be pruned, or not.
    case commitLost(database: String, detail: String, rowCount: Int)
    /// The user of the database has no permission.
    case notPermitted(database: String, detail: String)
    /// A database server does not admit the user, or TLS fails.
    case notAdmitted(database: String, detail: String)
    /// The database server refused a statement; its code and message.
    case statementFailed(database: String, state: String, detail: String)
    /// A foreign key or another constraint refused a whole batch at its commit.
    case constraint(path: String, detail: String)
    /// Another error of SQLite.
    case database(path: String, code: Int32, detail: String)
}

extension TokenTableError: CustomStringConvertible {
    /// The cause and the remedy.
    public var description: String {
        switch self {
        case .missingFile(let path): "database \(path) does not exist"
        case .notAFile(let path): "\(path) is not a regular file; specify the file of the database"
        case .cannotOpen(let path): "cannot open database \(path); check that this user can read and write it"
        case .notADatabase(let path): "\(path) is not an SQLite database; for other databases, use --sql or --exec"
        case .readOnly(let path):
            "cannot write database \(path): the file or its folder is read-only; run as the user that owns it, "
                + "or use --dry-run"
        case .corrupt(let path, let detail):
            "database \(path) is damaged (\(detail)); check it with PRAGMA integrity_check before pruning"
        case .full(let path): "disk full while writing database \(path); free space and run again"
        case .inputOutput(let path, let detail):
            "cannot read or write database \(path) (\(detail)); check the disk, its free space and quota, and run again"
        case .busy(let path):
            "database \(path) is locked by another process; run again later, or wait longer with --lock-wait"
        case .missingTable(let table, let found):
            "no table \(quoted(table)) in the database; existing tables: \(list(found)); specify one with --table"
        case .notATable(let table, let kind):
            "\(quoted(table)) is a \(kind); with --table, specify the table that contains its rows"
        case .missingColumn(let column, let table, let found):
            "no column \(quoted(column)) in table \(quoted(table)); existing columns: \(list(found))"
        case .generatedColumn(let column, let table):
            "column \(quoted(column)) of \(quoted(table)) is computed from others and cannot be set; with "
                + "--active-column, specify a column that can be set, or delete rows instead"
        case .takenColumn(let column):
            "column \(quoted(column)) contains the token, the registration or the topic and cannot be set to 0; with "
                + "--active-column, specify the column that marks rows as active"
        case .notAFlag(let column, let table):
            "column \(column) of \(table) contains text, so 0 has no meaning there; specify another column, use --sql "
                + "with --inactive-value, or delete rows instead"
        case .hiddenRowNumber(let table):
            "columns rowid, _rowid_ and oid of \(quoted(table)) hide the row number; use --sql"
        case .name(let name): "\(quoted(name)) is not a valid name of a table or column"
        case .noTokens(let column, let table, let rowCount):
            "none of the \(rowCount) rows of \(quoted(table)) has a token in \(quoted(column)); is it another column?"
        case .noTimes(let column, let table, let rowCount):
            "none of the \(rowCount) rows of \(quoted(table)) has a time in \(quoted(column)); is it another column?"
        case .severalTopics(let topics, let environment):
            "the purge list has several topics for \(environment.rawValue): \(list(topics)); specify --topic, "
                + "--topic-column, or --require-all-topics to prune what is dead in all of them"
        case .fewTopics(let topics, let environment):
            "--require-all-topics needs at least two topics, but the purge list has \(list(topics)) for "
                + "\(environment.rawValue); read the feedback of the other topics first, or use --topic"
        case .unknownTopics(let topics, let environment, let found):
            "unknown topics \(list(topics)) for \(environment.rawValue); the purge list has \(list(found)); read the "
                + "feedback of each topic first, and check --topic and --environment"
        case .noKey(let table):
            "table \(quoted(table)) has no primary key and no unique key without NULL; add one, or use --sql"
        case .noTransactions(let table, let engine):
            "table \(quoted(table)) has the engine \(engine), which has no transactions, so a batch could stay half "
                + "done; convert it with ALTER TABLE ... ENGINE=InnoDB, or use --sql mysql"
        case .invalidAddress(let detail): "the address of the database cannot be used: \(detail)"
        case .connectionLost(let database, let detail):
            "no connection to database \(database): \(detail); run again when the server can be reached"
        case .commitLost(let database, let detail, let rowCount):
            "the connection to database \(database) was lost during a commit (\(detail)), so up to \(rowCount) rows of "
                + "the last batch may be pruned, too; run again when the server can be reached"
        case .notAdmitted(let database, let detail):
            "no connection to database \(database): \(detail); check the user, the password and the certificates"
        case .notPermitted(let database, let detail):
            "database \(database): \(detail); grant SELECT and DELETE, or UPDATE, to this user"
        case .statementFailed(let database, let state, let detail):
            "database \(database) refused a statement (SQLSTATE \(state)): \(detail)"
        case .constraint(let path, let detail):
            "a constraint of database \(path) prevents pruning (\(detail)); prune the rows that refer to these first, "
                + "or use --action deactivate"
        case .database(let path, let code, let detail): "database \(path): SQLite error \(code): \(detail)"
        }
    }
}

extension TokenTableError {
    /// The same error, if it ended the connection during the commit of some rows.
    func inCommit(of rowCount: Int) -> TokenTableError {
        guard rowCount > 0, case .connectionLost(let database, let detail) = self else { return self }
        return .commitLost(database: database, detail: detail, rowCount: rowCount)
    }

    /// Converts an error of SQLite.
    init(_ error: DatabaseError, path: String) {
        // The statement and its arguments contain tokens, so only SQLite's message is used.
        let detail = error.message ?? "\(error.extendedResultCode)"
        switch error.resultCode {
        case .SQLITE_CANTOPEN: self = .cannotOpen(path: path)
        case .SQLITE_NOTADB: self = .notADatabase(path: path)
        case .SQLITE_READONLY, .SQLITE_PERM: self = .readOnly(path: path)
        case .SQLITE_CORRUPT: self = .corrupt(path: path, detail: detail)
        case .SQLITE_FULL: self = .full(path: path)
        case .SQLITE_IOERR: self = .inputOutput(path: path, detail: detail)
        case .SQLITE_CONSTRAINT: self = .constraint(path: path, detail: detail)
        case .SQLITE_BUSY, .SQLITE_LOCKED, .SQLITE_PROTOCOL: self = .busy(path: path)
        default: self = .database(path: path, code: error.extendedResultCode.rawValue, detail: detail)
        }
    }

    /// Runs `body`, and converts its SQLite errors; other errors are rethrown.
    static func translated<Value>(path: String, _ body: () throws -> Value) throws -> Value {
        do {
            return try body()
        } catch let error as DatabaseError {
            throw TokenTableError(error, path: path)
        }
    }
}

/// A name for a message, without control characters.
private func quoted(_ name: String) -> String {
    let shown = name.unicodeScalars.prefix(200).map { $0.properties.generalCategory == .control ? "?" : String($0) }
    return "\"" + shown.joined() + "\""
}

/// The maximum number of names in a message.
private let shownNameCountMax = 20

private func list(_ names: [String]) -> String {
    if names.isEmpty { return "none" }
    let rest = names.count - shownNameCountMax
    return names.prefix(shownNameCountMax).map(quoted).joined(separator: ", ") + (rest > 0 ? " and \(rest) more" : "")
}

// SPDX-License-Identifier: Apache-2.0

public import APNSWire
import GRDB

/// Why a token table cannot be pruned.
///
/// No case carries a token. Where rows had gone before, as the report of the same run says, they stay gone.
///
/// There may be more in later versions.
@nonexhaustive
public enum TokenTableError: Error, Hashable, Sendable {
    /// There is no such file.
    case missingFile(path: String)
    /// There is a folder, a device or the like where the file should be.
    case notAFile(path: String)
    /// The file cannot be opened.
    case cannotOpen(path: String)
    /// The file is no SQLite database.
    case notADatabase(path: String)
    /// The file or its folder is read-only.
    case readOnly(path: String)
    /// The file is damaged; the text is what SQLite says of it.
    case corrupt(path: String, detail: String)
    /// The disk is full.
    case full(path: String)
    /// The application held its lock for longer than was to be waited.
    case busy(path: String)
    /// The database has no such table; it has these.
    case missingTable(String, found: [String])
    /// The table is a view or a virtual table.
    case notATable(String, kind: String)
    /// The table has no such column; it has these.
    case missingColumn(String, table: String, found: [String])
    /// The column that was to become 0 is computed from others.
    case generatedColumn(String, table: String)
    /// The column that was to become 0 has another meaning already.
    case takenColumn(String)
    /// The column that was to become 0 holds text in a row that is due; the names are as in SQL.
    case notAFlag(column: String, table: String)
    /// Columns are named as all names of the row number are.
    case hiddenRowNumber(table: String)
    /// A name is empty or has a byte of zero.
    case name(String)
    /// The table has rows, and in no row of them the column holds a token.
    case noTokens(column: String, table: String, rowCount: Int)
    /// The table has rows, and in no row of them the column holds a time.
    case noTimes(column: String, table: String, rowCount: Int)
    /// The list has several topics, and nothing says which of them the table is for.
    case severalTopics([String], Environment)
    /// A token was to be dead in several topics, and there are only these.
    case fewTopics([String], Environment)
    /// A token was to be dead in these topics too, of which the list never heard; it knows others.
    case unknownTopics([String], Environment, found: [String])
    /// A foreign key or another constraint refused a whole batch when it was to be committed.
    case constraint(path: String, detail: String)
    /// Something else that SQLite says.
    case database(path: String, code: Int32, detail: String)
}

extension TokenTableError: CustomStringConvertible {
    /// What happened, and what to do.
    public var description: String {
        switch self {
        case .missingFile(let path): "There is no database \(path)."
        case .notAFile(let path): "\(path) is a folder, a device or the like. Give the file of the database."
        case .cannotOpen(let path): "Cannot open the database \(path): this user must be allowed to read and write it."
        case .notADatabase(let path): "\(path) is not an SQLite database. For other databases use --sql or --exec."
        case .readOnly(let path):
            "Cannot write the database \(path): the file or its folder is read-only. Run as the user that owns it, "
                + "or look with --dry-run."
        case .corrupt(let path, let detail):
            "The database \(path) is damaged (\(detail)). Have PRAGMA integrity_check look at it before it is pruned."
        case .full(let path): "The disk with the database \(path) is full. Make room, and run again."
        case .busy(let path):
            "Another process holds the lock of the database \(path). Run again when it is done, or wait longer with "
                + "--lock-wait."
        case .missingTable(let table, let found):
            "The database has no table \(quoted(table)); it has \(list(found)). Give one of these as --table."
        case .notATable(let table, let kind):
            "\(quoted(table)) is a \(kind). Give the table that holds its rows as --table."
        case .missingColumn(let column, let table, let found):
            "The table \(quoted(table)) has no column \(quoted(column)); it has \(list(found))."
        case .generatedColumn(let column, let table):
            "The column \(quoted(column)) of \(quoted(table)) is computed from others and cannot be set. Give the "
                + "column that it is computed from as --active-column, or delete."
        case .takenColumn(let column):
            "The column \(quoted(column)) cannot become 0, since it holds the token, the registration or the topic. "
                + "Give as --active-column the one that says whether a row is active."
        case .notAFlag(let column, let table):
            "The column \(column) of \(table) holds text, so that 0 would not be understood there. Is "
                + "it another column? Else use --sql with --inactive-value, or delete."
        case .hiddenRowNumber(let table):
            "The columns rowid, _rowid_ and oid of \(quoted(table)) hide the row number. Use --sql."
        case .name(let name): "\(quoted(name)) cannot be the name of a table or column."
        case .noTokens(let column, let table, let rowCount):
            "None of the \(rowCount) rows of \(quoted(table)) has a token in \(quoted(column)). Is it another column?"
        case .noTimes(let column, let table, let rowCount):
            "None of the \(rowCount) rows of \(quoted(table)) has a time in \(quoted(column)). Is it another column?"
        case .severalTopics(let topics, let environment):
            "The purge list has several topics for \(environment.rawValue): \(list(topics)). Say with --topic or "
                + "--topic-column which of them a row is for, or --require-all-topics for what is dead in all of them."
        case .fewTopics(let topics, let environment):
            "What is dead in all topics takes two topics at least, and the purge list knows \(list(topics)) for "
                + "\(environment.rawValue). Read the feedback of the others into it first, or prune by --topic."
        case .unknownTopics(let topics, let environment, let found):
            "The purge list never heard of \(list(topics)) for \(environment.rawValue), so that nothing is known to be "
                + "dead there; it knows \(list(found)). Read the feedback of each topic into it first; and are --topic "
                + "and --environment right?"
        case .constraint(let path, let detail):
            "A constraint of the database \(path) keeps rows from going (\(detail)). Prune what refers to them first, "
                + "or use --action deactivate."
        case .database(let path, let code, let detail): "The database \(path): SQLite says \(detail) (\(code))."
        }
    }
}

extension TokenTableError {
    /// Says in our words what SQLite said.
    init(_ error: DatabaseError, path: String) {
        // The statement and its arguments hold tokens, so only the bare message goes on.
        let detail = error.message ?? "\(error.extendedResultCode)"
        switch error.resultCode {
        case .SQLITE_CANTOPEN: self = .cannotOpen(path: path)
        case .SQLITE_NOTADB: self = .notADatabase(path: path)
        case .SQLITE_READONLY, .SQLITE_PERM: self = .readOnly(path: path)
        case .SQLITE_CORRUPT: self = .corrupt(path: path, detail: detail)
        case .SQLITE_FULL: self = .full(path: path)
        case .SQLITE_CONSTRAINT: self = .constraint(path: path, detail: detail)
        case .SQLITE_BUSY, .SQLITE_LOCKED, .SQLITE_PROTOCOL: self = .busy(path: path)
        default: self = .database(path: path, code: error.extendedResultCode.rawValue, detail: detail)
        }
    }

    /// Runs `body`, and says in our words what SQLite says in it; other errors pass.
    static func translated<Value>(path: String, _ body: () throws -> Value) throws -> Value {
        do {
            return try body()
        } catch let error as DatabaseError {
            throw TokenTableError(error, path: path)
        }
    }
}

/// A name as it may stand in a sentence: without what would break the line.
private func quoted(_ name: String) -> String {
    let shown = name.unicodeScalars.prefix(200).map { $0.properties.generalCategory == .control ? "?" : String($0) }
    return "\"" + shown.joined() + "\""
}

/// So many names are enough for a sentence.
private let shownNameCountMax = 20

private func list(_ names: [String]) -> String {
    if names.isEmpty { return "none" }
    let rest = names.count - shownNameCountMax
    return names.prefix(shownNameCountMax).map(quoted).joined(separator: ", ") + (rest > 0 ? " and \(rest) more" : "")
}

// SPDX-License-Identifier: Apache-2.0

import GRDB
import GRDBSQLite

/// A token table of an SQLite database.
struct SQLiteTokenTable: TokenTableConnection {
    private let database: Database
    private let table: TokenTable
    private let path: String
    private var reader: TokenTableReader
    private var pruner: TokenTablePruner
    /// Whether the database has a journal that each transaction removes.
    private let removesJournal: Bool

    init(_ database: Database, _ table: TokenTable, of application: TokenTableApplication, path: String) throws {
        self.database = database
        self.table = table
        self.path = path
        self.removesJournal = try String.fetchOne(database, sql: "PRAGMA journal_mode") == "delete"
        self.reader = try TokenTableReader(database, table)
        self.pruner = try TokenTablePruner(
            database,
            table,
            lockTimeout: application.lockTimeout,
            batchRowCountMax: application.batchRowCountMax
        )
    }

    var layout: TokenTableLayout { self.table.layout }
    var isAtEnd: Bool { self.reader.isAtEnd }
    var collectedCount: Int { self.pruner.waitingCount }
    var isFull: Bool { self.pruner.isFull }

    mutating func rewind() throws {
        self.reader = try TokenTableReader(self.database, self.table)
        try self.keepJournal()
    }

    /// Makes SQLite overwrite its journal instead of creating and removing it for each batch, which saves a tenth of
    /// the time.
    ///
    /// It affects this connection only. After a kill, the file stays; SQLite detects whether it is in use.
    private func keepJournal() throws {
        guard self.removesJournal else { return }
        try self.database.execute(sql: "PRAGMA journal_mode = PERSIST")
    }

    /// Restores what ``rewind()`` has changed.
    func removeJournal() {
        guard self.removesJournal else { return }
        try? self.database.execute(sql: "PRAGMA journal_mode = DELETE")
    }

    mutating func read(_ body: (SQLiteRow) throws -> TokenTableStep) throws {
        let pruner = self.pruner
        try self.reader.read { row in
            switch try body(row) {
            case .skip: return true
            case .collect:
                pruner.append(row)
                return !pruner.isFull
            case .stop: return false
            }
        }
    }

    mutating func prune(_ report: inout TokenTableReport) throws { try self.pruner.prune(&report) }

    func translated(_ error: any Error) -> TokenTableError? {
        (error as? DatabaseError).map { TokenTableError($0, path: self.path) }
    }
}

/// Reads a table in many short transactions, so that other processes can write in between.
struct TokenTableReader {
    private let first: PurgeStatement
    private let next: PurgeStatement
    private var isFirst = true
    /// The key of the last row.
    private let key = SQLiteValues()
    private let keyCount: Int
    /// Whether all rows were read.
    private(set) var isAtEnd = false

    init(_ database: Database, _ table: TokenTable) throws {
        self.first = try PurgeStatement(database, sql: table.portionSQL(isFirst: true))
        self.next = try PurgeStatement(database, sql: table.portionSQL(isFirst: false))
        self.keyCount = table.keys.count
    }

    /// Calls `body` with rows until it returns `false`, the time of the transaction is over, or there are no more.
    mutating func read(_ body: (SQLiteRow) throws -> Bool) throws {
        let statement = self.isFirst ? self.first : self.next
        if !self.isFirst { self.key.bind(0..<self.keyCount, to: statement) }
        let end = ContinuousClock.now + TokenTableLimits.readDurationMax
        var rowCount = 0
        var isStopped = false
        try statement.forEachRow { row in
            rowCount += 1
            let wantsMore = try body(row)
            if wantsMore, !rowCount.isMultiple(of: TokenTableLimits.clockRowCount) || ContinuousClock.now < end {
                return true
            }
            self.key.removeAll()
            self.key.append(row, self.keyCount)
            self.isFirst = false
            isStopped = true
            return false
        }
        self.isAtEnd = !isStopped
    }
}

/// Copies of SQLite values, to be bound again unchanged.
@safe final class SQLiteValues {
    private var values: [OpaquePointer?] = unsafe []

    deinit { self.removeAll() }

    var count: Int { unsafe self.values.count }

    /// Appends the first values of a row.
    func append(_ row: SQLiteRow, _ count: Int) {
        for column in 0..<Int32(count) {
            unsafe self.values.append(sqlite3_value_dup(sqlite3_column_value(row.statement, column)))
        }
    }

    func removeAll() {
        unsafe self.values.forEach { unsafe sqlite3_value_free($0) }
        unsafe self.values.removeAll(keepingCapacity: true)
    }

    /// Binds a range of values to the arguments of a statement.
    func bind(_ range: Range<Int>, to statement: PurgeStatement) {
        for index in range { unsafe statement.bind(value: self.values[index], at: Int32(index - range.lowerBound + 1)) }
    }

    /// Returns a value as an integer.
    func number(_ index: Int) -> Int64 { unsafe sqlite3_value_int64(self.values[index]) }
}

// SPDX-License-Identifier: Apache-2.0

import GRDB
import GRDBSQLite

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

    /// Calls `take` with rows until it returns `false`, the time of the transaction is over, or there are no more.
    mutating func read(_ take: (SQLiteRow) throws -> Bool) throws {
        let statement = self.isFirst ? self.first : self.next
        if !self.isFirst { self.key.bind(0..<self.keyCount, to: statement) }
        let end = ContinuousClock.now + TokenTableLimits.readDurationMax
        var rowCount = 0
        var isStopped = false
        try statement.forEachRow { row in
            rowCount += 1
            let wantsMore = try take(row)
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

// SPDX-License-Identifier: Apache-2.0

import GRDB
import GRDBSQLite

/// Reads a table from its first row to its last in many short looks, so that others can write between them.
struct TokenTableReader {
    private let first: Statement
    private let next: Statement
    private var isFirst = true
    /// The key of the last row that was read.
    private let key: SQLiteValues
    private let keyCount: Int32
    /// Whether there are no more rows.
    private(set) var isAtEnd = false

    init(_ database: Database, _ table: TokenTable) throws {
        self.first = try database.makeStatement(sql: table.portionSQL(isFirst: true))
        self.next = try database.makeStatement(sql: table.portionSQL(isFirst: false))
        self.keyCount = Int32(table.keys.count)
        self.key = SQLiteValues()
    }

    /// Lends rows to `take` until it wants no more, the time for a look is over, or there are no more.
    mutating func read(_ take: (SQLiteRow) throws -> Bool) throws {
        let statement = (self.isFirst ? self.first : self.next).sqliteStatement
        sqlite3_reset(statement)
        defer { sqlite3_reset(statement) }
        if !self.isFirst { self.key.bind(0..<Int(self.keyCount), to: statement) }
        let row = SQLiteRow(statement: statement)
        let end = ContinuousClock.now + TokenTableLimits.readDurationMax
        var rowCount = 0
        while true {
            let code = sqlite3_step(statement)
            if code == SQLITE_DONE {
                self.isAtEnd = true
                return
            }
            guard code == SQLITE_ROW else { throw DatabaseError(failureOf: statement) }
            rowCount += 1
            let wantsMore = try take(row)
            if wantsMore, !rowCount.isMultiple(of: TokenTableLimits.clockRowCount) || ContinuousClock.now < end {
                continue
            }
            self.key.removeAll()
            for column in 0..<self.keyCount { self.key.append(sqlite3_column_value(statement, column)) }
            self.isFirst = false
            return
        }
    }
}

/// Copies of values, to be bound again just as they were.
final class SQLiteValues {
    private var values: [OpaquePointer?] = []

    deinit { self.removeAll() }

    var count: Int { self.values.count }

    func append(_ value: OpaquePointer?) { self.values.append(sqlite3_value_dup(value)) }

    func removeAll() {
        for value in self.values { sqlite3_value_free(value) }
        self.values.removeAll(keepingCapacity: true)
    }

    /// Binds some of the values to the arguments of a statement, in order.
    func bind(_ range: Range<Int>, to statement: SQLiteStatement) {
        for (index, value) in self.values[range].enumerated() {
            sqlite3_bind_value(statement, Int32(index + 1), value)
        }
    }

    /// The number that is one of the values.
    func number(_ index: Int) -> Int64 { sqlite3_value_int64(self.values[index]) }
}

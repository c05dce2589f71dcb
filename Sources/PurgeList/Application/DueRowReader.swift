// SPDX-License-Identifier: Apache-2.0

import GRDB
import GRDBSQLite

/// Reads some rows of a table again, as they are now, in many short looks.
struct DueRowReader: TokenTableReading {
    private let database: Database
    private let statement: Statement
    private var numbers: TokenTableNumbers.Iterator
    private(set) var isAtEnd = false

    init(_ database: Database, _ table: TokenTable, _ numbers: TokenTableNumbers) throws {
        self.database = database
        self.statement = try database.makeStatement(sql: table.rowSQL)
        self.numbers = numbers.makeIterator()
    }

    mutating func read(_ take: (TokenTableRow) throws -> Bool) throws {
        // In one transaction, since each on its own would lock and unlock the file.
        try self.database.beginTransaction(.deferred)
        do {
            try self.readRows(take)
            try self.database.commit()
        } catch {
            if self.database.isInsideTransaction { try self.database.rollback() }
            throw error
        }
    }

    private mutating func readRows(_ take: (TokenTableRow) throws -> Bool) throws {
        let handle = self.statement.sqliteStatement
        defer { sqlite3_reset(handle) }
        let end = ContinuousClock.now + TokenTableLimits.readDurationMax
        while let number = self.numbers.next() {
            sqlite3_bind_int64(handle, 1, number)
            let code = sqlite3_step(handle)
            guard code == SQLITE_ROW || code == SQLITE_DONE else { throw DatabaseError(failureOf: handle) }
            // A row that is gone is nobody's concern.
            let wantsMore = try code == SQLITE_DONE || take(TokenTableRow(statement: handle))
            sqlite3_reset(handle)
            // After each row, since each may be on a page of its own that the disk takes its time for.
            guard wantsMore, ContinuousClock.now < end else { return }
        }
        self.isAtEnd = true
    }
}

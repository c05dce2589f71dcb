// SPDX-License-Identifier: Apache-2.0

import GRDB
import GRDBSQLite

/// A statement that is run once for each of very many tokens.
///
/// Values are bound where they lie: an array of boxed arguments for each row would cost more than the row.
@safe struct PurgeStatement {
    private let statement: Statement
    private let handle: SQLiteStatement

    init(_ database: Database, sql: String) throws {
        self.statement = try database.cachedStatement(sql: sql)
        unsafe self.handle = unsafe self.statement.sqliteStatement
        unsafe sqlite3_reset(self.handle)
    }

    func bind(_ value: Int64, at index: Int32) { unsafe sqlite3_bind_int64(self.handle, index, value) }

    /// The bytes must stay until the statement has run.
    func bind(_ bytes: UnsafeRawBufferPointer, at index: Int32) {
        // No bytes may have no address, which would be bound as NULL.
        if unsafe bytes.isEmpty {
            unsafe sqlite3_bind_zeroblob(self.handle, index, 0)
        } else {
            unsafe sqlite3_bind_blob(self.handle, index, bytes.baseAddress, Int32(bytes.count), nil)
        }
    }

    /// The value must stay until the statement has run.
    func bind(value: OpaquePointer?, at index: Int32) { unsafe sqlite3_bind_value(self.handle, index, value) }

    /// Runs the statement to its end.
    ///
    /// - Returns: how many rows it changed.
    func run() throws -> Int {
        try unsafe self.finish(sqlite3_step(self.handle))
        return unsafe Int(sqlite3_changes(sqlite3_db_handle(self.handle)))
    }

    /// Runs the statement to its first row.
    ///
    /// - Returns: whether there is one.
    func hasRow() throws -> Bool {
        let code = unsafe sqlite3_step(self.handle)
        try self.finish(code)
        return code == SQLITE_ROW
    }

    /// Runs the statement, and lends its rows until no more are wanted.
    func forEachRow(_ wantsMore: (SQLiteRow) throws -> Bool) throws {
        let row = unsafe SQLiteRow(statement: self.handle)
        var code = unsafe sqlite3_step(self.handle)
        do {
            while code == SQLITE_ROW, try wantsMore(row) { code = unsafe sqlite3_step(self.handle) }
        } catch {
            try self.finish(SQLITE_DONE)
            throw error
        }
        try self.finish(code)
    }

    private func finish(_ code: Int32) throws {
        let error = unsafe code == SQLITE_ROW || code == SQLITE_DONE ? nil : DatabaseError(failureOf: self.handle)
        unsafe sqlite3_reset(self.handle)
        // What was bound points to memory that may be gone by the next run.
        unsafe sqlite3_clear_bindings(self.handle)
        if let error { throw error }
    }
}

extension DatabaseError {
    /// What SQLite says of a statement that failed; without its text and arguments, which hold tokens.
    init(failureOf statement: SQLiteStatement) {
        let connection = unsafe sqlite3_db_handle(statement)
        unsafe self.init(
            resultCode: ResultCode(rawValue: sqlite3_extended_errcode(connection)),
            message: String(cString: sqlite3_errmsg(connection))
        )
    }
}

extension Row {
    /// The value of a column.
    ///
    /// - Throws: `DatabaseError` where the file, which may be damaged, has another kind of value there.
    func value<Value: DatabaseValueConvertible>(_ index: Int) throws -> Value {
        guard let value = Value.fromDatabaseValue(self[index] as DatabaseValue) else {
            throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: "a value of the wrong kind")
        }
        return value
    }

    /// The time in a column, in seconds since 1970.
    ///
    /// - Throws: `DatabaseError` where the file, which may be damaged, has something else there.
    func time(_ index: Int) throws -> Int64 { try PurgeLimits.checked(time: self.value(index)) }
}

extension PurgeLimits {
    /// Passes on a time of a file.
    ///
    /// - Throws: `DatabaseError` where it is none that a list holds.
    static func checked(time: Int64) throws -> Int64 {
        guard self.times.contains(time) else {
            throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: "a time out of range")
        }
        return time
    }
}

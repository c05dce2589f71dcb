// SPDX-License-Identifier: Apache-2.0

import GRDB
import GRDBSQLite

/// A statement that is run once for each of very many tokens.
///
/// Values are bound where they lie: an array of boxed arguments for each row would cost more than the row.
struct PurgeStatement {
    private let statement: Statement
    private let handle: SQLiteStatement

    init(_ database: Database, sql: String) throws {
        self.statement = try database.cachedStatement(sql: sql)
        self.handle = self.statement.sqliteStatement
        sqlite3_reset(self.handle)
    }

    func bind(_ value: Int64, at index: Int32) { sqlite3_bind_int64(self.handle, index, value) }

    /// The bytes must stay until the statement has run.
    func bind(_ bytes: UnsafeRawBufferPointer, at index: Int32) {
        sqlite3_bind_blob(self.handle, index, bytes.baseAddress, Int32(bytes.count), nil)
    }

    /// Runs the statement to its end.
    ///
    /// - Returns: how many rows it changed.
    func run() throws -> Int {
        try self.finish(sqlite3_step(self.handle))
        return Int(sqlite3_changes(sqlite3_db_handle(self.handle)))
    }

    /// Runs the statement to its first row.
    ///
    /// - Returns: whether there is one.
    func hasRow() throws -> Bool {
        let code = sqlite3_step(self.handle)
        try self.finish(code)
        return code == SQLITE_ROW
    }

    /// Runs the statement, and lends the bytes in the first column of each row.
    func forEachRow(_ body: (UnsafeRawBufferPointer) -> Void) throws {
        while true {
            let code = sqlite3_step(self.handle)
            guard code == SQLITE_ROW else { return try self.finish(code) }
            let bytes = sqlite3_column_blob(self.handle, 0)
            body(UnsafeRawBufferPointer(start: bytes, count: Int(sqlite3_column_bytes(self.handle, 0))))
        }
    }

    private func finish(_ code: Int32) throws {
        let message = code == SQLITE_ROW || code == SQLITE_DONE ? nil : String(cString: sqlite3_errmsg(self.connection))
        let extended = sqlite3_extended_errcode(self.connection)
        sqlite3_reset(self.handle)
        // What was bound points to memory that may be gone by the next run.
        sqlite3_clear_bindings(self.handle)
        if let message { throw DatabaseError(resultCode: ResultCode(rawValue: extended), message: message) }
    }

    private var connection: OpaquePointer? { sqlite3_db_handle(self.handle) }
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

// SPDX-License-Identifier: Apache-2.0

import APNSWire
import GRDB
import GRDBSQLite

/// A statement that is run for each of many tokens.
///
/// Values are bound without copies: an array of boxed arguments per row would cost more than the row.
@safe struct PurgeStatement {
    private let statement: Statement
    private let handle: SQLiteStatement

    init(_ database: Database, sql: String) throws {
        self.statement = try database.cachedStatement(sql: sql)
        unsafe self.handle = unsafe self.statement.sqliteStatement
        unsafe sqlite3_reset(self.handle)
    }

    func bind(_ value: Int64, at index: Int32) { unsafe sqlite3_bind_int64(self.handle, index, value) }

    /// The bytes must stay valid until the statement has run.
    func bind(_ bytes: UnsafeRawBufferPointer, at index: Int32) {
        // An empty buffer may have no address, which would be bound as NULL.
        if unsafe bytes.isEmpty {
            unsafe sqlite3_bind_zeroblob(self.handle, index, 0)
        } else {
            unsafe sqlite3_bind_blob(self.handle, index, bytes.baseAddress, Int32(bytes.count), nil)
        }
    }

    /// The value must stay valid until the statement has run.
    func bind(value: OpaquePointer?, at index: Int32) { unsafe sqlite3_bind_value(self.handle, index, value) }

    /// Runs the statement to completion.
    ///
    /// Returns the number of changed rows.
    func run() throws -> Int {
        try unsafe self.finish(sqlite3_step(self.handle))
        return unsafe Int(sqlite3_changes(sqlite3_db_handle(self.handle)))
    }

    /// Runs the statement, and calls a closure with its rows until it returns `false`.
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
        // Bindings point to memory that may be freed before the next run.
        unsafe sqlite3_clear_bindings(self.handle)
        if let error { throw error }
    }
}

extension DatabaseError {
    /// SQLite's message for a failed statement, without its text and arguments, which contain tokens.
    init(failureOf statement: SQLiteStatement) {
        let connection = unsafe sqlite3_db_handle(statement)
        unsafe self.init(
            resultCode: ResultCode(rawValue: sqlite3_extended_errcode(connection)),
            message: String(cString: sqlite3_errmsg(connection))
        )
    }
}

extension Database {
    /// Whether SQLite finds the structure of the file intact, pages that no row leads to included.
    ///
    /// What SQLite finds is not reported, since it may quote values.
    var isIntact: Bool {
        get throws { try String.fetchAll(self, sql: "PRAGMA integrity_check(1)") == ["ok"] }
    }
}

extension Row {
    /// Returns the value of a column.
    ///
    /// - Throws: `DatabaseError` if a damaged file has another type of value.
    func value<Value: DatabaseValueConvertible>(_ index: Int) throws -> Value {
        guard let value = Value.fromDatabaseValue(self[index] as DatabaseValue) else {
            throw PurgeDamage.kind.error
        }
        return value
    }
}

/// The current row of a statement; its bytes are valid until the next step.
@safe struct SQLiteRow: TokenTableRow {
    let statement: SQLiteStatement

    func integer(_ column: Int32) -> Int64 { unsafe sqlite3_column_int64(self.statement, column) }

    func number(_ column: Int32) -> Double { unsafe sqlite3_column_double(self.statement, column) }

    func kind(_ column: Int32) -> TokenTableValueKind {
        switch unsafe sqlite3_column_type(self.statement, column) {
        case SQLITE_INTEGER: .integer
        case SQLITE_FLOAT: .number
        case SQLITE_TEXT: .text
        case SQLITE_BLOB: .blob
        default: .null
        }
    }

    /// The bytes of a text or BLOB.
    func bytes(_ column: Int32) -> UnsafeRawBufferPointer {
        // In this order: conversion to UTF-8 may change the number of bytes, if the database uses UTF-16.
        let start =
            unsafe self.kind(column) == .text
            ? UnsafeRawPointer(sqlite3_column_text(self.statement, column))
            : sqlite3_column_blob(self.statement, column)
        return unsafe UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(self.statement, column)))
    }
}

/// Writes new dead or registered tokens in a transaction.
struct PurgeInsertion {
    private let table: PurgeRows.Table
    private let statement: PurgeStatement

    init(_ database: Database, _ table: PurgeRows.Table, rowCount: Int = 1) throws {
        self.table = table
        let (name, row) = table == .dead ? ("dead_token", "(?, ?, ?, ?, ?, ?)") : ("registered_token", "(?, ?, ?, ?)")
        let rows = Array(repeating: row, count: rowCount).joined(separator: ", ")
        self.statement = try PurgeStatement(database, sql: "INSERT INTO \(name) VALUES \(rows)")
    }

    /// Inserts a row.
    func insert(_ token: UnsafeRawBufferPointer, _ row: PurgeRow, in scope: PurgeScope) throws -> UInt64 {
        var index: Int32 = 1
        let checksum = unsafe self.bind(token, row, in: scope, at: &index)
        try self.run()
        return checksum
    }

    /// Binds the next row.
    func bind(
        _ token: UnsafeRawBufferPointer,
        _ row: PurgeRow,
        in scope: PurgeScope,
        at index: inout Int32
    ) -> UInt64 {
        let checksum = unsafe row.checksum(token, in: scope)
        self.statement.bind(scope.identifier, at: index)
        unsafe self.statement.bind(token, at: index + 1)
        self.statement.bind(row.time, at: index + 2)
        index += 3
        if let source = row.source {
            self.statement.bind(row.firstSeen, at: index)
            self.statement.bind(source.identifier, at: index + 1)
            index += 2
        }
        self.statement.bind(Int64(bitPattern: checksum), at: index)
        index += 1
        return checksum
    }

    /// Inserts the rows.
    func run() throws { _ = try self.statement.run() }
}

// SPDX-License-Identifier: Apache-2.0

import APNSWire
import GRDB
import GRDBSQLite

/// The current row of a statement; its bytes are valid until the next step.
@safe struct SQLiteRow {
    let statement: SQLiteStatement

    func integer(_ column: Int32) -> Int64 { unsafe sqlite3_column_int64(self.statement, column) }

    func type(_ column: Int32) -> Int32 { unsafe sqlite3_column_type(self.statement, column) }

    /// The bytes of a text or BLOB.
    func bytes(_ column: Int32) -> UnsafeRawBufferPointer {
        // In this order: conversion to UTF-8 may change the number of bytes, if the database uses UTF-16.
        let start =
            unsafe self.type(column) == SQLITE_TEXT
            ? UnsafeRawPointer(sqlite3_column_text(self.statement, column))
            : sqlite3_column_blob(self.statement, column)
        return unsafe UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(self.statement, column)))
    }

    /// The bytes of a text in UTF-8; `nil` for any other value.
    func text(_ column: Int32) -> UnsafeRawBufferPointer? {
        unsafe self.type(column) == SQLITE_TEXT ? self.bytes(column) : nil
    }

    /// Decodes a token into a buffer; `nil` if it is not one.
    func token(
        _ column: Int32,
        into target: UnsafeMutableRawBufferPointer
    ) -> (byteCount: Int, spelling: DeviceTokenSpelling)? {
        switch self.type(column) {
        case SQLITE_TEXT: unsafe DeviceTokenText.decode(self.bytes(column), .any, into: target)
        case SQLITE_BLOB: unsafe DeviceTokenText.decode(blob: self.bytes(column), into: target)
        default: nil
        }
    }

    /// Whether there is no token, as for a device that never registered for push.
    func isEmpty(_ column: Int32) -> Bool {
        switch self.type(column) {
        case SQLITE_NULL: true
        case SQLITE_TEXT, SQLITE_BLOB: unsafe sqlite3_column_bytes(self.statement, column) == 0
        default: false
        }
    }

    /// Interprets a time; `nil` if it is not one.
    func time(_ column: Int32) -> RegistrationTime? {
        switch self.type(column) {
        case SQLITE_INTEGER: RegistrationTime(self.integer(column))
        case SQLITE_FLOAT: unsafe RegistrationTime(sqlite3_column_double(self.statement, column))
        case SQLITE_TEXT: unsafe RegistrationTime(text: self.bytes(column))
        default: nil
        }
    }

    /// Whether the value is text or a BLOB other than the digits 0 and 1.
    func isText(_ column: Int32) -> Bool {
        switch self.type(column) {
        case SQLITE_BLOB: true
        case SQLITE_TEXT:
            unsafe !self.bytes(column).elementsEqual("0".utf8) && !self.bytes(column).elementsEqual("1".utf8)
        default: false
        }
    }

    /// Whether the value is zero, as a number or text.
    func isZero(_ column: Int32) -> Bool {
        switch self.type(column) {
        case SQLITE_NULL, SQLITE_BLOB: false
        case SQLITE_TEXT: unsafe self.bytes(column).elementsEqual("0".utf8)
        default: unsafe sqlite3_column_double(self.statement, column) == 0
        }
    }
}

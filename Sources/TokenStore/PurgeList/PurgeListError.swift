// SPDX-License-Identifier: Apache-2.0

import APNSWire
import GRDB
import SystemPackage

/// The error of a purge list that cannot be used, or rejects an entry.
///
/// No case contains a token. After any error, the list is unchanged.
///
/// Later versions may add cases.
@nonexhaustive
public enum PurgeListError: Error, Hashable, Sendable {
    /// The file does not exist and was not to be created.
    case missing(path: String)
    /// The file or its folder cannot be opened.
    case cannotOpen(path: String)
    /// The path is a symbolic link whose target does not exist.
    case danglingLink(path: String)
    /// The path is a folder, a device or the like.
    case notAFile(path: String)
    /// The file is empty and was not to become a list.
    case empty(path: String)
    /// The file is not a purge list.
    case notAPurgeList(path: String)
    /// The file was created by a newer release.
    case newerVersion(path: String, found: Int, known: Int)
    /// The file is damaged; the text is SQLite's message.
    case corrupt(path: String, detail: String)
    /// The file has a trigger, which could change what is recorded.
    case trigger(path: String)
    /// A failure is more than a day in the future.
    case futureFailure(path: String, time: Int64)
    /// The file or its folder is read-only.
    case readOnly(path: String)
    /// The disk is full.
    case full(path: String)
    /// Another process locked the file for too long.
    case busy(path: String)
    /// The file or its write-ahead log was removed or replaced while it was open.
    case replaced(path: String)
    /// The disk failed, or a limit of the process was reached; the text is SQLite's message.
    case inputOutput(path: String, detail: String)
    /// Another error of SQLite.
    case database(path: String, code: Int32, detail: String)
    /// The server of a list in a PostgreSQL database cannot be reached, or refuses what is needed.
    case server(TokenTableError)
    /// An entry has a token of this many bytes.
    case tokenByteCount(Int)
    /// An entry has a topic or source of this many bytes.
    case nameByteCount(field: String, Int)
    /// An entry has a topic or source with a control character.
    case controlCharacter(field: String)
    /// A time of an entry is out of range.
    case time(field: String, Int64)
}

extension PurgeListError: CustomStringConvertible {
    /// The cause and the remedy.
    public var description: String {
        switch self {
        case .missing(let path): "purge list \(path) does not exist"
        case .cannotOpen(let path):
            "cannot open purge list \(path); check that its folder exists and that this user can write to it"
        case .danglingLink(let path):
            "\(path) is a dangling link; remove it, or create the file that it leads to"
        case .notAFile(let path):
            "\(path) is not a regular file; specify a purge list or a new file"
        case .empty(let path): "\(path) is empty and not a purge list; specify a purge list"
        case .notAPurgeList(let path):
            "\(path) is not a purge list and was not changed; specify a purge list or a new file"
        case .newerVersion(let path, let found, let known):
            "purge list \(path) has version \(found), but this program supports versions up to \(known); use the newer "
                + "release that created it"
        case .corrupt(let path, let detail):
            "purge list \(path) is damaged (\(detail)); move it aside and restore a backup; sqlite3 \(path) .recover "
                + "may save the rest"
        case .trigger(let path):
            "purge list \(path) has a trigger, which could change its entries; no release makes one; remove it with "
                + "DROP TRIGGER, and check the list with purge check"
        case .futureFailure(let path, let time):
            "purge list \(path) has a failure in the future (\(TimeText(seconds: time).text)), after which no "
                + "registration would count; check the clock of this host; if it is right, remove what purge list "
                + "--failed-since \(TimeText(seconds: time).text) shows with purge forget --token"
        case .readOnly(let path):
            "cannot write purge list \(path): the file or its folder is read-only; SQLite writes files next to it even "
                + "for reading"
        case .full(let path):
            "disk full while writing purge list \(path), which was not changed; free space and run again"
        case .busy(let path):
            "purge list \(path) is locked by another process and was not changed; run again later"
        case .replaced(let path):
            "purge list \(path), or its write-ahead log, was removed or replaced while it was open; put it back, or "
                + "run again for a new list"
        case .inputOutput(let path, let detail):
            "cannot read or write purge list \(path) (\(detail)), which was not changed; check the disk, its quota and "
                + "the limits of this process, and run again"
        case .database(let path, let code, let detail): "purge list \(path): SQLite error \(code): \(detail)"
        case .server(.readOnly(let path)):
            "cannot change the purge list in \(path), which is read-only; use the address of the primary server"
        case .server(.notPermitted(let database, let detail)):
            "purge list in \(database): \(detail); grant SELECT, INSERT, UPDATE and DELETE on its tables to this user"
        case .server(let error): "purge list: \(error)"
        case .tokenByteCount(let count):
            "a device token has \(count) bytes, expected 1 to \(PurgeLimits.tokenByteCountMax)"
        case .nameByteCount(let field, let count):
            "a \(field) has \(count) bytes, expected 1 to \(PurgeLimits.nameByteCountMax)"
        case .controlCharacter(let field): "a \(field) contains a control character, such as a line break"
        case .time(let field, let seconds):
            "\(field) is \(seconds), expected seconds since 1970 up to the end of the year 9999"
        }
    }
}

extension PurgeListError {
    /// Converts an error of SQLite.
    init(_ error: DatabaseError, path: String) {
        // The statement and its arguments contain tokens, so only SQLite's message is used.
        let detail = error.message ?? "\(error.extendedResultCode)"
        switch error.resultCode {
        case .SQLITE_FULL: self = .full(path: path)
        case .SQLITE_READONLY, .SQLITE_PERM: self = .readOnly(path: path)
        case .SQLITE_CANTOPEN: self = .cannotOpen(path: path)
        case .SQLITE_CORRUPT: self = .corrupt(path: path, detail: detail)
        case .SQLITE_NOTADB: self = .notAPurgeList(path: path)
        case .SQLITE_BUSY, .SQLITE_LOCKED, .SQLITE_PROTOCOL: self = .busy(path: path)
        case .SQLITE_IOERR: self = .inputOutput(path: path, detail: detail)
        default: self = .database(path: path, code: error.extendedResultCode.rawValue, detail: detail)
        }
    }

    /// Runs `body`, and converts errors of SQLite and the system; other errors are rethrown.
    static func translated<Value>(path: String, _ body: () throws -> Value) throws -> Value {
        do {
            return try body()
        } catch let error as DatabaseError {
            throw PurgeListError(error, path: path)
        } catch let error as Errno {
            throw PurgeListError.inputOutput(path: path, detail: error.description)
        }
    }
}

/// What is wrong with the content of a purge list.
enum PurgeDamage: String {
    case checksum = "an entry does not match its checksum"
    case kind = "a value of the wrong kind"
    case missingRow = "an entry without topic or source"
    case order = "entries are not in order"
    case scopes = "the topics do not match their checksum"
    case time = "a time out of range"
    case tokenByteCount = "a token of the wrong length"
    case total = "entries are missing, or not in their latest state"

    /// The error, as of a page that SQLite finds damaged.
    var error: DatabaseError { DatabaseError(resultCode: .SQLITE_CORRUPT, message: self.rawValue) }
}

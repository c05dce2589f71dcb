// SPDX-License-Identifier: Apache-2.0

import GRDB
import SystemPackage

/// Why a purge list cannot be used, or does not take an entry.
///
/// No case carries a token. Whatever is thrown, what the list held before the call it still holds.
///
/// There may be more in later versions.
@nonexhaustive
public enum PurgeListError: Error, Hashable, Sendable {
    /// There is no such file, and none was to be made.
    case missing(path: String)
    /// The file or its folder cannot be opened.
    case cannotOpen(path: String)
    /// There is a folder, a device or the like where the file should be.
    case notAFile(path: String)
    /// The file is empty, and no list was to be made.
    case empty(path: String)
    /// The file is something else than a purge list.
    case notAPurgeList(path: String)
    /// A newer release of this program made the file.
    case newerVersion(path: String, found: Int, known: Int)
    /// The file is damaged; the text is what SQLite says of it.
    case corrupt(path: String, detail: String)
    /// The file or its folder is read-only.
    case readOnly(path: String)
    /// The disk is full.
    case full(path: String)
    /// Another process kept the file busy for too long.
    case busy(path: String)
    /// The disk failed, or a limit of the process was reached; the text is what SQLite says of it.
    case inputOutput(path: String, detail: String)
    /// Something else that SQLite says.
    case database(path: String, code: Int32, detail: String)
    /// An entry has a token of so many bytes.
    case tokenByteCount(Int)
    /// An entry has a topic or source of so many bytes.
    case nameByteCount(field: String, Int)
    /// An entry has a topic or source with a control character.
    case controlCharacter(field: String)
    /// A time of an entry is out of range.
    case time(field: String, Int64)
}

extension PurgeListError: CustomStringConvertible {
    /// What happened, and what to do.
    public var description: String {
        switch self {
        case .missing(let path): "There is no purge list \(path)."
        case .cannotOpen(let path):
            "Cannot open the purge list \(path): its folder must be there, and this user be allowed to write in it."
        case .notAFile(let path):
            "\(path) is a folder, a device or the like. Give the path of a purge list, or of a new file."
        case .empty(let path): "\(path) is empty, so it is not a purge list. Give the path of one."
        case .notAPurgeList(let path):
            "\(path) is not a purge list, and was left as it is. Give the path of a purge list, or of a new file."
        case .newerVersion(let path, let found, let known):
            "The purge list \(path) is of version \(found), and this program knows versions up to \(known). "
                + "Use the newer release that made it."
        case .corrupt(let path, let detail):
            "The purge list \(path) is damaged (\(detail)). Put it aside, and get it back from a copy; "
                + "sqlite3 \(path) .recover may save what is left."
        case .readOnly(let path):
            "Cannot write the purge list \(path): the file or its folder is read-only. "
                + "SQLite writes files beside it, also for reading."
        case .full(let path):
            "The disk with the purge list \(path) is full; nothing was changed. Make room, and run again."
        case .busy(let path):
            "Another process keeps the purge list \(path) busy; nothing was changed. Run again when it is done."
        case .inputOutput(let path, let detail):
            "The purge list \(path) cannot be read or written (\(detail)). Look at the disk, its quota and the limits "
                + "of this process, and run again; what the list held before is safe."
        case .database(let path, let code, let detail): "The purge list \(path): SQLite says \(detail) (\(code))."
        case .tokenByteCount(let count):
            "A token has \(count) bytes; it must have 1 to \(PurgeLimits.tokenByteCountMax)."
        case .nameByteCount(let field, let count):
            "A \(field) has \(count) bytes; it must have 1 to \(PurgeLimits.nameByteCountMax)."
        case .controlCharacter(let field): "A \(field) has a control character, such as an end of line."
        case .time(let field, let seconds):
            "\(field) is \(seconds); it must be seconds since 1970, from 0 to the end of the year 9999."
        }
    }
}

extension PurgeListError {
    /// Says in our words what SQLite said.
    init(_ error: DatabaseError, path: String) {
        // The statement and its arguments hold tokens, so only the bare message goes on.
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

    /// Runs `body`, and says in our words what SQLite and the system say in it; other errors pass.
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

// SPDX-License-Identifier: Apache-2.0

import GRDB
import SystemPackage

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

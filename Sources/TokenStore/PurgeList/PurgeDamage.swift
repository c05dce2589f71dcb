// SPDX-License-Identifier: Apache-2.0

import GRDB

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

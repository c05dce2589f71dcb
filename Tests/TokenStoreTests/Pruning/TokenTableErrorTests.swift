// SPDX-License-Identifier: Apache-2.0

import GRDB
import Testing

@testable import TokenStore

/// Goal: what happens to the disk of a table is no internal error.
struct TokenTableErrorTests {
    @Test func `a disk without room for the memory that SQLite shares is an error of the disk`() {
        let error = DatabaseError(resultCode: .SQLITE_IOERR_SHMSIZE, message: "disk I/O error")
        #expect(TokenTableError(error, path: "a.db") == .inputOutput(path: "a.db", detail: "disk I/O error"))
    }
}

// SPDX-License-Identifier: Apache-2.0

import GRDB
import GRDBSQLite
import Glibc

/// The lock of the application's database, which is held briefly and then released for others.
struct TokenTableLock {
    private let database: Database
    private let wait: Duration
    private var heldSince = ContinuousClock.now
    private var freeSince: ContinuousClock.Instant?
    /// The longest time that it was held.
    private(set) var longestHold = Duration.zero

    init(_ database: Database, wait: Duration) {
        self.database = database
        self.wait = wait
    }

    /// How long it has been held.
    var hold: Duration { .now - self.heldSince }

    /// Starts a transaction after a pause for other processes.
    ///
    /// - Throws: `SQLITE_BUSY` if other processes hold the lock for too long.
    mutating func take() throws {
        if let freeSince = self.freeSince {
            let rest = freeSince + TokenTableLimits.pauseDuration - .now
            if rest > .zero { usleep(UInt32(rest / .microseconds(1))) }
        }
        try self.database.beginTransaction(.immediate)
        self.heldSince = .now
        // In effect until the commit: a page that is evicted early does not wait for readers.
        self.waitForLocks(.zero)
    }

    /// Commits the transaction.
    ///
    /// - Throws: `SQLITE_BUSY` if readers stay for longer than ``TokenTableLimits/commitWaitDuration``.
    mutating func commit() throws {
        self.waitForLocks(TokenTableLimits.commitWaitDuration)
        try self.database.commit()
        self.release()
    }

    /// Rolls back the transaction, unless an error or a trigger did.
    mutating func rollback() throws {
        defer { self.release() }
        if self.database.isInsideTransaction { try self.database.rollback() }
    }

    private mutating func release() {
        self.waitForLocks(self.wait)
        self.longestHold = max(self.longestHold, self.hold)
        self.freeSince = .now
    }

    private func waitForLocks(_ duration: Duration) {
        unsafe sqlite3_busy_timeout(self.database.sqliteConnection, Int32(duration / .milliseconds(1)))
    }
}

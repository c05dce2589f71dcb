// SPDX-License-Identifier: Apache-2.0

import GRDB
import GRDBSQLite
import Glibc

/// The lock of the application's database, which is held for a short time and then left to others.
struct TokenTableLock {
    private let database: Database
    private let wait: Duration
    private var heldSince = ContinuousClock.now
    private var freeSince: ContinuousClock.Instant?
    /// How long it was held at most.
    private(set) var longestHold = Duration.zero

    /// - Parameters:
    ///   - database: the application's database.
    ///   - wait: how long to wait where others hold the lock.
    init(_ database: Database, wait: Duration) {
        self.database = database
        self.wait = wait
    }

    /// For how long it has been held.
    var hold: Duration { .now - self.heldSince }

    /// Begins a transaction once others had their time.
    ///
    /// - Throws: `SQLITE_BUSY` where others keep the lock for longer than this waits.
    mutating func take() throws {
        if let freeSince = self.freeSince {
            let rest = freeSince + TokenTableLimits.pauseDuration - .now
            if rest > .zero { usleep(UInt32(rest / .microseconds(1))) }
        }
        try self.database.beginTransaction(.immediate)
        self.heldSince = .now
        // So it stays until the commit: a page that leaves the cache early does not wait for readers.
        self.waitForLocks(.zero)
    }

    /// Ends the transaction; what it changed stays.
    ///
    /// - Throws: `SQLITE_BUSY` where readers stay for longer than ``TokenTableLimits/commitWaitDuration``.
    mutating func commit() throws {
        self.waitForLocks(TokenTableLimits.commitWaitDuration)
        try self.database.commit()
        self.release()
    }

    /// Ends the transaction, unless an error or a trigger did; nothing of it stays.
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

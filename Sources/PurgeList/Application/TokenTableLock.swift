// SPDX-License-Identifier: Apache-2.0

import GRDB
import GRDBSQLite
import Glibc

/// The lock of the application's database, which is held for a short time and then left to others.
struct TokenTableLock {
    private let database: Database
    private let dataVersion: Statement
    private let wait: Duration
    private var heldSince = ContinuousClock.now
    private var freeSince: ContinuousClock.Instant?
    private var lastDataVersion: Int?
    /// Whether others wrote when the lock was last free.
    private var othersWrite = false
    /// How long it was held the last time.
    private(set) var lastHold = Duration.zero
    /// How long it was held at most.
    private(set) var longestHold = Duration.zero

    /// - Parameters:
    ///   - database: the application's database.
    ///   - wait: how long to wait where others hold the lock.
    /// - Throws: `SQLITE_BUSY` where others hold it for longer.
    init(_ database: Database, wait: Duration) throws {
        self.database = database
        self.dataVersion = try database.makeStatement(sql: "PRAGMA data_version")
        self.wait = wait
        self.lastDataVersion = try Int.fetchOne(self.dataVersion)
    }

    /// For how long it has been held.
    var hold: Duration { .now - self.heldSince }

    /// Begins a transaction once others had their time.
    mutating func take() throws {
        try self.leaveOthersTime()
        try self.begin()
        self.heldSince = .now
        do {
            let dataVersion = try Int.fetchOne(self.dataVersion)
            self.othersWrite = dataVersion != self.lastDataVersion
            self.lastDataVersion = dataVersion
        } catch {
            try self.rollback()
            throw error
        }
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
        // The looks at the table in between wait for others as long as may be.
        self.waitForLocks(self.wait)
        self.lastHold = self.hold
        self.longestHold = max(self.longestHold, self.lastHold)
        self.freeSince = .now
    }

    /// Where others write all the while but did not yet, one of them waits and woke too late: it gets more time.
    private func leaveOthersTime() throws {
        guard let freeSince = self.freeSince else { return }
        let rest = freeSince + TokenTableLimits.pauseDuration(after: self.lastHold) - .now
        if rest > .zero { usleep(UInt32(rest / .microseconds(1))) }
        guard self.othersWrite else { return }
        let end = freeSince + TokenTableLimits.latePauseDurationMax
        while try Int.fetchOne(self.dataVersion) == self.lastDataVersion, .now < end {
            usleep(TokenTableLimits.lookPauseMicroseconds)
        }
    }

    /// Begins a transaction as soon as the lock is free: SQLite itself would sleep for up to 100 ms between its looks.
    private func begin() throws {
        // So it stays until the commit: a page that leaves the cache early does not wait for readers either.
        self.waitForLocks(.zero)
        let deadline = ContinuousClock.now + self.wait
        while true {
            do {
                return try self.database.beginTransaction(.immediate)
            } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
                guard ContinuousClock.now < deadline else {
                    self.waitForLocks(self.wait)
                    throw error
                }
                usleep(TokenTableLimits.lookPauseMicroseconds)
            }
        }
    }

    private func waitForLocks(_ duration: Duration) {
        sqlite3_busy_timeout(self.database.sqliteConnection, Int32(duration / .milliseconds(1)))
    }
}

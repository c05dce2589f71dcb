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
    /// - Throws: `SQLITE_BUSY` where the database cannot be read for longer.
    init(_ database: Database, wait: Duration) throws {
        self.database = database
        self.dataVersion = try database.makeStatement(sql: "PRAGMA data_version")
        self.wait = wait
        self.lastDataVersion = try Int.fetchOne(self.dataVersion)
    }

    /// For how long it has been held.
    var hold: Duration { .now - self.heldSince }

    /// Begins a transaction once others had their time.
    ///
    /// - Throws: `SQLITE_BUSY` where others keep the lock for longer than this waits.
    mutating func take() throws {
        // So it stays until the commit: SQLite itself would sleep for up to 100 ms between its looks, and a page that
        // leaves the cache early does not wait for readers either.
        self.waitForLocks(.zero)
        do {
            try self.leaveOthersTime()
            try self.begin()
            self.heldSince = .now
            let dataVersion = try Int.fetchOne(self.dataVersion)
            self.othersWrite = dataVersion != self.lastDataVersion
            self.lastDataVersion = dataVersion
        } catch {
            if self.database.isInsideTransaction { try self.database.rollback() }
            self.waitForLocks(self.wait)
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
        while .now < end {
            // While one of them commits, nobody can read.
            let dataVersion = try self.unlessBusy { try Int.fetchOne(self.dataVersion) }
            if let dataVersion, dataVersion != self.lastDataVersion { return }
            usleep(TokenTableLimits.lookPauseMicroseconds)
        }
    }

    /// Begins a transaction as soon as the lock is free.
    private func begin() throws {
        let deadline = ContinuousClock.now + self.wait
        while try self.unlessBusy({ try self.database.beginTransaction(.immediate) }) == nil {
            guard .now < deadline else { throw DatabaseError(resultCode: .SQLITE_BUSY) }
            usleep(TokenTableLimits.lookPauseMicroseconds)
        }
    }

    /// - Returns: `nil` where others hold a lock.
    private func unlessBusy<Value>(_ body: () throws -> Value) throws -> Value? {
        do {
            return try body()
        } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
            return nil
        }
    }

    private func waitForLocks(_ duration: Duration) {
        sqlite3_busy_timeout(self.database.sqliteConnection, Int32(duration / .milliseconds(1)))
    }
}

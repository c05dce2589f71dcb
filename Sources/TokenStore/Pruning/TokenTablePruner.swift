// SPDX-License-Identifier: Apache-2.0

import GRDB
import GRDBSQLite
import Glibc

/// Prunes due rows of a table, in short transactions.
struct TokenTablePruner {
    private let database: Database
    private let statement: PurgeStatement
    private let unchangedStatement: PurgeStatement
    private let hasRowNumbers: Bool
    /// The values of rows: key, token, registration.
    private let valueCount: Int
    private let rows = SQLiteValues()
    private let lockTimeout: Duration
    private let batchRowCountMax: Int
    private var lock: TokenTableLock

    init(_ database: Database, _ table: TokenTable, lockTimeout: Duration, batchRowCountMax: Int) throws {
        self.database = database
        self.statement = try PurgeStatement(database, sql: table.pruneSQL)
        self.unchangedStatement = try PurgeStatement(database, sql: table.unchangedSQL)
        self.hasRowNumbers = table.hasRowNumbers
        self.valueCount = table.layout.comparedCount
        self.lockTimeout = lockTimeout
        self.lock = TokenTableLock(database, wait: lockTimeout)
        self.batchRowCountMax = batchRowCountMax
    }

    /// The number of pending rows.
    var waitingCount: Int { self.rows.count / self.valueCount }

    /// Whether there are enough rows for a batch.
    var isFull: Bool { self.waitingCount >= self.batchRowCountMax }

    /// Adds a due row.
    func append(_ row: SQLiteRow) { self.rows.append(row, self.valueCount) }

    /// Prunes the pending rows, and counts the results.
    mutating func prune(_ report: inout TokenTableReport) throws {
        defer { report.longestLock = self.lock.longestHold }
        var first = 0
        var deadline = ContinuousClock.now + self.lockTimeout
        while first < self.waitingCount {
            do {
                first += try self.pruneBatch(from: first, &report)
                deadline = .now + self.lockTimeout
            } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
                // A reader blocked the commit. It can continue during the pause.
                if ContinuousClock.now >= deadline { throw error }
            }
        }
        self.rows.removeAll()
    }

    /// Runs one transaction.
    ///
    /// Returns the number of processed rows.
    private mutating func pruneBatch(from first: Int, _ report: inout TokenTableReport) throws -> Int {
        try self.lock.acquire()
        // Recounted if the transaction fails.
        var counts = (pruned: 0, changed: 0)
        var refused: [Int64] = []
        var rowCount = 0
        do {
            let end = min(self.waitingCount, first + self.batchRowCountMax)
            for index in first..<end {
                switch try self.prune(index) {
                case .pruned: counts.pruned += 1
                case .changed: counts.changed += 1
                case .refused: refused.append(self.number(index))
                }
                rowCount += 1
                if self.lock.hold > TokenTableLimits.changeDurationMax { break }
            }
            try self.lock.commit()
        } catch {
            try self.lock.rollback()
            throw error
        }
        report.prunedCount += counts.pruned
        report.changedCount += counts.changed
        report.refusedCount += refused.count
        for number in refused { report.refusedRows.appendIfRoom(number) }
        report.batchCount += 1
        return rowCount
    }

    private enum RowResult {
        case pruned
        case changed
        case refused
    }

    private func prune(_ index: Int) throws -> RowResult {
        self.rows.bind(index * self.valueCount..<(index + 1) * self.valueCount, to: self.statement)
        do {
            guard try self.statement.run() == 0 else { return .pruned }
            return try self.isUnchanged(index) ? .refused : .changed
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            // Only the statement was rolled back, unless a trigger ended the transaction.
            guard self.database.isInsideTransaction else { throw error }
            return .refused
        }
    }

    /// Whether a row that the statement did not change is still as it was read: then a trigger ignored the statement.
    private func isUnchanged(_ index: Int) throws -> Bool {
        self.rows.bind(index * self.valueCount..<(index + 1) * self.valueCount, to: self.unchangedStatement)
        var isFound = false
        try self.unchangedStatement.forEachRow { _ in
            isFound = true
            return false
        }
        return isFound
    }

    private func number(_ index: Int) -> Int64 { self.hasRowNumbers ? self.rows.number(index * self.valueCount) : 0 }
}

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
    mutating func acquire() throws {
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

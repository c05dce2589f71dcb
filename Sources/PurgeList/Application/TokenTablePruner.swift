// SPDX-License-Identifier: Apache-2.0

import GRDB
import GRDBSQLite
import Glibc

/// Takes due rows out of a table, in transactions that hold its lock for a short time each.
struct TokenTablePruner {
    private let database: Database
    private let statement: Statement
    private let hasRowNumbers: Bool
    /// Values of a row: its key, its token, its registration.
    private let valueCount: Int
    private let rows = SQLiteValues()
    private let lockWait: Duration
    private let batchRowCountMax: Int
    private var batchRowCount: Int
    private var freeSince: ContinuousClock.Instant?
    private var lastLock = Duration.zero

    private(set) var prunedCount = 0
    private(set) var changedCount = 0
    private(set) var refusedCount = 0
    private(set) var refusedRows: [Int64] = []
    private(set) var batchCount = 0
    private(set) var longestLock = Duration.zero

    init(_ database: Database, _ table: TokenTable, lockWait: Duration, batchRowCountMax: Int) throws {
        self.database = database
        self.statement = try database.makeStatement(sql: table.pruneSQL)
        self.hasRowNumbers = table.hasRowNumbers
        self.valueCount = table.keys.count + (table.registration == nil ? 1 : 2)
        self.lockWait = lockWait
        self.batchRowCountMax = batchRowCountMax
        self.batchRowCount = min(batchRowCountMax, TokenTableLimits.batchRowCountFirst)
    }

    /// How many rows wait.
    var waitingCount: Int { self.rows.count / self.valueCount }

    /// Whether there are enough rows for a batch.
    var isFull: Bool { self.waitingCount >= self.batchRowCount }

    /// Takes a row that is due.
    func append(_ row: TokenTableRow) {
        for column in 0..<Int32(self.valueCount) { self.rows.append(sqlite3_column_value(row.statement, column)) }
    }

    /// Prunes the rows that wait.
    mutating func prune() throws {
        var first = 0
        var deadline = ContinuousClock.now + self.lockWait
        while first < self.waitingCount {
            self.leaveOthersTime()
            do {
                first += try self.pruneBatch(from: first)
                deadline = .now + self.lockWait
            } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
                // A reader stood in the way of the commit. It may go on while this waits.
                if ContinuousClock.now >= deadline { throw error }
                self.batchRowCount = max(1, self.batchRowCount / 2)
            }
        }
        self.rows.removeAll()
    }

    private func leaveOthersTime() {
        guard let freeSince = self.freeSince else { return }
        let pause = TokenTableLimits.pauseDuration(after: self.lastLock)
        let rest = freeSince + pause - ContinuousClock.now
        if rest > .zero { usleep(UInt32(rest / .microseconds(1))) }
    }

    /// One transaction.
    ///
    /// - Returns: how many rows it got through.
    private mutating func pruneBatch(from first: Int) throws -> Int {
        try self.begin()
        let start = ContinuousClock.now
        defer {
            // The looks at the table in between wait for others as long as may be.
            self.waitForLocks(self.lockWait)
            let now = ContinuousClock.now
            self.freeSince = now
            self.lastLock = now - start
        }
        // Counted again from here where the transaction fails.
        var counts = (pruned: 0, changed: 0)
        var refused: [Int64] = []
        var rowCount = 0
        do {
            let end = min(self.waitingCount, first + self.batchRowCount)
            for index in first..<end {
                switch try self.prune(index) {
                case .pruned: counts.pruned += 1
                case .changed: counts.changed += 1
                case .refused: refused.append(self.number(index))
                }
                rowCount += 1
                let isLate = ContinuousClock.now - start > TokenTableLimits.changeDurationMax
                if isLate { break }
            }
            self.waitForLocks(TokenTableLimits.commitWaitDuration)
            try self.database.commit()
        } catch {
            if self.database.isInsideTransaction { try self.database.rollback() }
            self.longestLock = max(self.longestLock, ContinuousClock.now - start)
            throw error
        }
        let duration = ContinuousClock.now - start
        self.prunedCount += counts.pruned
        self.changedCount += counts.changed
        self.refusedCount += refused.count
        for number in refused { self.refusedRows.note(number) }
        self.batchCount += 1
        self.longestLock = max(self.longestLock, duration)
        self.adapt(rowCount, duration)
        return rowCount
    }

    /// Begins a transaction as soon as the lock is free: SQLite itself would sleep for up to 100 ms between its looks.
    private func begin() throws {
        // So it stays until the commit: a page that leaves the cache early does not wait for readers either.
        self.waitForLocks(.zero)
        let deadline = ContinuousClock.now + self.lockWait
        while true {
            do {
                return try self.database.beginTransaction(.immediate)
            } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
                guard ContinuousClock.now < deadline else {
                    self.waitForLocks(self.lockWait)
                    throw error
                }
                usleep(TokenTableLimits.lookPauseMicroseconds)
            }
        }
    }

    private enum Outcome {
        case pruned
        case changed
        case refused
    }

    private func prune(_ index: Int) throws -> Outcome {
        let handle = self.statement.sqliteStatement
        self.rows.bind(index * self.valueCount..<(index + 1) * self.valueCount, to: handle)
        let code = sqlite3_step(handle)
        let error = code == SQLITE_DONE ? nil : DatabaseError(failureOf: handle)
        sqlite3_reset(handle)
        guard let error else { return sqlite3_changes(sqlite3_db_handle(handle)) > 0 ? .pruned : .changed }
        // The statement alone was undone, unless a trigger ended the transaction.
        guard error.resultCode == .SQLITE_CONSTRAINT, self.database.isInsideTransaction else { throw error }
        return .refused
    }

    private func number(_ index: Int) -> Int64 { self.hasRowNumbers ? self.rows.number(index * self.valueCount) : 0 }

    private func waitForLocks(_ duration: Duration) {
        sqlite3_busy_timeout(self.database.sqliteConnection, Int32(duration / .milliseconds(1)))
    }

    /// Makes the next batch as large as fits the time, as far as the last one tells.
    private mutating func adapt(_ rowCount: Int, _ duration: Duration) {
        let fitting = Double(rowCount) * (TokenTableLimits.lockDuration / duration)
        let bounded = min(max(fitting, Double(rowCount) / 4, 1), Double(self.batchRowCount) * 1.5 + 1)
        self.batchRowCount = min(Int(bounded), self.batchRowCountMax)
    }
}

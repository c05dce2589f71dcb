// SPDX-License-Identifier: Apache-2.0

import GRDB
import GRDBSQLite
import Glibc

/// How far a prune is.
package struct TokenTableProgress: Sendable {
    /// Rows that were counted so far.
    package var rowCount = 0
    /// Rows that are to be pruned; `nil` while rows are counted.
    package var dueCount: Int?
    /// Rows that were pruned so far.
    package var prunedCount = 0

    /// Nothing was done yet.
    package init() {}
}

/// Prunes a token table of an SQLite database from a purge list.
///
/// The table is read through and counted first, and nothing changes where too much would go. Then it is read again, and
/// what is due goes in short transactions, each of which looks again whether its rows are still as they were read. A
/// run that is killed leaves whole transactions only, and the next one does the rest.
public struct TokenTableApplication: Hashable, Sendable {
    /// The database of the application.
    public var path: String
    /// The table.
    public var table: String
    /// The column with the tokens.
    public var tokenColumn: String
    /// What makes a row due.
    public var rules: TokenTableRules
    /// The largest part of ``TokenTableReport/candidateCount`` that may go at once, 0 to 1; the default is 0.2.
    public var fractionMax = 0.2
    /// The most rows of a transaction, of which fewer are taken where they take long; the default is 2,000.
    public var batchRowCountMax = TokenTableLimits.batchRowCountMax
    /// Whether rows are only counted; the default is `false`.
    public var isDryRun = false
    /// How long to wait for a lock that others hold; the default is 30 seconds.
    public var lockWait = Duration.seconds(30)

    /// Makes an application with defaults.
    ///
    /// - Parameters:
    ///   - path: the database of the application.
    ///   - table: the table.
    ///   - tokenColumn: the column with the tokens.
    ///   - rules: what makes a row due.
    public init(path: String, table: String, tokenColumn: String, rules: TokenTableRules) {
        self.path = path
        self.table = table
        self.tokenColumn = tokenColumn
        self.rules = rules
    }

    /// Prunes the table.
    ///
    /// Blocks for as long as it takes, so it belongs on a thread that may.
    ///
    /// - Parameters:
    ///   - list: the purge list.
    ///   - counted: is called between counting and pruning, with the counts.
    /// - Returns: what was found and done.
    /// - Throws: ``TokenTableError`` where nothing was changed, and ``PurgeListError``.
    public func run(_ list: PurgeList, counted: (TokenTableReport) -> Void = { _ in }) throws -> TokenTableReport {
        try self.run(list, counted: counted) { _ in true }
    }

    /// Prunes the table, and reports how far it is, many times a second.
    ///
    /// - Parameters:
    ///   - list: the purge list.
    ///   - counted: is called between counting and pruning, with the counts.
    ///   - onProgress: is called between transactions, and returns whether to go on.
    /// - Returns: what was found and done.
    /// - Throws: ``TokenTableError`` where nothing was changed, and ``PurgeListError``.
    package func run(
        _ list: PurgeList,
        counted: (TokenTableReport) -> Void,
        onProgress: (TokenTableProgress) -> Bool
    ) throws -> TokenTableReport {
        var status = stat()
        if unsafe stat(self.path, &status) != 0 {
            if errno == ENOENT { throw TokenTableError.missingFile(path: self.path) }
        } else if status.st_mode & S_IFMT != S_IFREG {
            throw TokenTableError.notAFile(path: self.path)
        }
        for name in self.names where !SQLName.isFit(name) { throw TokenTableError.name(name) }
        return try list.read { listDatabase in
            let dead = try DeadTokens(listDatabase, path: list.path, self.rules)
            return try TokenTableError.translated(path: self.path) {
                let queue = try DatabaseQueue(path: self.path, configuration: self.configuration)
                return try queue.inDatabase { try self.run($0, dead, counted, onProgress) }
            }
        }
    }

    private var names: [String] {
        var names = [self.table, self.tokenColumn]
        if let column = self.rules.registration.column { names.append(column) }
        if case .column(let column) = self.rules.topic { names.append(column) }
        if case .deactivate(let column) = self.rules.action { names.append(column) }
        return names
    }

    private var configuration: Configuration {
        var configuration = Configuration()
        configuration.label = "token table"
        configuration.readonly = self.isDryRun
        configuration.busyMode = .timeout(self.lockWait / .seconds(1))
        configuration.prepareDatabase { database in
            try database.execute(sql: "PRAGMA cache_size = -\(TokenTableLimits.cacheKibibyteCount)")
        }
        return configuration
    }

    private func run(
        _ database: Database,
        _ dead: DeadTokens,
        _ counted: (TokenTableReport) -> Void,
        _ onProgress: (TokenTableProgress) -> Bool
    ) throws -> TokenTableReport {
        if !self.isDryRun, unsafe sqlite3_db_readonly(database.sqliteConnection, "main") == 1 {
            throw TokenTableError.readOnly(path: self.path)
        }
        let table = try TokenTable(database, table: self.table, tokenColumn: self.tokenColumn, self.rules)
        var report = try self.count(database, table, dead, onProgress)
        guard report.ending != .interrupted else { return report }
        counted(report)
        let readableCount = report.spellings.values.reduce(0, +)
        if readableCount == 0, report.unreadableTokenCount > 0 {
            throw TokenTableError.noTokens(column: self.tokenColumn, table: self.table, rowCount: report.rowCount)
        }
        let readableTimeCount = report.timeKinds.values.reduce(0, +)
        if readableTimeCount == 0, report.unreadableTimeCount > 0, let column = self.rules.registration.column {
            throw TokenTableError.noTimes(column: column, table: self.table, rowCount: report.rowCount)
        }
        report.dueCountMax = self.largestCount(of: report.candidateCount)
        if report.dueCount > report.dueCountMax {
            report.ending = .brake
        } else if self.isDryRun {
            report.ending = .dryRun
        } else if report.dueCount > 0 {
            try self.prune(database, table, dead, &report, onProgress)
        }
        return report
    }

    /// The part of the rows that may go; 0.29 of 100 is 29, though not in binary fractions.
    private func largestCount(of rowCount: Int) -> Int {
        min(rowCount, Int((Double(rowCount) * self.fractionMax + 1e-6).rounded(.down)))
    }

    private func count(
        _ database: Database,
        _ table: TokenTable,
        _ dead: DeadTokens,
        _ onProgress: (TokenTableProgress) -> Bool
    ) throws -> TokenTableReport {
        var progress = TokenTableProgress()
        var decision = PruneDecision(table, dead, graceSecondCount: self.rules.graceSecondCount)
        var reader = try TokenTableReader(database, table)
        while !reader.isAtEnd {
            try reader.read { row in
                _ = try decision.isDue(row)
                return true
            }
            progress.rowCount = decision.counts.rowCount
            guard onProgress(progress) else {
                var report = decision.counts
                report.ending = .interrupted
                return report
            }
        }
        return decision.counts
    }

    private func prune(
        _ database: Database,
        _ table: TokenTable,
        _ dead: DeadTokens,
        _ report: inout TokenTableReport,
        _ onProgress: (TokenTableProgress) -> Bool
    ) throws {
        var progress = TokenTableProgress()
        progress.rowCount = report.rowCount
        progress.dueCount = report.dueCount
        guard onProgress(progress) else {
            report.ending = .interrupted
            return
        }
        var reader = try TokenTableReader(database, table)
        var decision = PruneDecision(table, dead, graceSecondCount: self.rules.graceSecondCount)
        var pruner = try TokenTablePruner(
            database,
            table,
            lockWait: self.lockWait,
            batchRowCountMax: self.batchRowCountMax
        )
        let keepsJournal = try self.keepJournal(database)
        defer { if keepsJournal { try? database.execute(sql: "PRAGMA journal_mode = DELETE") } }
        do {
            while !reader.isAtEnd, report.ending == .done {
                try reader.read { row in
                    guard try decision.isDue(row) else { return true }
                    guard pruner.prunedCount + pruner.waitingCount < report.dueCountMax else {
                        report.ending = .grown
                        return false
                    }
                    pruner.append(row)
                    return !pruner.isFull
                }
                if pruner.isFull || reader.isAtEnd || report.ending == .grown { try pruner.prune() }
                progress.prunedCount = pruner.prunedCount
                if !onProgress(progress), report.ending == .done, !reader.isAtEnd { report.ending = .interrupted }
            }
        } catch let error as DatabaseError {
            guard pruner.prunedCount > 0 else { throw error }
            report.ending = .stopped(TokenTableError(error, path: self.path))
        }
        report.prunedCount = pruner.prunedCount
        // What was due when it was counted and is not any more has changed, too.
        let lostCount = report.ending == .done ? report.dueCount - decision.counts.dueCount : 0
        report.changedCount = pruner.changedCount + max(0, lostCount)
        report.refusedCount = pruner.refusedCount
        report.refusedRows = pruner.refusedRows
        report.batchCount = pruner.batchCount
        report.longestLock = pruner.longestLock
    }

    /// Has the journal's file written over instead of made and removed for each batch, which is a tenth of its time.
    ///
    /// That is this connection's alone. After a kill, the file stays; SQLite sees whether there is anything in it.
    ///
    /// - Returns: whether it has one.
    private func keepJournal(_ database: Database) throws -> Bool {
        guard try String.fetchOne(database, sql: "PRAGMA journal_mode") == "delete" else { return false }
        return try String.fetchOne(database, sql: "PRAGMA journal_mode = PERSIST") == "persist"
    }
}

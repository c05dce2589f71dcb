// SPDX-License-Identifier: Apache-2.0

import GRDB
import GRDBSQLite
import Glibc

#if MariaDB
import MariaDB
#endif
#if PostgreSQL
import PostgreSQL
#endif

/// The progress of a prune.
package struct TokenTableProgress: Sendable {
    /// The number of rows counted so far.
    package var rowCount = 0
    /// The number of rows to prune; `nil` while rows are counted.
    package var dueCount: Int?
    /// The number of rows pruned so far.
    package var prunedCount = 0

    /// Creates the progress of a prune that has not begun.
    package init() {}
}

/// Prunes a token table of an SQLite, PostgreSQL, MariaDB or MySQL database with a purge list.
///
/// A first pass counts the rows; nothing changes if too many are due. A second pass prunes due rows in short
/// transactions, each of which checks again that its rows are unchanged. A killed run leaves only whole transactions,
/// and the next run prunes the rest.
public struct TokenTableApplication: Hashable, Sendable {
    /// The path of the application's SQLite database, or the address of another database, without a password:
    /// `postgresql://user@host/database` or `mysql://user@host/database`.
    public var path: String
    /// The table.
    public var table: String
    /// The column of the tokens.
    public var tokenColumn: String
    /// The rules for due rows.
    public var rules: TokenTableRules
    /// The maximum fraction of ``TokenTableReport/candidateCount`` that may be pruned, 0 to 1; by default 0.2.
    public var fractionMax = 0.2
    /// The maximum number of rows per transaction, of which slow ones have fewer; by default 2,000.
    public var batchRowCountMax = TokenTableLimits.batchRowCountMax
    /// Whether rows are only counted; by default `false`.
    public var isDryRun = false
    /// How long to wait for a lock of other processes; by default 30 seconds.
    public var lockTimeout = Duration.seconds(30)
    /// The number of rows that are read from a server at a time.
    package var pageRowCount = 10_000

    /// Creates an application with defaults.
    ///
    /// - Parameters:
    ///   - path: the path or the address of the application's database.
    ///   - table: the table.
    ///   - tokenColumn: the column of the tokens.
    ///   - rules: the rules for due rows.
    public init(path: String, table: String, tokenColumn: String, rules: TokenTableRules) {
        self.path = path
        self.table = table
        self.tokenColumn = tokenColumn
        self.rules = rules
    }

    /// Whether a text is the address of a database server, and this program was built with its trait.
    package static func canOpen(_ address: String) -> Bool {
        #if PostgreSQL
        if PostgreSQLConnection.isAddress(address) { return true }
        #endif
        #if MariaDB
        if MariaDBAddress.isAddress(address) { return true }
        #endif
        return false
    }

    /// Prunes the table.
    ///
    /// Blocks until it is done, so call it on a thread that may block.
    ///
    /// - Parameters:
    ///   - list: the purge list.
    ///   - counted: called with the counts between the two passes.
    /// - Returns: the report.
    /// - Throws: ``TokenTableError`` if nothing was changed, and ``PurgeListError``.
    public func run(_ list: PurgeList, counted: (TokenTableReport) -> Void = { _ in }) throws -> TokenTableReport {
        try self.run(list, counted: counted) { _ in true }
    }

    /// Prunes the table, and reports the progress many times a second.
    ///
    /// - Throws: ``TokenTableError`` if nothing was changed, and ``PurgeListError``.
    package func run(
        _ list: PurgeList,
        counted: (TokenTableReport) -> Void,
        onProgress: (TokenTableProgress) -> Bool
    ) throws -> TokenTableReport {
        for name in self.names where !SQLName.isFit(name) { throw TokenTableError.name(name) }
        #if PostgreSQL
        if PostgreSQLConnection.isAddress(self.path) { return try self.runInPostgreSQL(list, counted, onProgress) }
        #endif
        #if MariaDB
        if MariaDBAddress.isAddress(self.path) { return try self.runInMariaDB(list, counted, onProgress) }
        #endif
        var status = stat()
        if unsafe stat(self.path, &status) != 0 {
            if errno == ENOENT { throw TokenTableError.missingFile(path: self.path) }
        } else if status.st_mode & S_IFMT != S_IFREG {
            throw TokenTableError.notAFile(path: self.path)
        }
        return try list.read { content in
            let dead = try DeadTokens(content, path: list.path, self.rules)
            return try TokenTableError.translated(path: self.path) {
                let queue = try DatabaseQueue(path: self.path, configuration: self.configuration)
                return try queue.inDatabase { try self.run($0, dead, counted, onProgress) }
            }
        }
    }

    #if PostgreSQL
    private func runInPostgreSQL(
        _ list: PurgeList,
        _ counted: (TokenTableReport) -> Void,
        _ onProgress: (TokenTableProgress) -> Bool
    ) throws -> TokenTableReport {
        var name = "?"
        do {
            let connection = try PostgreSQLConnection(self.path, timeout: ServerTableLimits.answerTimeout)
            name = connection.name
            return try self.run(list, counted, onProgress) { try PostgreSQLTokenTable(connection, self) }
        } catch let error as PostgreSQLError {
            throw TokenTableError(error, of: name)
        }
    }
    #endif

    #if MariaDB
    private func runInMariaDB(
        _ list: PurgeList,
        _ counted: (TokenTableReport) -> Void,
        _ onProgress: (TokenTableProgress) -> Bool
    ) throws -> TokenTableReport {
        let configuration = try MariaDBAddress.configuration(self.path)
        do {
            let connection = try MariaDBConnection(configuration, timeout: ServerTableLimits.answerTimeout)
            return try self.run(list, counted, onProgress) { try MariaDBTokenTable(connection, self) }
        } catch let error as MariaDBError {
            throw TokenTableError(error, of: configuration.name)
        }
    }
    #endif

    #if PostgreSQL || MariaDB
    private func run(
        _ list: PurgeList,
        _ counted: (TokenTableReport) -> Void,
        _ onProgress: (TokenTableProgress) -> Bool,
        _ table: () throws -> some ServerTokenTable
    ) throws -> TokenTableReport {
        try list.read { content in
            let dead = try DeadTokens(content, path: list.path, self.rules)
            return try self.run(ServerTableConnection(table(), self), dead, counted, onProgress)
        }
    }
    #endif

    private var names: [String] {
        let columns = [self.rules.registration.column, self.rules.topic.column, self.rules.action.column]
        return [self.table, self.tokenColumn] + columns.compactMap(\.self)
    }

    private var configuration: Configuration {
        var configuration = Configuration()
        configuration.label = "token table"
        configuration.readonly = self.isDryRun
        configuration.busyMode = .timeout(self.lockTimeout / .seconds(1))
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
        let connection = try SQLiteTokenTable(database, table, of: self, path: self.path)
        defer { connection.removeJournal() }
        return try self.run(connection, dead, counted, onProgress)
    }

    /// Prunes a table of any database.
    private func run(
        _ connection: consuming some TokenTableConnection,
        _ dead: DeadTokens,
        _ counted: (TokenTableReport) -> Void,
        _ onProgress: (TokenTableProgress) -> Bool
    ) throws -> TokenTableReport {
        var report = try self.count(&connection, dead, onProgress)
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
            report.ending = .limitExceeded
        } else if self.isDryRun {
            report.ending = .dryRun
        } else if report.dueCount > 0 {
            try self.prune(&connection, dead, &report, onProgress)
        }
        return report
    }

    /// The maximum number of rows; 0.29 of 100 is 29, although not in binary fractions.
    private func largestCount(of rowCount: Int) -> Int {
        min(rowCount, Int((Double(rowCount) * self.fractionMax + 1e-6).rounded(.down)))
    }

    private func count(
        _ connection: inout some TokenTableConnection,
        _ dead: DeadTokens,
        _ onProgress: (TokenTableProgress) -> Bool
    ) throws -> TokenTableReport {
        var progress = TokenTableProgress()
        var decision = PruneDecision(connection.layout, dead, graceSecondCount: self.rules.graceSecondCount)
        while !connection.isAtEnd {
            try connection.read { row in
                _ = try decision.isDue(row)
                return .skip
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
        _ connection: inout some TokenTableConnection,
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
        try connection.rewind()
        var decision = PruneDecision(connection.layout, dead, graceSecondCount: self.rules.graceSecondCount)
        do {
            while !connection.isAtEnd, report.ending == .done {
                var collectedCount = connection.collectedCount
                try connection.read { row in
                    guard try decision.isDue(row) else { return .skip }
                    guard report.prunedCount + collectedCount < report.dueCountMax else {
                        report.ending = .grown
                        return .stop
                    }
                    collectedCount += 1
                    return .collect
                }
                if connection.isFull || connection.isAtEnd || report.ending == .grown {
                    try connection.prune(&report)
                }
                progress.prunedCount = report.prunedCount
                if !onProgress(progress), report.ending == .done, !connection.isAtEnd { report.ending = .interrupted }
            }
        } catch {
            guard report.prunedCount + report.uncertainCount > 0, let failure = connection.translated(error) else {
                throw error
            }
            report.ending = .stopped(failure.inCommit(of: report.uncertainCount))
        }
        // A row that was due in the first pass and is no longer due counts as changed.
        if report.ending == .done { report.changedCount += max(0, report.dueCount - decision.counts.dueCount) }
    }
}

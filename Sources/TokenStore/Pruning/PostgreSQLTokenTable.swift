// SPDX-License-Identifier: Apache-2.0

#if PostgreSQL
import APNSWire
import Glibc
import PostgreSQL

/// A token table of a PostgreSQL database.
///
/// Rows are read in pages in the order of their key, without a lock. A batch is one statement in a transaction of its
/// own, which changes the rows whose token and registration are those that were read.
struct PostgreSQLTokenTable: TokenTableConnection {
    private let connection: PostgreSQLConnection
    private let columns: PostgreSQLColumns
    private let lockTimeout: Duration
    private let batchRowCountMax: Int
    /// The number of rows of the next batch, which decreases if one takes long.
    private var batchRowCount: Int

    private var page: PostgreSQLResult?
    /// The next row of the page.
    private var rowIndex = 0
    private(set) var isAtEnd = false
    /// The key of the last row that was read.
    private var lastKey: [String?] = []
    private var collected: [CollectedRow] = []
    private var freeSince: ContinuousClock.Instant?

    /// The number of rows that are read at a time.
    private static let pageRowCount = 10_000
    /// The longest time that a statement waits for a row that the application has locked: other rows stay locked.
    private static let rowLockTimeout = Duration.milliseconds(100)
    /// The pause between batches, for the server's load: unlike in SQLite, others queue for their locks.
    private static let pauseDuration = Duration.milliseconds(5)
    /// The longest time of a statement that changes rows.
    private static let changeTimeout = Duration.seconds(5)

    /// A due row, in the form of parameters.
    private struct CollectedRow {
        var number: Int64
        /// Key, token and registration.
        var values: [String?]
    }

    init(_ connection: PostgreSQLConnection, _ application: TokenTableApplication) throws {
        self.connection = connection
        self.columns = try PostgreSQLColumns(connection, application)
        self.lockTimeout = application.lockTimeout
        self.batchRowCountMax = application.batchRowCountMax
        self.batchRowCount = application.batchRowCountMax
    }

    var layout: TokenTableLayout { self.columns.layout }

    var collectedCount: Int { self.collected.count }

    var isFull: Bool { self.collected.count >= self.batchRowCountMax }

    mutating func rewind() {
        self.page = nil
        self.lastKey = []
        self.isAtEnd = false
    }

    mutating func read(_ body: (PostgreSQLRow) throws -> TokenTableStep) throws {
        let page = try self.page ?? self.nextPage()
        self.page = page
        while self.rowIndex < page.count {
            let row = PostgreSQLRow(page: page, index: self.rowIndex, columns: self.columns)
            let step = try body(row)
            guard step != .stop else { return }
            self.rowIndex += 1
            guard step == .collect else { continue }
            self.collected.append(CollectedRow(number: row.integer(0), values: row.comparedValues))
            guard !self.isFull else { return }
        }
        if page.count > 0 {
            let last = page.count - 1
            self.lastKey = (0..<self.columns.layout.keyCount).map { page.text(last, $0) }
        }
        self.isAtEnd = page.count < Self.pageRowCount
        self.page = nil
    }

    private mutating func nextPage() throws -> PostgreSQLResult {
        self.rowIndex = 0
        let sql = self.columns.pageSQL(isFirst: self.lastKey.isEmpty, rowCount: Self.pageRowCount)
        return try self.connection.run(sql, self.lastKey)
    }

    // MARK: Pruning

    mutating func prune(_ report: inout TokenTableReport) throws {
        var rest = self.collected[...]
        var deadline = ContinuousClock.now + self.lockTimeout
        while !rest.isEmpty {
            let batch = rest.prefix(self.batchRowCount)
            do throws(PostgreSQLError) {
                let changedCount = try self.change(batch, &report)
                report.prunedCount += changedCount
                report.changedCount += batch.count - changedCount
            } catch {
                if error.isTransient {
                    guard ContinuousClock.now < deadline else { throw error }
                    self.batchRowCount = max(1, batch.count / 2)
                    continue
                }
                guard error.isRefusal else { throw error }
                guard batch.count == 1, let row = batch.first else {
                    self.batchRowCount = max(1, batch.count / 2)
                    continue
                }
                report.refusedCount += 1
                if self.layout.hasRowNumbers { report.refusedRows.appendIfRoom(row.number) }
            }
            report.batchCount += 1
            rest = rest.dropFirst(batch.count)
            deadline = .now + self.lockTimeout
        }
        self.collected.removeAll(keepingCapacity: true)
    }

    /// Runs one transaction.
    ///
    /// Returns the number of rows that were changed.
    private mutating func change(
        _ batch: ArraySlice<CollectedRow>,
        _ report: inout TokenTableReport
    ) throws(PostgreSQLError) -> Int {
        if let freeSince = self.freeSince {
            let rest = freeSince + Self.pauseDuration - .now
            if rest > .zero { usleep(UInt32(rest / .microseconds(1))) }
        }
        let arrays = (0..<self.layout.comparedCount).map { column in
            PostgreSQLArray.text(of: batch.lazy.map { $0.values[column] })
        }
        try self.connection.runAll(
            """
            BEGIN; SET LOCAL lock_timeout = \(Int(Self.rowLockTimeout / .milliseconds(1))); \
            SET LOCAL statement_timeout = \(Int(Self.changeTimeout / .milliseconds(1)))
            """
        )
        let start = ContinuousClock.now
        defer { self.freeSince = .now }
        do throws(PostgreSQLError) {
            let changedCount = try self.connection.run(self.columns.changeSQL, arrays).changedCount
            try self.connection.runAll("COMMIT")
            let duration = ContinuousClock.now - start
            report.longestLock = max(report.longestLock, duration)
            self.adapt(duration, rowCount: batch.count)
            return changedCount
        } catch {
            report.longestLock = max(report.longestLock, ContinuousClock.now - start)
            if error.kind == .statement { try self.connection.runAll("ROLLBACK") }
            throw error
        }
    }

    /// Chooses the size of the next batch so that rows are not locked for long.
    private mutating func adapt(_ duration: Duration, rowCount: Int) {
        if duration > TokenTableLimits.changeDurationMax {
            let share = TokenTableLimits.changeDurationMax / duration
            self.batchRowCount = max(1, Int(Double(rowCount) * share))
        } else {
            self.batchRowCount = min(self.batchRowCountMax, max(self.batchRowCount, rowCount * 2))
        }
    }

    func translated(_ error: any Error) -> TokenTableError? {
        (error as? PostgreSQLError).map { TokenTableError($0, of: self.connection.name) }
    }
}

/// A row of a page.
@safe struct PostgreSQLRow: TokenTableRow {
    fileprivate let page: PostgreSQLResult
    fileprivate let index: Int
    fileprivate let columns: PostgreSQLColumns

    func kind(_ column: Int32) -> TokenTableValueKind {
        self.page.isNull(self.index, Int(column)) ? .null : self.columns.kinds[Int(column)]
    }

    /// The key is a text.
    func integer(_ column: Int32) -> Int64 {
        guard Int(column) >= self.columns.layout.keyCount else {
            return self.page.text(self.index, Int(column)).flatMap { Int64($0) } ?? 0
        }
        return self.page.integer(self.index, Int(column))
    }

    func number(_ column: Int32) -> Double {
        self.kind(column) == .integer
            ? Double(self.page.integer(self.index, Int(column))) : self.page.number(self.index, Int(column))
    }

    func bytes(_ column: Int32) -> UnsafeRawBufferPointer { unsafe self.page.bytes(self.index, Int(column)) }

    /// The values that tell whether the row has changed, as parameters.
    fileprivate var comparedValues: [String?] {
        let layout = self.columns.layout
        var values = (0..<layout.keyCount).map { self.page.text(self.index, $0) }
        let token = layout.tokenIndex
        if self.columns.hasBinaryTokens {
            unsafe values.append("\\x" + Hexadecimal.text(Array(self.bytes(token))))
        } else {
            values.append(self.page.text(self.index, Int(token)))
        }
        if layout.hasRegistration { values.append(self.page.text(self.index, self.columns.comparedIndex)) }
        return values
    }
}

/// Arrays in text form.
enum PostgreSQLArray {
    /// Returns the text of an array, whose quoted elements may contain anything.
    static func text(of elements: some Sequence<String?>) -> String {
        var text = "{"
        var isFirst = true
        for element in elements {
            if !isFirst { text += "," }
            isFirst = false
            guard let element else {
                text += "NULL"
                continue
            }
            text += "\""
            for scalar in element.unicodeScalars {
                if scalar == "\"" || scalar == "\\" { text += "\\" }
                text.unicodeScalars.append(scalar)
            }
            text += "\""
        }
        return text + "}"
    }
}

extension PostgreSQLError {
    /// Whether the same statement may succeed later: a conflict with another transaction, or a time limit.
    fileprivate var isTransient: Bool {
        ["40001", "40P01", "55P03", "57014"].contains(self.state)
    }

    /// Whether a constraint or a trigger refused to change a row.
    fileprivate var isRefusal: Bool { ["23", "27", "44"].contains(self.stateClass) || self.state == "P0001" }
}

extension TokenTableError {
    /// Converts an error of PostgreSQL.
    init(_ error: PostgreSQLError, of database: String) {
        switch (error.kind, error.state ?? "") {
        case (.address, _): self = .invalidAddress(detail: error.message)
        case (_, "25006"): self = .readOnly(path: database)
        case (_, "40001"), (_, "40P01"), (_, "55P03"), (_, "57014"): self = .busy(path: database)
        case (_, "53100"): self = .full(path: database)
        case (_, "XX001"), (_, "XX002"): self = .corrupt(path: database, detail: error.message)
        case (_, "42501"): self = .notPermitted(database: database, detail: error.message)
        case (.connection, _), (.timeout, _), (_, "57P01"), (_, "57P02"), (_, "57P03"):
            self = .connectionLost(database: database, detail: error.message)
        case (.statement, let state):
            self = .statementFailed(database: database, state: state, detail: error.message)
        }
    }
}
#endif

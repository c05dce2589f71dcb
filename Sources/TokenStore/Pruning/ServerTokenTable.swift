// SPDX-License-Identifier: Apache-2.0

#if PostgreSQL || MariaDB
import Glibc

/// An error of a database server.
protocol DatabaseServerError: Error {
    /// Whether the same statement may succeed later: a conflict with another transaction, or a time limit.
    var isTransient: Bool { get }

    /// Whether a constraint or a trigger refused to change a row.
    var isRefusal: Bool { get }

    /// Whether the connection can be used no longer.
    var isFinal: Bool { get }
}

/// Rows that a server has returned.
protocol ServerTablePage {
    /// The number of rows.
    var count: Int { get }

    func isNull(_ row: Int, _ column: Int) -> Bool
    func bytes(_ row: Int, _ column: Int) -> UnsafeRawBufferPointer
    func text(_ row: Int, _ column: Int) -> String?
    func integer(_ row: Int, _ column: Int) -> Int64
    func number(_ row: Int, _ column: Int) -> Double
}

/// A token table on a database server.
///
/// Rows are read in pages in the order of their key, without a lock. A batch is one transaction.
protocol ServerTokenTable {
    associatedtype Page: ServerTablePage
    /// A parameter of a statement.
    associatedtype Value
    associatedtype Failure: DatabaseServerError

    var layout: TokenTableLayout { get }

    /// The kinds of the values in a page.
    var kinds: [TokenTableValueKind] { get }

    /// Reads rows after a key, or the first ones.
    func page(after key: [Value]?, rowCount: Int) throws(Failure) -> Page

    /// The key of a row.
    func key(_ page: Page, _ row: Int) -> [Value]

    /// The key, the token and the registration of a row, which tell whether it has changed.
    func comparedValues(_ page: Page, _ row: Int) -> [Value]

    /// Begins a transaction with time limits.
    func begin() throws(Failure)

    /// Changes the rows whose values are these, and returns how many they were.
    func change(_ rows: ArraySlice<[Value]>) throws(Failure) -> Int

    /// Returns how many rows the database left unchanged without an error, of those whose values are these.
    func ignoredCount(_ rows: ArraySlice<[Value]>, changedCount: Int) throws(Failure) -> Int

    func commit() throws(Failure)

    func rollback() throws(Failure)

    /// Returns an error for the user.
    func translated(_ error: Failure) -> TokenTableError
}

/// Reads and prunes a table on a database server.
struct ServerTableConnection<Table: ServerTokenTable>: TokenTableConnection {
    private let table: Table
    private let lockTimeout: Duration
    private let pageRowCount: Int
    private let batchRowCountMax: Int
    /// The number of rows of the next batch, which increases while batches take little time.
    private var batchRowCount: Int

    private var page: Table.Page?
    /// The next row of the page.
    private var rowIndex = 0
    private(set) var isAtEnd = false
    /// The key of the last row that was read.
    private var lastKey: [Table.Value]?
    /// The key, token and registration of due rows.
    private var collected: [[Table.Value]] = []
    /// Their numbers, for the report.
    private var numbers: [Int64] = []
    private var freeSince: ContinuousClock.Instant?

    init(_ table: Table, _ application: TokenTableApplication) {
        self.table = table
        self.lockTimeout = application.lockTimeout
        self.pageRowCount = application.pageRowCount
        self.batchRowCountMax = application.batchRowCountMax
        self.batchRowCount = min(application.batchRowCountMax, ServerTableLimits.firstBatchRowCount)
    }

    var layout: TokenTableLayout { self.table.layout }

    var collectedCount: Int { self.collected.count }

    var isFull: Bool { self.collected.count >= self.batchRowCountMax }

    mutating func rewind() {
        self.page = nil
        self.lastKey = nil
        self.isAtEnd = false
    }

    mutating func read(_ body: (ServerTableRow<Table.Page>) throws -> TokenTableStep) throws {
        let page = try self.page ?? self.nextPage()
        self.page = page
        let (kinds, keyCount) = (self.table.kinds, self.layout.keyCount)
        while self.rowIndex < page.count {
            let row = ServerTableRow(page: page, index: self.rowIndex, kinds: kinds, keyCount: keyCount)
            let step = try body(row)
            guard step != .stop else { return }
            self.rowIndex += 1
            guard step == .collect else { continue }
            self.collected.append(self.table.comparedValues(page, self.rowIndex - 1))
            self.numbers.append(row.integer(0))
            guard !self.isFull else { return }
        }
        if page.count > 0 { self.lastKey = self.table.key(page, page.count - 1) }
        self.isAtEnd = page.count < self.pageRowCount
        self.page = nil
    }

    private mutating func nextPage() throws -> Table.Page {
        self.rowIndex = 0
        return try self.table.page(after: self.lastKey, rowCount: self.pageRowCount)
    }

    // MARK: Pruning

    mutating func prune(_ report: inout TokenTableReport) throws {
        var first = 0
        var deadline = ContinuousClock.now + self.lockTimeout
        while first < self.collected.count {
            let end = min(self.collected.count, first + self.batchRowCount)
            let rowCount = end - first
            do throws(Table.Failure) {
                let (changedCount, ignoredCount) = try self.change(first..<end, &report)
                report.prunedCount += changedCount
                report.refusedCount += ignoredCount
                report.changedCount += rowCount - changedCount - ignoredCount
            } catch {
                if error.isTransient {
                    guard ContinuousClock.now < deadline else { throw error }
                    self.batchRowCount = max(1, rowCount / 2)
                    // A server that does not wait for a row is not asked again at once.
                    if rowCount == 1 { usleep(UInt32(ServerTableLimits.rowLockTimeout / .microseconds(1))) }
                    continue
                }
                guard error.isRefusal else { throw error }
                guard rowCount == 1 else {
                    self.batchRowCount = max(1, rowCount / 2)
                    continue
                }
                report.refusedCount += 1
                if self.layout.hasRowNumbers { report.refusedRows.appendIfRoom(self.numbers[first]) }
            }
            report.batchCount += 1
            first = end
            deadline = .now + self.lockTimeout
        }
        self.collected.removeAll(keepingCapacity: true)
        self.numbers.removeAll(keepingCapacity: true)
    }

    /// Runs one transaction.
    ///
    /// Returns the number of rows that were changed, and of those that the database left unchanged without an error.
    private mutating func change(
        _ range: Range<Int>,
        _ report: inout TokenTableReport
    ) throws(Table.Failure) -> (changedCount: Int, ignoredCount: Int) {
        if let freeSince = self.freeSince {
            let rest = freeSince + ServerTableLimits.pauseDuration - .now
            if rest > .zero { usleep(UInt32(rest / .microseconds(1))) }
        }
        try self.table.begin()
        let start = ContinuousClock.now
        defer { self.freeSince = .now }
        do throws(Table.Failure) {
            let rows = self.collected[range]
            let changedCount = try self.table.change(rows)
            var ignoredCount = 0
            if changedCount < rows.count {
                let count = try self.table.ignoredCount(rows, changedCount: changedCount)
                ignoredCount = min(max(0, count), rows.count - changedCount)
            }
            do throws(Table.Failure) { try self.table.commit() } catch {
                if error.isFinal { report.uncertainCount = changedCount }
                throw error
            }
            let duration = ContinuousClock.now - start
            report.longestLock = max(report.longestLock, duration)
            self.adapt(duration, rowCount: range.count)
            return (changedCount, ignoredCount)
        } catch {
            report.longestLock = max(report.longestLock, ContinuousClock.now - start)
            if !error.isFinal { try self.table.rollback() }
            throw error
        }
    }

    /// Chooses the size of the next batch so that rows are not locked for long.
    private mutating func adapt(_ duration: Duration, rowCount: Int) {
        if duration > TokenTableLimits.changeDurationMax {
            let share = TokenTableLimits.changeDurationMax / duration
            self.batchRowCount = max(1, Int(Double(rowCount) * share))
        } else if duration < TokenTableLimits.changeDurationMax / 2 {
            self.batchRowCount = min(self.batchRowCountMax, max(self.batchRowCount, rowCount * 2))
        }
    }

    func translated(_ error: any Error) -> TokenTableError? {
        (error as? Table.Failure).map(self.table.translated)
    }
}

/// Limits for tables on a database server.
enum ServerTableLimits {
    /// How long a server may take for one answer; for a part of it with MariaDB and MySQL.
    static let answerTimeout = Duration.seconds(60)
    /// The pause between batches, for the server's load: unlike in SQLite, others queue for their locks.
    static let pauseDuration = Duration.milliseconds(5)
    /// The longest time that a statement waits for a row that the application has locked: other rows stay locked.
    static let rowLockTimeout = Duration.milliseconds(100)
    /// The number of rows of the first batch, before it is known how long the server takes for one.
    static let firstBatchRowCount = 250
    /// The longest time of a statement that changes rows.
    static let changeTimeout = Duration.seconds(5)
}

/// A row of a page.
@safe struct ServerTableRow<Page: ServerTablePage>: TokenTableRow {
    fileprivate let page: Page
    fileprivate let index: Int
    fileprivate let kinds: [TokenTableValueKind]
    fileprivate let keyCount: Int

    func kind(_ column: Int32) -> TokenTableValueKind {
        self.page.isNull(self.index, Int(column)) ? .null : self.kinds[Int(column)]
    }

    /// A key may be the text of a number.
    func integer(_ column: Int32) -> Int64 {
        guard self.kinds[Int(column)] == .text else { return self.page.integer(self.index, Int(column)) }
        return self.page.text(self.index, Int(column)).flatMap { Int64($0) } ?? 0
    }

    func number(_ column: Int32) -> Double {
        self.kind(column) == .integer
            ? Double(self.page.integer(self.index, Int(column))) : self.page.number(self.index, Int(column))
    }

    func bytes(_ column: Int32) -> UnsafeRawBufferPointer { unsafe self.page.bytes(self.index, Int(column)) }
}
#endif

// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSWire
import PurgeList

/// What ``SendSource`` guards: the reader, the record that waits for room, and the books.
///
/// A structure, so that a whole batch is one access to it: in a class each line would pay for a dozen checks.
struct SendDesk: ~Copyable {
    private let input: SendInput
    private var reader: BatchReader
    private var record = BatchRecord()
    private var results: SendResults
    private let policy: DeliveryPolicy
    private let onBadLine: @Sendable (BatchProblem) -> Void
    private let command: Command
    private let onDropped: @Sendable (String) -> Void
    private let suppressesRejectedTokens: Bool
    /// Where dead tokens are looked up.
    private let dead: PurgeLookup?
    /// What the gateway rejects as invalid, for the purge list.
    private let rejections: SendRejections?

    private var isRecordWaiting = false
    private var rejected = RejectedTokens()
    private var readOctetCount: UInt64 = 0
    private var sentCount: UInt64 = 0
    /// The last line that was given to a connection.
    private var lastGivenLine: UInt64 = 0
    private var failure: CommandFailure?
    private var hasReadAll = false
    private var hasToldOfDropped = false
    private var isFlushAwaited = false

    var wake: @Sendable () -> Void = {}
    var isEnded = false

    init(
        input: SendInput,
        reader: consuming BatchReader,
        results: consuming SendResults,
        policy: DeliveryPolicy,
        suppressesRejectedTokens: Bool,
        dead: PurgeLookup? = nil,
        rejections: SendRejections? = nil,
        command: Command = .items,
        onDropped: @escaping @Sendable (String) -> Void = { _ in },
        onBadLine: @escaping @Sendable (BatchProblem) -> Void
    ) {
        self.input = input
        self.reader = reader
        self.results = results
        self.policy = policy
        self.suppressesRejectedTokens = suppressesRejectedTokens
        self.dead = dead
        self.rejections = rejections
        self.command = command
        self.onDropped = onDropped
        self.onBadLine = onBadLine
    }

    var progress: SendProgress {
        SendProgress(
            readOctetCount: self.readOctetCount,
            sentCount: self.sentCount,
            hasReadAll: self.hasReadAll,
            tally: self.results.tally
        )
    }

    // MARK: Giving

    /// What came of looking for the next line to send.
    private enum Search {
        case found
        case later
        case end
    }

    mutating func fill(_ batch: inout NotificationBatch) -> ProviderSupply {
        if self.input.isAbandoned { self.isEnded = true }
        while true {
            do {
                switch try self.findRecord() {
                case .found: break
                case .later: return .waiting
                case .end: return .ended
                }
                let line = UInt64(self.record.lineNumber)
                if !self.hasToldOfDropped { self.tellOfDropped(line) }
                try self.results.intend(line)
                let isAppended = batch.append(
                    token: self.record.token,
                    payload: self.record.payload,
                    expiry: self.record.expiry,
                    priority: self.record.priority,
                    tag: line,
                    note: self.record.id
                )
                self.isRecordWaiting = !isAppended
                guard isAppended else { return .available }
                self.sentCount += 1
                self.lastGivenLine = max(self.lastGivenLine, line)
            } catch {
                self.fail(error)
                return .ended
            }
        }
    }

    /// Says once that the format has no place for something that a line has.
    private mutating func tellOfDropped(_ line: UInt64) {
        let (name, commands) =
            switch self.command {
            case .simple where self.record.expiry != nil: ("expiry", "1 or 2")
            case .simple where self.record.priority != nil, .enhanced where self.record.priority != nil:
                ("priority", "2")
            default: ("", "")
            }
        guard !name.isEmpty else { return }
        self.hasToldOfDropped = true
        self.onDropped(
            "\(self.input.name), line \(line): the \(name) is left out, here and from now on; only --command "
                + "\(commands) has a place for it."
        )
    }

    mutating func items(countMax: Int) -> (items: [SendItem], supply: ProviderSupply) {
        if self.input.isAbandoned { self.isEnded = true }
        var items: [SendItem] = []
        do {
            while items.count < countMax {
                switch try self.findRecord() {
                case .found: break
                case .later: return (items, .waiting)
                case .end: return (items, .ended)
                }
                let line = UInt64(self.record.lineNumber)
                try self.results.intend(line)
                items.append(SendItem(self.record))
                self.isRecordWaiting = false
                self.sentCount += 1
                self.lastGivenLine = max(self.lastGivenLine, line)
            }
            return (items, .available)
        } catch {
            self.fail(error)
            return (items, .ended)
        }
    }

    /// Reads all there is without sending any.
    ///
    /// - Returns: whether more may come.
    mutating func skipRecords() -> Bool {
        do {
            while true {
                switch try self.findRecord() {
                case .found: self.sentCount += 1
                case .later: return true
                case .end: return false
                }
                self.isRecordWaiting = false
            }
        } catch {
            self.fail(error)
            return false
        }
    }

    private mutating func fail(_ error: any Error) {
        self.failure = self.failure ?? CommandFailure(error)
        self.end()
    }

    /// Nothing more comes, which all connections are to know.
    private mutating func end() {
        guard !self.isEnded else { return }
        self.isEnded = true
        self.wake()
    }

    /// Reads until there is a line to send.
    private mutating func findRecord() throws -> Search {
        if self.isEnded { return .end }
        if self.isRecordWaiting { return .found }
        while true {
            switch self.reader.next(&self.record) {
            case .record:
                if try self.isDue() { return .found }
            case .bad:
                if let problem = self.reader.problem { try self.refuse(problem) }
            case .needMore:
                if try !self.readMore() { return .later }
            case .refused:
                throw CommandFailure(.dataError, self.reader.problem.map { "\(self.input.name), \($0)" } ?? "")
            case .end:
                self.hasReadAll = true
                self.end()
                return .end
            }
        }
    }

    /// - Returns: whether octets came, or the end.
    private mutating func readMore() throws -> Bool {
        do {
            let input = self.input
            let count = try self.reader.fill { memory in
                switch try input.read(into: memory) {
                case .octets(let count): return count
                case .later: throw Later()
                case .end: return 0
                }
            }
            self.readOctetCount += UInt64(count)
            return true
        } catch is Later {
            return false
        }
    }

    /// Nothing has come yet.
    private struct Later: Error {}

    private mutating func refuse(_ problem: BatchProblem) throws {
        guard !self.results.isSettled(UInt64(problem.lineNumber)) else { return }
        self.onBadLine(problem)
        try self.results.write(problem)
    }

    /// Whether the record is to be sent; if not, it has its outcome.
    private mutating func isDue() throws -> Bool {
        let line = UInt64(self.record.lineNumber)
        if self.results.isSettled(line) { return false }
        if self.results.isInDoubt(line), self.policy == .atMostOnce {
            try self.settleHere(line, .indeterminate, attempts: 1)
            return false
        }
        if !self.rejected.isEmpty, self.rejected.contains(self.record.token) {
            try self.settleHere(line, .suppressed, attempts: 0)
            return false
        }
        if let dead = self.dead, try self.record.token.withUnsafeBytes({ try dead.contains($0) }) {
            try self.settleHere(line, .suppressed, attempts: 0, reason: "it is on the purge list")
            return false
        }
        return true
    }

    private mutating func settleHere(
        _ line: UInt64,
        _ outcome: BatchOutcome,
        attempts: Int,
        reason: String? = nil
    ) throws {
        try self.results.write(
            line: line,
            id: self.record.id,
            token: self.record.token,
            outcome,
            status: nil,
            attempts: attempts,
            isDuplicate: false,
            reason: reason
        )
    }

    // MARK: Taking

    mutating func settle(_ settled: borrowing SettledNotifications) {
        let (outcome, status) = BatchOutcome.of(settled.outcome)
        do {
            if self.suppressesRejectedTokens, settled.outcome == .rejected(.invalidToken) {
                settled.forEach { _, token, _ in
                    self.rejected.insert(token)
                    self.rejections?.append(token)
                }
            }
            if self.results.needsLines(outcome, isDuplicate: settled.possibleDuplicate) {
                try self.settleEach(settled, outcome, status)
            } else {
                try self.settleAll(settled, outcome, status)
            }
            try self.results.flushWhenDue()
        } catch {
            self.fail(error)
        }
    }

    mutating func settle(_ item: SendItem, _ verdict: SendVerdict) {
        if self.suppressesRejectedTokens, let fault = verdict.fault {
            item.token.withUnsafeBytes { token in
                self.rejected.insert(token)
                switch fault {
                case .invalid: self.rejections?.append(token)
                case .dead(let since): self.rejections?.append(token, deadSince: since)
                // In another app it may be alive.
                case .foreign: break
                }
            }
        }
        let isDuplicate = verdict.isDuplicate || self.results.isInDoubt(item.line)
        do {
            try item.id.withUnsafeBytes { id in
                try self.results.write(
                    line: item.line,
                    id: id,
                    token: item.token,
                    verdict.outcome,
                    status: verdict.status,
                    attempts: verdict.attempts,
                    isDuplicate: isDuplicate,
                    reason: verdict.reason
                )
            }
            try self.results.flushWhenDue()
        } catch {
            self.fail(error)
        }
    }

    private mutating func settleAll(
        _ settled: borrowing SettledNotifications,
        _ outcome: BatchOutcome,
        _ status: UInt16?
    ) throws {
        let isDuplicate = settled.possibleDuplicate
        var failure: (any Error)?
        settled.forEachTagRange { lines in
            do {
                try self.results.settle(lines, outcome, status: status, isDuplicate: isDuplicate)
            } catch {
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
    }

    private mutating func settleEach(
        _ settled: borrowing SettledNotifications,
        _ outcome: BatchOutcome,
        _ status: UInt16?
    ) throws {
        let (attempts, isDuplicate) = (settled.attempts, settled.possibleDuplicate)
        var failure: (any Error)?
        settled.forEach { line, octets, id in
            guard let token = try? DeviceToken(octets: octets) else { return }
            do {
                try self.results.write(
                    line: line,
                    id: id,
                    token: token,
                    outcome,
                    status: status,
                    attempts: attempts,
                    isDuplicate: isDuplicate || self.results.isInDoubt(line)
                )
            } catch {
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
    }

    /// Whether there is something to be flushed that nobody has been asked for.
    mutating func awaitFlush() -> Bool {
        guard self.results.isFlushDue, !self.isFlushAwaited else { return false }
        self.isFlushAwaited = true
        return true
    }

    /// Gives the results to the system, as ``awaitFlush()`` asked for.
    mutating func flush() {
        self.isFlushAwaited = false
        do {
            try self.results.flush()
        } catch {
            self.fail(error)
        }
    }

    var rejectionCounts: (count: UInt64, doubtfulCount: UInt64) {
        (self.rejections?.count ?? 0, self.rejections?.doubtfulCount ?? 0)
    }

    func recordRejections(in list: PurgeList, _ scope: PurgeScope, failedAt: Int64?) throws -> PurgeChange {
        try self.rejections?.record(in: list, scope, failedAt: failedAt) ?? PurgeChange()
    }

    mutating func finish() -> CommandFailure? {
        let tally = self.results.tally
        // At least once, another run sends what is indeterminate again.
        let openCount = tally[.unsent] + (self.policy == .atLeastOnce ? tally[.indeterminate] : 0)
        let isComplete = self.hasReadAll && self.failure == nil && openCount == 0
        do {
            try self.results.finish(isComplete: isComplete, lastGivenLine: self.lastGivenLine)
        } catch {
            self.fail(error)
        }
        return self.failure
    }
}

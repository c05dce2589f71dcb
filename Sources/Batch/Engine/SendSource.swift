// SPDX-License-Identifier: Apache-2.0

import Glibc
package import APNSProvider
package import APNSSession
package import APNSWire
import Dispatch
import NIOConcurrencyHelpers

/// Supplies the lines of a batch to the connections, and receives their outcomes.
///
/// Event loops call it, one at a time, and it never blocks them: reading and writing run on a thread each.
package final class SendSource: NotificationSource, @unchecked Sendable {
    // All mutable state is in `batchState`, which is used only under the lock.
    private let lock = NIOLock()
    private var batchState: BatchSendState
    /// Whether a write is running, and whether one is scheduled; under the lock.
    private var (isWriting, isWriteAwaited) = (false, false)
    private let reader: SendReader
    private let files: SendFiles
    private let wakeUp = NIOLockedValueBox<@Sendable () -> Void>({})
    private let input: SendInput
    private let queue = DispatchQueue(label: "apns-legacy.send.output")

    /// Results are written within about twice this time, unless the disk is slower.
    private static let writeDelay = DispatchTimeInterval.milliseconds(20)

    package init(input: SendInput, batchState: consuming BatchSendState) {
        self.input = input
        self.reader = batchState.reader
        self.files = batchState.files
        self.batchState = batchState
    }

    /// Reads the start of the input, so that no connection is opened for an unusable file.
    package func prepare() { self.reader.prepare() }

    package func start(wake: @escaping @Sendable () -> Void) {
        self.reader.whenReady(wake)
        self.wakeUp.withLockedValue { $0 = wake }
        // Lines may have been read before there was a connection to wake up.
        wake()
    }

    package func fill(_ batch: inout NotificationBatch) -> ProviderSupply {
        self.withState { $0.fill(&batch) }
    }

    package func settle(_ settled: borrowing SettledNotifications) {
        self.lock.lock()
        defer { self.unlock() }
        self.batchState.settle(settled)
    }

    private func withState<Value>(_ body: (inout BatchSendState) -> Value) -> Value {
        self.lock.lock()
        defer { self.unlock() }
        return body(&self.batchState)
    }

    /// Releases the lock, and schedules a write of the results.
    private func unlock() {
        let mustWake = self.batchState.takeWake()
        let (isDue, isUrgent) = self.batchState.portionState
        let isWrite = isUrgent && !self.isWriting
        let isDelayed = isDue && !self.isWriting && !isWrite && !self.isWriteAwaited
        if isWrite { self.isWriting = true }
        if isDelayed { self.isWriteAwaited = true }
        self.lock.unlock()
        if mustWake { self.wakeUp.withLockedValue { $0 }() }
        if isWrite { self.queue.async { self.write() } }
        if isDelayed { self.queue.asyncAfter(deadline: .now() + SendSource.writeDelay) { self.writeWhatIsDue() } }
    }

    /// Writes after the delay, unless another write has already done so.
    private func writeWhatIsDue() {
        let isDue = self.lock.withLock {
            self.isWriteAwaited = false
            guard !self.isWriting else { return false }
            self.isWriting = self.batchState.portionState.isDue
            return self.isWriting
        }
        if isDue { self.write() }
    }

    /// Writes all results; runs on the queue.
    private func write() {
        let portion = self.lock.withLock { self.batchState.takePortion() }
        let result = Result { try self.files.write(portion) }
        self.lock.lock()
        self.isWriting = false
        self.batchState.complete(portion, result)
        self.unlock()
    }

    package var isEnded: Bool { self.input.isAbandoned || self.lock.withLock { self.batchState.isEnded } }

    package var isStopped: Bool { self.input.isAbandoned }

    /// Stops reading; lines that were given to a connection are still sent and verified.
    package func end() {
        self.input.abandon()
        self.wakeUp.withLockedValue { $0 }()
    }

    /// Reads all lines without sending them; blocks until that is done.
    package func readThrough() {
        let woken = DispatchSemaphore(value: 0)
        self.start { woken.signal() }
        while self.withState({ $0.skipLines() }) { woken.wait() }
    }

    /// Reports lines that were read as unsent, if no connection could be opened for them.
    package func settleUngiven(_ reason: DeliveryOutcome.Reason) {
        self.withState { $0.settleUngiven(reason) }
    }

    /// The progress of the batch.
    package var progress: SendProgress {
        self.lock.withLock { self.batchState.progress }
    }

    /// Where another run can continue, once every line has an outcome; `nil` if nothing is left to send.
    package var resumePoint: ResumePoint? { self.lock.withLock { self.batchState.resumePoint } }

    /// Whether the results or the journal were removed or replaced, so that the same command must not run again.
    package var isFileLost: Bool { self.lock.withLock { self.batchState.isFileLost } }

    /// Finishes the files; blocks until they are written.
    ///
    /// Returns the first failure of the input or the files; `nil` if there was none.
    package func finish() -> (any Error)? {
        self.reader.stop()
        // A running write finishes first; a scheduled one finds nothing to do.
        return self.queue.sync { self.lock.withLock { self.batchState.finish() } }
    }
}

/// The state that ``SendSource`` guards: the next line to send, and the outcomes of the lines sent so far.
///
/// It is a structure so that a whole block of lines needs one exclusivity check; a class would check each access. It
/// runs on event loops, so it never blocks: a ``SendReader`` reads the lines, and ``SendFiles`` writes the results.
package struct BatchSendState: ~Copyable {
    private let input: SendInput
    private let hasContent: Bool
    /// Where lines come from.
    let reader: SendReader
    private var block: SendBlock?
    /// Whether a line had a topic of its own: a token that is not for one topic may then be for another.
    private var hasOwnTopics = false
    /// The index of the next line of the block, and of the next problem among its invalid lines.
    private var blockIndex = 0
    private var problemIndex = 0
    private var results: SendResults
    /// Whether a later run sends indeterminate lines again.
    private let resendsDoubted: Bool
    private let onBadLine: @Sendable (BatchProblem) -> Void
    private let command: Command
    private let onDropped: @Sendable (_ lineNumber: Int, _ sentence: String) -> Void
    private let suppressesRejectedTokens: Bool
    /// Called for each token that is rejected as invalid or dead, with the time of its death in seconds since 1970.
    private let onRejectedToken: (@Sendable (_ token: DeviceToken, _ deadSince: Int64?) -> Void)?
    /// Called for each token that an earlier run left to add to the purge list, with the status of its rejection.
    private let onEarlierRejectedToken: (@Sendable (_ token: DeviceToken, _ status: UInt16) -> Void)?

    /// The end of the last block whose lines were all taken.
    private var endPosition = BatchPosition()
    private var unsentTail = UnsentTail()
    private var indeterminateCount: UInt64 = 0

    private var rejected = RejectedTokens()
    private var sentCount: UInt64 = 0
    /// The number of these that have an outcome.
    private var settledCount: UInt64 = 0
    /// The last line that was given to a connection.
    private var lastGivenLine: UInt64 = 0
    private var failure: (any Error)?
    private var hasReadAll = false
    private var hasReportedDropped = false
    /// Whether a connection waits for an intent or for room, and must be woken up.
    private var isAwaited = false
    private var mustWake = false
    /// Whether a write failed; writing is then tried again only at the end of the batch.
    private var isUnwritable = false

    var isEnded = false

    /// Creates the state of a batch.
    package init(
        input: SendInput,
        batch: consuming OpenedBatch,
        results: consuming SendResults,
        policy: DeliveryPolicy,
        suppressesRejectedTokens: Bool,
        isDead: TokenPredicate? = nil,
        onRejectedToken: (@Sendable (_ token: DeviceToken, _ deadSince: Int64?) -> Void)? = nil,
        onEarlierRejectedToken: (@Sendable (_ token: DeviceToken, _ status: UInt16) -> Void)? = nil,
        command: Command = .items,
        onDropped: @escaping @Sendable (_ lineNumber: Int, _ sentence: String) -> Void = { _, _ in },
        onBadLine: @escaping @Sendable (BatchProblem) -> Void
    ) {
        self.input = input
        self.hasContent = batch.readByteCount > 0
        let resendsDoubted = policy == .atLeastOnce
        var past = results.past
        if onEarlierRejectedToken == nil { past.unlisted = [:] }
        self.reader = SendReader(
            input,
            batch,
            past: past,
            sendsDoubted: resendsDoubted,
            isDead: isDead
        )
        self.results = results
        self.resendsDoubted = resendsDoubted
        self.suppressesRejectedTokens = suppressesRejectedTokens
        self.onRejectedToken = onRejectedToken
        self.onEarlierRejectedToken = onEarlierRejectedToken
        self.command = command
        self.onDropped = onDropped
        self.onBadLine = onBadLine
    }

    var progress: SendProgress {
        let position = self.position
        return SendProgress(
            sentCount: self.sentCount,
            hasReadAll: self.hasReadAll,
            outcomeCounts: self.results.outcomeCounts,
            lineCount: position.nextLine - 1,
            fraction: self.input.byteCountTotal.map { total in
                total == 0 ? 1 : min(1, Double(position.byteCount) / Double(total))
            },
            openCount: self.sentCount - self.settledCount,
            hasContent: self.hasContent
        )
    }

    /// The position of the next line to take.
    private var position: BatchPosition {
        guard let block = self.block, self.blockIndex < block.count else { return self.endPosition }
        var position = block.start
        position.headLineCount = block.end.headLineCount
        position.nextLine = unsafe block.withEntry(at: self.blockIndex) { entry, _, _ in entry.line }
        // Not those of the entries, since lines that an earlier run settled have none.
        let (first, end) = (Double(block.start.nextLine), Double(block.end.nextLine))
        let part = (Double(position.nextLine) - first) / max(1, end - first)
        let byteCount = block.end.byteCount > block.start.byteCount ? block.end.byteCount - block.start.byteCount : 0
        position.byteCount += UInt64(Double(byteCount) * min(1, max(0, part)))
        return position
    }

    /// Where another run can continue; `nil` if nothing is left to send.
    var resumePoint: ResumePoint? {
        let tail = self.unsentTail.firstLine
        guard !self.hasReadAll || tail != nil else { return nil }
        var point = ResumePoint(position: self.position)
        if let tail { point.position.nextLine = min(point.position.nextLine, tail) }
        point.unsentCount = self.unsentTail.countBefore
        point.indeterminateCount = self.indeterminateCount
        return point
    }

    /// Whether a file was removed, replaced or truncated, so that the same command must not run again.
    var isFileLost: Bool { (self.failure as? BatchFileError)?.kind == .lost }

    // MARK: Giving

    /// The result of a search for the next line to send.
    private enum Search {
        case found(SendBlock)
        case later
        case end
    }

    mutating func fill(_ batch: inout NotificationBatch) -> ProviderSupply {
        if self.input.isAbandoned { self.isEnded = true }
        while true {
            let block: SendBlock
            switch self.findLine() {
            case .found(let found): block = found
            case .later: return .waiting
            case .end: return .ended
            }
            guard batch.countFree > 0 else { return .available }
            // Send the rest of the block, up to the first line that must wait.
            while self.blockIndex < block.count {
                let isGiven: Bool? = unsafe block.withEntry(at: self.blockIndex) { entry, payload, id in
                    guard entry.kind == .due, !self.isSuppressed(entry) else { return nil }
                    guard self.results.intend(entry.line) else { return false }
                    if !self.hasReportedDropped { self.reportDropped(entry) }
                    let isAppended =
                        entry.hasFields
                        ? unsafe self.appendWithFields(entry, payload, id, to: &batch)
                        : unsafe batch.append(
                            token: entry.token,
                            payload: payload,
                            expiry: PushExpiry(wireValue: entry.expiry),
                            priority: entry.priority,
                            tag: entry.line,
                            note: id
                        )
                    guard isAppended else { return false }
                    self.sentCount += 1
                    self.lastGivenLine = max(self.lastGivenLine, entry.line)
                    return true
                }
                guard let isGiven else { break }
                guard isGiven else {
                    if self.isIntended(block) { return .available }
                    self.isAwaited = true
                    return .waiting
                }
                self.blockIndex += 1
            }
        }
    }

    /// Appends the next line of the block, whose request has fields of its own.
    @inline(never)
    private mutating func appendWithFields(
        _ entry: borrowing SendBlock.Entry,
        _ payload: UnsafeRawBufferPointer,
        _ id: UnsafeRawBufferPointer,
        to batch: inout NotificationBatch
    ) -> Bool {
        guard let fields = self.block?.fields[self.blockIndex] else { return false }
        if fields.topic != nil { self.hasOwnTopics = true }
        let expiry = PushExpiry(wireValue: entry.expiry)
        let (token, priority) = (entry.token, entry.priority)
        return unsafe batch.append(token, payload, expiry, priority, tag: entry.line, note: id) { notification in
            notification.topic = fields.topic
            notification.pushType = fields.pushType
            notification.collapseID = fields.collapseID
            notification.apnsID = fields.apnsID
        }
    }

    /// Whether the intent for the next line is on the disk, so that the line only waits for room.
    private mutating func isIntended(_ block: SendBlock) -> Bool {
        unsafe block.withEntry(at: self.blockIndex) { entry, _, _ in self.results.intend(entry.line) }
    }

    private func isSuppressed(_ entry: borrowing SendBlock.Entry) -> Bool {
        guard !self.rejected.isEmpty else { return false }
        return self.rejected.contains(entry.token)
    }

    /// Reports once that the frame format does not have a field for a value of a line.
    private mutating func reportDropped(_ entry: borrowing SendBlock.Entry) {
        let (name, commands) =
            switch self.command {
            case .simple where entry.expiry != nil: ("expiry", "1 or 2")
            case .simple where entry.priority != nil, .enhanced where entry.priority != nil: ("priority", "2")
            default: ("", "")
            }
        guard !name.isEmpty else { return }
        self.hasReportedDropped = true
        self.onDropped(
            Int(entry.line),
            "\(name) is not sent, in this and all following lines; use --command \(commands)"
        )
    }

    /// Takes all lines read so far without sending them.
    ///
    /// Returns whether more lines may come.
    mutating func skipLines() -> Bool {
        if self.input.isAbandoned { self.isEnded = true }
        while true {
            switch self.findLine() {
            case .found: self.sentCount += 1
            case .later: return true
            case .end: return false
            }
            self.blockIndex += 1
        }
    }

    private mutating func fail(_ error: any Error) {
        self.failure = self.failure ?? error
        self.end()
    }

    /// Ends the input, and wakes up all connections so that they notice.
    private mutating func end() {
        guard !self.isEnded else { return }
        self.isEnded = true
        self.mustWake = true
    }

    /// Moves the index of the block to the next line that can be sent.
    private mutating func findLine() -> Search {
        if self.isEnded { return .end }
        while true {
            guard let block = self.block, self.blockIndex < block.count else {
                if self.results.isFull {
                    self.isAwaited = true
                    return .later
                }
                if let search = self.nextBlock() { return search }
                continue
            }
            let isDue = unsafe block.withEntry(at: self.blockIndex) { entry, _, id in
                switch entry.kind {
                case .due where !self.isSuppressed(entry): return true
                case .due: unsafe self.settleHere(entry, id, LineOutcome(.suppressed))
                case .dead:
                    unsafe self.settleHere(entry, id, LineOutcome(.suppressed), reason: "it is on the purge list")
                case .doubted:
                    self.unsentTail.add(entry.line..<(entry.line + 1), isUnsent: false)
                    unsafe self.settleHere(entry, id, LineOutcome(.indeterminate), attempts: 1)
                case .bad: self.refuse(block)
                case .rejected(let status): self.onEarlierRejectedToken?(entry.token, status)
                }
                return false
            }
            if isDue { return .found(block) }
            self.blockIndex += 1
        }
    }

    /// Returns why there is no other block; `nil` if there is one.
    private mutating func nextBlock() -> Search? {
        if let block = self.block {
            self.endPosition = block.end
            self.reader.reuse(block)
        }
        self.block = nil
        self.blockIndex = 0
        self.problemIndex = 0
        switch self.reader.next() {
        case .block(let block):
            self.block = block
            return nil
        case .later: return .later
        case .end(.failure(let failure)):
            self.fail(failure)
            return .end
        case .end(.success(let position)):
            self.endPosition = position
            self.hasReadAll = true
            self.end()
            return .end
        }
    }

    private mutating func refuse(_ block: SendBlock) {
        let problem = block.problems[self.problemIndex]
        self.problemIndex += 1
        self.onBadLine(problem)
        self.results.write(problem)
    }

    private mutating func settleHere(
        _ entry: borrowing SendBlock.Entry,
        _ id: UnsafeRawBufferPointer,
        _ outcome: LineOutcome,
        attempts: Int = 0,
        reason: String? = nil
    ) {
        let result = LineResult(entry.line, outcome, attempts: attempts, reason: reason)
        unsafe self.results.write(result, id: id, token: entry.token)
    }

    /// Reports lines that were read as unsent, if no line was given to a connection: then none could be opened.
    ///
    /// Otherwise the results would not contain the lines of a small batch that could not be sent.
    mutating func settleUngiven(_ reason: DeliveryOutcome.Reason) {
        guard self.lastGivenLine == 0, !self.input.isAbandoned else { return }
        let text = DeliveryOutcome.unsent(reason).reasonText
        for _ in 0..<Self.ungivenCountMax {
            guard case .found(let block) = self.findLine() else { return }
            unsafe block.withEntry(at: self.blockIndex) { entry, _, id in
                let isInDoubt = self.results.isInDoubt(entry.line)
                self.unsentTail.add(entry.line..<(entry.line + 1), isUnsent: !isInDoubt)
                // An earlier run may have delivered it.
                let outcome = LineOutcome(isInDoubt ? .indeterminate : .unsent, isDuplicate: isInDoubt)
                unsafe self.settleHere(entry, id, outcome, reason: text)
            }
            self.sentCount += 1
            self.settledCount += 1
            self.blockIndex += 1
        }
    }

    /// The most lines that are reported as unsent although no connection took them: as many as over HTTP/2.
    private static let ungivenCountMax = 64

    // MARK: Taking

    mutating func settle(_ settled: borrowing SettledNotifications) {
        let (report, isDuplicate) = (settled.report, settled.report.isPossibleDuplicate)
        // What was not sent again may have been delivered before.
        let kind = settled.outcome.kind == .unsent && isDuplicate ? .indeterminate : settled.outcome.kind
        let outcome = LineOutcome(kind, status: settled.outcome.rejectionStatusCode, isDuplicate: isDuplicate)
        settled.forEachTagRange { self.unsentTail.add($0, isUnsent: kind == .unsent) }
        self.settledCount += UInt64(settled.count)
        if kind == .indeterminate { self.indeterminateCount += UInt64(settled.count) }
        if self.suppressesRejectedTokens, case .rejected(let rejection) = settled.outcome,
            let fault = rejection.tokenFault(now: UInt32(clamping: time(nil))), fault != .foreign || !self.hasOwnTopics
        {
            unsafe settled.forEach { _, token, _ in unsafe self.suppress(token, fault) }
        }
        guard self.results.needsLines(outcome) else {
            return settled.forEachTagRange { self.results.settle($0, outcome) }
        }
        var result = LineResult(0, outcome, attempts: report.attempts, reason: report.outcome.reasonText)
        result.timestamp = report.outcome.timestampNumber
        if report.attempts > 0 { (result.apnsID, result.apnsUniqueID) = (report.apnsID, report.apnsUniqueID) }
        unsafe settled.forEach { line, bytes, id in
            guard let token = try? unsafe DeviceToken(bytes: bytes) else { return }
            result.line = line
            let isInDoubt = self.results.isInDoubt(line)
            // An earlier run may have delivered it.
            let isDoubtful = kind == .unsent && isInDoubt
            if isDoubtful { self.indeterminateCount += 1 }
            result.outcome = LineOutcome(
                isDoubtful ? .indeterminate : kind,
                status: outcome.status,
                isDuplicate: isDuplicate || isInDoubt
            )
            unsafe self.results.write(result, id: id, token: token)
        }
    }

    /// Sends no more lines for a token.
    private mutating func suppress(_ bytes: UnsafeRawBufferPointer, _ fault: TokenFault) {
        unsafe self.rejected.insert(bytes)
        guard let onRejectedToken = self.onRejectedToken, let token = try? unsafe DeviceToken(bytes: bytes) else {
            return
        }
        switch fault {
        case .invalid: onRejectedToken(token, nil)
        case .dead(let since): onRejectedToken(token, Int64(since))
        // The token may be alive in another app.
        case .foreign: break
        }
    }

    // MARK: Files

    /// Where results and journal are written.
    var files: SendFiles { self.results.files }

    /// Whether there is something to write, and whether it is urgent.
    var portionState: (isDue: Bool, isUrgent: Bool) {
        self.isUnwritable ? (false, false) : (self.results.isPortionDue, self.results.isPortionUrgent)
    }

    /// Takes what must be written.
    mutating func takePortion() -> SendPortion { self.results.takePortion() }

    /// Handles the result of a write.
    mutating func complete(_ portion: SendPortion, _ result: Result<Void, any Error>) {
        switch result {
        case .success: self.results.complete(portion)
        case .failure(let error):
            self.isUnwritable = true
            self.fail(error)
        }
        if self.isAwaited { self.mustWake = true }
        self.isAwaited = false
    }

    /// Whether to wake up the connections; reading it resets it.
    mutating func takeWake() -> Bool {
        defer { self.mustWake = false }
        return self.mustWake
    }

    mutating func finish() -> (any Error)? {
        let outcomeCounts = self.results.outcomeCounts
        let resendsDoubted = self.resendsDoubted
        let kinds = DeliveryOutcome.Kind.allCases.filter { $0.isSentAgain(withDuplicates: resendsDoubted) }
        let openCount = kinds.reduce(0) { $0 + outcomeCounts[$1] }
        let isComplete = self.hasReadAll && self.failure == nil && openCount == 0
        do {
            try self.results.finish(isComplete: isComplete, lastGivenLine: self.lastGivenLine)
        } catch {
            self.fail(error)
        }
        return self.failure
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSSession
import APNSWire
import CoreMetrics
import Dispatch
import Logging
import NIOConcurrencyHelpers
import SystemPackage

/// The outcomes of all providers in files, for other programs and for a webhook.
///
/// One thread owns the files. While it waits for the disk, further outcomes are collected, and written together.
///
/// If the files cannot be written, notifications are still delivered: outcomes are kept in memory, up to a limit, and
/// writing is tried again after a pause.
final class OutcomeLog: OutcomeRecorder {
    /// Outcomes for the webhook.
    struct Batch: Sendable {
        var firstNumber: UInt64
        var lastNumber: UInt64
        var count: Int
        /// When the first one was known, in seconds since 1970.
        var seconds: Int64
        /// A JSON array.
        var body: [UInt8]
    }

    /// What is known of the files and of the webhook.
    struct Status: Hashable, Sendable {
        /// The size of all files, in bytes.
        var byteCount = 0
        /// The number of the last outcome on the disk.
        var lastNumber: UInt64 = 0
        /// The number of the last outcome that the webhook has accepted.
        var position: UInt64 = 0
        /// When the oldest outcome was known that the webhook has not accepted, in seconds since 1970; `nil` if there
        /// is none.
        var waitingSince: Int64?
        /// Whether the files can be written.
        var isWritable = true
    }

    private struct Pending: Sendable {
        var outcome: RecordedOutcome
        var onKept: (@Sendable () -> Void)?
    }

    private struct State: Sendable {
        var pending: [Pending] = []
        /// How many outcomes were dropped after the last one in `pending`.
        var droppedCount: UInt64 = 0
        var isWriting = false
        var failureCount = 0
        var status = Status()
    }

    /// What only the thread uses.
    private struct Files: Sendable {
        var files: OutcomeFiles
        var writer: OutcomeLineWriter
        /// Where the webhook's reading goes on, and the number of the last outcome that was read.
        var reader: (place: OutcomeSegmentReader, number: UInt64)?
        /// The last damaged line: the first number of its file, and its offset.
        var lastDamage: (firstNumber: UInt64, offset: UInt64)?
    }

    /// The most outcomes in memory; further ones are dropped.
    static let pendingCountMax = 100_000
    /// The most outcomes that are written together.
    private static let groupCountMax = 4096
    /// The size at which a batch ends, in bytes.
    private static let batchByteCountMax = 1 << 20
    private static let backoff = Backoff(first: .milliseconds(250), max: .seconds(15))

    private let options: GatewayFile.Outcomes
    private let files: NIOLockedValueBox<Files>
    private let state: NIOLockedValueBox<State>
    private let thread = DispatchQueue(label: "outcomes")
    private let logger: Logger
    private let recordedCount = Counter(label: "apns.legacy.outcomes.recorded")
    private let failures = Counter(label: "apns.legacy.outcomes.store.failures")
    private let dropped: [Drop: Counter]
    /// Yields when there are more outcomes on the disk.
    let additions: AsyncStream<Void>
    private let addition: AsyncStream<Void>.Continuation

    /// Why an outcome is missing, as in the metrics.
    private enum Drop: String, CaseIterable {
        /// There were too many in memory.
        case memory
        /// Its file was removed before the webhook had accepted it.
        case removed
        /// Its line is damaged.
        case damaged
    }

    /// Opens the folder.
    ///
    /// - Throws: ``GatewayFailure``.
    init(_ options: GatewayFile.Outcomes, logger: Logger) throws(GatewayFailure) {
        let files = try OutcomeFiles(options.folder, options.limits)
        self.options = options
        self.logger = logger
        self.files = NIOLockedValueBox(Files(files: files, writer: OutcomeLineWriter(tokens: options.tokens)))
        var state = State()
        state.status.lastNumber = files.nextNumber - 1
        state.status.position = files.position
        state.status.byteCount = files.byteCount
        self.state = NIOLockedValueBox(state)
        self.dropped = Dictionary(
            uniqueKeysWithValues: Drop.allCases.map {
                ($0, Counter(label: "apns.legacy.outcomes.dropped", dimensions: [("cause", $0.rawValue)]))
            }
        )
        (self.additions, self.addition) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
        if files.recovery.cutByteCount > 0 {
            logger.notice(
                "incomplete outcome cut off, as after a kill",
                metadata: [LogKey.outcomeFile: "\(options.folder)", LogKey.count: "\(files.recovery.cutByteCount)"]
            )
        }
        if files.isPositionDamaged {
            logger.error(
                "position of the webhook is damaged; all outcomes in the folder are sent again",
                metadata: [LogKey.outcomeFile: "\(options.folder)"]
            )
        }
        self.addition.yield()
    }

    var status: Status { self.state.withLockedValue(\.status) }

    private func withFiles<Value>(
        _ body: (inout Files) throws(Errno) -> Value
    ) throws(Errno) -> Value {
        try self.files.withLockedValue { files in
            Result { () throws(Errno) in try body(&files) }
        }.get()
    }

    // MARK: Recording

    func records(_ cause: DeliveryCause) -> Bool {
        switch cause {
        case .accepted, .resent, .resentWithNewExpiry, .leftToResend: self.options.include == .all
        case .dead, .rejected, .throttled, .unknown, .misconfigured, .gatewayFault, .credentialFault, .budgetSpent,
            .expired, .damaged, .ignored:
            true
        }
    }

    func record(_ outcome: RecordedOutcome, onKept: @escaping @Sendable () -> Void) {
        let (isWaiting, starts) = self.state.withLockedValue { state -> (Bool, Bool) in
            guard state.pending.count < Self.pendingCountMax else {
                state.droppedCount += 1
                return (false, false)
            }
            // A disk that cannot be written delays no notification.
            let isWaiting = state.failureCount == 0
            state.pending.append(Pending(outcome: outcome, onKept: isWaiting ? onKept : nil))
            defer { state.isWriting = true }
            return (isWaiting, !state.isWriting)
        }
        if starts { self.thread.async { self.write() } }
        if !isWaiting { onKept() }
    }

    /// Waits until what was recorded is on the disk, or could not be written once more.
    func flush() async {
        await withCheckedContinuation { continuation in
            self.thread.async {
                self.write()
                continuation.resume()
            }
        }
        let count = self.state.withLockedValue { $0.pending.count }
        guard count > 0 else { return }
        self.dropped[.memory]?.increment(by: count)
        self.logger.error("outcomes lost, since their folder cannot be written", metadata: [LogKey.count: "\(count)"])
    }

    /// Writes until nothing is pending, or writing fails.
    private func write() {
        while true {
            let (group, droppedCount) = self.state.withLockedValue { state -> ([Pending], UInt64) in
                let group = Array(state.pending.prefix(Self.groupCountMax))
                state.pending.removeFirst(group.count)
                if group.isEmpty { state.isWriting = false }
                guard state.pending.isEmpty else { return (group, 0) }
                return (group, state.droppedCount.take())
            }
            guard !group.isEmpty else { return }
            do throws(Errno) {
                try self.write(group)
            } catch {
                return self.failed(error, group, droppedCount)
            }
            if droppedCount > 0 { self.drop(droppedCount) }
            for pending in group { pending.onKept?() }
        }
    }

    private func write(_ group: [Pending]) throws(Errno) {
        let isFull = self.files.withLockedValue { $0.files.openByteCount >= self.options.limits.fileByteCountMax }
        if isFull { try self.rotate() }
        let isFirst = self.files.withLockedValue { $0.files.openByteCount == 0 }
        try self.withFiles { files throws(Errno) in
            files.writer.removeAll()
            for (index, pending) in group.enumerated() {
                files.writer.append(pending.outcome, number: files.files.nextNumber + UInt64(index))
            }
            try files.files.append(files.writer.bytes, count: group.count)
        }
        if isFirst { self.scheduleRotation() }
        self.recordedCount.increment(by: group.count)
        self.updateStatus()
    }

    private func updateStatus() {
        let (lastNumber, position, byteCount) = self.files.withLockedValue {
            ($0.files.nextNumber - 1, $0.files.position, $0.files.byteCount)
        }
        let wasFailing = self.state.withLockedValue { state in
            state.status.lastNumber = lastNumber
            state.status.position = position
            state.status.byteCount = byteCount
            state.status.isWritable = true
            defer { state.failureCount = 0 }
            return state.failureCount > 0
        }
        if wasFailing { self.logger.notice("outcomes are written again") }
        self.addition.yield()
    }

    private func failed(_ error: Errno, _ group: [Pending], _ droppedCount: UInt64) {
        let (isFirst, delay, waiting) = self.state.withLockedValue { state in
            let waiting = (group + state.pending).compactMap(\.onKept)
            state.pending = (group + state.pending).map { Pending(outcome: $0.outcome) }
            state.droppedCount += droppedCount
            state.failureCount += 1
            state.status.isWritable = false
            let delay = Self.backoff.delay(failures: state.failureCount, jitter: .random(in: 0...1))
            return (state.failureCount == 1, delay, waiting)
        }
        self.failures.increment()
        if isFirst {
            self.logger.error(
                "outcomes not written; notifications are still delivered",
                metadata: [LogKey.outcomeFile: "\(self.options.folder)", LogKey.failure: "\(error)"]
            )
        }
        let nanoseconds = Int(delay / .nanoseconds(1))
        self.thread.asyncAfter(deadline: .now() + .nanoseconds(nanoseconds)) { [weak self] in self?.write() }
        for onKept in waiting { onKept() }
    }

    /// Counts outcomes that found no room in memory, and leaves out their numbers.
    private func drop(_ count: UInt64) {
        self.files.withLockedValue { $0.files.skip(count) }
        self.dropped[.memory]?.increment(by: Int64(clamping: count))
        self.logger.error("outcomes dropped: too many were waiting for the disk", metadata: [LogKey.count: "\(count)"])
    }

    // MARK: Files

    private func rotate() throws(Errno) {
        let hasWebhook = self.options.webhook != nil
        let removals = try self.withFiles { files throws(Errno) in
            try files.files.rotate(hasWebhook: hasWebhook)
        }
        for removal in removals where removal.unreadCount > 0 {
            self.dropped[.removed]?.increment(by: Int64(clamping: removal.unreadCount))
            let reason = hasWebhook ? "the webhook had not accepted all of it" : "nobody had removed it"
            self.logger.error(
                "file of outcomes removed, since the folder is full (outcomes.size)",
                metadata: [
                    LogKey.outcomeFile: "\(self.options.folder)/\(removal.name)",
                    LogKey.count: "\(removal.unreadCount)",
                    LogKey.refusalReason: "\(reason)",
                ]
            )
        }
    }

    /// Finishes the file some time after its first line.
    private func scheduleRotation() {
        let open = self.files.withLockedValue(\.files.open)
        let nanoseconds = Int(self.options.fileAge / .nanoseconds(1))
        self.thread.asyncAfter(deadline: .now() + .nanoseconds(nanoseconds)) { [weak self] in
            guard let self, self.files.withLockedValue(\.files.open) == open else { return }
            // If it fails, the next line is written to the same file.
            try? self.rotate()
            self.updateStatus()
        }
    }

    // MARK: The webhook

    /// Reads the next outcomes.
    ///
    /// Returns at most `countMax` outcomes with higher numbers; `nil` if there are none on the disk.
    ///
    /// - Throws: the error of a system call.
    func read(after number: UInt64, countMax: Int) async throws -> Batch? {
        try await withCheckedThrowingContinuation { continuation in
            self.thread.async {
                continuation.resume(with: Result { try self.batch(after: number, countMax: countMax) })
            }
        }
    }

    /// Stores the number of the last outcome that the webhook has accepted.
    ///
    /// - Throws: the error of a system call.
    func store(position: UInt64) async throws {
        try await withCheckedThrowingContinuation { continuation in
            self.thread.async {
                continuation.resume(
                    with: Result {
                        try self.withFiles { files throws(Errno) in
                            try files.files.store(position: position)
                        }
                        self.state.withLockedValue { state in
                            state.status.position = position
                            state.status.waitingSince = nil
                        }
                    }
                )
            }
        }
    }
}

// MARK: - Reading

extension OutcomeLog {
    private func batch(after number: UInt64, countMax: Int) throws(Errno) -> Batch? {
        let lastNumber = self.state.withLockedValue(\.status.lastNumber)
        let known = self.files.withLockedValue { $0.reader.take() }
        var place: OutcomeSegmentReader
        if let known, known.number == number { place = known.place } else { place = try self.reader(after: number) }
        var batch = Batch(firstNumber: 0, lastNumber: number, count: 0, seconds: 0, body: [])
        reading: while batch.count < countMax, batch.body.count < Self.batchByteCountMax, batch.lastNumber < lastNumber
        {
            switch try place.next() {
            case .line(let line, let bytes):
                guard line.number > batch.lastNumber else { continue }
                if batch.count == 0 { (batch.firstNumber, batch.seconds) = (line.number, line.seconds) }
                batch.body.append(batch.count == 0 ? UInt8(ascii: "[") : UInt8(ascii: ","))
                batch.body += bytes
                (batch.lastNumber, batch.count) = (line.number, batch.count + 1)
            case .damage(let offset): self.reportDamage(place.segment, offset)
            case .end:
                guard let next = try self.segment(behind: place.segment) else { break reading }
                place = try OutcomeSegmentReader(next, in: self.options.folder)
            }
        }
        self.files.withLockedValue { [place, batch] in $0.reader = (place, batch.lastNumber) }
        guard batch.count > 0 else { return nil }
        batch.body.append(UInt8(ascii: "]"))
        self.state.withLockedValue { [batch] in $0.status.waitingSince = batch.seconds }
        return batch
    }

    /// Opens the segment that contains the next outcome.
    private func reader(after number: UInt64) throws(Errno) -> OutcomeSegmentReader {
        let segments = try OutcomeSegment.all(in: self.options.folder)
        let segment = segments.last { $0.firstNumber <= number + 1 } ?? segments.first
        guard let segment else { throw .noSuchFileOrDirectory }
        return try OutcomeSegmentReader(segment, in: self.options.folder)
    }

    private func segment(behind segment: OutcomeSegment) throws(Errno) -> OutcomeSegment? {
        try OutcomeSegment.all(in: self.options.folder).first { $0.firstNumber > segment.firstNumber }
    }

    /// Counts and logs a damaged line, once.
    private func reportDamage(_ segment: OutcomeSegment, _ offset: UInt64) {
        let isNew = self.files.withLockedValue { files in
            if let last = files.lastDamage, last >= (segment.firstNumber, offset) { return false }
            files.lastDamage = (segment.firstNumber, offset)
            return true
        }
        guard isNew else { return }
        self.dropped[.damaged]?.increment()
        self.logger.error(
            "damaged outcome not sent to the webhook",
            metadata: [LogKey.outcomeFile: "\(self.options.folder)/\(segment.name), byte \(offset)"]
        )
    }
}

extension UInt64 {
    /// Returns the number, and leaves 0.
    fileprivate mutating func take() -> UInt64 {
        defer { self = 0 }
        return self
    }
}

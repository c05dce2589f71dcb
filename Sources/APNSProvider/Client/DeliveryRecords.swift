// SPDX-License-Identifier: Apache-2.0

public import APNSSession
public import APNSWire
public import DequeModule
public import NIOConcurrencyHelpers
public import NIOCore
import Synchronization

/// The outcome of one notification of a sequence.
public struct DeliveryRecord<ID: Sendable>: Sendable {
    /// The caller's identifier of the notification.
    public var id: ID

    /// The outcome, with details.
    public var report: DeliveryReport

    /// Creates a record.
    ///
    /// - Parameters:
    ///   - id: the caller's identifier of the notification.
    ///   - report: the outcome, with details.
    @inlinable
    public init(id: ID, report: DeliveryReport) {
        self.id = id
        self.report = report
    }

    /// The outcome.
    public var outcome: DeliveryOutcome { self.report.outcome }

    /// The number of connections, or over HTTP/2 of streams, on which it was written.
    public var attempts: Int { self.report.attempts }

    /// Whether it may have reached its device more than once.
    public var isPossibleDuplicate: Bool { self.report.isPossibleDuplicate }
}

extension DeliveryRecord: Equatable where ID: Equatable {}
extension DeliveryRecord: Hashable where ID: Hashable {}

extension DeliveryRecord: CustomStringConvertible {
    /// The identifier and the report.
    public var description: String { "\(self.id): \(self.report)" }
}

extension DeliveryRecord {
    /// Whether to send the notification again.
    public var retryAdvice: RetryAdvice { self.report.retryAdvice }
}

/// The key `id` for decoding and encoding.
private enum DeliveryRecordKey: String, CodingKey {
    case id
}

/// The keys are those of the report, and `id`.
extension DeliveryRecord: Encodable where ID: Encodable {
    /// Encodes `id`, and the keys of the report.
    ///
    /// - Parameter encoder: the encoder.
    /// - Throws: the errors of the encoder.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: DeliveryRecordKey.self)
        try container.encode(self.id, forKey: .id)
        try self.report.encode(to: encoder)
    }
}

extension DeliveryRecord: Decodable where ID: Decodable {
    /// Decodes `id`, and the keys of the report.
    ///
    /// - Parameter decoder: the decoder.
    /// - Throws: `DecodingError` if a value is missing or wrong.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: DeliveryRecordKey.self)
        self.init(id: try container.decode(ID.self, forKey: .id), report: try DeliveryReport(from: decoder))
    }
}

/// Selects the notifications of a sequence for which there are records.
///
/// Later versions may add cases.
@nonexhaustive
public enum DeliveryFilter: Hashable, Sendable {
    /// All notifications.
    case all
    /// Notifications that were not accepted, or may have arrived more than once.
    case exceptions
}

/// The outcomes of the notifications of a sequence, in the order in which they are verified; for a single loop.
///
/// Iteration drives the sending: starting with the request for the first record, notifications are read from the
/// sequence as long as no more than ``openCountMax`` of them are without an outcome or have unread records. If the loop
/// is left early, no more are read, but those already read are still sent as long as the client runs.
///
/// To end a sequence early and still learn of everything that was read, call ``finishReading()`` from any task, and let
/// the loop end. If the task of the loop is cancelled, no more are read, and the loop gets the rest of the records at
/// once: those that are known; those withdrawn before a connection took them, as `unsent(.cancelled)`; and the others
/// as `indeterminate(.cancelled)`. Then it ends with a `CancellationError`.
///
/// If the client ends before the sequence, no more are read either: the loop ends with an error, after the records of
/// all that were read. So a notification without a record was never read, with any filter.
public struct DeliveryRecords<Rows: AsyncSequence & Sendable, ID: Sendable>: AsyncSequence, Sendable
where Rows.Element == (id: ID, notification: PushNotification) {
    /// The outcome of one notification.
    public typealias Element = DeliveryRecord<ID>

    /// The maximum number of notifications without an outcome or with an unread record: more than a full window.
    public static var openCountMax: Int { 131_072 }

    @usableFromInline let rows: Rows
    @usableFromInline let filter: DeliveryFilter
    @usableFromInline let transport: any ClientTransport
    @usableFromInline let check: PayloadValidator?
    @usableFromInline let readingEnd = ReadingEnd()

    init(_ rows: Rows, _ filter: DeliveryFilter, _ transport: any ClientTransport, _ check: PayloadValidator?) {
        self.rows = rows
        self.filter = filter
        self.transport = transport
        self.check = check
    }

    /// Starts the iteration; nothing is read from the sequence yet.
    @inlinable
    public func makeAsyncIterator() -> Iterator { Iterator(self) }

    /// Reads no more of the sequence; the loop gets the records of everything that was read, then ends.
    ///
    /// It can be called at any time, from any task, and also ends the wait for an idle sequence, whose task is
    /// cancelled. An element that the sequence returns after that is the last one that is sent; an element without a
    /// record was not sent.
    public func finishReading() { self.readingEnd.finish() }

    /// An iterator over the records.
    public struct Iterator: AsyncIteratorProtocol {
        @usableFromInline let records: DeliveryRecords
        @usableFromInline var feed: RecordsFeed<ID>?

        @inlinable
        init(_ records: DeliveryRecords) { self.records = records }

        /// The next record; `nil` if the sequence has ended and all of its notifications have their outcome.
        ///
        /// - Throws: the errors of the sequence; ``ProviderError`` if the client has ended, after the records of all
        ///   notifications read before; `CancellationError` if the task is cancelled before the sequence has ended,
        ///   also after the records of all notifications read before; ``ProviderError`` of the kind
        ///   ``ProviderError/Kind/alreadyRan`` if another loop reads or has read the records.
        @inlinable
        public mutating func next() async throws -> DeliveryRecord<ID>? {
            if let feed = self.feed { return try await feed.batch.next() }
            try self.records.readingEnd.beginLoop()
            let feed = RecordsFeed<ID>(self.records)
            self.feed = feed
            return try await feed.batch.next()
        }
    }
}

/// Reads notifications from a sequence and submits them, until the loop over their records is left.
@usableFromInline
final class RecordsFeed<ID: Sendable>: Sendable {
    @usableFromInline let batch: OpenBatch<ID>
    @usableFromInline let task: Task<Void, Never>

    @inlinable
    init<Rows: AsyncSequence & Sendable>(_ records: DeliveryRecords<Rows, ID>)
    where Rows.Element == (id: ID, notification: PushNotification) {
        let countMax = DeliveryRecords<Rows, ID>.openCountMax
        let batch = OpenBatch<ID>(
            records.filter,
            records.transport,
            records.check,
            records.readingEnd,
            openCountMax: countMax
        )
        self.batch = batch
        self.task = Task { await batch.read(records.rows) }
    }

    deinit { self.task.cancel() }
}

/// Ends the reading of a sequence before the sequence ends.
@usableFromInline
final class ReadingEnd: Sendable {
    /// Not under the lock, since it is read for each notification.
    private let hasFinished = Atomic(false)
    private let isTaskCancelled = Atomic(false)
    private let hasLoop = Atomic(false)
    private let waiter = NIOLockedValueBox<CheckedContinuation<Void, Never>?>(nil)

    @usableFromInline
    init() {}

    /// Whether the reading is to end.
    @usableFromInline var isFinished: Bool { self.hasFinished.load(ordering: .acquiring) }

    /// Whether the reading is to end, or its task is cancelled.
    @usableFromInline var isStopped: Bool { self.isFinished || self.isTaskCancelled.load(ordering: .acquiring) }

    /// Records that the task that reads is cancelled; asking the task for each notification takes longer.
    @usableFromInline
    func cancel() { self.isTaskCancelled.store(true, ordering: .releasing) }

    /// Begins the only loop over the records.
    ///
    /// - Throws: ``ProviderError`` if there was another one.
    @usableFromInline
    func beginLoop() throws(ProviderError) {
        guard self.hasLoop.exchange(true, ordering: .acquiringAndReleasing) else { return }
        let detail = "a second loop over the same records would send everything again; to do so, call send again"
        throw ProviderError(.alreadyRan, detail)
    }

    /// Ends the reading.
    @usableFromInline
    func finish() {
        self.waiter.withLockedValue { waiter in
            self.hasFinished.store(true, ordering: .releasing)
            return waiter.take()
        }?
        .resume()
    }

    /// Waits until the reading is to end, or the task is cancelled; for one task.
    @usableFromInline
    func wait() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let waits = self.waiter.withLockedValue { waiter in
                    guard !self.isFinished, !Task.isCancelled else { return false }
                    waiter = continuation
                    return true
                }
                if !waits { continuation.resume() }
            }
        } onCancel: {
            self.waiter.withLockedValue { $0.take() }?.resume()
        }
    }
}

/// Passes outcomes to code that is specialized for the caller's type of identifier.
@usableFromInline
final class RecordsReceiver: SubmissionReceiver {
    private let body: @Sendable (Range<UInt64>, DeliveryReport) -> Void

    @usableFromInline
    init(_ body: @escaping @Sendable (Range<UInt64>, DeliveryReport) -> Void) { self.body = body }

    @usableFromInline
    package func settle(_ keys: Range<UInt64>, _ report: DeliveryReport) { self.body(keys, report) }
}

/// The notifications of a sequence without an outcome, and the unread records.
///
/// The code that runs for each notification is inlinable, since it takes three times as long if the compiler does not
/// know the type of the identifiers.
@usableFromInline
final class OpenBatch<ID: Sendable>: Sendable {
    @usableFromInline
    struct State: Sendable {
        /// The key of the first identifier.
        @usableFromInline var firstKey: UInt64 = 0
        /// `nil` for those that have their outcome.
        @usableFromInline var identifiers = Deque<ID?>()
        /// When each of them was sent; empty if no metrics system measures it.
        @usableFromInline var startTimes = Deque<NIODeadline>()
        /// The `apns-id` of each of them; empty as long as none has one.
        @usableFromInline var apnsIDs = Deque<PushIdentifier?>()
        @usableFromInline var records = Deque<DeliveryRecord<ID>>()
        /// The result of the sequence.
        @usableFromInline var end: Result<Void, any Error>?
        @usableFromInline var reader: CheckedContinuation<DeliveryRecord<ID>?, any Error>?
        @usableFromInline var feeder: CheckedContinuation<Void, Never>?
        /// Receives the outcomes of the notifications.
        @usableFromInline var receiver: RecordsReceiver?
        /// The identifiers of the row that waits for room.
        @usableFromInline var waiting: (id: ID, apnsID: PushIdentifier?)?
        /// The key of the notification that waits until the client's queue has room.
        @usableFromInline var unsubmittedKey: UInt64?
        /// Whether the task that reads the records is cancelled: no more notifications are read.
        @usableFromInline var isCancelled = false
        /// Whether each notification has its record because of that: later outcomes have none.
        @usableFromInline var isAbandoned = false

        @inlinable
        init() {}

        /// The number of notifications without an outcome or with an unread record.
        @inlinable var openCount: Int { self.identifiers.count + self.records.count }

        /// Reports that a row that waits for room is not sent.
        @inlinable
        mutating func withdrawWaiting() {
            guard let row = self.waiting.take() else { return }
            var report = DeliveryReport(.unsent(.cancelled))
            report.apnsID = row.apnsID
            self.records.append(DeliveryRecord(id: row.id, report: report))
        }

        /// Reports that a notification, which no longer waits for room in the client's queue, is not sent.
        mutating func withdrawUnsubmitted() {
            guard let key = self.unsubmittedKey.take() else { return }
            let index = Int(key - self.firstKey)
            self.record(index, DeliveryReport(.unsent(.cancelled)))
            self.identifiers[index] = nil
        }

        /// Adds the record of a notification, unless it has one.
        @inlinable
        mutating func record(_ index: Int, _ report: DeliveryReport) {
            guard let id = self.identifiers[index] else { return }
            var record = DeliveryRecord(id: id, report: report)
            // A report that was made without an answer has none.
            if !self.apnsIDs.isEmpty, report.apnsID == nil { record.report.apnsID = self.apnsIDs[index] }
            self.records.append(record)
        }

        /// Adds a notification without an outcome.
        @inlinable
        mutating func append(_ id: ID, _ apnsID: PushIdentifier?) {
            if apnsID != nil || !self.apnsIDs.isEmpty {
                while self.apnsIDs.count < self.identifiers.count { self.apnsIDs.append(nil) }
                self.apnsIDs.append(apnsID)
            }
            self.identifiers.append(id)
        }

        /// Removes the leading identifiers that have their outcome.
        @inlinable
        mutating func removeFirst(_ count: Int) {
            self.identifiers.removeFirst(count)
            if !self.startTimes.isEmpty { self.startTimes.removeFirst(count) }
            if !self.apnsIDs.isEmpty { self.apnsIDs.removeFirst(count) }
            self.firstKey += UInt64(count)
        }
    }

    @usableFromInline let filter: DeliveryFilter
    @usableFromInline let openCountMax: Int
    @usableFromInline let transport: any ClientTransport
    @usableFromInline let check: PayloadValidator?
    @usableFromInline let readingEnd: ReadingEnd
    @usableFromInline let measuresTime: Bool
    @usableFromInline let sendsIdentifiers: Bool
    @usableFromInline let state = NIOLockedValueBox(State())

    @inlinable
    init(
        _ filter: DeliveryFilter,
        _ transport: any ClientTransport,
        _ check: PayloadValidator?,
        _ readingEnd: ReadingEnd,
        openCountMax: Int
    ) {
        self.filter = filter
        self.readingEnd = readingEnd
        self.openCountMax = openCountMax
        self.transport = transport
        self.check = check
        self.measuresTime = transport.measuresTime
        self.sendsIdentifiers = transport.sendsIdentifiers
    }

    // MARK: Reading the sequence

    /// How reading the sequence ended.
    @usableFromInline
    enum Ending: Sendable {
        /// The sequence ended with this result; possibly because the task was cancelled.
        case rows(Result<Void, any Error>, isCancelled: Bool)
        /// The client ended; `nil` if the task was cancelled.
        case client(DeliveryOutcome.Reason?)
        /// The caller ended it.
        case caller
    }

    /// Reads the whole sequence, unless the client ends before it, which also ends the wait for an idle sequence.
    @inlinable
    func read<Rows: AsyncSequence & Sendable>(_ rows: Rows) async
    where Rows.Element == (id: ID, notification: PushNotification) {
        let end = await withTaskGroup(of: Ending.self) { group -> Result<Void, any Error> in
            group.addTask { await self.submitAll(rows) }
            group.addTask { .client(await self.transport.waitForEnd()) }
            group.addTask {
                await self.readingEnd.wait()
                return .caller
            }
            var reason: DeliveryOutcome.Reason?
            for await ending in group {
                group.cancelAll()
                switch ending {
                case .client(let end): reason = end
                case .caller: break
                case .rows(let end, let isCancelled):
                    guard isCancelled else { return end }
                    if let reason { return .failure(ProviderError(sequenceEndedBy: reason)) }
                    // The sequence may report that its task was cancelled.
                    if case .failure(let error) = end, error is CancellationError { return .success(()) }
                    return end
                }
            }
            return .success(())
        }
        self.end(end)
        self.transport.endSequence()
    }

    @inlinable
    func submitAll<Rows: AsyncSequence & Sendable>(_ rows: Rows) async -> Ending
    where Rows.Element == (id: ID, notification: PushNotification) {
        await withTaskCancellationHandler {
            await self.submitEach(rows)
        } onCancel: {
            self.readingEnd.cancel()
        }
    }

    @inlinable
    func submitEach<Rows: AsyncSequence & Sendable>(_ rows: Rows) async -> Ending
    where Rows.Element == (id: ID, notification: PushNotification) {
        // Whoever reads the records keeps this. A weak reference to the receiver instead would make each retain of it
        // slower, and there are some for each notification.
        let receiver = RecordsReceiver { [weak self] in self?.settle($0, $1) }
        self.state.withLockedValue { $0.receiver = receiver }
        guard !self.readingEnd.isFinished else { return .rows(.success(()), isCancelled: true) }
        var lastValid = ByteBuffer()
        do {
            for try await row in rows {
                // What was read is sent, even if the records are no longer read.
                let apnsID = self.sendsIdentifiers ? row.notification.apnsID : nil
                var key = self.append(row.id, apnsID)
                while key == nil {
                    if self.isCancelled {
                        self.wake { $0.withdrawWaiting() }
                        return .rows(.success(()), isCancelled: true)
                    }
                    await self.waitForRoom()
                    key = self.append(row.id, apnsID, isWaiting: true)
                }
                guard let key else { break }
                if !self.submit(row.notification, receiver, key, after: &lastValid) {
                    try await self.submitLater(row.notification, receiver, key)
                }
                if self.readingEnd.isStopped { break }
            }
            // The last one may have been submitted after everything else was withdrawn, and has its record.
            if self.state.withLockedValue(\.isAbandoned) {
                self.transport.withdraw(receiver, in: 0 ..< .max, .cancelled)
            }
            return .rows(.success(()), isCancelled: Task.isCancelled)
        } catch {
            return .rows(.failure(error), isCancelled: Task.isCancelled)
        }
    }

    @usableFromInline var isCancelled: Bool { self.state.withLockedValue(\.isCancelled) }

    /// Stores an identifier, if there is room or the task is cancelled, and the records are still read.
    @inlinable
    func append(_ id: ID, _ apnsID: PushIdentifier?, isWaiting: Bool = false) -> UInt64? {
        self.state.withLockedValue { state in
            guard !state.isCancelled, state.openCount < self.openCountMax || Task.isCancelled else {
                // If it waits already, it may have its record.
                if !isWaiting { state.waiting = (id, apnsID) }
                return nil
            }
            state.waiting = nil
            state.append(id, apnsID)
            if self.measuresTime { state.startTimes.append(.now()) }
            return state.firstKey + UInt64(state.identifiers.count) - 1
        }
    }

    /// Waits until some notifications have their outcome, as long as the records are read.
    @usableFromInline
    func waitForRoom() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let waits = self.state.withLockedValue { state in
                    guard !Task.isCancelled, state.openCount >= self.openCountMax else { return false }
                    state.feeder = continuation
                    return true
                }
                if !waits { continuation.resume() }
            }
        } onCancel: {
            self.state.withLockedValue { $0.feeder.take() }?.resume()
        }
    }

    /// Submits a notification without waiting, if it may be sent.
    ///
    /// Returns whether it was submitted.
    @inlinable
    func submit(
        _ notification: borrowing PushNotification,
        _ receiver: RecordsReceiver,
        _ key: UInt64,
        after lastValid: inout ByteBuffer
    ) -> Bool {
        guard case nil = self.check?.outcome(of: notification, after: &lastValid),
            case .submitted = self.transport.submit(notification, receiver, key: key)
        else { return false }
        return true
    }

    /// Submits a notification that could not be submitted immediately.
    ///
    /// - Throws: `ProviderError` if the client has ended. The notification then has no record instead of an unsent
    ///   outcome: a caller that requests only exceptions must not take it for sent.
    @usableFromInline
    func submitLater(_ notification: PushNotification, _ receiver: RecordsReceiver, _ key: UInt64) async throws {
        let local = self.check?.outcome(of: notification)
        while true {
            let mayBeSubmitted = self.state.withLockedValue { state in
                guard !state.isCancelled else { return false }
                state.unsubmittedKey = nil
                return true
            }
            guard mayBeSubmitted else { return }
            let receipt =
                local.map { self.transport.settleLocally($0, receiver, key: key) }
                ?? self.transport.submit(notification, receiver, key: key)
            switch receipt {
            case .submitted: return
            case .ended(let reason):
                self.settle(key..<(key + 1), DeliveryReport(.unsent(reason)))
                throw ProviderError(sequenceEndedBy: reason)
            case .full: break
            }
            self.state.withLockedValue { $0.unsubmittedKey = key }
            if Task.isCancelled {
                // If the client ends, this returns so that the end is noticed.
                await Task { await self.transport.waitForRoom() }.value
            } else {
                await self.transport.waitForRoom()
            }
        }
    }

    @usableFromInline
    func end(_ end: Result<Void, any Error>) {
        self.wake { if !$0.isCancelled { $0.end = end } }
    }

    /// Ends the sequence, since the task that reads the records is cancelled: each notification that was read gets its
    /// record now.
    @usableFromInline
    func cancel() {
        let receiver = self.state.withLockedValue { state -> RecordsReceiver? in
            if !state.isCancelled { state.end = state.end ?? .failure(CancellationError()) }
            state.isCancelled = true
            return state.isAbandoned ? nil : state.receiver
        }
        self.readingEnd.finish()
        if let receiver { self.transport.withdraw(receiver, in: 0 ..< .max, .cancelled) }
        self.wake { state in
            guard !state.isAbandoned else { return }
            state.isAbandoned = true
            state.withdrawUnsubmitted()
            // The client may still send what it has taken again.
            let report = DeliveryReport(.indeterminate(.cancelled), attempts: 1, isPossibleDuplicate: true)
            for index in state.identifiers.indices { state.record(index, report) }
            state.removeFirst(state.identifiers.count)
            state.withdrawWaiting()
        }
        // What was submitted in between has its record, and is not sent if that can be avoided.
        if let receiver { self.transport.withdraw(receiver, in: 0 ..< .max, .cancelled) }
    }

    // MARK: Outcomes

    /// Receives the outcome of some notifications.
    @inlinable
    func settle(_ keys: Range<UInt64>, _ report: DeliveryReport) {
        let isOfInterest = self.filter == .all || report.outcome != .accepted || report.isPossibleDuplicate
        var startTimes: [NIODeadline] = []
        self.wake { state in
            guard !state.isAbandoned else { return }
            let first = Int(keys.lowerBound - state.firstKey)
            let indices = first..<(first + keys.count)
            if !state.startTimes.isEmpty { startTimes = Array(state.startTimes[indices]) }
            if isOfInterest {
                for index in indices { state.record(index, report) }
            }
            if first == 0 {
                state.removeFirst(keys.count)
                while let id = state.identifiers.first, case nil = id { state.removeFirst(1) }
            } else {
                for index in indices { state.identifiers[index] = nil }
            }
        }
        if !startTimes.isEmpty { self.recordLatency(report.outcome, since: startTimes) }
    }

    @usableFromInline
    func recordLatency(_ outcome: DeliveryOutcome, since startTimes: [NIODeadline]) {
        for start in startTimes { self.transport.observer.recordLatency(outcome, since: start) }
    }

    // MARK: Reading records

    /// Changes the state, and wakes those who wait for the change.
    @inlinable
    func wake(_ change: (inout State) -> Void) {
        let (reader, result, feeder) = self.state.withLockedValue { state in
            change(&state)
            let result = state.reader == nil ? nil : Self.next(&state)
            let reader = result == nil ? nil : state.reader.take()
            // Waking the feeder for each free place would cost more than its work.
            let isLow = state.openCount <= self.openCountMax / 2
            return (reader, result, isLow ? state.feeder.take() : nil)
        }
        if let result { reader?.resume(with: result) }
        feeder?.resume()
    }

    /// The next result for the reader; `nil` if it must wait.
    @inlinable
    static func next(_ state: inout State) -> Result<DeliveryRecord<ID>?, any Error>? {
        if let record = state.records.popFirst() { return .success(record) }
        guard let end = state.end, state.identifiers.isEmpty else { return nil }
        // The error is thrown once.
        state.end = .success(())
        return end.map { nil }
    }

    /// The next record.
    @inlinable
    func next() async throws -> DeliveryRecord<ID>? {
        if let record = self.nextAtOnce() { return record }
        return try await self.nextLater()
    }

    /// The next record, if there is one.
    @inlinable
    func nextAtOnce() -> DeliveryRecord<ID>? {
        guard !Task.isCancelled else { return nil }
        var record: DeliveryRecord<ID>?
        self.wake { record = $0.records.popFirst() }
        return record
    }

    /// Waits for a record.
    @usableFromInline
    func nextLater() async throws -> DeliveryRecord<ID>? {
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let result = self.state.withLockedValue { state -> Result<DeliveryRecord<ID>?, any Error>? in
                    if let result = Self.next(&state) { return result }
                    state.reader = continuation
                    return nil
                }
                if let result { continuation.resume(with: result) }
                self.wake { _ in }
            }
        } onCancel: {
            self.cancel()
        }
    }
}

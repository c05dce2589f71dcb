// SPDX-License-Identifier: Apache-2.0

public import APNSSession
public import APNSWire
public import DequeModule
public import NIOConcurrencyHelpers
public import NIOCore

/// What became of one notification of a sequence.
public struct DeliveryRecord<ID: Sendable>: Sendable {
    /// The caller's own identifier of it.
    public var id: ID

    /// What became of it, and how.
    public var report: DeliveryReport

    /// Makes a record.
    ///
    /// - Parameters:
    ///   - id: the caller's own identifier.
    ///   - report: what became of the notification, and how.
    @inlinable
    public init(id: ID, report: DeliveryReport) {
        self.id = id
        self.report = report
    }

    /// What became of it.
    public var outcome: DeliveryOutcome { self.report.outcome }

    /// On how many connections, or over HTTP/2 on how many streams, it was written.
    public var attempts: Int { self.report.attempts }

    /// Whether it may have reached its device more than once.
    public var possibleDuplicate: Bool { self.report.possibleDuplicate }
}

extension DeliveryRecord: Equatable where ID: Equatable {}
extension DeliveryRecord: Hashable where ID: Hashable {}

extension DeliveryRecord: CustomStringConvertible {
    /// The identifier and the report.
    public var description: String { "\(self.id): \(self.report)" }
}

/// The keys are those of a line of the command's results.
extension DeliveryRecord: Encodable where ID: Encodable {
    private enum CodingKeys: String, CodingKey {
        case id
    }

    /// Writes `id`, and what the report writes.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(self.id, forKey: .id)
        try self.report.encode(to: encoder)
    }
}

/// Of which notifications of a sequence there are records.
///
/// Later versions may add cases.
@nonexhaustive
public enum DeliveryFilter: Hashable, Sendable {
    /// Of each.
    case all
    /// Of each that was not accepted, or may have arrived more than once.
    case exceptions
}

/// What became of the notifications of a sequence, in the order in which that was proved; for one loop.
///
/// Reading it drives the sending: from the first record that is asked for, notifications are taken from the sequence as
/// long as no more than ``openCountMax`` of them are without an outcome or unread. Where the loop is left early, no
/// more are taken, and what was taken is still sent as long as the client runs.
///
/// Where the client ends before the sequence, no more are taken either: the loop ends with an error, once each that was
/// taken has its record. So what has no record was never taken, whatever the filter.
public struct DeliveryRecords<Rows: AsyncSequence & Sendable, ID: Sendable>: AsyncSequence, Sendable
where Rows.Element == (id: ID, notification: PushNotification) {
    /// What became of one notification.
    public typealias Element = DeliveryRecord<ID>

    /// How many notifications may be without an outcome, or have one that is unread: more than a full window of proofs.
    public static var openCountMax: Int { 131_072 }

    @usableFromInline let rows: Rows
    @usableFromInline let filter: DeliveryFilter
    @usableFromInline let transport: any ClientTransport

    init(_ rows: Rows, _ filter: DeliveryFilter, _ transport: any ClientTransport) {
        self.rows = rows
        self.filter = filter
        self.transport = transport
    }

    /// Begins; nothing is taken from the sequence yet.
    @inlinable
    public func makeAsyncIterator() -> Iterator { Iterator(self) }

    /// Reads the records.
    public struct Iterator: AsyncIteratorProtocol {
        @usableFromInline let records: DeliveryRecords
        @usableFromInline var feed: RecordsFeed<ID>?

        @inlinable
        init(_ records: DeliveryRecords) { self.records = records }

        /// The next record; `nil` where the sequence has ended and all of it has its outcome.
        ///
        /// - Throws: what the sequence throws, and ``ProviderError`` where the client takes nothing any more, once the
        ///   records of all that was taken before have been read. `CancellationError` where the task is cancelled: what
        ///   has no record then was not taken, or its outcome is not known yet.
        @inlinable
        public mutating func next() async throws -> DeliveryRecord<ID>? {
            if let feed = self.feed { return try await feed.batch.next() }
            let feed = RecordsFeed<ID>(self.records)
            self.feed = feed
            return try await feed.batch.next()
        }
    }
}

/// Takes notifications from a sequence, until the loop over their records is left.
@usableFromInline
final class RecordsFeed<ID: Sendable>: Sendable {
    @usableFromInline let batch: OpenBatch<ID>
    @usableFromInline let task: Task<Void, Never>

    @inlinable
    init<Rows: AsyncSequence & Sendable>(_ records: DeliveryRecords<Rows, ID>)
    where Rows.Element == (id: ID, notification: PushNotification) {
        let countMax = DeliveryRecords<Rows, ID>.openCountMax
        let batch = OpenBatch<ID>(records.filter, records.transport, openCountMax: countMax)
        self.batch = batch
        self.task = Task { await batch.feed(records.rows) }
    }

    deinit { self.task.cancel() }
}

/// Hands outcomes to code that was made for the caller's type of identifier.
@usableFromInline
final class RecordsReceiver: SubmissionReceiver {
    private let body: @Sendable (Range<UInt64>, DeliveryReport) -> Void

    @usableFromInline
    init(_ body: @escaping @Sendable (Range<UInt64>, DeliveryReport) -> Void) { self.body = body }

    @usableFromInline
    package func settle(_ keys: Range<UInt64>, _ report: DeliveryReport) { self.body(keys, report) }
}

/// The notifications of a sequence that have no outcome, and the records that nobody has read.
///
/// What is done for each notification is inlinable, since it takes three times as long where the compiler does not know
/// the type of the identifiers.
@usableFromInline
final class OpenBatch<ID: Sendable>: Sendable {
    @usableFromInline
    struct State: Sendable {
        /// The key of the first of the identifiers.
        @usableFromInline var firstKey: UInt64 = 0
        /// `nil` for those that have their outcome.
        @usableFromInline var identifiers = Deque<ID?>()
        /// When each of them was sent; empty where nobody measures that.
        @usableFromInline var startTimes = Deque<NIODeadline>()
        @usableFromInline var records = Deque<DeliveryRecord<ID>>()
        /// What the sequence ended with.
        @usableFromInline var end: Result<Void, any Error>?
        @usableFromInline var reader: CheckedContinuation<DeliveryRecord<ID>?, any Error>?
        @usableFromInline var feeder: CheckedContinuation<Void, Never>?

        @inlinable
        init() {}

        /// How many have no outcome, or one that nobody has read.
        @inlinable var openCount: Int { self.identifiers.count + self.records.count }

        /// Forgets the first ones, which have their outcome.
        @inlinable
        mutating func removeFirst(_ count: Int) {
            self.identifiers.removeFirst(count)
            if !self.startTimes.isEmpty { self.startTimes.removeFirst(count) }
            self.firstKey += UInt64(count)
        }
    }

    @usableFromInline let filter: DeliveryFilter
    @usableFromInline let openCountMax: Int
    @usableFromInline let transport: any ClientTransport
    @usableFromInline let measuresTime: Bool
    @usableFromInline let state = NIOLockedValueBox(State())

    @inlinable
    init(_ filter: DeliveryFilter, _ transport: any ClientTransport, openCountMax: Int) {
        self.filter = filter
        self.openCountMax = openCountMax
        self.transport = transport
        self.measuresTime = transport.measuresTime
    }

    // MARK: Taking

    /// How taking ended.
    @usableFromInline
    enum Ending: Sendable {
        /// The sequence ended so; by itself, unless the task was cancelled.
        case rows(Result<Void, any Error>, isCancelled: Bool)
        /// The client ended; `nil` where the task was cancelled.
        case client(DeliveryOutcome.Reason?)
    }

    /// Takes all of a sequence, unless the client ends before it, which also ends the wait for a sequence that is idle.
    @inlinable
    func feed<Rows: AsyncSequence & Sendable>(_ rows: Rows) async
    where Rows.Element == (id: ID, notification: PushNotification) {
        let end = await withTaskGroup(of: Ending.self) { group -> Result<Void, any Error> in
            group.addTask { await self.take(rows) }
            group.addTask { .client(await self.transport.waitForEnd()) }
            var reason: DeliveryOutcome.Reason?
            for await ending in group {
                group.cancelAll()
                switch ending {
                case .client(let end): reason = end
                case .rows(let end, let isCancelled):
                    guard isCancelled, let reason else { return end }
                    return .failure(ProviderError(sequenceEndedBy: reason))
                }
            }
            return .success(())
        }
        self.end(end)
        self.transport.endSequence()
    }

    @inlinable
    func take<Rows: AsyncSequence & Sendable>(_ rows: Rows) async -> Ending
    where Rows.Element == (id: ID, notification: PushNotification) {
        let receiver = RecordsReceiver { self.settle($0, $1) }
        do {
            for try await row in rows {
                // What was taken is sent, also where nobody reads any more.
                var key = self.append(row.id)
                while key == nil {
                    await self.waitForRoom()
                    key = self.append(row.id)
                }
                guard let key else { break }
                if !self.submit(row.notification, receiver, key) {
                    try await self.submitLater(row.notification, receiver, key)
                }
                if Task.isCancelled { break }
            }
            return .rows(.success(()), isCancelled: Task.isCancelled)
        } catch {
            return .rows(.failure(error), isCancelled: Task.isCancelled)
        }
    }

    /// Remembers an identifier, if there is room or the task is cancelled.
    ///
    /// - Returns: its key.
    @inlinable
    func append(_ id: ID) -> UInt64? {
        self.state.withLockedValue { state in
            guard state.openCount < self.openCountMax || Task.isCancelled else { return nil }
            state.identifiers.append(id)
            if self.measuresTime { state.startTimes.append(.now()) }
            return state.firstKey + UInt64(state.identifiers.count) - 1
        }
    }

    /// Waits until some have their outcome, where someone reads.
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

    /// Submits one without waiting, where there is nothing wrong with it.
    ///
    /// - Returns: whether it was taken.
    @inlinable
    func submit(_ notification: PushNotification, _ receiver: RecordsReceiver, _ key: UInt64) -> Bool {
        guard case nil = self.transport.localOutcome(of: notification),
            case .taken = self.transport.submit(notification, receiver, key: key)
        else { return false }
        return true
    }

    /// Submits one that was not taken at once.
    ///
    /// - Throws: `ProviderError` where the client takes nothing any more. What would be unsent stays with the caller:
    ///   who asks for exceptions alone must not take it for sent.
    @usableFromInline
    func submitLater(_ notification: PushNotification, _ receiver: RecordsReceiver, _ key: UInt64) async throws {
        let local = self.transport.localOutcome(of: notification)
        while true {
            let receipt =
                local.map { self.transport.settleHere($0, receiver, key: key) }
                ?? self.transport.submit(notification, receiver, key: key)
            switch receipt {
            case .taken: return
            case .ended(let reason):
                self.settle(key..<(key + 1), DeliveryReport(.unsent(reason)))
                throw ProviderError(sequenceEndedBy: reason)
            case .full where Task.isCancelled:
                // Where the client ends, there is room to be told so.
                await Task { await self.transport.waitForRoom() }.value
            case .full: await self.transport.waitForRoom()
            }
        }
    }

    @usableFromInline
    func end(_ end: Result<Void, any Error>) {
        self.wake { $0.end = end }
    }

    // MARK: Outcomes

    /// Takes the outcome of some.
    @inlinable
    func settle(_ keys: Range<UInt64>, _ report: DeliveryReport) {
        let isOfInterest = self.filter == .all || report.outcome != .accepted || report.possibleDuplicate
        var startTimes: [NIODeadline] = []
        self.wake { state in
            let first = Int(keys.lowerBound - state.firstKey)
            let indices = first..<(first + keys.count)
            if !state.startTimes.isEmpty { startTimes = Array(state.startTimes[indices]) }
            if isOfInterest {
                for index in indices {
                    guard let id = state.identifiers[index] else { continue }
                    state.records.append(DeliveryRecord(id: id, report: report))
                }
            }
            if first == 0 {
                state.removeFirst(keys.count)
                while let id = state.identifiers.first, case nil = id { state.removeFirst(1) }
            } else {
                for index in indices { state.identifiers[index] = nil }
            }
        }
        if !startTimes.isEmpty { self.took(report.outcome, since: startTimes) }
    }

    @usableFromInline
    func took(_ outcome: DeliveryOutcome, since startTimes: [NIODeadline]) {
        for start in startTimes { self.transport.observer.took(outcome, since: start) }
    }

    // MARK: Reading

    /// Changes the state, and wakes who waits for that.
    @inlinable
    func wake(_ change: (inout State) -> Void) {
        let (reader, result, feeder) = self.state.withLockedValue { state in
            change(&state)
            let result = state.reader == nil ? nil : Self.next(&state)
            let reader = result == nil ? nil : state.reader.take()
            // Woken for each place, the feeder would do little else.
            let isLow = state.openCount <= self.openCountMax / 2
            return (reader, result, isLow ? state.feeder.take() : nil)
        }
        if let result { reader?.resume(with: result) }
        feeder?.resume()
    }

    /// What a reader gets; `nil` where it has to wait.
    @inlinable
    static func next(_ state: inout State) -> Result<DeliveryRecord<ID>?, any Error>? {
        if let record = state.records.popFirst() { return .success(record) }
        guard let end = state.end, state.identifiers.isEmpty else { return nil }
        // What it ended with is said once.
        state.end = .success(())
        return end.map { nil }
    }

    /// The next record.
    @inlinable
    func next() async throws -> DeliveryRecord<ID>? {
        if let record = self.nextAtOnce() { return record }
        return try await self.nextLater()
    }

    /// The next record, where there is one.
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
                    if Task.isCancelled { return .failure(CancellationError()) }
                    if let result = Self.next(&state) { return result }
                    state.reader = continuation
                    return nil
                }
                if let result { continuation.resume(with: result) }
                self.wake { _ in }
            }
        } onCancel: {
            self.state.withLockedValue { $0.reader.take() }?.resume(throwing: CancellationError())
        }
    }
}

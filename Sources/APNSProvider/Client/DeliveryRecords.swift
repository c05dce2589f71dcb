// SPDX-License-Identifier: Apache-2.0

public import APNSSession
public import APNSWire
import DequeModule
import NIOConcurrencyHelpers
import NIOCore

/// What became of one notification of a sequence.
public struct DeliveryRecord<ID: Sendable>: Sendable {
    /// The caller's own identifier of it.
    public var id: ID

    /// What became of it, and how.
    public var report: DeliveryReport

    /// What became of it.
    public var outcome: DeliveryOutcome { self.report.outcome }

    /// On how many connections, or over HTTP/2 on how many streams, it was written.
    public var attempts: Int { self.report.attempts }

    /// Whether it may have reached its device more than once.
    public var possibleDuplicate: Bool { self.report.possibleDuplicate }
}

extension DeliveryRecord: Equatable where ID: Equatable {}
extension DeliveryRecord: Hashable where ID: Hashable {}

/// Of which notifications of a sequence there are records.
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

    private let rows: Rows
    private let filter: DeliveryFilter
    private let transport: any ClientTransport

    init(_ rows: Rows, _ filter: DeliveryFilter, _ transport: any ClientTransport) {
        self.rows = rows
        self.filter = filter
        self.transport = transport
    }

    /// Begins; nothing is taken from the sequence yet.
    public func makeAsyncIterator() -> Iterator { Iterator(self.rows, self.filter, self.transport) }

    /// Reads the records.
    public struct Iterator: AsyncIteratorProtocol {
        /// Ends the taking where the loop is left.
        private final class Feed: Sendable {
            let batch: OpenBatch<ID>
            private let task: Task<Void, Never>

            init(_ rows: Rows, _ batch: OpenBatch<ID>, _ transport: any ClientTransport) {
                self.batch = batch
                self.task = Task { await batch.feed(rows, transport) }
            }

            deinit { self.task.cancel() }
        }

        private let rows: Rows
        private let filter: DeliveryFilter
        private let transport: any ClientTransport
        private var feed: Feed?

        init(_ rows: Rows, _ filter: DeliveryFilter, _ transport: any ClientTransport) {
            self.rows = rows
            self.filter = filter
            self.transport = transport
        }

        /// The next record; `nil` where the sequence has ended and all of it has its outcome, or when the task is
        /// cancelled.
        ///
        /// - Throws: what the sequence throws, and ``ProviderError`` where the client takes nothing any more, once the
        ///   records of all that was taken before have been read.
        public mutating func next() async throws -> DeliveryRecord<ID>? {
            if let feed = self.feed { return try await feed.batch.next() }
            let batch = OpenBatch<ID>(self.filter, openCountMax: DeliveryRecords.openCountMax, self.transport.observer)
            self.feed = Feed(self.rows, batch, self.transport)
            return try await batch.next()
        }
    }
}

/// The notifications of a sequence that have no outcome, and the records that nobody has read.
private final class OpenBatch<ID: Sendable>: SubmissionReceiver {
    private struct State: Sendable {
        /// The key of the first of the identifiers.
        var firstKey: UInt64 = 0
        /// `nil` for those that have their outcome.
        var identifiers = Deque<ID?>()
        /// When each of them was sent; empty where nobody measures that.
        var startTimes = Deque<NIODeadline>()
        var records = Deque<DeliveryRecord<ID>>()
        /// What the sequence ended with.
        var end: Result<Void, any Error>?
        var reader: CheckedContinuation<DeliveryRecord<ID>?, any Error>?
        var feeder: CheckedContinuation<Void, Never>?

        /// Forgets the first ones, which have their outcome.
        mutating func removeFirst(_ count: Int) {
            self.identifiers.removeFirst(count)
            if !self.startTimes.isEmpty { self.startTimes.removeFirst(count) }
            self.firstKey += UInt64(count)
        }
    }

    private let filter: DeliveryFilter
    private let openCountMax: Int
    private let observer: DeliveryObserver
    private let state = NIOLockedValueBox(State())

    init(_ filter: DeliveryFilter, openCountMax: Int, _ observer: DeliveryObserver) {
        self.filter = filter
        self.openCountMax = openCountMax
        self.observer = observer
    }

    // MARK: Taking

    private enum Ending: Sendable {
        /// The sequence ended so; by itself, unless the task was cancelled.
        case rows(Result<Void, any Error>, isCancelled: Bool)
        /// The client ended; `nil` where the task was cancelled.
        case client(DeliveryOutcome.Reason?)
    }

    /// Takes all of a sequence, unless the client ends before it, which also ends the wait for a sequence that is idle.
    func feed<Rows: AsyncSequence & Sendable>(_ rows: Rows, _ transport: any ClientTransport) async
    where Rows.Element == (id: ID, notification: PushNotification) {
        let end = await withTaskGroup(of: Ending.self) { group -> Result<Void, any Error> in
            group.addTask { await self.take(rows, transport) }
            group.addTask { .client(await transport.waitForEnd()) }
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
        transport.checkpoint()
    }

    private func take<Rows: AsyncSequence & Sendable>(_ rows: Rows, _ transport: any ClientTransport) async -> Ending
    where Rows.Element == (id: ID, notification: PushNotification) {
        do {
            for try await row in rows {
                // What was taken is sent, also where nobody reads any more.
                let ending = await self.submit(row.notification, await self.append(row.id), transport)
                // What would be unsent stays with the caller. Who asks for exceptions alone must not take it for sent.
                if let ending { throw ProviderError(sequenceEndedBy: ending) }
                if Task.isCancelled { break }
            }
            return .rows(.success(()), isCancelled: Task.isCancelled)
        } catch {
            return .rows(.failure(error), isCancelled: Task.isCancelled)
        }
    }

    /// - Returns: why the client takes nothing any more; `nil` where it does.
    private func submit(
        _ notification: PushNotification,
        _ key: UInt64,
        _ transport: any ClientTransport
    ) async -> DeliveryOutcome.Reason? {
        let local = transport.localOutcome(of: notification)
        while true {
            let receipt =
                local.map { transport.settleHere($0, self, key: key) }
                ?? transport.submit(notification, self, key: key)
            switch receipt {
            case .taken: return nil
            case .ended(let reason):
                self.settle(key..<(key + 1), DeliveryReport(.unsent(reason)))
                return reason
            case .full where Task.isCancelled:
                // Where the client ends, there is room to be told so.
                await Task { await transport.waitForRoom() }.value
            case .full: await transport.waitForRoom()
            }
        }
    }

    /// Waits for room, where someone reads, and remembers an identifier.
    ///
    /// - Returns: its key.
    private func append(_ id: ID) async -> UInt64 {
        while true {
            let key = self.state.withLockedValue { state -> UInt64? in
                guard self.hasRoom(state) || Task.isCancelled else { return nil }
                state.identifiers.append(id)
                if let start = self.observer.startTime { state.startTimes.append(start) }
                return state.firstKey + UInt64(state.identifiers.count) - 1
            }
            if let key { return key }
            await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    let waits = self.state.withLockedValue { state in
                        guard !Task.isCancelled, !self.hasRoom(state) else { return false }
                        state.feeder = continuation
                        return true
                    }
                    if !waits { continuation.resume() }
                }
            } onCancel: {
                self.state.withLockedValue { $0.feeder.take() }?.resume()
            }
        }
    }

    private func hasRoom(_ state: State) -> Bool {
        state.identifiers.count + state.records.count < self.openCountMax
    }

    private func end(_ end: Result<Void, any Error>) {
        self.wake { $0.end = end }
    }

    // MARK: Outcomes

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
        for start in startTimes { self.observer.took(report.outcome, since: start) }
    }

    // MARK: Reading

    /// Changes the state, and wakes who waits for that.
    private func wake(_ change: (inout State) -> Void) {
        let (reader, result, feeder) = self.state.withLockedValue { state in
            change(&state)
            let result = state.reader == nil ? nil : Self.next(&state)
            let reader = result == nil ? nil : state.reader.take()
            // Woken for each place, the feeder would do little else.
            let isLow = state.identifiers.count + state.records.count <= self.openCountMax / 2
            return (reader, result, isLow ? state.feeder.take() : nil)
        }
        if let result { reader?.resume(with: result) }
        feeder?.resume()
    }

    /// What a reader gets; `nil` where it has to wait.
    private static func next(_ state: inout State) -> Result<DeliveryRecord<ID>?, any Error>? {
        if let record = state.records.popFirst() { return .success(record) }
        guard let end = state.end, state.identifiers.isEmpty else { return nil }
        // What it ended with is said once.
        state.end = .success(())
        return end.map { nil }
    }

    /// The next record.
    func next() async throws -> DeliveryRecord<ID>? {
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let result = self.state.withLockedValue { state -> Result<DeliveryRecord<ID>?, any Error>? in
                    if Task.isCancelled { return .success(nil) }
                    if let result = Self.next(&state) { return result }
                    state.reader = continuation
                    return nil
                }
                if let result { continuation.resume(with: result) }
                self.wake { _ in }
            }
        } onCancel: {
            self.state.withLockedValue { $0.reader.take() }?.resume(returning: nil)
        }
    }
}

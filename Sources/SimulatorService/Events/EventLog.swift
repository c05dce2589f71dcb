// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix

/// Keeps the last events, and wakes those who wait for the next.
final class EventLog: Sendable {
    /// How many events are kept.
    static let countMaxDefault = 10_000
    /// How many follow the events at a time.
    static let readerCountMaxDefault = 256

    /// Events in order.
    struct Batch: Sendable {
        /// How many events were gone before they were asked for.
        var missedCount: UInt64
        /// The number of the first one here.
        var firstNumber: UInt64
        /// Those that are for several notifications are as many events.
        var events: [SimulatorChange]

        /// The number of the last one here.
        var lastNumber: UInt64 { self.firstNumber + self.events.reduce(0) { $0 + $1.eventCount } - 1 }
    }

    private struct Waiter {
        var continuation: CheckedContinuation<Void, Never>?
        var isClosed = false
    }

    /// One event, or those of some notifications.
    private struct Entry {
        /// The number of the first event.
        var number: UInt64
        var change: SimulatorChange
    }

    private struct State {
        var entries: CircularBuffer<Entry> = []
        var nextNumber: UInt64 = 1
        var readers: [UInt64: Waiter] = [:]
        var readerNumber: UInt64 = 0
        var waitingCount = 0
        var isEnded = false

        /// The number of the oldest event that is kept.
        var oldestNumber: UInt64 { self.entries.first?.number ?? self.nextNumber }

        mutating func removeEntries(before number: UInt64) {
            while let oldest = self.entries.first, oldest.number < number {
                self.entries.removeFirst()
                guard oldest.number + oldest.change.eventCount > number else { continue }
                let rest = oldest.change.removingFirst(number - oldest.number)
                self.entries.prepend(Entry(number: number, change: rest))
            }
        }

        /// The events from a number on that is kept.
        func events(from number: UInt64, countMax: Int) -> [SimulatorChange] {
            var index = self.index(of: number)
            var (next, left) = (number, UInt64(countMax))
            var events: [SimulatorChange] = []
            while left > 0, index < self.entries.endIndex {
                let entry = self.entries[index]
                let event = entry.change.removingFirst(next - entry.number).prefix(left)
                events.append(event)
                left -= event.eventCount
                next += event.eventCount
                self.entries.formIndex(after: &index)
            }
            return events
        }

        /// Where the event with a number is.
        private func index(of number: UInt64) -> CircularBuffer<Entry>.Index {
            var (low, high) = (0, self.entries.count - 1)
            while low < high {
                let middle = (low + high + 1) / 2
                let index = self.entries.index(self.entries.startIndex, offsetBy: middle)
                if self.entries[index].number <= number { low = middle } else { high = middle - 1 }
            }
            return self.entries.index(self.entries.startIndex, offsetBy: low)
        }

        mutating func takeContinuations() -> [CheckedContinuation<Void, Never>] {
            guard self.waitingCount > 0 else { return [] }
            self.waitingCount = 0
            var continuations: [CheckedContinuation<Void, Never>] = []
            for number in self.readers.keys {
                guard let continuation = self.readers[number]?.continuation else { continue }
                continuations.append(continuation)
                self.readers[number]?.continuation = nil
            }
            return continuations
        }
    }

    /// Where a reader begins.
    enum Start: Hashable, Sendable {
        /// With what comes next.
        case now
        /// After an event.
        case event(EventIdentifier)
        /// After something that is not an event of this log.
        case unknown

        /// What a client says was its last event.
        init(_ text: String) { self = EventIdentifier(text).map { .event($0) } ?? .unknown }
    }

    /// Tells the events of this log from those of the run before.
    let run = UInt64.random(in: .min ... .max)
    private let state = NIOLockedValueBox(State())
    private let countMax: Int
    private let readerCountMax: Int

    init(countMax: Int = EventLog.countMaxDefault, readerCountMax: Int = EventLog.readerCountMaxDefault) {
        self.countMax = countMax
        self.readerCountMax = readerCountMax
    }

    /// How many follow the events.
    var readerCount: Int { self.state.withLockedValue(\.readers.count) }

    /// How many of them wait for an event.
    var waitingCount: Int { self.state.withLockedValue(\.waitingCount) }

    func append(_ event: SimulatorChange) {
        let waiting = self.state.withLockedValue { state in
            state.entries.append(Entry(number: state.nextNumber, change: event))
            state.nextNumber += event.eventCount
            state.removeEntries(before: state.nextNumber - min(state.nextNumber, UInt64(self.countMax)))
            return state.takeContinuations()
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Ends all readers, and lets no more in.
    func end() {
        let waiting = self.state.withLockedValue { state in
            state.isEnded = true
            return state.takeContinuations()
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Follows the events.
    ///
    /// - Parameters:
    ///   - start: where to begin; after what is not known, with the oldest event that is kept.
    ///   - channel: ends the reader when it closes.
    /// - Returns: `nil` where there are as many readers as there may be.
    func makeReader(from start: Start = .now, channel: any Channel) -> EventReader? {
        let made = self.state.withLockedValue { state -> (reader: UInt64, position: UInt64, hasMissed: Bool)? in
            guard state.readers.count < self.readerCountMax else { return nil }
            state.readerNumber += 1
            state.readers[state.readerNumber] = Waiter()
            let last = state.nextNumber - 1
            switch start {
            case .now: return (state.readerNumber, last, false)
            case .event(let event) where event.run == self.run && event.number <= last:
                return (state.readerNumber, event.number, false)
            case .event, .unknown: return (state.readerNumber, state.oldestNumber - 1, true)
            }
        }
        guard let made else { return nil }
        let reader = made.reader
        channel.closeFuture.whenComplete { [weak self] _ in self?.wake(reader, isClosed: true) }
        return EventReader(self, reader: reader, position: made.position, hasMissed: made.hasMissed)
    }

    fileprivate func remove(_ reader: UInt64) { self.state.withLockedValue { $0.readers[reader] = nil } }

    private func wake(_ reader: UInt64, isClosed: Bool) {
        let continuation = self.state.withLockedValue { state -> CheckedContinuation<Void, Never>? in
            if isClosed { state.readers[reader]?.isClosed = true }
            guard let continuation = state.readers[reader]?.continuation else { return nil }
            state.readers[reader]?.continuation = nil
            state.waitingCount -= 1
            return continuation
        }
        continuation?.resume()
    }

    private enum Position {
        case events(Batch)
        case none
        case over
    }

    private func position(
        _ reader: UInt64,
        after number: UInt64,
        countMax: Int,
        _ state: borrowing State
    ) -> Position {
        guard let waiter = state.readers[reader], !waiter.isClosed, !state.isEnded else { return .over }
        guard number + 1 < state.nextNumber else { return .none }
        let first = max(number + 1, state.oldestNumber)
        let events = state.events(from: first, countMax: countMax)
        return .events(Batch(missedCount: first - number - 1, firstNumber: first, events: events))
    }

    /// The events after a number, as soon as there are any; none where the time is over; `nil` where the reader is.
    fileprivate func next(
        _ reader: UInt64,
        after number: UInt64,
        countMax: Int,
        until deadline: NIODeadline
    ) async -> Batch? {
        let timer = MultiThreadedEventLoopGroup.singleton.any()
            .scheduleTask(deadline: deadline) { self.wake(reader, isClosed: false) }
        defer { timer.cancel() }
        while true {
            switch self.state.withLockedValue({ self.position(reader, after: number, countMax: countMax, $0) }) {
            case .events(let batch): return batch
            case .over: return nil
            case .none where deadline <= .now():
                return Batch(missedCount: 0, firstNumber: number + 1, events: [])
            case .none: break
            }
            await withCheckedContinuation { continuation in
                let isDue = self.state.withLockedValue { state in
                    if case .none = self.position(reader, after: number, countMax: 1, state), deadline > .now() {
                        state.readers[reader]?.continuation = continuation
                        state.waitingCount += 1
                        return false
                    }
                    return true
                }
                if isDue { continuation.resume() }
            }
        }
    }
}

/// Somebody who follows the events; used by one task.
final class EventReader: Sendable {
    private let log: EventLog
    private let reader: UInt64
    private let position: NIOLockedValueBox<UInt64>
    /// Whether it was to begin after an event that is not known, so that nobody knows how many are missing.
    let hasMissed: Bool

    fileprivate init(_ log: EventLog, reader: UInt64, position: UInt64, hasMissed: Bool) {
        self.log = log
        self.hasMissed = hasMissed
        self.reader = reader
        self.position = NIOLockedValueBox(position)
    }

    deinit { self.log.remove(self.reader) }

    /// The number of the last event that was returned.
    var lastNumber: UInt64 { self.position.withLockedValue { $0 } }

    /// What names an event by its number.
    func identifier(_ number: UInt64) -> EventIdentifier { EventIdentifier(run: self.log.run, number: number) }

    /// Waits for events.
    ///
    /// - Parameters:
    ///   - countMax: how many are returned at most.
    ///   - deadline: until when to wait.
    /// - Returns: one or more events; none where the time is over; `nil` where the log or the client has ended.
    func next(_ countMax: Int = 256, until deadline: NIODeadline) async -> EventLog.Batch? {
        let batch = await self.log.next(self.reader, after: self.lastNumber, countMax: countMax, until: deadline)
        if let batch, !batch.events.isEmpty { self.position.withLockedValue { $0 = batch.lastNumber } }
        return batch
    }
}

extension SimulatorChange {
    /// How many events it is: one for each notification.
    var eventCount: UInt64 {
        if case .notifications(let numbers) = self { UInt64(numbers.count) } else { 1 }
    }

    /// What is left of it without its first events, of which some are left.
    fileprivate func removingFirst(_ count: UInt64) -> SimulatorChange {
        guard case .notifications(let numbers) = self else { return self }
        return .notifications((numbers.lowerBound + count)...numbers.upperBound)
    }

    /// The first of its events.
    fileprivate func prefix(_ countMax: UInt64) -> SimulatorChange {
        guard case .notifications(let numbers) = self else { return self }
        return .notifications(numbers.lowerBound...min(numbers.upperBound, numbers.lowerBound + countMax - 1))
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix

/// Stores the last events, and wakes readers.
final class EventLog: Sendable {
    /// The maximum number of events.
    static let countMaxDefault = 10_000
    /// The maximum number of readers.
    static let readerCountMaxDefault = 256

    /// Consecutive events.
    struct Batch: Sendable {
        /// The number of events that were removed before they were read.
        var missedCount: UInt64
        /// The number of the first event.
        var firstNumber: UInt64
        /// The events; an element for several notifications counts as that many events.
        var events: [SimulatorChange]

        /// The number of the last event.
        var lastNumber: UInt64 { self.firstNumber + self.events.reduce(0) { $0 + $1.eventCount } - 1 }
    }

    private struct Waiter {
        var continuation: CheckedContinuation<Void, Never>?
        var isClosed = false
    }

    /// An event, or the events of several notifications.
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

        /// The number of the oldest stored event.
        var oldestNumber: UInt64 { self.entries.first?.number ?? self.nextNumber }

        mutating func removeEntries(before number: UInt64) {
            while let oldest = self.entries.first, oldest.number < number {
                self.entries.removeFirst()
                guard oldest.number + oldest.change.eventCount > number else { continue }
                let rest = oldest.change.removingFirst(number - oldest.number)
                self.entries.prepend(Entry(number: number, change: rest))
            }
        }

        /// Returns stored events from a number on.
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

        /// Returns the index of the entry with a number.
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

    /// The start position of a reader.
    enum Start: Hashable, Sendable {
        /// At the next event.
        case now
        /// After an event.
        case event(EventIdentifier)
        /// After an event that is not in this log.
        case unknown

        /// Parses the last event identifier of a client.
        init(_ text: String) { self = EventIdentifier(text).map { .event($0) } ?? .unknown }
    }

    /// Distinguishes the events of this log from those of an earlier run.
    let run = UInt64.random(in: .min ... .max)
    private let state = NIOLockedValueBox(State())
    private let countMax: Int
    private let readerCountMax: Int

    init(countMax: Int = EventLog.countMaxDefault, readerCountMax: Int = EventLog.readerCountMaxDefault) {
        self.countMax = countMax
        self.readerCountMax = readerCountMax
    }

    /// The number of readers.
    var readerCount: Int { self.state.withLockedValue(\.readers.count) }

    /// The number of waiting readers.
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

    /// Ends all readers, and admits no more.
    func end() {
        let waiting = self.state.withLockedValue { state in
            state.isEnded = true
            return state.takeContinuations()
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Creates a reader.
    ///
    /// Returns `nil` if the maximum number of readers is reached.
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

    /// Returns the events after a number: none after the deadline, `nil` after the end of the reader.
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

/// Reads events; used by one task.
final class EventReader: Sendable {
    private let log: EventLog
    private let reader: UInt64
    private let position: NIOLockedValueBox<UInt64>
    /// Whether it started after an unknown event, so that the number of missed events is unknown.
    let hasMissed: Bool

    fileprivate init(_ log: EventLog, reader: UInt64, position: UInt64, hasMissed: Bool) {
        self.log = log
        self.hasMissed = hasMissed
        self.reader = reader
        self.position = NIOLockedValueBox(position)
    }

    deinit { self.log.remove(self.reader) }

    /// The number of the last returned event.
    var lastNumber: UInt64 { self.position.withLockedValue { $0 } }

    /// Returns the identifier of an event.
    func identifier(_ number: UInt64) -> EventIdentifier { EventIdentifier(run: self.log.run, number: number) }

    /// Waits for events.
    ///
    /// Returns one or more events; none after the deadline; `nil` if the log or the client has ended.
    func next(_ countMax: Int = 256, until deadline: NIODeadline) async -> EventLog.Batch? {
        let batch = await self.log.next(self.reader, after: self.lastNumber, countMax: countMax, until: deadline)
        if let batch, !batch.events.isEmpty { self.position.withLockedValue { $0 = batch.lastNumber } }
        return batch
    }
}

extension SimulatorChange {
    /// The number of events: one for each notification.
    var eventCount: UInt64 {
        if case .notifications(let numbers) = self { UInt64(numbers.count) } else { 1 }
    }

    /// Removes the first events, but not all.
    fileprivate func removingFirst(_ count: UInt64) -> SimulatorChange {
        guard case .notifications(let numbers) = self else { return self }
        return .notifications((numbers.lowerBound + count)...numbers.upperBound)
    }

    /// Returns the first events.
    fileprivate func prefix(_ countMax: UInt64) -> SimulatorChange {
        guard case .notifications(let numbers) = self else { return self }
        return .notifications(numbers.lowerBound...min(numbers.upperBound, numbers.lowerBound + countMax - 1))
    }
}

/// Identifies an event by its log and its number in it.
///
/// Numbers start again after a restart, so a number alone would be ambiguous.
struct EventIdentifier: Hashable, Sendable, CustomStringConvertible {
    /// A random number of the log.
    let run: UInt64
    /// The number of the event, from 1; 0 before the first event.
    let number: UInt64

    init(run: UInt64, number: UInt64) {
        self.run = run
        self.number = number
    }

    /// Parses ``description``.
    init?(_ text: String) {
        let parts = text.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let run = UInt64(parts[0], radix: 16), let number = UInt64(parts[1]) else { return nil }
        self.init(run: run, number: number)
        guard self.description == text else { return nil }
    }

    var description: String {
        let digits = String(self.run, radix: 16)
        return String(repeating: "0", count: 16 - digits.utf8.count) + digits + "-\(self.number)"
    }
}

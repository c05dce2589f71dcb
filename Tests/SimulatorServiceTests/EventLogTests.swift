// SPDX-License-Identifier: Apache-2.0

import APNSSimulator
import NIOCore
import NIOEmbedded
import Testing

@testable import SimulatorService

/// Goal: a reader receives each event once and in order, or the number of missed ones, with limited memory.
@Suite(.timeLimit(.minutes(1))) struct EventLogTests {
    private static func append(_ numbers: ClosedRange<Int>, to log: EventLog) {
        for number in numbers { log.append(.deviceRemoved(identifier: "\(number)")) }
    }

    private static func numbers(_ batch: EventLog.Batch?) -> [Int]? {
        batch?.events.map { if case .deviceRemoved(let text) = $0 { Int(text) ?? -1 } else { -1 } }
    }

    /// After the suite's time limit, so that no test passes because a wait timed out.
    private static var late: NIODeadline { .now() + .hours(1) }

    /// Lets a reader start to wait.
    private static func waiting(_ log: EventLog) async {
        while log.waitingCount == 0 { await Task.yield() }
    }

    @Test func `a reader receives later events in portions`() async throws {
        let log = EventLog()
        let channel = NIOAsyncTestingChannel()
        Self.append(1...2, to: log)
        let new = try #require(log.makeReader(channel: channel))
        let first = EventIdentifier(run: log.run, number: 1)
        let old = try #require(log.makeReader(from: .event(first), channel: channel))
        Self.append(3...5, to: log)
        #expect(Self.numbers(await new.next(2, until: Self.late)) == [3, 4])
        #expect(Self.numbers(await new.next(2, until: Self.late)) == [5])
        #expect(Self.numbers(await old.next(until: Self.late)) == [2, 3, 4, 5])
        #expect(!new.hasMissed && !old.hasMissed)
    }

    @Test func `a reader with an event of another run has missed some, and receives the stored ones`() async throws {
        let log = EventLog(countMax: 3)
        let channel = NIOAsyncTestingChannel()
        let other = EventIdentifier(run: log.run &+ 1, number: 1)
        let empty = try #require(log.makeReader(from: .event(other), channel: channel))
        #expect(empty.hasMissed && empty.lastNumber == 0)
        Self.append(1...5, to: log)
        let future = EventIdentifier(run: log.run, number: 6)
        for start in [EventLog.Start.event(other), .event(future), .unknown] {
            let reader = try #require(log.makeReader(from: start, channel: channel))
            #expect(reader.hasMissed)
            let batch = await reader.next(until: Self.late)
            #expect(Self.numbers(batch) == [3, 4, 5] && batch?.missedCount == 0)
        }
    }

    @Test func `a waiting reader is woken by the next event`() async throws {
        let log = EventLog()
        let reader = try #require(log.makeReader(channel: NIOAsyncTestingChannel()))
        async let batch = reader.next(until: Self.late)
        await Self.waiting(log)
        Self.append(1...1, to: log)
        #expect(Self.numbers(await batch) == [1])
    }

    @Test func `a late reader receives the number of missed events`() async throws {
        let log = EventLog(countMax: 3)
        let reader = try #require(log.makeReader(channel: NIOAsyncTestingChannel()))
        Self.append(1...10, to: log)
        let batch = try #require(await reader.next(until: Self.late))
        #expect(batch.missedCount == 7)
        #expect(batch.firstNumber == 8)
        #expect(Self.numbers(batch) == [8, 9, 10])
        #expect(await reader.next(until: .now())?.events.isEmpty == true)
    }

    @Test func `notifications of a batch are one event each`() async throws {
        let log = EventLog(countMax: 6)
        let reader = try #require(log.makeReader(channel: NIOAsyncTestingChannel()))
        log.append(.notifications(1...3))
        let first = try #require(await reader.next(2, until: Self.late))
        #expect(first.events == [.notifications(1...2)] && first.lastNumber == 2)
        Self.append(4...4, to: log)
        log.append(.notifications(10...14))
        // The third one is removed; the oldest stored event is the fourth.
        let rest = try #require(await reader.next(3, until: Self.late))
        #expect(rest.missedCount == 1 && rest.firstNumber == 4 && rest.lastNumber == 6)
        #expect(rest.events == [.deviceRemoved(identifier: "4"), .notifications(10...11)])
        Self.append(5...7, to: log)
        let last = try #require(await reader.next(until: Self.late))
        #expect(last.missedCount == 0 && last.firstNumber == 7)
        #expect(last.events.first == .notifications(12...14) && Self.numbers(last) == [-1, 5, 6, 7])
        log.append(.notifications(100...200))
        let newest = try #require(log.makeReader(from: .unknown, channel: NIOAsyncTestingChannel()))
        #expect(await newest.next(until: Self.late)?.events == [.notifications(195...200)])
    }

    @Test func `the time, the end of the log and the end of the client end a wait`() async throws {
        let log = EventLog()
        let channel = NIOAsyncTestingChannel()
        let reader = try #require(log.makeReader(channel: channel))
        #expect(await reader.next(until: .now())?.events.isEmpty == true)
        #expect(await reader.next(until: .now() + .milliseconds(20))?.events.isEmpty == true)
        async let closed = reader.next(until: Self.late)
        await Self.waiting(log)
        try await channel.close().get()
        #expect(await closed == nil)
        #expect(await reader.next(until: Self.late) == nil)
        let other = try #require(log.makeReader(channel: NIOAsyncTestingChannel()))
        async let batch = other.next(until: Self.late)
        await Self.waiting(log)
        log.end()
        #expect(await batch == nil)
    }

    @Test func `the number of readers is limited, and a finished one makes room`() throws {
        let log = EventLog(readerCountMax: 2)
        let channel = NIOAsyncTestingChannel()
        let first = try #require(log.makeReader(channel: channel))
        do {
            let second = try #require(log.makeReader(channel: channel))
            #expect(log.makeReader(channel: channel) == nil)
            #expect(second.lastNumber == first.lastNumber)
        }
        #expect(log.readerCount == 1)
        #expect(log.makeReader(channel: channel) != nil)
    }

    @Test func `concurrent readers each receive all events of concurrent writers, in each writer's order`() async throws
    {
        let log = EventLog()
        let writers = 0..<4
        let countEach = 1000
        let readers = try (0..<20).map { _ in try #require(log.makeReader(channel: NIOAsyncTestingChannel())) }
        let found = await withTaskGroup(of: [Int].self) { group in
            for reader in readers {
                group.addTask {
                    var numbers: [Int] = []
                    while numbers.count < writers.count * countEach, let batch = await reader.next(7, until: Self.late)
                    {
                        numbers += Self.numbers(batch) ?? []
                    }
                    return numbers
                }
            }
            for writer in writers {
                group.addTask {
                    Self.append((writer * countEach)...((writer + 1) * countEach - 1), to: log)
                    return []
                }
            }
            return await group.reduce(into: [[Int]]()) { if !$1.isEmpty { $0.append($1) } }
        }
        #expect(found.count == readers.count)
        for numbers in found {
            for writer in writers {
                let range = (writer * countEach)..<((writer + 1) * countEach)
                #expect(numbers.filter(range.contains) == Array(range))
            }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSWire
import NIOConcurrencyHelpers
import Testing

/// Goal: nothing waits while there is room or work, and nothing is woken up twice for the same work.
@Suite("Queue state machine")
struct QueueStateMachineTests {
    /// Counts calls.
    private final class Bell: Sendable {
        private let count = NIOLockedValueBox(0)

        var rings: Int { self.count.withLockedValue(\.self) }

        func ring() { self.count.withLockedValue { $0 += 1 } }
    }

    private static func call(_ callbacks: [QueueStateMachine.Callback]) { for callback in callbacks { callback() } }

    @Test func `submissions are numbered, and rejected above the limit and after the end`() {
        var machine = QueueStateMachine(countMax: 2, workerCount: 1)
        let numbers = [machine.enqueue().number, machine.assignNumber(), machine.enqueue().number]
        #expect(numbers == [0, 1, 2])
        #expect(!machine.mayEnqueue && machine.refusal == .full)
        Self.call(machine.settled(1, hasMemory: true))
        #expect(machine.mayEnqueue)
        _ = machine.finish()
        #expect(!machine.mayEnqueue && machine.refusal == .ended(.stopped))
        _ = machine.stop(.deadline, isAtOnce: false)
        #expect(machine.refusal == .ended(.deadline))
    }

    @Test func `those who wait for room are called once when half of the limit is free`() {
        var machine = QueueStateMachine(countMax: 4, workerCount: 1)
        for _ in 0..<4 { _ = machine.enqueue() }
        let (kept, gone) = (Bell(), Bell())
        let isKept = machine.awaitRoom(machine.newWaiter(), hasMemory: true) { kept.ring() }
        let waiter = machine.newWaiter()
        let isKeptToo = machine.awaitRoom(waiter, hasMemory: true) { gone.ring() }
        let removed = machine.removeWaiter(waiter)
        #expect(isKept && isKeptToo && removed != nil)
        Self.call(machine.settled(1, hasMemory: true))
        Self.call(machine.settled(1, hasMemory: false))
        #expect(kept.rings == 0)
        Self.call(machine.settled(0, hasMemory: true))
        #expect(kept.rings == 1)
        Self.call(machine.settled(1, hasMemory: true))
        #expect(kept.rings == 1 && gone.rings == 0)
        let waitsForNothing = machine.awaitRoom(machine.newWaiter(), hasMemory: true) {}
        let waitsForMemory = machine.awaitRoom(machine.newWaiter(), hasMemory: false) { kept.ring() }
        #expect(!waitsForNothing && waitsForMemory)
        Self.call(machine.finish())
        #expect(kept.rings == 2)
    }

    @Test func `those who wait for room are called in order`() {
        var machine = QueueStateMachine(countMax: 1, workerCount: 1)
        _ = machine.enqueue()
        let order = NIOLockedValueBox<[Int]>([])
        for number in 0..<20 {
            let isKept = machine.awaitRoom(machine.newWaiter(), hasMemory: true) {
                order.withLockedValue { $0.append(number) }
            }
            #expect(isKept)
        }
        Self.call(machine.settled(1, hasMemory: true))
        #expect(order.withLockedValue(\.self) == Array(0..<20))
    }

    @Test func `each submission wakes one worker, and a connected one with room first`() {
        var machine = QueueStateMachine(workerCount: 3)
        let bells = (0..<3).map { _ in Bell() }
        for (worker, bell) in bells.enumerated() {
            let looks = machine.enter(worker, waitingCount: 0) { bell.ring() }
            #expect(!looks)
        }
        machine.set(1, .ready)
        for rings in [[0, 1, 0], [1, 1, 0], [1, 1, 1], [1, 1, 1]] {
            machine.enqueue().wake?()
            #expect(bells.map(\.rings) == rings)
        }
        machine.set(2, .ready)
        machine.enqueue().wake?()
        #expect(bells.map(\.rings) == [1, 1, 2])
        machine.leave(0)
        machine.set(1, .idle)
        Self.call(machine.wakers(waitingCount: 5))
        #expect(bells.map(\.rings) == [1, 2, 2])
    }

    @Test func `a worker connects if more wait than others are connecting for`() {
        var machine = QueueStateMachine(workerCount: 2)
        for worker in 0..<2 { _ = machine.enter(worker, waitingCount: 0) {} }
        let answers = [
            machine.connects(0, waitingCount: 1), machine.connects(1, waitingCount: 1),
            machine.connects(1, waitingCount: 2),
        ]
        #expect(answers == [true, false, true])
        machine.set(0, .busy)
        let again = machine.connects(0, waitingCount: 1)
        #expect(!again)
    }

    @Test func `it ends after submissions have ended and everything is settled, or immediately`() {
        let bell = Bell()
        var machine = QueueStateMachine(workerCount: 1)
        _ = machine.enter(0, waitingCount: 0) { bell.ring() }
        for _ in 0..<2 { machine.enqueue().wake?() }
        #expect(bell.rings == 1)
        machine.postpone()
        Self.call(machine.finish())
        #expect(bell.rings == 2 && !machine.isOver)
        Self.call(machine.settled(1, hasMemory: true))
        #expect(!machine.isOver)
        machine.endPostponement(1)
        #expect(!machine.isOver)
        Self.call(machine.settled(1, hasMemory: true))
        #expect(machine.isOver && bell.rings == 3)
        var other = QueueStateMachine(workerCount: 1)
        _ = other.enqueue()
        _ = other.stop(.stopped, isAtOnce: false)
        #expect(!other.isOver)
        _ = other.stop(.deadline, isAtOnce: true)
        #expect(other.isOver && other.reason == .stopped)
    }

    @Test func `notifications of a source are counted before the source is asked`() {
        var machine = QueueStateMachine(countMax: 100, workerCount: 1, hasSource: true)
        let first = (0..<3).map { _ in machine.reserve(64) }
        #expect(first == [64, 36, 0])
        Self.call(machine.supplied(.waiting, unusedCount: 60))
        let whileWaiting = machine.reserve(64)
        machine.askSourceAgain()
        let later = machine.reserve(64)
        #expect(whileWaiting == 0 && later == 60)
        Self.call(machine.supplied(.ended, unusedCount: 100))
        let atTheEnd = machine.reserve(1)
        #expect(machine.isOver && atTheEnd == 0)
    }
}

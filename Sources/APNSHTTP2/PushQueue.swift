// SPDX-License-Identifier: Apache-2.0

import APNSWire
import DequeModule
import NIOConcurrencyHelpers
import NIOCore

/// The requests of a client that wait for their turn, shared by its workers.
///
/// What is without an outcome is counted here, also what waits for answers on a connection.
final class PushQueue: Sendable {
    /// Whether a worker can be given requests.
    enum WorkerStatus: Sendable {
        /// It has what it can carry, or is being woken.
        case busy
        /// It is connected and has room.
        case hungry
        /// It has no connection, and nothing that keeps it from opening one.
        case resting
    }

    private struct State: Sendable {
        var pending = Deque<PendingPush>()
        var workers: [WorkerStatus]
        var wakers: [@Sendable () -> Void] = []
        var openCount = 0
        var isFinished = false
        var trouble: DeliveryOutcome.Reason?
        var roomCallbacks: [@Sendable () -> Void] = []
        var onDrained: (@Sendable () -> Void)?
    }

    private let countMax: Int
    /// There is room again, for those who were told that there is none, when so many are left.
    private let lowWater: Int
    private let state: NIOLockedValueBox<State>

    private let observer: PushObserver

    init(countMax: Int, workerCount: Int, observer: PushObserver) {
        self.observer = observer
        self.countMax = countMax
        self.lowWater = countMax / 2
        self.state = NIOLockedValueBox(State(workers: Array(repeating: .resting, count: workerCount)))
    }

    // MARK: For callers

    var hasRoom: Bool { self.state.withLockedValue { $0.openCount < self.countMax && $0.trouble == nil } }

    func put(_ submission: Submission) -> PushClient.Receipt {
        let (receipt, wake) = self.state.withLockedValue { state -> (PushClient.Receipt, (@Sendable () -> Void)?) in
            if let trouble = state.trouble { return (.ended(trouble), nil) }
            if state.isFinished { return (.ended(.stopped), nil) }
            guard state.openCount < self.countMax else { return (.full, nil) }
            state.openCount += 1
            state.pending.append(PendingPush(submission))
            return (.taken, Self.waker(&state))
        }
        wake?()
        return receipt
    }

    /// Calls back once, from any thread, when there is room, or nothing is taken any more.
    func whenRoom(_ callback: @escaping @Sendable () -> Void) {
        let isReady = self.state.withLockedValue { state in
            if state.openCount < self.countMax || state.trouble != nil || state.isFinished { return true }
            state.roomCallbacks.append(callback)
            return false
        }
        if isReady { callback() }
    }

    /// Nothing more is put in; calls back when everything that is in has its outcome.
    func finish() {
        let callbacks = self.state.withLockedValue { state in
            state.isFinished = true
            return Self.takeCallbacks(&state, always: true)
        }
        for callback in callbacks { callback() }
    }

    // MARK: For the client

    /// Tells the workers' places, and what to do when everything is settled after the end.
    func start(wakers: [@Sendable () -> Void], onDrained: @escaping @Sendable () -> Void) {
        let callbacks = self.state.withLockedValue { state in
            state.wakers = wakers
            state.onDrained = onDrained
            let isDue = !state.pending.isEmpty
            return Self.takeCallbacks(&state, always: false) + (isDue ? [Self.waker(&state)].compactMap(\.self) : [])
        }
        for callback in callbacks { callback() }
    }

    /// All that waits is unsent; what comes later is taken.
    func reject(_ trouble: DeliveryOutcome.Reason) {
        let pending = self.state.withLockedValue { state in
            defer { state.pending.removeAll() }
            return state.pending
        }
        self.give(up: pending, trouble)
    }

    /// Nothing is sent any more; all that waits is unsent.
    func stop(_ trouble: DeliveryOutcome.Reason) {
        let (pending, callbacks) = self.state.withLockedValue { state in
            state.trouble = state.trouble ?? trouble
            defer { state.pending.removeAll() }
            return (state.pending, Self.takeCallbacks(&state, always: true))
        }
        for callback in callbacks { callback() }
        self.give(up: pending, trouble)
    }

    // MARK: For workers

    /// Takes requests for a worker; where there are fewer than it has room for, it is hungry from then on.
    func take(_ countMax: Int, worker: Int) -> [PendingPush] {
        self.state.withLockedValue { state in
            let count = min(countMax, state.pending.count)
            var taken: [PendingPush] = []
            taken.reserveCapacity(count)
            for _ in 0..<count { taken.append(state.pending.removeFirst()) }
            state.workers[worker] = count < countMax ? .hungry : .busy
            return taken
        }
    }

    /// Puts requests back in front, in their order.
    func putBack(_ pushes: [PendingPush]) {
        guard !pushes.isEmpty else { return }
        let (wake, trouble) = self.state.withLockedValue { state -> ((@Sendable () -> Void)?, DeliveryOutcome.Reason?) in
            if let trouble = state.trouble { return (nil, trouble) }
            state.pending.insert(contentsOf: pushes, at: 0)
            return (Self.waker(&state), nil)
        }
        wake?()
        if let trouble { self.give(up: pushes, trouble) }
    }

    private func give(up pushes: some Collection<PendingPush>, _ trouble: DeliveryOutcome.Reason) {
        for push in pushes {
            // An earlier attempt may have arrived, so it is not safe to send it again.
            let outcome: DeliveryOutcome = push.possibleDuplicate ? .indeterminate(trouble) : .unsent(trouble)
            self.observer.settled(outcome)
            push.settle(outcome)
        }
        self.settled(pushes.count)
    }

    func setStatus(_ status: WorkerStatus, worker: Int) {
        self.state.withLockedValue { $0.workers[worker] = status }
    }

    var isEmpty: Bool { self.state.withLockedValue { $0.pending.isEmpty } }

    /// Takes out what has waited too long.
    func takeOverdue(at now: NIODeadline) -> [PendingPush] {
        self.state.withLockedValue { state in
            var overdue: [PendingPush] = []
            // In the order of their deadlines, but for those that were put back, which are in front.
            while let first = state.pending.first, first.submission.deadline <= now {
                overdue.append(first)
                state.pending.removeFirst()
            }
            return overdue
        }
    }

    /// Counts outcomes.
    func settled(_ count: Int) {
        guard count > 0 else { return }
        let callbacks = self.state.withLockedValue { state in
            state.openCount -= count
            return Self.takeCallbacks(&state, always: state.openCount <= self.lowWater)
        }
        for callback in callbacks { callback() }
    }

    /// A worker that can take something, marked as woken.
    private static func waker(_ state: inout State) -> (@Sendable () -> Void)? {
        guard !state.wakers.isEmpty else { return nil }
        guard
            let worker = state.workers.firstIndex(of: .hungry) ?? state.workers.firstIndex(of: .resting)
        else { return nil }
        state.workers[worker] = .busy
        return state.wakers[worker]
    }

    private static func takeCallbacks(_ state: inout State, always: Bool) -> [@Sendable () -> Void] {
        var callbacks: [@Sendable () -> Void] = []
        if always {
            callbacks = state.roomCallbacks
            state.roomCallbacks = []
        }
        if state.openCount == 0, state.isFinished || state.trouble != nil, let onDrained = state.onDrained {
            state.onDrained = nil
            callbacks.append(onDrained)
        }
        return callbacks
    }
}

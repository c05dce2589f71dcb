// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSWire
import DequeModule
import NIOConcurrencyHelpers
import NIOCore

/// The requests of a client or a batch that wait for their turn, shared by its workers.
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

    /// What is known of a worker.
    private struct Worker: Sendable {
        var status = WorkerStatus.busy
        /// `nil` before it has begun, and when it has ended.
        var wake: (@Sendable () -> Void)?
        /// Whether it is about to take something as soon as it has a connection.
        var isConnecting = false
    }

    private struct State: Sendable {
        var pending = Deque<PendingPush>()
        /// What the service put off; it is not among those counted by ``openCount``.
        var retries = RetryQueue()
        var workers: [Worker]
        var openCount = 0
        /// What the source of a batch said when it was asked last.
        var supply = ProviderSupply.available
        /// Nothing more is put in.
        var isFinished = false
        /// Why nothing more is sent.
        var reason: DeliveryOutcome.Reason?
        /// Whether what was written is not waited for either.
        var isAtOnce = false
        var failure: PushError?
        var roomCallbacks: [@Sendable () -> Void] = []
        var isDrainLimited = false

        /// Whether everything has its outcome, and nothing more comes, or nothing is waited for.
        var isOver: Bool {
            self.isAtOnce
                || (self.isFinished || self.reason != nil) && self.openCount == 0 && self.retries.isEmpty
        }
    }

    /// What is sent beside what is put in; `nil` for nothing.
    let batch: HTTP2Batch?
    private let countMax: Int
    /// There is room again, for those who were told that there is none, when so many are left.
    private let lowWater: Int
    private let state: NIOLockedValueBox<State>

    private let observer: PushObserver

    /// So many are taken from the source at a time, at least, so that one call and one piece of memory serve many.
    private static let portionCountMin = 64
    /// So many are taken from the source at a time, at most.
    private static let portionCountMax = 256

    init(countMax: Int, workerCount: Int, batch: HTTP2Batch? = nil, observer: PushObserver) {
        self.observer = observer
        self.batch = batch
        self.countMax = countMax
        self.lowWater = countMax / 2
        var state = State(workers: Array(repeating: Worker(), count: workerCount))
        if batch == nil { state.supply = .waiting }
        self.state = NIOLockedValueBox(state)
    }

    // MARK: For callers

    var hasRoom: Bool { self.state.withLockedValue { $0.openCount < self.countMax && $0.reason == nil } }

    func put(_ submission: Submission) -> PushClient.Receipt {
        let (receipt, wake) = self.state.withLockedValue { state -> (PushClient.Receipt, (@Sendable () -> Void)?) in
            if let reason = state.reason { return (.ended(reason), nil) }
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
            if state.openCount < self.countMax || state.reason != nil || state.isFinished { return true }
            state.roomCallbacks.append(callback)
            return false
        }
        if isReady { callback() }
    }

    /// Nothing more is put in; the workers end when everything that is in has its outcome.
    func finish() {
        let callbacks = self.state.withLockedValue { state in
            state.isFinished = true
            return Self.takeCallbacks(&state, always: true)
        }
        for callback in callbacks { callback() }
    }

    // MARK: For those who end it

    /// All that waits is unsent; what comes later is taken.
    func reject(_ reason: DeliveryOutcome.Reason) {
        let pending = self.state.withLockedValue { state in
            defer { state.pending.removeAll() }
            return state.pending
        }
        self.give(up: pending, reason)
    }

    /// Nothing is sent any more; all that waits is unsent.
    ///
    /// - Parameters:
    ///   - reason: why.
    ///   - isAtOnce: whether what was written is not waited for either.
    func stop(_ reason: DeliveryOutcome.Reason, isAtOnce: Bool = false) {
        let (pending, retries, callbacks) = self.state.withLockedValue { state in
            state.reason = state.reason ?? reason
            if isAtOnce { state.isAtOnce = true }
            let pending = state.pending
            state.pending.removeAll()
            let retries = state.retries.takeAll()
            // They count until they are settled.
            state.openCount += retries.count
            return (pending, retries, Self.takeCallbacks(&state, always: true))
        }
        for callback in callbacks { callback() }
        self.give(up: pending, reason)
        self.give(up: retries, nil)
    }

    /// Ends at once, since going on is of no use.
    func fail(_ error: PushError) {
        self.state.withLockedValue { $0.failure = $0.failure ?? error }
        self.stop(error.reason, isAtOnce: true)
    }

    /// Why going on was of no use.
    var failure: PushError? { self.batch?.classifier.failure ?? self.state.withLockedValue(\.failure) }

    // MARK: For workers

    /// A worker begins.
    ///
    /// - Parameters:
    ///   - worker: which one.
    ///   - wake: lets it look whether there is something to send, and whether everything is over.
    /// - Returns: whether it is to look at once.
    func enter(_ worker: Int, wake: @escaping @Sendable () -> Void) -> Bool {
        self.state.withLockedValue { state in
            state.workers[worker] = Worker(status: .resting, wake: wake)
            guard !state.isOver else { return true }
            // One worker for each request that waits, as if each were put in now.
            let wokenCount = state.workers.count { $0.wake != nil && $0.status == .busy }
            guard self.batch != nil || state.pending.count > wokenCount else { return false }
            state.workers[worker].status = .busy
            return true
        }
    }

    /// A worker has ended.
    func leave(_ worker: Int) { self.state.withLockedValue { $0.workers[worker] = Worker() } }

    /// Whether the workers are to close their connections, and to end.
    var isOver: Bool { self.state.withLockedValue(\.isOver) }

    /// Takes requests for a worker; where there are fewer than it has room for, it is hungry from then on.
    func take(_ countMax: Int, worker: Int, at now: NIODeadline) -> [PendingPush] {
        var (taken, portion) = self.state.withLockedValue { state in
            Self.takeDue(&state, at: now)
            let taken = Self.takePending(&state, countMax)
            return (taken, taken.count < countMax ? self.portion(&state, countMax - taken.count) : 0)
        }
        let hasTaken = portion > 0
        while portion > 0, self.takeFromSource(portion) {
            portion = self.state.withLockedValue { state in
                taken += Self.takePending(&state, countMax - taken.count)
                return taken.count < countMax ? self.portion(&state, countMax - taken.count) : 0
            }
        }
        let wakes = self.state.withLockedValue { state in
            state.workers[worker].status = taken.count < countMax ? .hungry : .busy
            state.workers[worker].isConnecting = false
            return hasTaken ? Self.wakers(&state) : []
        }
        for wake in wakes { wake() }
        return taken
    }

    /// Whether a worker without a connection is to open one; if not, it rests.
    func hasWork(_ worker: Int, at now: NIODeadline) -> Bool {
        let portion = self.state.withLockedValue { state in
            Self.takeDue(&state, at: now)
            return state.pending.isEmpty ? self.portion(&state, 1) : 0
        }
        if portion > 0 { _ = self.takeFromSource(portion) }
        let (hasWork, wakes) = self.state.withLockedValue { state -> (Bool, [@Sendable () -> Void]) in
            state.workers[worker].isConnecting = false
            // The others that are connecting take one each, at least.
            let hasWork = state.pending.count > state.workers.count(where: \.isConnecting)
            state.workers[worker].isConnecting = hasWork
            state.workers[worker].status = hasWork ? .busy : .resting
            return (hasWork, portion > 0 ? Self.wakers(&state) : [])
        }
        for wake in wakes { wake() }
        return hasWork
    }

    /// How many to take from the source now; they count as taken.
    private func portion(_ state: inout State, _ wantedCount: Int) -> Int {
        guard self.batch != nil, state.supply == .available, state.reason == nil, state.retries.hasRoom else {
            return 0
        }
        let count = min(max(wantedCount, Self.portionCountMin), Self.portionCountMax, self.countMax - state.openCount)
        guard count > 0 else { return 0 }
        state.openCount += count
        return count
    }

    /// Puts notifications of the source in, for which ``portion(_:_:)`` made room.
    ///
    /// - Returns: whether there were any.
    private func takeFromSource(_ countMax: Int) -> Bool {
        guard let batch = self.batch else { return false }
        // Without the lock, since the source is not ours.
        let (pushes, supply) = batch.take(countMax, self.observer)
        let (reason, callbacks) = self.state.withLockedValue { state in
            state.openCount -= countMax - pushes.count
            state.supply = supply
            if supply == .ended { state.isFinished = true }
            if state.reason == nil { state.pending.append(contentsOf: pushes) }
            return (state.reason, Self.takeCallbacks(&state, always: false))
        }
        for callback in callbacks { callback() }
        if let reason { self.give(up: pushes, reason) }
        return reason == nil && !pushes.isEmpty
    }

    private static func takePending(_ state: inout State, _ countMax: Int) -> [PendingPush] {
        let count = min(countMax, state.pending.count)
        var taken: [PendingPush] = []
        taken.reserveCapacity(count)
        for _ in 0..<count { taken.append(state.pending.removeFirst()) }
        return taken
    }

    private static func takeDue(_ state: inout State, at now: NIODeadline) {
        guard !state.retries.isEmpty else { return }
        let due = state.retries.take(at: now)
        state.openCount += due.count
        state.pending.append(contentsOf: due)
    }

    /// Keeps a request that the service put off, until a worker asks at that time or later.
    ///
    /// - Returns: whether it is kept; where nothing is sent any more, it has its outcome.
    func putOff(_ push: PendingPush, until due: NIODeadline) -> Bool {
        let isKept = self.state.withLockedValue { state in
            guard state.reason == nil else { return false }
            state.openCount -= 1
            state.retries.put(push, until: due)
            return true
        }
        if !isKept { self.give(up: CollectionOfOne(push), nil) }
        return isKept
    }

    /// Puts requests back in front, in their order.
    func putBack(_ pushes: [PendingPush]) {
        guard !pushes.isEmpty else { return }
        let (wake, reason) = self.state.withLockedValue {
            state -> ((@Sendable () -> Void)?, DeliveryOutcome.Reason?) in
            if let reason = state.reason { return (nil, reason) }
            state.pending.insert(contentsOf: pushes, at: 0)
            return (Self.waker(&state), nil)
        }
        wake?()
        if let reason { self.give(up: pushes, reason) }
    }

    private func give(up pushes: some Collection<PendingPush>, _ reason: DeliveryOutcome.Reason?) {
        for push in pushes {
            let outcome = push.unprocessed(reason)
            self.observer.settled(outcome)
            push.settle(outcome)
        }
        self.settled(pushes.count)
    }

    /// A worker waits before it connects again.
    func pause(_ worker: Int) {
        self.state.withLockedValue { state in
            state.workers[worker].status = .busy
            state.workers[worker].isConnecting = false
        }
    }

    /// The source of the batch may have something, or nothing more.
    func askSourceAgain() {
        self.state.withLockedValue { if $0.supply == .waiting { $0.supply = .available } }
    }

    /// Whether nothing waits here, though a source may have more.
    var isEmpty: Bool { self.state.withLockedValue(\.pending.isEmpty) }

    /// Whether a connection with room would be of use.
    var isWaiting: Bool {
        self.state.withLockedValue { !$0.pending.isEmpty || $0.supply == .available && $0.reason == nil }
    }

    /// Whether the caller is the first to limit how long the rest of the batch may take.
    func limitDrain() -> Bool {
        self.state.withLockedValue { state in
            defer { state.isDrainLimited = true }
            return !state.isDrainLimited
        }
    }

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

    /// Wakes a worker that can take something, marked as woken.
    private static func waker(_ state: inout State) -> (@Sendable () -> Void)? {
        let index =
            state.workers.firstIndex { $0.status == .hungry && $0.wake != nil }
            ?? state.workers.firstIndex { $0.status == .resting && $0.wake != nil }
        guard let index else { return nil }
        state.workers[index].status = .busy
        return state.workers[index].wake
    }

    /// Wakes as many workers as there is something for.
    private static func wakers(_ state: inout State) -> [@Sendable () -> Void] {
        var wakes: [@Sendable () -> Void] = []
        while wakes.count < state.pending.count, let wake = Self.waker(&state) { wakes.append(wake) }
        return wakes
    }

    private static func takeCallbacks(_ state: inout State, always: Bool) -> [@Sendable () -> Void] {
        var callbacks: [@Sendable () -> Void] = []
        if always {
            callbacks = state.roomCallbacks
            state.roomCallbacks = []
        }
        if state.isOver { callbacks += state.workers.compactMap(\.wake) }
        return callbacks
    }
}

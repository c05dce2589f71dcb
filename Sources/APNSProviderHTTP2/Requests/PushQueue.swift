// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSWire
import NIOCore

/// The requests of a client or a batch that wait for their turn, shared by its workers.
///
/// What is without an outcome is counted here, also what waits for answers on a connection.
struct PushQueue: Sendable {
    /// Makes requests of what a source gives, beside what is put in; `nil` where there is none.
    let source: RequestSource?
    private let queue: NotificationQueue<PendingPushes>
    private let observer: DeliveryObserver

    /// So many are taken from the source at a time, at least, so that one call and one piece of memory serve many.
    private static let portionCountMin = 64
    /// So many are taken from the source at a time, at most.
    private static let portionCountMax = 256

    init(countMax: Int, workerCount: Int, source: RequestSource? = nil, observer: DeliveryObserver) {
        self.source = source
        self.observer = observer
        self.queue = NotificationQueue(
            QueueStateMachine(countMax: countMax, workerCount: workerCount, hasSource: source != nil),
            PendingPushes()
        )
    }

    // MARK: For callers

    var hasRoom: Bool { self.queue.hasRoom }

    func put(_ submission: Submission) -> SubmissionReceipt {
        let receipt = self.queue.put { pushes, _ in
            pushes.append(PendingPush(submission))
            return true
        }
        if case .taken = receipt { self.observer.queued(1) }
        return receipt
    }

    /// Gives a number to what is not sent.
    func passBy() -> UInt64 { self.queue.withState { $0.machine.passBy() } }

    func whenRoom(_ callback: @escaping @Sendable () -> Void) { self.queue.whenRoom(callback) }

    func waitForRoom() async { await self.queue.waitForRoom() }

    func waitForEnd() async -> DeliveryOutcome.Reason? { await self.queue.waitForEnd() }

    /// Nothing more is put in; the workers end when everything that is in has its outcome.
    func finish() { self.queue.finish() }

    // MARK: For those who end it

    /// All that waits is unsent; what comes later is taken.
    func reject(_ reason: DeliveryOutcome.Reason) {
        let waiting = self.queue.withState { $0.storage.takeAllWaiting() }
        self.observer.queued(-waiting.count)
        self.give(up: waiting, reason)
    }

    /// Nothing is sent any more; all that waits is unsent.
    ///
    /// - Parameters:
    ///   - reason: why.
    ///   - isAtOnce: whether what was written is not waited for either.
    func stop(_ reason: DeliveryOutcome.Reason, isAtOnce: Bool = false) {
        var waiting: [PendingPush] = []
        var putOff: [PendingPush] = []
        self.queue.callOut { state in
            waiting = state.storage.takeAllWaiting()
            putOff = state.storage.takeAllPutOff()
            state.machine.putOffEnded(putOff.count)
            return state.machine.stop(reason, isAtOnce: isAtOnce)
        }
        self.observer.queued(-waiting.count - putOff.count)
        self.give(up: waiting, reason)
        self.give(up: putOff, nil)
    }

    /// Ends at once, since going on is of no use.
    func fail(_ error: ProviderError) {
        self.queue.withState { $0.storage.failure = $0.storage.failure ?? error }
        self.stop(error.reason, isAtOnce: true)
    }

    /// Why going on was of no use.
    var failure: ProviderError? { self.source?.classifier.failure ?? self.queue.withState { $0.storage.failure } }

    // MARK: For workers

    /// Why connections fail, while they do.
    var outage: ConnectionFailure? {
        get { self.queue.withState { $0.storage.outage } }
        nonmutating set { self.queue.withState { $0.storage.outage = newValue } }
    }

    /// A worker begins.
    ///
    /// - Parameters:
    ///   - worker: which one.
    ///   - wake: lets it look whether there is something to send, and whether everything is over.
    /// - Returns: whether it is to look at once.
    func enter(_ worker: Int, wake: @escaping @Sendable () -> Void) -> Bool {
        self.queue.withState { $0.machine.enter(worker, waitingCount: $0.storage.waitingCount, wake: wake) }
    }

    /// A worker has ended.
    func leave(_ worker: Int) { self.queue.withState { $0.machine.leave(worker) } }

    /// A worker waits before it connects again.
    func pause(_ worker: Int) { self.queue.withState { $0.machine.set(worker, .busy) } }

    /// Whether the workers are to close their connections, and to end.
    var isOver: Bool { self.queue.withState { $0.machine.isOver } }

    /// Takes requests for a worker; where there are fewer than it has room for, it is hungry from then on.
    func take(_ countMax: Int, worker: Int, at now: NIODeadline) -> [PendingPush] {
        var taken: [PendingPush] = []
        let answer = self.askSource(at: now) { state in
            taken += state.storage.takeWaiting(countMax - taken.count)
            return countMax - taken.count
        }
        self.observer.queued(-taken.count)
        self.queue.callOut { state in
            state.machine.set(worker, taken.count < countMax ? .hungry : .busy)
            return Self.wakers(&state, after: answer)
        }
        return taken
    }

    /// Whether a worker without a connection is to open one; if not, it rests.
    func hasWork(_ worker: Int, at now: NIODeadline) -> Bool {
        let answer = self.askSource(at: now) { $0.storage.waitingCount == 0 ? 1 : 0 }
        var hasWork = false
        self.queue.callOut { state in
            hasWork = state.machine.connects(worker, waitingCount: state.storage.waitingCount)
            return Self.wakers(&state, after: answer)
        }
        return hasWork
    }

    /// Asks the source for the sake of its end, on behalf of a worker that can take nothing now.
    ///
    /// - Returns: whether to ask again, since all that it gave was invalid.
    func lookForEnd(at now: NIODeadline) -> Bool {
        let answer = self.askSource(at: now) { $0.storage.waitingCount == 0 ? 1 : 0 }
        self.queue.callOut { Self.wakers(&$0, after: answer) }
        return answer == .onlyInvalid
    }

    /// What came of asking the source.
    private enum SourceAnswer {
        /// It was not asked, since nothing was wanted or may be taken.
        case notAsked
        /// It has nothing for now.
        case nothing
        /// Something that can be sent.
        case sendable
        /// Invalid notifications alone, so that there may be more.
        case onlyInvalid
    }

    /// Wakes workers for what came from the source, or one to go on asking, so that other events come in between.
    private static func wakers(
        _ state: inout NotificationQueue<PendingPushes>.State,
        after answer: SourceAnswer
    ) -> [QueueStateMachine.Callback] {
        switch answer {
        case .notAsked: []
        case .nothing, .sendable: state.machine.wakers(waitingCount: state.storage.waitingCount)
        case .onlyInvalid: state.machine.wakers(waitingCount: max(state.storage.waitingCount, 1))
        }
    }

    /// Takes from the source until nothing more is wanted, or nothing came that can be sent.
    ///
    /// - Parameters:
    ///   - now: the time, at which what was put off may be due.
    ///   - wantedCount: says how many more are wanted.
    /// - Returns: what came of it.
    private func askSource(
        at now: NIODeadline,
        _ wantedCount: (inout NotificationQueue<PendingPushes>.State) -> Int
    ) -> SourceAnswer {
        var answer = SourceAnswer.notAsked
        while true {
            let portion = self.queue.withState { state in
                state.machine.putOffEnded(state.storage.returnDue(at: now))
                let count = wantedCount(&state)
                guard count > 0, self.source != nil, state.storage.mayTakeMore else { return 0 }
                return state.machine.reserve(min(max(count, Self.portionCountMin), Self.portionCountMax))
            }
            guard portion > 0 else { return answer }
            answer = self.takeFromSource(portion)
            guard case .sendable = answer else { return answer }
        }
    }

    /// Puts notifications of the source in, for which room was made.
    ///
    /// - Returns: what the source gave.
    private func takeFromSource(_ countMax: Int) -> SourceAnswer {
        guard let source = self.source else { return .notAsked }
        // Without the lock, since the source is not ours.
        let (count, pushes, supply) = source.take(countMax, self.observer)
        var reason: DeliveryOutcome.Reason?
        self.queue.callOut { state in
            reason = state.machine.reason
            if reason == nil { state.storage.append(pushes) }
            return state.machine.supplied(supply, unusedCount: countMax - pushes.count)
        }
        if let reason {
            self.give(up: pushes, reason)
            return .nothing
        }
        self.observer.queued(pushes.count)
        guard pushes.isEmpty else { return .sendable }
        return count == 0 ? .nothing : .onlyInvalid
    }

    /// Keeps a request that the service put off, until a worker asks at that time or later.
    ///
    /// - Returns: whether it is kept; where nothing is sent any more, it has its outcome.
    func putOff(_ push: PendingPush, until due: NIODeadline) -> Bool {
        let isKept = self.queue.withState { state in
            guard state.machine.reason == nil else { return false }
            state.machine.putOff()
            state.storage.putOff(push, until: due)
            return true
        }
        if isKept { self.observer.queued(1) } else { self.give(up: [push], nil) }
        return isKept
    }

    /// Puts requests back in front, in their order.
    func putBack(_ pushes: [PendingPush]) {
        guard !pushes.isEmpty else { return }
        var reason: DeliveryOutcome.Reason?
        self.queue.callOut { state in
            reason = state.machine.reason
            guard reason == nil else { return [] }
            state.storage.putBack(pushes)
            return state.machine.wakers(waitingCount: 1)
        }
        if let reason { self.give(up: pushes, reason) } else { self.observer.queued(pushes.count) }
    }

    private func give(up pushes: [PendingPush], _ reason: DeliveryOutcome.Reason?) {
        for push in pushes {
            let outcome = push.unprocessed(reason)
            self.observer.settled(outcome)
            push.settle(outcome)
        }
        self.settled(pushes.count)
    }

    /// The source may have something, or nothing more.
    func askSourceAgain() { self.queue.withState { $0.machine.askSourceAgain() } }

    /// Whether nothing waits here, though a source may have more.
    var isEmpty: Bool { self.queue.withState { $0.storage.waitingCount == 0 } }

    /// Whether a connection with room would be of use.
    var isWaiting: Bool {
        self.queue.withState { state in
            state.storage.waitingCount > 0 || state.machine.supply == .available && state.machine.reason == nil
        }
    }

    /// Whether the caller is the first to limit how long the rest of the batch may take.
    func limitDrain() -> Bool {
        self.queue.withState { state in
            defer { state.storage.isDrainLimited = true }
            return !state.storage.isDrainLimited
        }
    }

    /// Takes out what has waited too long.
    func takeOverdue(at now: NIODeadline) -> [PendingPush] {
        let overdue = self.queue.withState { $0.storage.takeOverdue(at: now) }
        self.observer.queued(-overdue.count)
        return overdue
    }

    /// Counts outcomes.
    func settled(_ count: Int) { self.queue.settled(count) }
}

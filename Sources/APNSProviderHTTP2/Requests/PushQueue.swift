// SPDX-License-Identifier: Apache-2.0

import APNSProvider
import APNSSession
import APNSWire
import NIOCore
import Glibc
import DequeModule
import Synchronization

/// The waiting requests of a client or a batch, shared by its workers.
///
/// It counts all requests without an outcome, including those that wait for answers on a connection.
final class PushQueue: Sendable {
    /// Makes requests from a source, in addition to submitted ones; `nil` if there is none.
    let source: RequestSource?
    private let queue: NotificationQueue<PendingPushes>
    private let observer: DeliveryObserver

    /// The minimum number to take from the source at a time, so that one call serves many.
    private static let portionCountMin = 64
    /// The maximum number to take from the source at a time.
    private static let portionCountMax = 256

    init(
        countMax: Int,
        workerCount: Int,
        source: RequestSource? = nil,
        outages: OutageLog? = nil,
        observer: DeliveryObserver
    ) {
        self.source = source
        self.observer = observer
        self.queue = NotificationQueue(
            QueueStateMachine(countMax: countMax, workerCount: workerCount, hasSource: source != nil),
            PendingPushes(),
            outages
        )
    }

    // MARK: For callers

    var hasRoom: Bool { self.queue.hasRoom }

    func enqueue(_ submission: Submission) -> SubmissionReceipt {
        let receipt = self.queue.enqueue { pushes, number in
            submission.number.store(number, ordering: .relaxed)
            pushes.append(PendingPush(submission))
            return true
        }
        if case .submitted = receipt { self.observer.queued(1) }
        return receipt
    }

    /// Settles the waiting requests of a receiver.
    func withdraw(_ receiver: any SubmissionReceiver, in numbers: Range<UInt64>, _ reason: DeliveryOutcome.Reason) {
        let withdrawn = self.queue.withState { $0.storage.withdraw(receiver, in: numbers) }
        guard !withdrawn.isEmpty else { return }
        self.observer.queued(-withdrawn.count)
        self.abandon(withdrawn, reason)
    }

    /// Assigns a number to a request that is not sent.
    func assignNumber() -> UInt64 { self.queue.withState { $0.machine.assignNumber() } }

    func whenRoom(_ callback: @escaping @Sendable () -> Void) { self.queue.whenRoom(callback) }

    func waitForRoom() async { await self.queue.waitForRoom() }

    func waitForEnd() async -> DeliveryOutcome.Reason? { await self.queue.waitForEnd() }

    /// Ends submissions; the workers end when everything is settled.
    func finish() { self.queue.finish() }

    // MARK: Ending

    /// Settles all waiting requests as unsent; later ones are accepted.
    func reject(_ reason: DeliveryOutcome.Reason) {
        let waiting = self.queue.withState { $0.storage.dequeueAllWaiting() }
        self.observer.queued(-waiting.count)
        self.abandon(waiting, reason)
    }

    /// Stops sending; all waiting requests are unsent.
    func stop(_ reason: DeliveryOutcome.Reason, isAtOnce: Bool = false) {
        var waiting: [PendingPush] = []
        var postponed: [PendingPush] = []
        self.queue.callOut { state in
            waiting = state.storage.dequeueAllWaiting()
            postponed = state.storage.takeAllPostponed()
            state.machine.endPostponement(postponed.count)
            return state.machine.stop(reason, isAtOnce: isAtOnce)
        }
        self.observer.queued(-waiting.count - postponed.count)
        self.abandon(waiting, reason)
        self.abandon(postponed, nil)
    }

    /// Ends immediately, since sending cannot succeed.
    func fail(_ error: ProviderError) {
        self.queue.withState { $0.storage.failure = $0.storage.failure ?? error }
        self.stop(error.reason, isAtOnce: true)
    }

    /// Why sending could not succeed.
    var failure: ProviderError? { self.source?.classifier.failure ?? self.queue.withState { $0.storage.failure } }

    // MARK: For workers

    /// Why connections fail; `nil` if they work.
    var outage: ConnectionFailure? {
        get { self.queue.outage }
        set { self.queue.connectionsChanged(newValue) }
    }

    /// Registers a worker.
    ///
    /// Returns whether it should check immediately.
    func enter(_ worker: Int, wake: @escaping @Sendable () -> Void) -> Bool {
        self.queue.withState { $0.machine.enter(worker, waitingCount: $0.storage.waitingCount, wake: wake) }
    }

    /// Removes a worker.
    func leave(_ worker: Int) { self.queue.withState { $0.machine.leave(worker) } }

    /// Records that a worker waits before it reconnects.
    func pause(_ worker: Int) { self.queue.withState { $0.machine.set(worker, .busy) } }

    /// Whether the workers must close their connections and end.
    var isOver: Bool { self.queue.withState { $0.machine.isOver } }

    /// Takes requests for a worker; if there are fewer than it has room for, its status is ready afterwards.
    func dequeue(_ countMax: Int, worker: Int, at now: NIODeadline) -> [PendingPush] {
        var dequeued: [PendingPush] = []
        let answer = self.askSource(at: now) { state in
            state.storage.dequeueWaiting(countMax - dequeued.count, into: &dequeued)
            return countMax - dequeued.count
        }
        self.observer.queued(-dequeued.count)
        self.queue.callOut { state in
            state.machine.set(worker, dequeued.count < countMax ? .ready : .busy)
            return Self.wakers(&state, after: answer)
        }
        return dequeued
    }

    /// Whether a worker without a connection should open one; if not, it rests.
    func hasWork(_ worker: Int, at now: NIODeadline) -> Bool {
        let answer = self.askSource(at: now) { $0.storage.waitingCount == 0 ? 1 : 0 }
        var hasWork = false
        self.queue.callOut { state in
            hasWork = state.machine.connects(worker, waitingCount: state.storage.waitingCount)
            return Self.wakers(&state, after: answer)
        }
        return hasWork
    }

    /// Asks the source whether it has ended, for a worker that cannot send now.
    ///
    /// Returns whether to ask again, since all its notifications were invalid.
    func checkForEnd(at now: NIODeadline) -> Bool {
        let answer = self.askSource(at: now) { $0.storage.waitingCount == 0 ? 1 : 0 }
        self.queue.callOut { Self.wakers(&$0, after: answer) }
        return answer == .onlyInvalid
    }

    /// The result of asking the source.
    private enum SourceResult {
        /// It was not asked, since nothing was requested or may be taken.
        case notAsked
        /// It has nothing for now.
        case nothing
        /// It has requests that can be sent.
        case sendable
        /// It had only invalid notifications, so there may be more.
        case onlyInvalid
    }

    /// Wakes workers for requests from the source, or one to ask again, so that other events are processed in between.
    private static func wakers(
        _ state: inout NotificationQueue<PendingPushes>.State,
        after answer: SourceResult
    ) -> [QueueStateMachine.Callback] {
        switch answer {
        case .notAsked: []
        case .nothing, .sendable: state.machine.wakers(waitingCount: state.storage.waitingCount)
        case .onlyInvalid: state.machine.wakers(waitingCount: max(state.storage.waitingCount, 1))
        }
    }

    /// Asks the source until nothing more is requested, or it has nothing that can be sent.
    private func askSource(
        at now: NIODeadline,
        _ wantedCount: (inout NotificationQueue<PendingPushes>.State) -> Int
    ) -> SourceResult {
        var answer = SourceResult.notAsked
        while true {
            let portion = self.queue.withState { state in
                state.machine.endPostponement(state.storage.returnDue(at: now))
                let count = wantedCount(&state)
                guard count > 0, self.source != nil, state.storage.mayFetchMore else { return 0 }
                return state.machine.reserve(min(max(count, Self.portionCountMin), Self.portionCountMax))
            }
            guard portion > 0 else { return answer }
            answer = self.fetchFromSource(portion)
            guard case .sendable = answer else { return answer }
        }
    }

    /// Adds notifications of the source, for which room was reserved.
    private func fetchFromSource(_ countMax: Int) -> SourceResult {
        guard let source = self.source else { return .notAsked }
        // Without the lock, since the source is foreign code.
        let (count, pushes, supply) = source.fetch(countMax, self.observer)
        var reason: DeliveryOutcome.Reason?
        self.queue.callOut { state in
            reason = state.machine.reason
            if reason == nil { state.storage.append(pushes) }
            return state.machine.supplied(supply, unusedCount: countMax - pushes.count)
        }
        if let reason {
            self.abandon(pushes, reason)
            return .nothing
        }
        self.observer.queued(pushes.count)
        guard pushes.isEmpty else { return .sendable }
        return count == 0 ? .nothing : .onlyInvalid
    }

    /// Postpones a request, until a worker takes requests at that time or later.
    ///
    /// Returns whether it is postponed; if sending has stopped, it has its outcome.
    func postpone(_ push: PendingPush, until due: NIODeadline) -> Bool {
        let isKept = self.queue.withState { state in
            guard state.machine.reason == nil else { return false }
            state.machine.postpone()
            state.storage.postpone(push, until: due)
            return true
        }
        if isKept { self.observer.queued(1) } else { self.abandon([push], nil) }
        return isKept
    }

    /// Puts requests back at the front, in order.
    func requeue(_ pushes: [PendingPush]) {
        guard !pushes.isEmpty else { return }
        var reason: DeliveryOutcome.Reason?
        self.queue.callOut { state in
            reason = state.machine.reason
            guard reason == nil else { return [] }
            state.storage.requeue(pushes)
            return state.machine.wakers(waitingCount: 1)
        }
        if let reason { self.abandon(pushes, reason) } else { self.observer.queued(pushes.count) }
    }

    /// Settles requests that are not sent.
    func abandon(_ pushes: [PendingPush], _ reason: DeliveryOutcome.Reason?) {
        for push in pushes {
            let outcome = push.unprocessed(reason)
            self.observer.settled(outcome)
            push.settle(outcome)
        }
        self.settled(pushes.count)
    }

    /// Records that the source may have more, or has ended.
    func askSourceAgain() { self.queue.withState { $0.machine.askSourceAgain() } }

    /// Whether nothing waits here, although a source may have more.
    var isEmpty: Bool { self.queue.withState { $0.storage.waitingCount == 0 } }

    /// Whether requests wait for a connection with room.
    var isWaiting: Bool {
        self.queue.withState { state in
            state.storage.waitingCount > 0 || state.machine.supply == .available && state.machine.reason == nil
        }
    }

    /// Whether the caller is the first to limit the time for the rest of the batch.
    func limitDrain() -> Bool {
        self.queue.withState { state in
            defer { state.storage.isDrainLimited = true }
            return !state.storage.isDrainLimited
        }
    }

    /// Removes and returns the requests that have waited too long.
    func takeOverdue(at now: NIODeadline) -> [PendingPush] {
        let overdue = self.queue.withState { $0.storage.takeOverdue(at: now) }
        self.observer.queued(-overdue.count)
        return overdue
    }

    /// Records outcomes.
    func settled(_ count: Int) { self.queue.settled(count) }
}

/// Takes the notifications of a batch from their source, and converts them to requests.
struct RequestSource: Sendable {
    let notifications: any NotificationSource
    let classifier: ResponseClassifier
    /// The maximum number of attempts for a notification that the service postpones.
    let sendCountMax: Int
    /// How a notification is converted to a request.
    private let requests: RequestRules
    private let payloadLimits: HTTP2Configuration.PayloadLimits
    /// The maximum time for the remaining notifications when the source is stopped; then the rest is given up.
    let drainTimeout: Duration

    init(_ source: any NotificationSource, _ configuration: HTTP2Configuration, _ options: HTTP2BatchOptions) {
        self.notifications = source
        self.requests = options.requests
        self.payloadLimits = configuration.payloadLimits
        self.drainTimeout = options.drainTimeout
        self.sendCountMax = options.sendCountMax
        self.classifier = ResponseClassifier(invalidTokenRunCountMax: options.invalidTokenRunCountMax)
    }

    /// Takes notifications from the source.
    ///
    /// Returns their number, those of them that can be sent, and whether there may be more.
    func fetch(
        _ countMax: Int,
        _ observer: DeliveryObserver
    ) -> (count: Int, pushes: [PendingPush], supply: ProviderSupply) {
        let (notifications, chunk, supply) = NotificationChunk.fetch(from: self.notifications, countMax: countMax)
        var pushes: [PendingPush] = []
        pushes.reserveCapacity(notifications.count)
        let now = UInt32(clamping: time(nil))
        for (index, notification) in notifications.enumerated() {
            let request = self.requests.request(for: notification, now: now)
            let limit = self.payloadLimits.byteCountMax(of: request.pushType)
            if let problem = request.problem(payloadByteCountMax: limit) {
                observer.settled(.invalid(problem))
                chunk.settle(index, notification.token, DeliveryReport(.invalid(problem)))
            } else {
                let hasOwnTopic = notification.topic.map { $0 != self.requests.topic } ?? false
                let submission = Submission(request, from: .source(chunk, index: index), hasOwnTopic: hasOwnTopic)
                pushes.append(PendingPush(submission))
            }
        }
        return (notifications.count, pushes, supply)
    }

    /// Whether the source was stopped and there is no connection for the rest.
    var isAbandoned: Bool { self.classifier.isConnectionLost && self.notifications.isStopped }
}

/// The requests in a queue: those that wait to be sent, and those of a batch that the service postponed.
struct PendingPushes: QueueStorage {
    private var waiting = Deque<PendingPush>()
    private var postponed: [(due: NIODeadline, push: PendingPush)] = []

    /// Why sending cannot succeed.
    var failure: ProviderError?
    /// Whether the time for the rest of the batch is limited.
    var isDrainLimited = false

    /// Nothing more is taken from the source at this number of postponed requests; those in flight may be added.
    static let postponedCountMax = 256

    // The queue limits the number.
    var hasRoom: Bool { true }
    var isLow: Bool { true }

    var waitingCount: Int { self.waiting.count }

    /// Whether more may be taken from the source.
    var mayFetchMore: Bool { self.postponed.count < Self.postponedCountMax }

    mutating func append(_ push: PendingPush) { self.waiting.append(push) }

    mutating func append(_ pushes: [PendingPush]) { self.waiting.append(contentsOf: pushes) }

    mutating func requeue(_ pushes: [PendingPush]) { self.waiting.insert(contentsOf: pushes, at: 0) }

    mutating func dequeueWaiting(_ countMax: Int) -> [PendingPush] {
        var dequeued: [PendingPush] = []
        self.dequeueWaiting(countMax, into: &dequeued)
        return dequeued
    }

    /// Moves the first requests to the end of an array.
    mutating func dequeueWaiting(_ countMax: Int, into dequeued: inout [PendingPush]) {
        let count = min(countMax, self.waiting.count)
        dequeued.reserveCapacity(dequeued.count + count)
        for _ in 0..<count { dequeued.append(self.waiting.removeFirst()) }
    }

    mutating func dequeueAllWaiting() -> [PendingPush] { self.dequeueWaiting(.max) }

    /// Removes and returns the waiting requests of a receiver.
    mutating func withdraw(_ receiver: any SubmissionReceiver, in numbers: Range<UInt64>) -> [PendingPush] {
        let isWithdrawn = { (push: PendingPush) in
            push.submission.receiver === receiver
                && numbers.contains(push.submission.number.load(ordering: .relaxed))
        }
        if numbers.lowerBound + 1 == numbers.upperBound {
            return self.waiting.firstIndex(where: isWithdrawn).map { [self.waiting.remove(at: $0)] } ?? []
        }
        let withdrawn = self.waiting.filter(isWithdrawn)
        if !withdrawn.isEmpty { self.waiting.removeAll(where: isWithdrawn) }
        return Array(withdrawn)
    }

    /// Removes and returns the requests that have waited too long.
    mutating func takeOverdue(at now: NIODeadline) -> [PendingPush] {
        // They are in the order of their deadlines, except for those that were put back at the front.
        self.dequeueWaiting(self.waiting.prefix { $0.submission.deadline <= now }.count)
    }

    /// Postpones a request to a time.
    mutating func postpone(_ push: PendingPush, until due: NIODeadline) { self.postponed.append((due, push)) }

    /// Moves postponed requests that are due back to the waiting ones, in order.
    ///
    /// Returns their number.
    mutating func returnDue(at now: NIODeadline) -> Int {
        guard !self.postponed.isEmpty else { return 0 }
        let due = self.postponed.filter { $0.due <= now }.map(\.push)
        self.postponed.removeAll { $0.due <= now }
        self.waiting.append(contentsOf: due)
        return due.count
    }

    mutating func takeAllPostponed() -> [PendingPush] {
        defer { self.postponed = [] }
        return self.postponed.map(\.push)
    }
}

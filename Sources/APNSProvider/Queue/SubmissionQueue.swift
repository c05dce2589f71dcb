// SPDX-License-Identifier: Apache-2.0

package import APNSSession
package import APNSWire
import DequeModule
package import Logging
import NIOConcurrencyHelpers
package import NIOCore

/// A source of notifications that callers submit one by one, on any thread.
///
/// Frames are encoded on the caller's thread; the connections only copy and number them. A notification that waits too
/// long is unsent, even while nothing runs.
package final class SubmissionQueue: NotificationSource {
    private let queue: NotificationQueue<FrameBlocks>
    private let configuration: BinaryConfiguration
    private let observer: DeliveryObserver
    private let eventLoop: any EventLoop

    /// All connections count as one worker of the queue: they are woken together.
    private static let worker = 0

    /// How long connections are not woken after they have found the queue empty.
    ///
    /// Under load, this lets them write many frames at a time. A notification after a longer idle time is sent
    /// immediately.
    private static let restDuration = TimeAmount.milliseconds(1)

    /// The number of clock checks during the shortest maximum waiting time of a notification.
    private static let clockMarkCount = 8

    /// Creates a queue; nothing is sent before a connection asks for it.
    package init(
        _ configuration: BinaryConfiguration,
        observer: DeliveryObserver,
        logger: Logger,
        eventLoop: any EventLoop
    ) {
        let outages = OutageLog(configuration.endpoint, logger)
        self.queue = NotificationQueue(
            QueueStateMachine(workerCount: 1),
            FrameBlocks(
                rejected: RejectedTokens(
                    suppressedFor: configuration.suppressionDuration,
                    clock: configuration.suppressionClock
                )
            ),
            outages
        )
        self.configuration = configuration
        self.observer = observer
        self.eventLoop = eventLoop
    }

    /// Submits a notification, if there is room.
    package func enqueue(
        _ notification: borrowing PushNotification,
        _ receiver: any SubmissionReceiver,
        key: UInt64
    ) -> SubmissionReceipt {
        let limit = self.configuration.payloadByteCountMax
        if let problem = notification.payload.lengthProblem(limit: limit) {
            return self.settleLocally(.invalid(problem), receiver, key)
        }
        let result = self.queue.enqueue(notification, receiver, key, self.configuration)
        result.wake?()
        if case .submitted = result.receipt { self.observer.queued(1) }
        if result.startsClock { self.scheduleExpiry() }
        if result.endsRest { self.endRest() }
        return result.isSuppressed ? self.settleLocally(.suppressed, receiver, key) : result.receipt
    }

    /// Settles a notification that is not sent.
    func settleLocally(
        _ outcome: DeliveryOutcome,
        _ receiver: any SubmissionReceiver,
        _ key: UInt64
    ) -> SubmissionReceipt {
        let receipt = self.queue.withState { state -> SubmissionReceipt in
            state.machine.hasEnded ? state.machine.refusal : .submitted(state.machine.assignNumber())
        }
        guard case .submitted = receipt else { return receipt }
        self.observer.settled(outcome)
        receiver.settle(key..<(key + 1), DeliveryReport(outcome))
        return receipt
    }

    /// Why connections fail; `nil` if they work.
    var outage: ConnectionFailure? { self.queue.outage }

    /// Waits until there may be room, or the task is cancelled.
    func waitForRoom() async { await self.queue.waitForRoom() }

    /// Waits until everything is settled and submissions have ended, or the task is cancelled.
    func waitForEnd() async -> DeliveryOutcome.Reason? { await self.queue.waitForEnd() }

    /// Ends submissions; what was submitted is still sent.
    func finish() { self.queue.finish() }

    /// Permits sending to a rejected token again.
    func allow(_ token: DeviceToken) { self.queue.withState { $0.storage.rejected.remove(token) } }

    /// Settles as unsent what waits of a receiver, in no block that a connection has taken.
    func withdraw(_ receiver: any SubmissionReceiver, in numbers: Range<UInt64>, _ reason: DeliveryOutcome.Reason) {
        var withdrawn: [Range<UInt64>] = []
        self.queue.callOut { state in
            let hadRoom = state.storage.hasRoom
            withdrawn = state.storage.remove(state.storage.submissions.numbers(of: receiver, in: numbers))
            // In an outage, nothing else would wake those who wait for room.
            return state.storage.hasRoom && !hadRoom ? state.machine.takeRoomCallbacks() : []
        }
        for numbers in withdrawn { self.unsent(numbers, reason) }
    }

    // MARK: Deadlines

    /// The maximum time that a notification waits while the gateway's name cannot be resolved: most likely it is wrong,
    /// so that it is not worth a longer wait than one attempt to connect.
    private var unresolvedDurationMax: Duration? {
        self.configuration.queueTimeout.map { min($0, self.configuration.connectTimeout) }
    }

    private func scheduleExpiry() {
        guard let limit = self.unresolvedDurationMax else { return }
        self.eventLoop.scheduleTask(in: TimeAmount(limit / Self.clockMarkCount)) { self.checkDeadlines() }
    }

    /// The number of clock checks during the maximum waiting time of a notification.
    private func markCount(_ outage: ConnectionFailure?) -> Int {
        guard outage?.kind != .nameNotResolved, let limit = self.configuration.queueTimeout,
            let unresolved = self.unresolvedDurationMax
        else { return Self.clockMarkCount }
        return Int((Double(Self.clockMarkCount) * (limit / unresolved)).rounded(.up))
    }

    /// Settles as unsent what has been waiting for too many marks.
    ///
    /// Such a notification arrived between two checks, and is removed at the last check that is in time for all of
    /// them.
    private func checkDeadlines() {
        var overdue: [Range<UInt64>] = []
        var reason = DeliveryOutcome.Reason.deadline
        var looksAgain = false
        self.queue.callOut { state in
            var marks = state.storage.clockMarks ?? []
            marks.append(state.machine.nextNumber)
            let countMax = self.markCount(state.outage)
            if marks.count >= countMax {
                let position = marks.count - countMax
                overdue = state.storage.removeAll(before: marks[position])
                marks.removeFirst(position + 1)
            }
            looksAgain = state.storage.hasWaiting
            state.storage.clockMarks = looksAgain ? marks : nil
            if let failure = state.outage { reason = .unavailable(failure) }
            return state.storage.isLow && !overdue.isEmpty ? state.machine.takeRoomCallbacks() : []
        }
        for numbers in overdue { self.unsent(numbers, reason) }
        if looksAgain { self.scheduleExpiry() }
    }

    private func unsent(_ numbers: Range<UInt64>, _ reason: DeliveryOutcome.Reason?) {
        self.observer.queued(-numbers.count)
        let report = DeliveryReport(.unsent(reason))
        self.observer.settled(Settlement(numbers: numbers, report: report))
        self.notify(numbers, report)
        self.queue.settled(numbers.count)
    }

    private func notify(_ numbers: Range<UInt64>, _ report: DeliveryReport) {
        let receivers = self.queue.withState { $0.storage.submissions.settle(numbers) }
        for (receiver, keys) in receivers { receiver.settle(keys, report) }
    }

    // MARK: NotificationSource

    /// A connection that cannot be opened must not be retried without need: only an open connection requests more, and
    /// so learns of the end.
    package var isEnded: Bool { self.queue.withState { $0.machine.hasEnded && !$0.storage.hasWaiting } }

    package func start(wake: @escaping @Sendable () -> Void) {
        _ = self.queue.withState { $0.machine.enter(Self.worker, waitingCount: 0, wake: wake) }
        wake()
    }

    package func fill(_ batch: inout NotificationBatch) -> ProviderSupply {
        let countBefore = batch.count
        // Blocks are copied without the lock, so that submissions do not wait for it.
        while batch.countFree > 0, var block = self.queue.withState({ $0.storage.dequeue() }) {
            let isEmptied = block.drain(into: &batch)
            self.queue.recycle(block)
            if !isEmptied { break }
        }
        self.observer.queued(countBefore - batch.count)
        var supply = ProviderSupply.available
        var beginsRest = false
        self.queue.callOut { state in
            if state.storage.isEmpty {
                supply = state.machine.hasEnded ? .ended : .waiting
                if supply == .waiting, !state.storage.isResting {
                    beginsRest = true
                    state.storage.isResting = true
                }
            }
            return state.storage.isLow ? state.machine.takeRoomCallbacks() : []
        }
        if beginsRest { self.eventLoop.scheduleTask(in: Self.restDuration) { self.endRest() } }
        return supply
    }

    /// Wakes the connections for notifications of the idle time; from now on, each new one wakes them.
    private func endRest() {
        self.queue.callOut { state in
            guard state.storage.isResting else { return [] }
            state.storage.isResting = false
            state.machine.set(Self.worker, .ready)
            return state.storage.isEmpty ? [] : state.machine.wakers(waitingCount: 1)
        }
    }

    package func settle(_ settled: borrowing SettledNotifications) {
        if case .rejected(let rejection) = settled.report.outcome {
            unsafe settled.forEach { _, token, _ in
                guard let token = try? unsafe DeviceToken(bytes: token) else { return }
                self.queue.withState { $0.storage.rejected.insert(token, after: rejection) }
            }
        }
        let report = settled.report
        settled.forEachTagRange { self.notify($0, report) }
        self.queue.settled(settled.count)
    }

    package func connectionsChanged(_ failure: ConnectionFailure?) { self.queue.connectionsChanged(failure) }

    /// Settles as unsent what no connection has taken.
    package func stop() { self.stop(.stopped) }

    /// Ends submissions, and settles as unsent what no connection has taken.
    func stop(_ reason: DeliveryOutcome.Reason) {
        var unsent: [Range<UInt64>] = []
        self.queue.callOut { state in
            unsent = state.storage.removeAll()
            return state.machine.stop(reason, isAtOnce: true)
        }
        for numbers in unsent { self.unsent(numbers, reason) }
    }
}

/// What came of adding a notification to a queue.
private struct EnqueueResult {
    var receipt: SubmissionReceipt
    var wake: QueueStateMachine.Callback?
    var isSuppressed = false
    /// Whether deadlines are to be checked from now on.
    var startsClock = false
    /// Whether there is enough to write at once.
    var endsRest = false
}

extension NotificationQueue.State where Storage == FrameBlocks {
    /// Adds a notification, if there is room.
    fileprivate mutating func enqueue(
        _ notification: borrowing PushNotification,
        _ receiver: any SubmissionReceiver,
        _ key: UInt64,
        _ configuration: borrowing BinaryConfiguration
    ) -> EnqueueResult {
        guard self.machine.mayEnqueue else { return EnqueueResult(receipt: self.machine.refusal) }
        guard !self.storage.rejected.isSuppressed(notification.token) else {
            return EnqueueResult(receipt: .full, isSuppressed: true)
        }
        let number = self.machine.nextNumber
        guard self.storage.append(notification, command: configuration.command, number: number) else {
            return EnqueueResult(receipt: .full)
        }
        self.storage.submissions.append(number, receiver, key: key)
        let startsClock = configuration.queueTimeout != nil && self.storage.clockMarks == nil
        if startsClock { self.storage.clockMarks = [] }
        let endsRest = self.storage.isResting && self.storage.hasFullBlock
        let wake = self.machine.enqueue().wake
        return EnqueueResult(receipt: .submitted(number), wake: wake, startsClock: startsClock, endsRest: endsRest)
    }
}

extension NotificationQueue where Storage == FrameBlocks {
    /// Adds a notification, if there is room; without a closure, which would copy it.
    fileprivate func enqueue(
        _ notification: borrowing PushNotification,
        _ receiver: any SubmissionReceiver,
        _ key: UInt64,
        _ configuration: borrowing BinaryConfiguration
    ) -> EnqueueResult {
        self.lock.lock()
        defer { self.lock.unlock() }
        return self.state.enqueue(notification, receiver, key, configuration)
    }

    /// Returns a block: for reuse, or to be written next.
    fileprivate func recycle(_ block: consuming FrameBlock) {
        self.lock.lock()
        defer { self.lock.unlock() }
        self.state.storage.recycle(block)
    }
}

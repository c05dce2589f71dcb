// SPDX-License-Identifier: Apache-2.0

package import APNSSession
package import APNSWire

/// The decisions of a queue: whether a notification is accepted, who is notified of room, which worker is woken, and
/// when everything has ended.
///
/// It has no lock, no clock and no I/O, and does not store the notifications, which its owner does. The owner calls the
/// returned callbacks after it released its lock.
package struct QueueStateMachine: Sendable {
    /// A callback to call outside the lock.
    package typealias Callback = @Sendable () -> Void

    /// Whether a worker can send another notification.
    package enum WorkerStatus: Sendable {
        /// It has as much as it can send, or is being woken.
        case busy
        /// It is connected and can send more.
        case ready
        /// It has no connection, but may open one.
        case idle
    }

    private struct Worker: Sendable {
        var status = WorkerStatus.busy
        /// `nil` before it has started, and after it has ended.
        var wake: Callback?
        /// Whether it takes something as soon as it has a connection.
        var isConnecting = false
    }

    private let countMax: Int
    private var workers: [Worker]
    /// Whether a worker may be available, so that not every submission searches for one.
    private var mayWake = false
    private var openCount = 0
    private var postponedCount = 0
    private var roomCallbacks: [UInt64: Callback] = [:]
    private var endCallbacks: [UInt64: Callback] = [:]
    private var nextWaiter: UInt64 = 0
    private var isAtOnce = false

    /// The next number.
    package private(set) var nextNumber: UInt64 = 0
    /// The last answer of the source, if the queue has one.
    package private(set) var supply: ProviderSupply
    /// Why sending has stopped.
    package private(set) var reason: DeliveryOutcome.Reason?
    /// Whether submissions have ended.
    package private(set) var hasEnded = false

    package init(countMax: Int = .max, workerCount: Int, hasSource: Bool = false) {
        self.countMax = countMax
        self.workers = Array(repeating: Worker(), count: workerCount)
        self.supply = hasSource ? .available : .waiting
    }

    // MARK: Submitting

    /// Whether a notification is accepted.
    package var mayEnqueue: Bool { !self.hasEnded && self.openCount < self.countMax }

    /// The result for a notification that is not accepted.
    package var refusal: SubmissionReceipt { self.hasEnded ? .ended(self.reason ?? .stopped) : .full }

    /// Adds a notification.
    ///
    /// Returns its number, and a callback that wakes a worker for it.
    package mutating func enqueue() -> (number: UInt64, wake: Callback?) {
        defer { self.nextNumber += 1 }
        self.openCount += 1
        return (self.nextNumber, self.waker())
    }

    /// Assigns a number to a notification that never waits in the queue.
    package mutating func assignNumber() -> UInt64 {
        defer { self.nextNumber += 1 }
        return self.nextNumber
    }

    /// Ends submissions.
    ///
    /// Returns the callbacks to call.
    package mutating func finish() -> [Callback] {
        self.hasEnded = true
        return self.takeRoomCallbacks() + self.wakersOfAll + self.takeEndCallbacks()
    }

    /// Stops sending.
    ///
    /// Returns the callbacks to call.
    package mutating func stop(_ reason: DeliveryOutcome.Reason, isAtOnce: Bool) -> [Callback] {
        self.reason = self.reason ?? reason
        self.hasEnded = true
        if isAtOnce { self.isAtOnce = true }
        return self.takeRoomCallbacks() + (self.isOver ? self.wakersOfAll : []) + self.takeEndCallbacks()
    }

    // MARK: Room

    /// Whether there is room below the limit, and notifications are sent.
    package var hasRoom: Bool { self.openCount < self.countMax && self.reason == nil }

    /// Creates an identifier for a caller that may wait for room.
    package mutating func newWaiter() -> UInt64 {
        self.nextWaiter += 1
        return self.nextWaiter
    }

    /// Stores a callback until there is room, or submissions have ended.
    ///
    /// Returns whether it is stored; otherwise call it now.
    package mutating func awaitRoom(_ waiter: UInt64, hasMemory: Bool, _ callback: @escaping Callback) -> Bool {
        guard !self.hasEnded, !hasMemory || self.openCount >= self.countMax else { return false }
        self.roomCallbacks[waiter] = callback
        return true
    }

    /// Stores a callback until everything has ended.
    ///
    /// Returns whether it is stored; otherwise call it now.
    package mutating func awaitEnd(_ waiter: UInt64, _ callback: @escaping Callback) -> Bool {
        guard !self.isOver else { return false }
        self.endCallbacks[waiter] = callback
        return true
    }

    /// Removes a caller that waits.
    package mutating func removeWaiter(_ waiter: UInt64) -> Callback? {
        self.roomCallbacks.removeValue(forKey: waiter) ?? self.endCallbacks.removeValue(forKey: waiter)
    }

    /// Removes the callbacks of those who wait for the end, if everything has ended.
    private mutating func takeEndCallbacks() -> [Callback] {
        guard self.isOver, !self.endCallbacks.isEmpty else { return [] }
        defer { self.endCallbacks = [:] }
        return Array(self.endCallbacks.values)
    }

    /// Removes the callbacks of those who wait for room, oldest first.
    package mutating func takeRoomCallbacks() -> [Callback] {
        guard !self.roomCallbacks.isEmpty else { return [] }
        defer { self.roomCallbacks = [:] }
        return self.roomCallbacks.sorted { $0.key < $1.key }.map(\.value)
    }

    // MARK: Outcomes

    /// Whether everything is settled and submissions have ended, or sending stopped without waiting.
    package var isOver: Bool {
        self.isAtOnce || self.hasEnded && self.openCount == 0 && self.postponedCount == 0
    }

    /// Records outcomes.
    ///
    /// Callers that were refused are notified of room when half of the limit is free.
    ///
    /// Returns the callbacks to call.
    package mutating func settled(_ count: Int, hasMemory: Bool) -> [Callback] {
        self.openCount -= count
        let callbacks = hasMemory && self.openCount <= self.countMax / 2 ? self.takeRoomCallbacks() : []
        return self.isOver ? callbacks + self.wakersOfAll + self.takeEndCallbacks() : callbacks
    }

    /// Postpones a notification until it is sent again; until then it does not count towards the limit.
    package mutating func postpone() {
        self.openCount -= 1
        self.postponedCount += 1
    }

    /// Records that postponed notifications are sent again, or have their outcome.
    package mutating func endPostponement(_ count: Int) {
        self.openCount += count
        self.postponedCount -= count
    }

    // MARK: The source

    /// Reserves room for notifications from the source; reserved ones count as taken.
    ///
    /// Returns the number to take.
    package mutating func reserve(_ count: Int) -> Int {
        guard self.supply == .available, self.reason == nil else { return 0 }
        let count = max(0, min(count, self.countMax - self.openCount))
        self.openCount += count
        return count
    }

    /// Records the answer of the source.
    ///
    /// Returns the callbacks to call.
    package mutating func supplied(_ supply: ProviderSupply, unusedCount: Int) -> [Callback] {
        self.openCount -= unusedCount
        self.supply = supply
        if supply == .ended { self.hasEnded = true }
        return self.isOver ? self.wakersOfAll : []
    }

    /// Records that the source may have more, or has ended.
    package mutating func askSourceAgain() { if self.supply == .waiting { self.supply = .available } }

    // MARK: Workers

    /// Registers a worker.
    ///
    /// Returns whether it should check immediately.
    package mutating func enter(_ worker: Int, waitingCount: Int, wake: @escaping Callback) -> Bool {
        self.workers[worker] = Worker(status: .idle, wake: wake)
        self.mayWake = true
        guard !self.isOver else { return true }
        // Wakes one worker for each waiting notification, as if each were submitted now.
        let wokenCount = self.workers.count { $0.wake != nil && $0.status == .busy }
        guard self.supply != .waiting || waitingCount > wokenCount else { return false }
        self.workers[worker].status = .busy
        return true
    }

    /// Removes a worker.
    package mutating func leave(_ worker: Int) { self.workers[worker] = Worker() }

    /// Updates the status of a worker that took something, found nothing, or waits before it reconnects.
    package mutating func set(_ worker: Int, _ status: WorkerStatus) {
        self.workers[worker].status = status
        self.workers[worker].isConnecting = false
        if status != .busy { self.mayWake = true }
    }

    /// Decides whether a worker without a connection opens one; if not, it rests.
    package mutating func connects(_ worker: Int, waitingCount: Int) -> Bool {
        self.workers[worker].isConnecting = false
        // Each of the other connecting workers takes at least one.
        let isNeeded = waitingCount > self.workers.count(where: \.isConnecting)
        self.set(worker, isNeeded ? .busy : .idle)
        self.workers[worker].isConnecting = isNeeded
        return isNeeded
    }

    /// A callback that wakes an available worker, which counts as woken.
    package mutating func waker() -> Callback? {
        guard self.mayWake else { return nil }
        let index =
            self.workers.firstIndex { $0.status == .ready && $0.wake != nil }
            ?? self.workers.firstIndex { $0.status == .idle && $0.wake != nil }
        guard let index else {
            self.mayWake = false
            return nil
        }
        self.workers[index].status = .busy
        return self.workers[index].wake
    }

    /// The callbacks that wake as many workers as there are notifications.
    package mutating func wakers(waitingCount: Int) -> [Callback] {
        var wakers: [Callback] = []
        while wakers.count < waitingCount, let waker = self.waker() { wakers.append(waker) }
        return wakers
    }

    private var wakersOfAll: [Callback] { self.workers.compactMap(\.wake) }
}

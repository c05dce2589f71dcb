// SPDX-License-Identifier: Apache-2.0

package import APNSSession
package import APNSWire

/// Decides for a queue who may put something in, who is told of room, which worker is woken, and when all is over.
///
/// It has no lock, no clock and no I/O, and does not know what the queue holds, which is its owner's to keep. The owner
/// calls what it is given to call once it has let go of its lock.
package struct QueueStateMachine: Sendable {
    /// What is to be called outside the lock.
    package typealias Callback = @Sendable () -> Void

    /// Whether a worker can be given something.
    package enum WorkerStatus: Sendable {
        /// It has what it can carry, or is being woken.
        case busy
        /// It is connected and has room.
        case hungry
        /// It has no connection, and nothing that keeps it from opening one.
        case resting
    }

    private struct Worker: Sendable {
        var status = WorkerStatus.busy
        /// `nil` before it has begun, and when it has ended.
        var wake: Callback?
        /// Whether it is about to take something as soon as it has a connection.
        var isConnecting = false
    }

    private let countMax: Int
    private var workers: [Worker]
    /// Whether a worker may be there to be woken, so that not everyone who puts something in looks for one.
    private var mayWake = false
    private var openCount = 0
    private var putOffCount = 0
    private var roomCallbacks: [UInt64: Callback] = [:]
    private var endCallbacks: [UInt64: Callback] = [:]
    private var nextWaiter: UInt64 = 0
    private var isAtOnce = false

    /// The number of what is put in next.
    package private(set) var nextNumber: UInt64 = 0
    /// What the source said when it was asked last, where the queue has one.
    package private(set) var supply: ProviderSupply
    /// Why nothing more is sent.
    package private(set) var reason: DeliveryOutcome.Reason?
    /// Whether nothing more is taken.
    package private(set) var hasEnded = false

    /// - Parameters:
    ///   - countMax: how many may be without an outcome.
    ///   - workerCount: how many workers take from the queue.
    ///   - hasSource: whether a source fills the queue.
    package init(countMax: Int = .max, workerCount: Int, hasSource: Bool = false) {
        self.countMax = countMax
        self.workers = Array(repeating: Worker(), count: workerCount)
        self.supply = hasSource ? .available : .waiting
    }

    // MARK: Putting in

    /// Whether one may be put in.
    package var mayPut: Bool { !self.hasEnded && self.openCount < self.countMax }

    /// What is said to those who cannot put anything in.
    package var refusal: SubmissionReceipt { self.hasEnded ? .ended(self.reason ?? .stopped) : .full }

    /// One was put in.
    ///
    /// - Returns: its number, and what wakes a worker for it.
    package mutating func put() -> (number: UInt64, wake: Callback?) {
        defer { self.nextNumber += 1 }
        self.openCount += 1
        return (self.nextNumber, self.waker())
    }

    /// One gets a number, though it never waits in the queue.
    package mutating func passBy() -> UInt64 {
        defer { self.nextNumber += 1 }
        return self.nextNumber
    }

    /// Nothing more is put in.
    ///
    /// - Returns: what is to be called.
    package mutating func finish() -> [Callback] {
        self.hasEnded = true
        return self.takeRoomCallbacks() + self.wakersOfAll + self.takeEndCallbacks()
    }

    /// Nothing more is sent.
    ///
    /// - Parameters:
    ///   - reason: why.
    ///   - isAtOnce: whether what was written is not waited for either.
    /// - Returns: what is to be called.
    package mutating func stop(_ reason: DeliveryOutcome.Reason, isAtOnce: Bool) -> [Callback] {
        self.reason = self.reason ?? reason
        self.hasEnded = true
        if isAtOnce { self.isAtOnce = true }
        return self.takeRoomCallbacks() + (self.isOver ? self.wakersOfAll : []) + self.takeEndCallbacks()
    }

    // MARK: Room

    /// Whether there is room below the limit, and something would be sent.
    package var hasRoom: Bool { self.openCount < self.countMax && self.reason == nil }

    /// Names someone who may wait for room.
    package mutating func newWaiter() -> UInt64 {
        self.nextWaiter += 1
        return self.nextWaiter
    }

    /// Keeps a callback until there is room, or nothing is taken any more.
    ///
    /// - Parameters:
    ///   - waiter: who waits.
    ///   - hasMemory: whether there is room but for the limit.
    ///   - callback: what is to be called.
    /// - Returns: whether it is kept; otherwise it is to be called now.
    package mutating func awaitRoom(_ waiter: UInt64, hasMemory: Bool, _ callback: @escaping Callback) -> Bool {
        guard !self.hasEnded, !hasMemory || self.openCount >= self.countMax else { return false }
        self.roomCallbacks[waiter] = callback
        return true
    }

    /// Keeps a callback until everything is over.
    ///
    /// - Parameters:
    ///   - waiter: who waits.
    ///   - callback: what is to be called.
    /// - Returns: whether it is kept; otherwise it is to be called now.
    package mutating func awaitEnd(_ waiter: UInt64, _ callback: @escaping Callback) -> Bool {
        guard !self.isOver else { return false }
        self.endCallbacks[waiter] = callback
        return true
    }

    /// Someone waits no more.
    package mutating func removeWaiter(_ waiter: UInt64) -> Callback? {
        self.roomCallbacks.removeValue(forKey: waiter) ?? self.endCallbacks.removeValue(forKey: waiter)
    }

    /// Takes out the callbacks of those who wait for the end, where it is there.
    private mutating func takeEndCallbacks() -> [Callback] {
        guard self.isOver, !self.endCallbacks.isEmpty else { return [] }
        defer { self.endCallbacks = [:] }
        return Array(self.endCallbacks.values)
    }

    /// Takes out the callbacks of those who wait for room, who waits longest first.
    package mutating func takeRoomCallbacks() -> [Callback] {
        guard !self.roomCallbacks.isEmpty else { return [] }
        defer { self.roomCallbacks = [:] }
        return self.roomCallbacks.sorted { $0.key < $1.key }.map(\.value)
    }

    // MARK: Outcomes

    /// Whether everything has its outcome, and nothing more comes, or nothing is waited for.
    package var isOver: Bool {
        self.isAtOnce || self.hasEnded && self.openCount == 0 && self.putOffCount == 0
    }

    /// Counts outcomes.
    ///
    /// There is room again, for those who were told that there is none, when half of the limit is left.
    ///
    /// - Parameters:
    ///   - count: how many.
    ///   - hasMemory: whether there is room but for the limit.
    /// - Returns: what is to be called.
    package mutating func settled(_ count: Int, hasMemory: Bool) -> [Callback] {
        self.openCount -= count
        let callbacks = hasMemory && self.openCount <= self.countMax / 2 ? self.takeRoomCallbacks() : []
        return self.isOver ? callbacks + self.wakersOfAll + self.takeEndCallbacks() : callbacks
    }

    /// Something is kept until it is sent again; it is not counted against the limit meanwhile.
    package mutating func putOff() {
        self.openCount -= 1
        self.putOffCount += 1
    }

    /// What was put off is to be sent again, or has its outcome.
    package mutating func putOffEnded(_ count: Int) {
        self.openCount += count
        self.putOffCount -= count
    }

    // MARK: The source

    /// Makes room for what may be taken from the source now; it counts as taken.
    ///
    /// - Parameter count: how many are wanted.
    /// - Returns: how many to take.
    package mutating func reserve(_ count: Int) -> Int {
        guard self.supply == .available, self.reason == nil else { return 0 }
        let count = max(0, min(count, self.countMax - self.openCount))
        self.openCount += count
        return count
    }

    /// The source was asked.
    ///
    /// - Parameters:
    ///   - supply: what it said.
    ///   - unusedCount: how many of those it did not give that room was made for.
    /// - Returns: what is to be called.
    package mutating func supplied(_ supply: ProviderSupply, unusedCount: Int) -> [Callback] {
        self.openCount -= unusedCount
        self.supply = supply
        if supply == .ended { self.hasEnded = true }
        return self.isOver ? self.wakersOfAll : []
    }

    /// The source may have something, or nothing more.
    package mutating func askSourceAgain() { if self.supply == .waiting { self.supply = .available } }

    // MARK: Workers

    /// A worker begins.
    ///
    /// - Parameters:
    ///   - worker: which one.
    ///   - waitingCount: how many wait.
    ///   - wake: lets it look whether there is something to send, and whether everything is over.
    /// - Returns: whether it is to look at once.
    package mutating func enter(_ worker: Int, waitingCount: Int, wake: @escaping Callback) -> Bool {
        self.workers[worker] = Worker(status: .resting, wake: wake)
        self.mayWake = true
        guard !self.isOver else { return true }
        // One worker for each that waits, as if each were put in now.
        let wokenCount = self.workers.count { $0.wake != nil && $0.status == .busy }
        guard self.supply != .waiting || waitingCount > wokenCount else { return false }
        self.workers[worker].status = .busy
        return true
    }

    /// A worker has ended.
    package mutating func leave(_ worker: Int) { self.workers[worker] = Worker() }

    /// A worker took something, or found nothing, or waits before it connects again.
    package mutating func set(_ worker: Int, _ status: WorkerStatus) {
        self.workers[worker].status = status
        self.workers[worker].isConnecting = false
        if status != .busy { self.mayWake = true }
    }

    /// Decides whether a worker without a connection is to open one; if not, it rests.
    package mutating func connects(_ worker: Int, waitingCount: Int) -> Bool {
        self.workers[worker].isConnecting = false
        // The others that are connecting take one each, at least.
        let isNeeded = waitingCount > self.workers.count(where: \.isConnecting)
        self.set(worker, isNeeded ? .busy : .resting)
        self.workers[worker].isConnecting = isNeeded
        return isNeeded
    }

    /// What wakes a worker that can take something, marked as woken.
    package mutating func waker() -> Callback? {
        guard self.mayWake else { return nil }
        let index =
            self.workers.firstIndex { $0.status == .hungry && $0.wake != nil }
            ?? self.workers.firstIndex { $0.status == .resting && $0.wake != nil }
        guard let index else {
            self.mayWake = false
            return nil
        }
        self.workers[index].status = .busy
        return self.workers[index].wake
    }

    /// What wakes as many workers as there is something for.
    package mutating func wakers(waitingCount: Int) -> [Callback] {
        var wakers: [Callback] = []
        while wakers.count < waitingCount, let waker = self.waker() { wakers.append(waker) }
        return wakers
    }

    private var wakersOfAll: [Callback] { self.workers.compactMap(\.wake) }
}

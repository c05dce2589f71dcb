// SPDX-License-Identifier: Apache-2.0

/// Decides what a worker of a queue does next, without input or output.
///
/// All times are those of one clock that also runs while the machine is suspended. The caller performs each step, and
/// reports its result. A worker claims chunks ahead of its connections, commits that a chunk may be written before its
/// first byte, and commits what became of it at once. It stops sending at two thirds of its lease, although only the
/// epoch of a chunk decides whether its commit counts.
package struct QueueWorkerStateMachine: Sendable {
    /// What to do.
    package enum Step: Equatable, Sendable {
        /// Insert the worker, whose lease begins.
        case register
        /// Extend the lease.
        case renew
        /// Claim at most so many chunks.
        case claim(countMax: Int)
        /// Commit that the chunks may be written.
        case mark([QueueChunkKey])
        /// Commit what became of the chunks, and give those back of which something is left.
        case prove([QueueChunkKey])
        /// Wait until this time, or until an event.
        case wait(until: Duration?)
        /// Close all connections immediately; ``sendingEnded()`` must follow.
        case abandon
        /// The worker is done, for this reason.
        case end(Ending)
    }

    /// Why a worker ended.
    package enum Ending: Equatable, Sendable {
        /// It was asked to, or nothing was left to send.
        case stopped
        /// The connections ended by themselves.
        case sendingFailed
        /// The lease was not renewed in time.
        case leaseExpired
        /// Another worker has a chunk of this one.
        case fenced
        /// The database or a file is at fault.
        case failed
    }

    /// How long a worker waits, and how much it holds.
    package struct Limits: Sendable {
        /// How long others regard a worker as alive after its last heartbeat.
        package var lease = Duration.seconds(30)
        /// How long to wait before asking for chunks again if there are none, on average.
        package var pollInterval = Duration.seconds(1)
        /// The same for a worker that is told of new batches: it has to ask for chunks that others gave back, or held
        /// when they died.
        package var listeningPollInterval = Duration.seconds(30)
        /// How many notifications a worker holds at which it claims no more; a chunk is claimed whole.
        ///
        /// Over the binary protocol, what is held is verified together, and each verification costs a connection.
        package var heldCountMax = 50_000
        /// The most chunks that a worker holds of which its connections have not taken everything.
        ///
        /// It begins with ``aheadCountMin``, so that a slow one leaves chunks to others; the number doubles whenever
        /// connections have waited for chunks.
        package var aheadCountMax = 16
        /// The number with which it begins, and to which it returns when it has not claimed for ``slowInterval``.
        package var aheadCountMin = 2
        /// After how long without a claim a worker counts as slow.
        package var slowInterval = Duration.seconds(1)
        /// Whether to end when there is nothing left to claim.
        package var endsWhenEmpty = false

        package init() {}
    }

    private enum Phase {
        /// It may not be sent yet.
        case claimed
        /// Connections take its notifications.
        case sending
        /// Connections have taken all of them.
        case taken
        /// All have an outcome.
        case settled
    }

    private let limits: Limits
    private let rules: QueueRules
    private var phases: [QueueChunkKey: Phase] = [:]
    /// The numbers of notifications of the chunks that the worker holds, and their sum.
    private var counts: [QueueChunkKey: Int] = [:]
    private var heldNotificationCount = 0
    private var chunkCountMax = 1
    private var aheadCount: Int
    private var claimedAt: Duration?
    /// When the statement was sent that began or extended the lease; `nil` before the first one.
    private var leasedAt: Duration?
    private var claimNotBefore = Duration.zero
    private var isListening = false
    /// Whether a batch became ready after the last step to claim chunks was begun.
    private var isBatchReady = false
    private var retryNotBefore = Duration.zero
    private var failureCount = 0
    private var isStopping = false
    private var ending: Ending?
    private var isAbandoned = false
    private var hasSendingEnded = false
    private var closeNotAfter: Duration?

    package init(_ limits: Limits, rules: QueueRules = QueueRules()) {
        self.limits = limits
        self.rules = rules
        self.aheadCount = limits.aheadCountMin
    }

    // MARK: The lease

    /// Until when notifications may be given to connections.
    package var sendNotAfter: Duration {
        guard self.ending == nil, let leasedAt else { return .zero }
        return leasedAt + self.limits.lease * 2 / 3
    }

    private var renewNotBefore: Duration { self.leasedAt.map { $0 + self.limits.lease / 4 } ?? .zero }

    /// The lease began, or was extended, by a statement that was sent at this time.
    package mutating func leased(sentAt: Duration) {
        self.leasedAt = sentAt
        self.failureCount = 0
    }

    /// The database has no such worker any more.
    package mutating func leaseLost() { self.close(.leaseExpired) }

    // MARK: Chunks

    /// The number of chunks that the worker holds.
    package var heldCount: Int { self.phases.count }

    /// A chunk was claimed; it is complete if none of its notifications is to be sent.
    package mutating func claimed(_ key: QueueChunkKey, count: Int, isComplete: Bool) {
        self.counts[key] = count
        self.heldNotificationCount += count
        self.chunkCountMax = max(self.chunkCountMax, count)
        self.phases[key] = isComplete ? .settled : self.rules.marksFirst ? .claimed : .sending
        self.failureCount = 0
    }

    /// There was no chunk to claim; the queue is empty if no other worker holds a chunk either.
    ///
    /// The jitter is a random number from 0 to 1.
    package mutating func claimedNothing(isEmpty: Bool, at now: Duration, jitter: Double) {
        self.failureCount = 0
        // A worker that ends when the others are done is not told of that.
        let isTold = self.isListening && !self.limits.endsWhenEmpty
        let interval = isTold ? self.limits.listeningPollInterval : self.limits.pollInterval
        if !self.isBatchReady { self.claimNotBefore = now + interval * (0.5 + jitter) }
        if self.limits.endsWhenEmpty, isEmpty, self.phases.isEmpty { self.isStopping = true }
    }

    /// The worker is told of new batches from now on, or no longer; meanwhile, one may have become ready.
    package mutating func listens(_ isListening: Bool) {
        self.isListening = isListening
        self.batchReady()
    }

    /// A batch became ready.
    package mutating func batchReady() {
        self.isBatchReady = true
        self.claimNotBefore = .zero
    }

    /// The result of a commit that a chunk may be written: the worker owns it if a row changed, otherwise another one.
    package mutating func marked(_ key: QueueChunkKey, isOwned: Bool) {
        self.failureCount = 0
        if isOwned || !self.rules.obeysFence {
            self.phases[key] = .sending
        } else {
            self.forget(key)
            self.close(.fenced)
        }
    }

    /// Connections have taken all notifications of a chunk.
    package mutating func taken(_ key: QueueChunkKey) {
        if self.phases[key] == .sending { self.phases[key] = .taken }
    }

    /// All notifications of a chunk have an outcome.
    package mutating func settled(_ key: QueueChunkKey) {
        if self.phases[key] != nil { self.phases[key] = .settled }
    }

    /// The result of a commit of what became of a chunk.
    ///
    /// The worker owned the chunk if a row changed; the chunk is complete if nothing of it is left to send.
    ///
    /// Returns whether the worker may report it.
    package mutating func proved(
        _ key: QueueChunkKey,
        isOwned: Bool,
        isComplete: Bool,
        at now: Duration,
        jitter: Double
    ) -> Bool {
        self.failureCount = 0
        self.forget(key)
        guard isOwned || !self.rules.obeysFence else {
            self.close(.fenced)
            return false
        }
        // Otherwise, the worker would claim at once what the service does not accept now.
        if !isComplete { self.claimNotBefore = now + self.limits.pollInterval * (0.5 + jitter) }
        return true
    }

    /// The caller holds a chunk no longer, whatever became of it.
    package mutating func forget(_ key: QueueChunkKey) {
        self.phases[key] = nil
        self.heldNotificationCount -= self.counts.removeValue(forKey: key) ?? 0
    }

    // MARK: Ending

    /// Ends the worker when the chunks that it holds are done.
    package mutating func stop() { self.isStopping = true }

    /// Whether the worker claims no more chunks.
    package var isEnding: Bool { self.isStopping || self.ending != nil }

    /// No notification will be sent any more, and each one that a connection took has its outcome.
    package mutating func sendingEnded() {
        self.hasSendingEnded = true
        self.close(self.isStopping ? .stopped : .sendingFailed)
    }

    private mutating func close(_ ending: Ending) {
        if self.ending == nil { self.ending = ending }
    }

    /// Something failed that does not pass.
    package mutating func fail() { self.close(.failed) }

    /// A statement failed for a reason that may pass.
    package mutating func failed(at now: Duration) {
        self.failureCount += 1
        let delay = Duration.milliseconds(100) * Double(1 << min(self.failureCount, 5))
        self.retryNotBefore = now + delay
    }

    // MARK: Steps

    /// What to do now.
    package mutating func next(at now: Duration) -> Step {
        if self.leasedAt != nil, now >= self.sendNotAfter { self.close(.leaseExpired) }
        if let ending = self.ending {
            if !self.hasSendingEnded {
                guard !self.isAbandoned else { return .wait(until: nil) }
                self.isAbandoned = true
                return .abandon
            }
            let limit = self.closeNotAfter ?? now + self.limits.lease
            self.closeNotAfter = limit
            guard !self.phases.isEmpty, now < limit else { return .end(ending) }
            return now < self.retryNotBefore ? .wait(until: self.retryNotBefore) : .prove(self.phases.keys.sorted())
        }
        guard self.leasedAt != nil else { return self.delayed(.register, now) }
        if now >= self.renewNotBefore { return self.delayed(.renew, now) }
        if let keys = self.keys(.settled) { return self.delayed(.prove(keys), now) }
        if let keys = self.keys(.claimed) { return self.delayed(.mark(keys), now) }
        if self.isStopping {
            if self.phases.isEmpty { return .wait(until: self.renewNotBefore) }
        } else if self.hasRoom, now >= self.claimNotBefore {
            if now >= self.retryNotBefore { self.isBatchReady = false }
            return self.delayed(.claim(countMax: self.room(at: now)), now)
        }
        let mayClaim = !self.isStopping && self.hasRoom
        return .wait(until: mayClaim ? min(self.claimNotBefore, self.renewNotBefore) : self.renewNotBefore)
    }

    private func delayed(_ step: Step, _ now: Duration) -> Step {
        guard now < self.retryNotBefore else { return step }
        return .wait(until: self.leasedAt == nil ? self.retryNotBefore : min(self.retryNotBefore, self.sendNotAfter))
    }

    /// The chunks of a phase in order; `nil` if there are none.
    private func keys(_ phase: Phase) -> [QueueChunkKey]? {
        let keys = self.phases.filter { $0.value == phase }.keys
        return keys.isEmpty ? nil : keys.sorted()
    }

    /// The number of chunks that connections have not taken.
    private var waitingCount: Int { self.phases.values.count { $0 == .claimed || $0 == .sending } }

    private var hasRoom: Bool {
        self.waitingCount < self.aheadCount && self.heldNotificationCount < self.limits.heldCountMax
    }

    /// How many more chunks the worker may hold, of which it has room for one.
    private mutating func room(at now: Duration) -> Int {
        let waitingCount = self.waitingCount
        if let claimedAt, now - claimedAt > self.limits.slowInterval {
            self.aheadCount = self.limits.aheadCountMin
        } else if self.claimedAt != nil, waitingCount == 0 {
            self.aheadCount = min(self.aheadCount * 2, self.limits.aheadCountMax)
        }
        self.claimedAt = now
        let count = (self.limits.heldCountMax - self.heldNotificationCount) / self.chunkCountMax
        return max(1, min(self.aheadCount - waitingCount, count))
    }

    /// Whether the source of notifications has ended: nothing is held, and nothing will be claimed.
    package var isDone: Bool { self.isStopping && self.phases.isEmpty }
}

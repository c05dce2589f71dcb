// SPDX-License-Identifier: Apache-2.0

#if PostgreSQL
package import APNSProvider
import APNSWire
import Dispatch
import Glibc
import NIOConcurrencyHelpers
package import TokenStore

/// Sends the chunks of a queue: a source of notifications that claims them, and commits what became of them.
///
/// Event loops call it, and it never blocks them. One thread performs the steps of a `QueueWorkerStateMachine` on the
/// database and writes the results.
package final class QueueWorker: NotificationSource, @unchecked Sendable {
    /// A chunk that the worker holds.
    private struct Held {
        var claim: QueueClaim
        /// The next notification to give to a connection.
        var nextIndex = 0
    }

    /// What event loops and the thread share.
    private struct State {
        var machine: QueueWorkerStateMachine
        /// The chunks by the upper half of their notifications' tags.
        var held: [UInt64: Held] = [:]
        var slots: [QueueChunkKey: UInt64] = [:]
        var nextSlot: UInt64 = 0
        /// The chunks that connections take, in order.
        var sending: [UInt64] = []
        var progress = QueueProgress()
        var wake: @Sendable () -> Void = {}
        var abandon: @Sendable () -> Void = {}
        var failure: ProviderError?
    }

    /// How a worker ended.
    package struct Report: Sendable {
        package fileprivate(set) var ending: QueueWorkerStateMachine.Ending
        /// Why the connections ended by themselves, or were closed.
        package fileprivate(set) var failure: ProviderError?
    }

    // All mutable state is in `shared`, under the lock, or is used only by the thread of `run`.
    private let lock = NIOLock()
    private var shared: State
    private let signal = DispatchSemaphore(value: 0)
    private let database: QueueDatabase
    private let scope: QueueScope
    private let rules: QueueRules
    private let limits: QueueWorkerStateMachine.Limits
    private let results: QueueResults
    private let host: String
    private let listener: QueueListener?
    /// Called with the first of several failures in a row, after which the worker tries again, and for each chunk that
    /// it leaves out.
    private let onTrouble: @Sendable (any Error) -> Void
    private var isTroubled = false
    /// The first failure for good, with which the worker ends.
    private var failure: (any Error)?

    private var number: Int64 = 0
    private var lastKey = QueueChunkKey(batch: 0, number: -1)
    private var provedCount: Int64 = 0
    private var lastRenewal: (at: Duration, count: Int64) = (.zero, 0)
    private var progressReadAt = Duration.zero
    private var isClaimUncertain = false
    private var damagedKeys: Set<QueueChunkKey> = []
    private var isFinishDue = true
    private var finishNotAfter = Duration.zero

    package init(
        _ database: QueueDatabase,
        _ scope: QueueScope,
        _ limits: QueueWorkerStateMachine.Limits,
        rules: QueueRules,
        results: QueueResults,
        host: String,
        listener: QueueListener? = nil,
        onTrouble: @escaping @Sendable (any Error) -> Void
    ) {
        self.database = database
        self.scope = scope
        self.limits = limits
        self.rules = rules
        self.results = results
        self.host = host
        self.listener = listener
        self.onTrouble = onTrouble
        self.shared = State(machine: QueueWorkerStateMachine(limits, rules: rules))
    }

    private func withState<Value>(_ body: (inout State) -> Value) -> Value {
        self.lock.withLock { body(&self.shared) }
    }

    /// The time of a clock that runs while the machine is suspended.
    private static var now: Duration {
        var time = timespec()
        unsafe clock_gettime(CLOCK_BOOTTIME, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }

    private static var jitter: Double { Double.random(in: 0...1) }

    /// The progress of all workers, as of the last heartbeat.
    package var progress: QueueProgress { self.withState { $0.progress } }

    // MARK: Sending

    package func start(wake: @escaping @Sendable () -> Void) { self.withState { $0.wake = wake } }

    package func fill(_ batch: inout NotificationBatch) -> ProviderSupply {
        self.withState { state in
            if state.machine.isDone { return .ended }
            // What was taken from here may be on its way later; the rest must not be.
            guard Self.now < state.machine.sendNotAfter else {
                self.signal.signal()
                return .waiting
            }
            while let slot = state.sending.first {
                guard batch.countFree > 0 else { return .available }
                guard self.give(&state.held[slot], slot, to: &batch) else { return .available }
                state.sending.removeFirst()
                if let key = state.held[slot]?.claim.account.key { state.machine.taken(key) }
                self.signal.signal()
            }
            return .waiting
        }
    }

    /// Appends the notifications of a chunk; returns whether all of them fit.
    private func give(_ held: inout Held?, _ slot: UInt64, to batch: inout NotificationBatch) -> Bool {
        guard let (claim, first) = held.map({ ($0.claim, $0.nextIndex) }) else { return true }
        var index = first
        defer { held?.nextIndex = index }
        while index < claim.contents.count {
            guard claim.account.isDue(index), let token = try? DeviceToken(bytes: claim.contents.token(index)) else {
                index += 1
                continue
            }
            let (_, expiry, priority) = claim.contents[index]
            let payload = claim.contents.payload(index) ?? claim.common.payload[...]
            let isAppended = unsafe payload.withUnsafeBytes { payload in
                unsafe batch.append(
                    token: token,
                    payload: payload,
                    expiry: PushExpiry(wireValue: expiry ?? claim.common.expiry),
                    priority: priority ?? claim.common.priority,
                    tag: slot << 32 | UInt64(index)
                )
            }
            guard isAppended else { return false }
            index += 1
        }
        return true
    }

    package func settle(_ settled: borrowing SettledNotifications) {
        let report = settled.report
        var outcome = QueueOutcome(
            report.outcome.kind,
            status: report.outcome.rejectionStatusCode,
            timestamp: report.outcome.timestampNumber,
            isDuplicate: report.isPossibleDuplicate,
            attempts: report.attempts,
            reason: report.outcome.reasonText
        )
        if report.attempts > 0 { (outcome.apnsID, outcome.apnsUniqueID) = (report.apnsID, report.apnsUniqueID) }
        self.lock.lock()
        defer { self.lock.unlock() }
        settled.forEachTagRange { tags in
            let (slot, first) = (tags.lowerBound >> 32, Int(truncatingIfNeeded: tags.lowerBound & 0xFFFF_FFFF))
            for index in first..<(first + tags.count) { self.shared.held[slot]?.claim.account.settle(index, outcome) }
            guard let account = self.shared.held[slot]?.claim.account, account.waitingCount == 0 else { return }
            self.shared.machine.settled(account.key)
            self.signal.signal()
        }
    }

    package var isEnded: Bool { self.withState { $0.machine.isDone } }

    package var isStopped: Bool { self.withState { $0.machine.isEnding } }

    /// Ends the worker when the chunks that it holds are done.
    package func end() {
        let wake = self.withState { state in
            state.machine.stop()
            return state.wake
        }
        wake()
        self.signal.signal()
    }

    // MARK: Working

    /// Sends until the worker is stopped, or cannot go on.
    ///
    /// If the task is cancelled, the connections are closed, and what became of each notification is still committed.
    ///
    /// - Throws: errors of the database and of the results.
    package func work(_ sender: BatchSender) async throws -> Report {
        let sending = Task {
            var failure: ProviderError?
            do throws(ProviderError) { try await sender.run(self) } catch { failure = error }
            self.withState { state in
                state.failure = failure
                state.machine.sendingEnded()
            }
            self.signal.signal()
        }
        self.withState { $0.abandon = { sending.cancel() } }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                self.listener?.start { self.heard($0) }
                DispatchQueue(label: "apns-legacy.queue").async { continuation.resume(with: Result { try self.run() }) }
            }
        } onCancel: {
            sending.cancel()
        }
    }

    /// Performs the steps of the state machine.
    private func run() throws -> Report {
        while true {
            let step = self.withState { $0.machine.next(at: Self.now) }
            do {
                switch step {
                case .wait(let time): self.wait(until: time)
                case .abandon: self.withState { $0.abandon }()
                case .end(let ending):
                    self.listener?.end()
                    try? self.database.remove(self.number)
                    try? self.database.finishBatches()
                    if let error = self.failure { throw error }
                    return Report(ending: ending, failure: self.withState { $0.failure })
                default:
                    try self.perform(step)
                    self.isTroubled = false
                }
            } catch {
                if case .end = step { throw error }
                if QueueDatabase.isTransient(error), !self.isTroubled {
                    self.isTroubled = true
                    self.onTrouble(error)
                }
                self.withState { state in
                    guard !QueueDatabase.isTransient(error) else { return state.machine.failed(at: Self.now) }
                    state.machine.fail()
                    self.failure = self.failure ?? error
                    // What fails for good is not tried again.
                    if case .prove(let keys) = step { for key in keys { self.forget(key, in: &state) } }
                }
            }
        }
    }

    private func heard(_ event: QueueListener.Event) {
        self.withState { state in
            switch event {
            case .listening: state.machine.listens(true)
            case .batchReady: state.machine.batchReady()
            case .failed: state.machine.listens(false)
            }
        }
        self.signal.signal()
        if case .failed(let error) = event { self.onTrouble(error) }
    }

    private func wait(until time: Duration?) {
        guard let time else { return self.signal.wait() }
        let nanoseconds = max(0, min((time - Self.now) / .nanoseconds(1), 60e9))
        _ = self.signal.wait(timeout: .now() + .nanoseconds(Int(nanoseconds) + 1))
    }

    private func perform(_ step: QueueWorkerStateMachine.Step) throws {
        let sentAt = Self.now
        switch step {
        case .register:
            self.number = try self.database.register(host: self.host, process: getpid(), lease: self.limits.lease)
            self.lastRenewal = (sentAt, 0)
            self.withState { $0.machine.leased(sentAt: sentAt) }
        case .renew: try self.renew(sentAt)
        case .claim(let countMax): try self.claim(countMax)
        case .mark(let keys): try self.mark(keys)
        case .prove(let keys): try self.prove(keys)
        case .wait, .abandon, .end: break
        }
        if sentAt - self.progressReadAt >= Self.progressInterval { try self.readProgress() }
    }

    /// How often to ask for the progress of all workers, if this one is busy.
    private static let progressInterval = Duration.seconds(1)

    private func renew(_ sentAt: Duration) throws {
        let seconds = (sentAt - self.lastRenewal.at) / .seconds(1)
        let rate = seconds > 0 ? Double(self.provedCount - self.lastRenewal.count) / seconds : 0
        let isAlive = try self.database.renew(
            self.number,
            lease: self.limits.lease,
            proved: self.provedCount,
            rate: rate
        )
        self.lastRenewal = (sentAt, self.provedCount)
        self.withState { state in
            if isAlive { state.machine.leased(sentAt: sentAt) } else { state.machine.leaseLost() }
        }
        // They were given nothing if the lease was nearly over.
        self.wakeConnections()
    }

    private func readProgress() throws {
        let progress = try self.database.progress(self.scope)
        self.progressReadAt = Self.now
        self.withState { $0.progress = progress }
    }

    private func claim(_ countMax: Int) throws {
        if self.isClaimUncertain { try self.releaseUnknown() }
        self.isClaimUncertain = true
        let origin = QueueChunkKey(batch: 0, number: -1)
        func claims(after key: QueueChunkKey) throws -> [Result<QueueClaim, QueueError>] {
            try self.database.claim(self.number, self.scope, after: key, countMax: countMax, rules: self.rules)
        }
        var found = try claims(after: self.lastKey)
        if found.isEmpty, self.lastKey != origin { found = try claims(after: origin) }
        self.isClaimUncertain = false
        for claim in found {
            switch claim {
            case .success(let claim): self.hold(claim)
            case .failure(let error): self.leaveOut(error)
            }
        }
        if found.isEmpty { try self.claimedNothing() }
    }

    private func hold(_ claim: QueueClaim) {
        let account = claim.account
        self.lastKey = account.key
        self.withState { state in
            state.machine.claimed(account.key, count: account.count, isComplete: account.waitingCount == 0)
            state.slots[account.key] = state.nextSlot
            state.held[state.nextSlot] = Held(claim: claim)
            state.nextSlot += 1
        }
    }

    /// Goes on behind a chunk that cannot be read; when it comes again, no other is left to claim, and the worker ends.
    private func leaveOut(_ error: QueueError) {
        self.failure = self.failure ?? error
        guard case .damaged(let key) = error else { return }
        self.lastKey = key
        guard self.damagedKeys.count < Self.damagedCountMax, self.damagedKeys.insert(key).inserted else {
            return self.end()
        }
        self.onTrouble(error)
    }

    private static let damagedCountMax = 1000

    private func claimedNothing() throws {
        self.lastKey = QueueChunkKey(batch: 0, number: -1)
        // A worker that died may have left a batch of which nothing is open.
        if self.isFinishDue || Self.now >= self.finishNotAfter {
            try self.database.finishBatches()
            self.isFinishDue = false
            self.finishNotAfter = Self.now + self.limits.lease
        }
        var isEmpty = false
        if self.limits.endsWhenEmpty {
            isEmpty = try self.database.isEmpty(self.scope)
            // Otherwise, this worker would wait for itself.
            if !isEmpty { try self.releaseUnknown() }
        }
        self.withState { state in
            state.machine.claimedNothing(isEmpty: isEmpty, at: Self.now, jitter: Self.jitter)
        }
        self.wakeConnections()
    }

    private func releaseUnknown() throws {
        let held = self.withState { Array($0.slots.keys) }
        try self.database.release(self.number, except: held)
    }

    /// Makes the connections notice notifications, or the end.
    private func wakeConnections() { self.withState { $0.wake }() }

    private func mark(_ keys: [QueueChunkKey]) throws {
        let accounts = keys.compactMap { self.claim($0)?.account }
        let owned = try self.database.mark(accounts)
        self.withState { state in
            for key in keys {
                state.machine.marked(key, isOwned: owned.contains(key))
                guard owned.contains(key) else {
                    self.forget(key, in: &state)
                    continue
                }
                if let slot = state.slots[key] { state.sending.append(slot) }
            }
        }
        self.wakeConnections()
    }

    private func claim(_ key: QueueChunkKey) -> QueueClaim? {
        self.withState { state in state.slots[key].flatMap { state.held[$0]?.claim } }
    }

    private func forget(_ key: QueueChunkKey, in state: inout State) {
        guard let slot = state.slots.removeValue(forKey: key) else { return }
        state.held[slot] = nil
        state.sending.removeAll { $0 == slot }
        state.machine.forget(key)
    }

    private func prove(_ keys: [QueueChunkKey]) throws {
        let chunks = keys.compactMap { self.claim($0) }.map { (claim: $0, proof: $0.account.proof) }
        let owned = try self.database.prove(chunks)
        let reported = self.withState { state in
            let reported = chunks.filter { claim, proof in
                let isReported = state.machine.proved(
                    claim.account.key,
                    isOwned: owned.contains(claim.account.key),
                    isComplete: proof.open == nil,
                    at: Self.now,
                    jitter: Self.jitter
                )
                if isReported { state.progress.provedCount += proof.counts.total }
                return isReported
            }
            for key in keys { self.forget(key, in: &state) }
            return reported
        }
        self.wakeConnections()
        for (claim, proof) in reported {
            self.provedCount += proof.counts.total
            self.isFinishDue = true
            try self.results.write(claim)
        }
    }
}
#endif

// SPDX-License-Identifier: Apache-2.0

import APNSWire
import TestSupport
import TokenStore

/// A plausible but wrong rule for a queue.
enum QueueMutant: String, CaseIterable, Sendable {
    /// Chunks are sent before it is committed that they may be.
    case sendsUnmarked
    /// What a dead worker may have sent is sent again without a flag.
    case flagsNothing
    /// A worker reports what it could not commit.
    case ignoresFence
    /// An unknown outcome is forgotten when a chunk is given back.
    case forgetsDoubt
    /// A commit compares no epoch.
    case comparesNoEpoch
}

/// Random histories of several workers, a service and a model of the database.
///
/// Workers claim, send, stop for a while, lose connections and die, in any order. At the end, one more worker does the
/// rest.
struct QueueWalk {
    /// A row of the chunk states.
    private struct Row {
        var owner: Int?
        var epoch: Int32 = 0
        var written = 0
        var proved = 0
        var open: [UInt8]?
    }

    private struct ID: Hashable {
        var key: QueueChunkKey
        var index: Int
    }

    /// A statement whose answer is not there yet.
    private struct Pending {
        var step: QueueWorkerStateMachine.Step
        var sentAt: Duration
        /// What the database has answered; `nil` before it received the statement.
        var answer: Answer?
    }

    private enum Answer {
        case changed(Bool)
        case claimed([QueueChunkAccount])
        case marked(Set<QueueChunkKey>)
        case proved([(account: QueueChunkAccount, isOwned: Bool)])
    }

    private final class Worker {
        let id: Int
        var machine: QueueWorkerStateMachine
        var accounts: [QueueChunkKey: QueueChunkAccount] = [:]
        var sending: [(key: QueueChunkKey, index: Int)] = []
        /// Given to a connection, and not written yet.
        var buffer: [ID] = []
        /// Written, and not answered.
        var written: [ID] = []
        var pending: Pending?
        var pausedUntil = Duration.zero
        var hasEnded = false

        init(_ id: Int, _ machine: QueueWorkerStateMachine) { (self.id, self.machine) = (id, machine) }
    }

    private var random: SplitMix64
    private let seed: UInt64
    private let mutant: QueueMutant?
    private var rules = QueueRules()
    private var limits = QueueWorkerStateMachine.Limits()
    private var now = Duration.seconds(1000)

    private let chunkCount = 4
    private let count = 5
    private var rows: [QueueChunkKey: Row] = [:]
    private var leases: [Int: Duration] = [:]
    /// What was committed.
    private var committed: [ID: [QueueOutcome]] = [:]
    /// What workers reported.
    private var reported: [ID: Int] = [:]
    private var arrivals: [ID: Int] = [:]
    private var workers: [Worker] = []
    private var nextWorker = 0

    init(seed: UInt64, takeover: QueueRules.Takeover, mutant: QueueMutant? = nil) {
        self.random = SplitMix64(seed: seed)
        self.seed = seed
        self.mutant = mutant
        self.rules.takeover = takeover
        self.rules.marksFirst = mutant != .sendsUnmarked
        self.rules.flagsTakenOver = mutant != .flagsNothing
        self.rules.obeysFence = mutant != .ignoresFence
        self.rules.keepsDoubt = mutant != .forgetsDoubt
        self.limits.lease = .seconds(6)
        self.limits.heldCountMax = 3 * self.count
        for number in 0..<self.chunkCount { self.rows[QueueChunkKey(batch: 1, number: Int32(number))] = Row() }
    }

    /// Walks, and returns what is wrong; `nil` if nothing is.
    mutating func run() -> String? {
        for _ in 0..<3 { self.hire() }
        for _ in 0..<400 { self.step(isCalm: false) }
        // Some of the workers never come back.
        var left: [Worker] = []
        for worker in self.workers where self.random.below(2) == 0 { left.append(worker) }
        self.workers = left
        for worker in self.workers { worker.pausedUntil = .zero }
        self.hire()
        var stepCount = 0
        while self.rows.values.contains(where: { $0.proved < self.count }) {
            if self.workers.isEmpty { self.hire() }
            self.step(isCalm: true)
            stepCount += 1
            if stepCount > 100_000 { return "seed \(self.seed): it does not end" }
        }
        return self.problem.map { "seed \(self.seed): \($0)" }
    }

    private mutating func hire() {
        self.workers.append(Worker(self.nextWorker, QueueWorkerStateMachine(self.limits, rules: self.rules)))
        self.nextWorker += 1
    }

    private var problem: String? {
        for key in self.rows.keys.sorted() {
            for index in 0..<self.count {
                let id = ID(key: key, index: index)
                let (outcomes, arrivalCount) = (self.committed[id] ?? [], self.arrivals[id] ?? 0)
                guard outcomes.count == 1 else { return "\(id) has \(outcomes.count) outcomes" }
                let outcome = outcomes[0]
                if outcome.kind == .accepted, arrivalCount == 0 { return "\(id) was lost" }
                if outcome.kind == .unsent { return "\(id) is unsent" }
                if self.reported[id, default: 0] > 1 { return "\(id) was reported twice" }
                guard arrivalCount > 1 else { continue }
                if self.rules.takeover == .hold { return "\(id) was sent \(arrivalCount) times" }
                if !outcome.isDuplicate { return "\(id) was sent \(arrivalCount) times without a flag" }
            }
        }
        return nil
    }

    // MARK: Steps

    private mutating func step(isCalm: Bool) {
        self.now += .milliseconds(self.random.below(isCalm ? 200 : 120))
        guard !self.workers.isEmpty else { return self.hire() }
        let index = Int(self.random.below(self.workers.count))
        let worker = self.workers[index]
        if !isCalm {
            switch self.random.below(120) {
            case 0:
                // It dies; what was in the buffers of its system may still arrive.
                for id in worker.buffer where self.random.below(2) == 0 { self.arrivals[id, default: 0] += 1 }
                self.workers.remove(at: index)
                return self.hire()
            case 1: worker.pausedUntil = self.now + .seconds(self.random.below(15))
            default: break
            }
        }
        guard self.now >= worker.pausedUntil else { return }
        if self.random.below(2) == 0 { self.send(worker) } else { self.work(worker) }
        guard worker.hasEnded else { return }
        self.leases[worker.id] = nil
        self.workers.removeAll { $0 === worker }
        self.hire()
    }

    /// What connections do.
    private mutating func send(_ worker: Worker) {
        switch self.random.below(6) {
        case 0, 1:
            guard self.now < worker.machine.sendNotAfter, let (key, index) = worker.sending.first else { return }
            if worker.accounts[key]?.isDue(index) == true { worker.buffer.append(ID(key: key, index: index)) }
            if index + 1 < self.count {
                worker.sending[0].index += 1
            } else {
                worker.sending.removeFirst()
                worker.machine.taken(key)
            }
        case 2, 3:
            guard !worker.buffer.isEmpty else { return }
            let id = worker.buffer.removeFirst()
            self.arrivals[id, default: 0] += 1
            worker.written.append(id)
        case 4:
            guard !worker.written.isEmpty else { return }
            self.settle(worker, worker.written.removeFirst(), .accepted)
        default:
            guard self.random.below(40) == 0 else { return }
            self.endSending(worker)
        }
    }

    private func settle(_ worker: Worker, _ id: ID, _ kind: DeliveryOutcome.Kind) {
        worker.accounts[id.key]?.settle(id.index, QueueOutcome(kind))
        if worker.accounts[id.key]?.waitingCount == 0 { worker.machine.settled(id.key) }
    }

    private func endSending(_ worker: Worker) {
        for id in worker.written { self.settle(worker, id, .indeterminate) }
        for id in worker.buffer { self.settle(worker, id, .unsent) }
        (worker.written, worker.buffer, worker.sending) = ([], [], [])
        worker.machine.sendingEnded()
    }

    /// What the thread of a worker does: a statement, its execution and its answer are three steps.
    private mutating func work(_ worker: Worker) {
        if let pending = worker.pending {
            guard let answer = pending.answer else {
                worker.pending?.answer = self.execute(pending.step, worker)
                return
            }
            worker.pending = nil
            return self.receive(answer, to: pending, worker)
        }
        switch worker.machine.next(at: self.now) {
        case .wait: break
        case .abandon: self.endSending(worker)
        case .end: worker.hasEnded = true
        case let step: worker.pending = Pending(step: step, sentAt: self.now)
        }
    }

    // MARK: The database

    private mutating func execute(_ step: QueueWorkerStateMachine.Step, _ worker: Worker) -> Answer {
        switch step {
        case .register:
            self.leases[worker.id] = self.now + self.limits.lease
            return .changed(true)
        case .renew:
            guard let lease = self.leases[worker.id], lease > self.now else { return .changed(false) }
            self.leases[worker.id] = self.now + self.limits.lease
            return .changed(true)
        case .claim(let countMax): return .claimed((0..<countMax).compactMap { _ in self.claim(worker) })
        case .mark(let keys):
            let owned = keys.filter { self.isOwned($0, worker) }
            for key in owned { self.rows[key]?.written = self.count }
            return .marked(Set(owned))
        case .prove(let keys):
            return .proved(
                keys.compactMap { worker.accounts[$0] }.map { account in
                    let isOwned = self.isOwned(account.key, worker)
                    if isOwned { self.commit(account) }
                    return (account, isOwned)
                }
            )
        case .wait, .abandon, .end: return .changed(false)
        }
    }

    private mutating func commit(_ account: QueueChunkAccount) {
        let (key, proof) = (account.key, account.proof)
        self.rows[key]?.owner = nil
        self.rows[key]?.written = proof.written
        self.rows[key]?.proved = proof.proved
        self.rows[key]?.open = proof.open
        for index in account.finalIndices {
            guard let outcome = account.outcomes[index] else { continue }
            self.committed[ID(key: key, index: index), default: []].append(outcome)
        }
    }

    private mutating func isOwned(_ key: QueueChunkKey, _ worker: Worker) -> Bool {
        guard let row = self.rows[key], let account = worker.accounts[key], row.owner != nil else { return false }
        return self.mutant == .comparesNoEpoch || row.epoch == account.epoch
    }

    private mutating func claim(_ worker: Worker) -> QueueChunkAccount? {
        let free = self.rows.filter { _, row in
            row.proved < self.count && row.owner.map { self.leases[$0] ?? .zero <= self.now } ?? true
        }
        guard self.leases[worker.id] ?? .zero > self.now, let key = free.keys.min(), var row = free[key] else {
            return nil
        }
        row.owner = worker.id
        row.epoch += 1
        self.rows[key] = row
        return QueueChunkAccount(
            key,
            epoch: row.epoch,
            count: self.count,
            written: row.written,
            proved: row.proved,
            open: row.open,
            rules: self.rules
        )
    }

    private mutating func receive(_ answer: Answer, to pending: Pending, _ worker: Worker) {
        switch (pending.step, answer) {
        case (.register, _), (.renew, .changed(true)): worker.machine.leased(sentAt: pending.sentAt)
        case (.renew, _): worker.machine.leaseLost()
        case (.claim, .claimed(let accounts)):
            for account in accounts {
                worker.accounts[account.key] = account
                worker.machine.claimed(account.key, count: account.count, isComplete: account.waitingCount == 0)
                if !self.rules.marksFirst, account.waitingCount > 0 { worker.sending.append((account.key, 0)) }
            }
            if accounts.isEmpty { worker.machine.claimedNothing(isEmpty: false, at: self.now, jitter: 0.5) }
        case (.mark(let keys), .marked(let owned)):
            for key in keys {
                worker.machine.marked(key, isOwned: owned.contains(key))
                if owned.contains(key) { worker.sending.append((key, 0)) } else { worker.accounts[key] = nil }
            }
        case (.prove(let keys), .proved(let accounts)):
            for (account, isOwned) in accounts {
                let isReported = worker.machine.proved(
                    account.key,
                    isOwned: isOwned,
                    isComplete: account.proof.open == nil,
                    at: self.now,
                    jitter: 0.5
                )
                worker.accounts[account.key] = nil
                guard isReported else { continue }
                for index in account.finalIndices {
                    self.reported[ID(key: account.key, index: index), default: 0] += 1
                }
            }
            for key in keys { worker.machine.forget(key) }
        default: break
        }
    }
}

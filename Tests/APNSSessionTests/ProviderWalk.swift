// SPDX-License-Identifier: Apache-2.0

import APNSWire

@testable import APNSSession
import TestSupport

/// A random walk of a provider session together with a model of the gateway.
struct ProviderWalk {
    private var session: ProviderSession
    private var model: GatewayModel
    private var random: SplitMix64
    private let notificationCount: UInt64
    private var connecting: [ConnectionNumber] = []
    private var now = Duration.zero
    private var settlements: [Settlement] = []
    private var suppliedCount: UInt64 = 0
    private var mayComplete: Bool
    private var roundCount = 0
    private let abandonsAt: Int
    private let wrongRule: WrongRule?
    /// Whether the system reports less than what has arrived, which is wrong.
    private let isSentEndTooLow: Bool
    /// What this walk reached.
    private(set) var reached: Set<WalkMark> = []

    private static let failure = ConnectionFailure(.refused, "connection refused")

    /// More rounds than any walk needs; a walk with more does not end.
    private static let roundCountMax = 400_000

    init(seed: UInt64, life: ProviderLife = .batch, wrongRule: WrongRule? = nil, isSentEndTooLow: Bool = false) {
        var random = SplitMix64(seed: seed)
        var limits = life == .batch ? BinaryLimits() : .service
        limits.policy = random.chance(50) ? .atLeastOnce : .atMostOnce
        limits.windowCount = UInt64(1 + random.below(random.chance(50) ? 10 : 200))
        limits.invalidTokenRunCountMax = random.chance(90) ? 0 : 4
        limits.hasNoIdentifiers = random.chance(10)
        limits.fruitlessConnectionCountMax = 40
        limits.refusedConnectionCountMax = 40
        self.notificationCount = UInt64(random.below(random.chance(80) ? 40 : 300))
        var faults = GatewayModel.Faults()
        faults.badPercent = random.chance(40) ? 0 : random.below(31)
        faults.budget = random.chance(20) ? 0 : random.below(20)
        faults.isDead = random.chance(2) && life == .batch
        faults.isSilentOnBad = limits.hasNoIdentifiers
        faults.hidesIdentifiers = random.chance(30)
        if random.chance(8), !faults.isSilentOnBad, !faults.hidesIdentifiers {
            // If each bad one is identified, any number of them does not stop a run.
            faults.badPercent = 60 + random.below(41)
        }
        faults.answersUnasked = random.chance(10)
        if random.chance(3) { faults.refusedConnection = UInt64(1 + random.below(4)) }
        self.mayComplete =
            !faults.isDead && faults.refusedConnection == 0
            && (limits.invalidTokenRunCountMax == 0 || life == .service)
        self.model = GatewayModel(faults: faults, notificationCount: Int(self.notificationCount), random: random)
        self.session = ProviderSession(limits: limits)
        self.wrongRule = wrongRule
        self.isSentEndTooLow = isSentEndTooLow
        self.abandonsAt = random.chance(5) ? random.below(300) : -1
        self.random = SplitMix64(seed: ~seed)
    }

    /// Walks to the end, and returns what went wrong, or `nil`.
    mutating func run() -> String? {
        for _ in 0..<ProviderWalk.roundCountMax {
            if let ending = self.advance() { return self.violation(ending) }
        }
        return "does not end"
    }

    /// One round: the session's next step, or an event for it.
    private mutating func advance() -> ProviderEnding? {
        if self.random.chance(60) || (self.connecting.isEmpty && self.model.connections.isEmpty) {
            let before = self.session
            let step = self.session.step(now: self.now)
            self.reached.formUnion(WalkMark.marks(of: step, from: before, now: self.now))
            switch step {
            case .connect(let number): self.connecting.append(number)
            case .write(let number, let numbers, let first):
                if before.isCautious { self.reached.insert(.cautious) }
                self.write(number, numbers, first)
            case .probe(let number, let identifier):
                self.model.connections[number]?.messages.append(.init(number: nil, identifier: identifier))
            case .close(let number):
                self.connecting.removeAll { $0 == number }
                self.model.connections[number] = nil
                self.session.closed(number, now: self.now, jitter: 0.5)
            case .wait(let time): self.wait(until: time)
            case .finish(let ending):
                self.settlements += self.session.takeSettlements()
                return ending
            }
        } else {
            self.happen()
        }
        if self.abandonsAt == self.roundCount {
            self.session.abandon()
            self.mayComplete = false
        }
        self.roundCount += 1
        if self.random.chance(5) {
            self.session.isStoreFull = self.random.chance(50) && self.session.settled < self.session.nextNumber
        }
        if self.session.limits.life == .service, self.random.chance(5) { self.session.checkpoint() }
        if self.random.chance(20) { self.settlements += self.session.takeSettlements() }
        return nil
    }

    private mutating func write(_ number: ConnectionNumber, _ numbers: Range<UInt64>, _ first: UInt32) {
        var count = UInt64(1 + self.random.below(min(numbers.count, 30)))
        let fresh = numbers.lowerBound + count > self.session.nextNumber
        if fresh {
            let available = self.notificationCount - self.session.nextNumber
            let wanted = numbers.lowerBound + count - self.session.nextNumber
            count -= wanted - min(wanted, available)
            if wanted > available { self.session.supply(.ended) }
            if self.random.chance(5) {
                self.session.supply(self.session.nextNumber == self.notificationCount ? .ended : .waiting)
            }
        }
        for offset in 0..<count {
            let message = GatewayModel.Message(
                number: numbers.lowerBound + offset,
                identifier: first + UInt32(truncatingIfNeeded: offset)
            )
            self.model.connections[number]?.messages.append(message)
        }
        self.session.wrote(count, now: self.now)
    }

    private mutating func wait(until time: Duration?) {
        if self.random.chance(30) { self.session.supply(.available) }
        if self.random.chance(50), let time { self.now = max(self.now, min(time, self.now + .milliseconds(500))) }
        if self.random.chance(5), let time { self.now = max(self.now, time) }
    }

    /// An event on a connection.
    private mutating func happen() {
        if let number = self.connecting.popLast() {
            if self.model.opens() {
                self.model.open(number)
                self.session.connected(number, now: self.now)
            } else {
                self.reached.insert(number == self.session.standbyNumber ? .standbyConnectFailed : .connectFailed)
                self.session.closed(number, failure: ProviderWalk.failure, now: self.now, jitter: 0.5)
            }
            return
        }
        let numbers = self.model.connections.keys.sorted()
        guard !numbers.isEmpty else { return }
        let number = numbers[self.random.below(numbers.count)]
        self.model.move(number)
        guard let connection = self.model.connections[number] else { return }
        if let last = connection.messages[..<connection.leftCount].last(where: { $0.number != nil })?.number {
            self.session.sent(number, before: last + 1)
        }
        guard connection.isEndDue, self.random.chance(50) else { return }
        if let answer = connection.answer {
            self.model.connections[number]?.answer = nil
            self.reached.insert(WalkMark(answer, on: number, self.session))
            if !self.misled(by: answer, on: number) {
                self.session.received(answer, on: number, now: self.now, jitter: 0.5)
            }
            if self.session.suspects?.part == 1 { self.reached.insert(.suspectAlone) }
        } else {
            self.model.connections[number] = nil
            self.reached.insert(WalkMark(endOf: number, self.session, isRefused: connection.isRefused))
            let isRefused = connection.isRefused
            if !isRefused { _ = self.misled(by: nil, on: number) }
            self.session.closed(
                number,
                permanently: isRefused,
                isUnprocessed: isRefused,
                sentBefore: self.random.chance(50) ? nil : self.sentEnd(connection),
                now: self.now,
                jitter: 0.5
            )
        }
    }
}

extension ProviderWalk {
    /// The end of what has left the provider's system: at least what has arrived, at most what its kernel took.
    private mutating func sentEnd(_ connection: GatewayModel.Connection) -> UInt64 {
        let arrivedCount = max(0, connection.arrivedCount + (self.isSentEndTooLow ? -1 : 0))
        let count = arrivedCount + self.random.below(max(1, connection.leftCount - arrivedCount + 1))
        return connection.messages.prefix(count).last { $0.number != nil }?.number.map { $0 + 1 } ?? 0
    }
}

// MARK: - Wrong rules

extension ProviderWalk {
    /// Makes the session conclude from an answer or, with `nil`, from an end without one what a wrong rule concludes.
    ///
    /// Returns whether the rule concludes something else than the session.
    private mutating func misled(by answer: ErrorResponse?, on number: ConnectionNumber) -> Bool {
        guard let wrongRule = self.wrongRule, case .open(let open) = self.session.link, open.number == number else {
            return false
        }
        switch wrongRule.conclude(answer, open.written - open.base, open.probeDeadline != nil) {
        case .sameAs(let other): self.session.received(other, on: number, now: self.now, jitter: 0.5)
        case .nothingProcessed:
            self.model.connections[number] = nil
            self.session.closed(number, isUnprocessed: true, now: self.now, jitter: 0.5)
        case nil: return false
        }
        return true
    }
}

// MARK: - Invariants

extension ProviderWalk {
    private mutating func violation(_ ending: ProviderEnding) -> String? {
        var next: UInt64 = 0
        for settlement in self.settlements {
            guard settlement.numbers.lowerBound == next else { return "settlements leave a gap at \(next)" }
            next = settlement.numbers.upperBound
            if case .unsent(.some) = settlement.outcome { self.reached.insert(.heldGivenUp) }
            for number in settlement.numbers {
                if let violation = self.violation(number, settlement) { return "\(number): \(violation)" }
            }
        }
        guard next == self.session.nextNumber else { return "\(next) of \(self.session.nextNumber) settled" }
        let ordered = zip(self.model.firstProcessed, self.model.firstProcessed.dropFirst()).allSatisfy { $0 < $1 }
        guard ordered else { return "order not kept" }
        if self.mayComplete {
            guard ending == .completed else { return "ended \(ending)" }
            guard next == self.notificationCount else { return "\(next) of \(self.notificationCount) taken" }
        }
        return nil
    }

    private func violation(_ number: UInt64, _ settlement: Settlement) -> String? {
        let processedCount = self.model.processed[number, default: 0]
        if processedCount > 1, !settlement.isPossibleDuplicate {
            return "processed \(processedCount) times, not flagged"
        }
        if processedCount > 1, self.session.limits.policy == .atMostOnce { return "processed \(processedCount) times" }
        if processedCount > settlement.attempts { return "processed in more than its \(settlement.attempts) attempts" }
        switch settlement.outcome {
        case .accepted:
            if processedCount == 0 { return "accepted, never processed" }
        case .rejected:
            if !self.model.refused.contains(number) { return "rejected, never refused" }
            if processedCount > 0 { return "rejected, yet processed" }
        case .unsent(let reason):
            if processedCount > 0 { return "unsent, yet processed" }
            if self.session.limits.life == .service {
                switch reason {
                case .unavailable, .deadline: return nil
                default: break
                }
            }
            if self.mayComplete { return "unsent at the end" }
        case .indeterminate:
            if self.session.limits.life == .service { return nil }
            let diedOften = settlement.attempts >= self.session.limits.silentAttemptCountMax
            if self.mayComplete, self.session.limits.policy == .atLeastOnce, !diedOften {
                return "given up after \(settlement.attempts) attempts"
            }
        default: return "has outcome \(settlement.outcome)"
        }
        return nil
    }
}

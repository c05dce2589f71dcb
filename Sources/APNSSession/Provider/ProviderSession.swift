// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// Decides what a provider writes to which connection, and proves what became of every notification.
///
/// The machine does no I/O and knows no clock: its owner tells it events with the time, and asks ``step(now:)``
/// what to do until that says to wait. Outcomes collect until ``takeSettlements()``.
///
/// Notifications have sequence numbers from 0 in the order in which they were taken, and keep that order on the wire,
/// also when they are sent again. Only one connection at a time is written to, and its notifications settle before the
/// next one's: so what is settled is always a prefix, and what a connection has written is always one range of
/// numbers that begins where the settled ones end. Identifier `i` of a connection is number `base + i - 1`.
///
/// ```
///   settled            left           written          taken
///      |  in the kernel  |  in process   |   to write     |   new ones
/// ```
///
/// - SeeAlso: Binary Provider API, "error-response packet"; docs/accounting.md.
public struct ProviderSession: Sendable {
    /// The numbers by which the session decides.
    public let limits: ProviderLimits

    /// The first number without an outcome; all before it have one.
    public private(set) var settled: UInt64 = 0

    /// The first number that was not yet taken from the supply.
    public private(set) var taken: UInt64 = 0

    /// Whether no more notifications fit the memory in which the untaken ones are kept; they are then not asked for,
    /// and a checkpoint is made to make room.
    public var storeIsFull = false

    /// All numbers before this one that have no outcome may have been processed on a connection that is gone.
    private var doubtful: UInt64 = 0

    /// Where the numbers ended that each earlier connection wrote, ascending, as far as they are not settled.
    private var attemptEnds: [UInt64] = []

    let rules: ProofRules
    var supply = ProviderSupply.available
    var link = Link.none
    var standby = StandbyConnection.none
    var ending: ProviderEnding?
    var settlements: [Settlement] = []

    private var connectionCount: UInt64 = 0
    private var live: Set<ConnectionNumber> = []
    private var closesDue: [ConnectionNumber] = []

    var suspects: Suspects?
    var retry: (number: UInt64, count: Int) = (0, 0)
    var singleLoss: (number: UInt64, count: Int) = (0, 0)
    package private(set) var failures: ConnectFailureCounter
    private var silentCount = 0
    private var givenUpRunCount = 0
    private var hasProof = false
    /// Whether the gateway has told of a shutdown.
    private var hasAnswered = false
    /// Whether no connection can be opened any more, so that what the present one has written is all that is left.
    private var isForbidden = false
    private var invalidTokenRunCount = 0
    var leftCount: UInt64 = 0
    package private(set) var connectNotBefore = Duration.zero
    private var checkpoints: CheckpointSchedule
    /// Whether what is written is to be proved as soon as there is nothing more to write.
    private var isCheckpointAskedFor = false
    /// Since when a service has something without an outcome and no connection.
    private var heldSince: Duration?
    /// Why the newest connection ended that proved nothing.
    private var lastFailure: ConnectionFailure?
    /// Whether a service writes one notification a checkpoint, since too many tokens in a row were invalid.
    public private(set) var isCautious = false

    /// A connection that closes this soon with nothing outstanding was not closed for being idle.
    private static let quickCloseMax = Duration.seconds(5)

    /// By how much fewer are written after a connection died without a word for the second time in a row.
    private static let silentDivisor: UInt64 = 16

    /// How many notifications in a row may be given up, each after connections died of it alone, before the session
    /// stops.
    private static let givenUpRunCountMax = 50

    /// Begins a session with nothing taken.
    ///
    /// - Parameter limits: the numbers by which it decides.
    public init(limits: ProviderLimits = ProviderLimits()) {
        self.init(limits: limits, rules: .proved)
    }

    init(limits: ProviderLimits, rules: ProofRules) {
        precondition((1...(1 << 31)).contains(limits.windowCount), "The window is 1 to 2^31 notifications.")
        self.limits = limits
        self.rules = rules
        self.checkpoints = CheckpointSchedule(limits)
        self.failures = ConnectFailureCounter(
            backoff: limits.backoff,
            countMax: limits.life == .batch ? limits.fruitlessConnectionCountMax : nil,
            isFirstFree: true
        )
    }
}

// MARK: - What is known from outside

extension ProviderSession {
    /// Takes the outcomes that were found since the last call, in the order of their numbers.
    ///
    /// - Returns: outcomes that follow one another without a gap.
    public mutating func takeSettlements() -> [Settlement] {
        defer { self.settlements.removeAll(keepingCapacity: true) }
        return self.settlements
    }

    /// Whether outcomes are waiting to be taken.
    public var hasSettlements: Bool { !self.settlements.isEmpty }

    /// Whether there is neither a connection nor anything that needs one, so that only new notifications do.
    public var isAtRest: Bool {
        guard case .none = self.link else { return false }
        return self.settled == self.taken && self.ending == nil
    }

    /// How the session ends, once that is known.
    public var knownEnding: ProviderEnding? { self.ending }

    /// Whether something that was taken had no outcome when the session stopped, and became indeterminate or unsent.
    public var hasLeftSomething: Bool { self.leftCount > 0 }

    /// Says what is known of notifications to come.
    ///
    /// After ``ProviderSupply/ended`` nothing changes that.
    ///
    /// - Parameter supply: what is known.
    public mutating func supply(_ supply: ProviderSupply) {
        guard self.supply != .ended else { return }
        self.supply = supply
    }

    /// Stops at once: what may have been processed becomes indeterminate, the rest unsent.
    public mutating func abandon() {
        self.stop(.abandoned)
    }

    /// Proves what was taken as soon as there is nothing more to write, without the pauses of ``ProviderLimits``.
    public mutating func checkpoint() { self.isCheckpointAskedFor = true }

    /// Why there is no proof that the service works; `nil` where it works as far as is known.
    public var outage: ConnectionFailure? { self.failures.count > 0 ? self.lastFailure : nil }
}

// MARK: - What to do next

extension ProviderSession {
    /// The next thing to do.
    ///
    /// - Parameter now: the time since any fixed point, never less than in an earlier call.
    /// - Returns: one step; ask again after carrying it out, unless it says to wait.
    public mutating func step(now: Duration) -> ProviderStep {
        if self.ending == nil, self.supply == .ended, self.settled == self.taken { self.stop(.completed) }
        if let number = self.closesDue.popLast() { return .close(number) }
        if let ending = self.ending { return self.live.isEmpty ? .finish(ending) : .wait(until: nil) }
        if case .open(let open) = self.link { return self.step(with: open, now: now) }
        let deadline = self.outageDeadline(now: now)
        if let deadline, now >= deadline { self.settleHeld() }
        let step = self.stepWithoutConnection(now: now)
        guard case .wait(let until) = step, let deadline, self.settled < self.taken else { return step }
        return .wait(until: until.map { min($0, deadline) } ?? deadline)
    }

    /// When a service gives up what it holds.
    private mutating func outageDeadline(now: Duration) -> Duration? {
        guard self.limits.life == .service, self.settled < self.taken else {
            self.heldSince = nil
            return nil
        }
        let since = self.heldSince ?? now
        self.heldSince = since
        return since + self.limits.outageDurationMax
    }

    /// Gives everything its outcome that was taken.
    private mutating func settleHeld() {
        let reason = self.lastFailure.map { DeliveryOutcome.Reason.unavailable($0) } ?? .deadline
        self.settle(before: max(self.settled, min(self.doubtful, self.taken)), .indeterminate(reason))
        self.settle(before: self.taken, .unsent(reason))
        self.suspects = nil
        self.heldSince = nil
    }

    private mutating func stepWithoutConnection(now: Duration) -> ProviderStep {
        if case .connecting = self.link { return .wait(until: nil) }
        guard !self.isForbidden else {
            self.stop(.notPermitted)
            return self.step(now: now)
        }
        guard self.settled < self.taken || self.supply == .available else { return .wait(until: nil) }
        guard now >= self.connectNotBefore else { return .wait(until: self.connectNotBefore) }
        let number = self.newConnection()
        self.link = .connecting(number)
        return .connect(number)
    }

    mutating func step(with open: Open, now: Duration) -> ProviderStep {
        if let deadline = open.probeDeadline {
            guard now >= deadline else { return .wait(until: deadline) }
            self.giveUp(open, now: now, jitter: 1)
            return self.step(now: now)
        }
        if self.isForbidden { return self.checkpoint(open, isFull: true, now: now) }
        // A replacement that was open already is not for storming through.
        if open.written == open.base, now < self.connectNotBefore { return .wait(until: self.connectNotBefore) }
        let limit = self.writeLimit
        let hasMore = open.written < self.taken || self.supply == .available
        if open.written < limit, hasMore, !self.interrupts(open, now: now) {
            if self.wantsReplacement(open) { return self.openStandby() }
            let identifier = UInt32(truncatingIfNeeded: open.written - open.base + 1)
            return .write(open.number, numbers: open.written..<limit, firstIdentifier: identifier)
        }
        guard open.written > self.settled else {
            self.isCheckpointAskedFor = false
            return .wait(until: nil)
        }
        return self.checkpoint(open, isFull: open.written >= limit, now: now)
    }

    /// The number before which the present connection may be written to.
    private var writeLimit: UInt64 {
        let part = self.isCautious ? 1 : self.suspects?.part ?? .max
        let window = self.settled + min(self.limits.windowCount, part)
        return self.storeIsFull ? min(window, self.taken) : window
    }

    /// Whether it is time to open the connection that comes after the present one: half of a full window is written,
    /// or, for a service, anything.
    private func wantsReplacement(_ open: Open) -> Bool {
        guard self.standby == .none, self.suspects == nil, open.written > self.settled else { return false }
        return self.limits.life == .service || open.written - self.settled >= self.limits.windowCount / 2
    }

    /// Whether a service makes a checkpoint though there is more to write: it waits for no pause in what its callers
    /// send.
    private func interrupts(_ open: Open, now: Duration) -> Bool {
        guard self.limits.life == .service, open.written > self.settled else { return false }
        switch self.standby {
        case .none, .connecting: return false
        case .ready, .failed: return now >= self.checkpoints.due(for: .delay(since: open.firstWriteAt))
        }
    }

    mutating func checkpoint(_ open: Open, isFull: Bool, now: Duration) -> ProviderStep {
        var cause = CheckpointSchedule.Cause.demand
        if !self.isCheckpointAskedFor {
            if self.isCautious {
                cause = .caution
            } else if !isFull && self.supply != .ended {
                cause = .delay(since: open.firstWriteAt)
            }
        }
        let due = self.checkpoints.due(for: cause)
        guard now >= due else { return .wait(until: due) }
        let isLast = self.supply == .ended && open.written == self.taken
        switch self.standby {
        case .none where !isLast: return self.openStandby()
        case .connecting: return .wait(until: nil)
        case .none, .ready, .failed: break
        }
        self.checkpoints.made(for: cause, now: now)
        self.isCheckpointAskedFor = false
        var probed = open
        probed.probeDeadline = now + self.limits.answerDelayMax
        self.link = .open(probed)
        return .probe(open.number, identifier: UInt32(truncatingIfNeeded: open.written - open.base + 1))
    }

    private mutating func openStandby() -> ProviderStep {
        let number = self.newConnection()
        self.standby = .connecting(number)
        return .connect(number)
    }

    private mutating func newConnection() -> ConnectionNumber {
        self.connectionCount += 1
        let number = ConnectionNumber(rawValue: self.connectionCount)
        self.live.insert(number)
        return number
    }
}

// MARK: - Events

extension ProviderSession {
    /// A connection is open: its handshake is done.
    ///
    /// - Parameters:
    ///   - number: which one.
    ///   - now: the time.
    public mutating func connected(_ number: ConnectionNumber, now: Duration) {
        switch (self.link, self.standby) {
        case (.connecting(number), _): self.use(number, openedAt: now)
        case (_, .connecting(number)): self.standby = .ready(number, since: now)
        default: break
        }
    }

    /// The notifications of a ``ProviderStep/write(_:numbers:firstIdentifier:)`` were handed to the connection: first
    /// those that had been taken before, then new ones.
    ///
    /// - Parameters:
    ///   - count: how many.
    ///   - now: the time.
    public mutating func wrote(_ count: UInt64, now: Duration) {
        guard case .open(var open) = self.link, open.probeDeadline == nil else {
            preconditionFailure("Only the connection of the last write step is written to.")
        }
        if open.written == open.base, count > 0 { open.firstWriteAt = now }
        open.written += count
        precondition(open.written <= self.writeLimit, "No more is written than the write step allows.")
        self.taken = max(self.taken, open.written)
        self.link = .open(open)
    }

    /// All bytes of all notifications before a number have been taken whole by the kernel, so that the gateway may
    /// have them; of the others it has not all bytes.
    ///
    /// - Parameters:
    ///   - number: the connection.
    ///   - end: the first number of which not all bytes have left.
    public mutating func left(_ number: ConnectionNumber, before end: UInt64) {
        guard case .open(var open) = self.link, open.number == number else { return }
        open.left = min(max(open.left, end), open.written)
        self.link = .open(open)
    }

    /// The gateway answered.
    ///
    /// Nothing more is written to the connection.
    ///
    /// - Parameters:
    ///   - response: the answer.
    ///   - number: the connection that it came on.
    ///   - now: the time.
    ///   - jitter: a random number, 0 to 1, by which the next connection is delayed where that is due.
    public mutating func received(
        _ response: ErrorResponse,
        on number: ConnectionNumber,
        now: Duration,
        jitter: Double
    ) {
        guard case .open(let open) = self.link, open.number == number else {
            self.dropStandby(number, isClosed: false)
            return
        }
        let count = open.written - open.base
        let meaning = self.rules.interpret(response, count, open.probeDeadline != nil)
        self.handleEnd(meaning, response.status, on: open, now: now, jitter: jitter)
    }

    /// A connection has ended: it could not be opened, was read to its end, failed, or was closed as told.
    ///
    /// - Parameters:
    ///   - number: which one.
    ///   - failure: why, where that is known.
    ///   - permanently: whether it ended in a way that another try cannot mend, such as with an expired certificate;
    ///     the session then stops.
    ///   - isUnprocessed: whether it is proved that the gateway has processed nothing of this connection, because it
    ///     refused the handshake. A gateway that ends a connection for good otherwise may have processed all.
    ///   - now: the time.
    ///   - jitter: a random number, 0 to 1, by which the next connection is delayed where that is due.
    public mutating func closed(
        _ number: ConnectionNumber,
        failure: ConnectionFailure? = nil,
        permanently: Bool = false,
        isUnprocessed: Bool = false,
        now: Duration,
        jitter: Double
    ) {
        self.live.remove(number)
        self.closesDue.removeAll { $0 == number }
        if let failure { self.lastFailure = failure }
        if case .open(var open) = self.link, open.number == number {
            if isUnprocessed { open.left = self.settled }
            self.handleEnd(isUnprocessed ? .silence : self.rules.end, nil, on: open, now: now, jitter: jitter)
        } else if case .connecting(number) = self.link {
            self.link = .none
            self.countFruitless(now: now, jitter: jitter)
        } else {
            self.dropStandby(number, isClosed: true)
        }
        if permanently { self.stopConnecting() }
    }
}

// MARK: - What the end of a connection means

extension ProviderSession {
    /// Acts on what the end of a connection says, with or without an answer.
    private mutating func handleEnd(
        _ meaning: ConnectionProof,
        _ status: ErrorResponse.Status?,
        on open: Open,
        now: Duration,
        jitter: Double
    ) {
        switch meaning {
        case .provesAll: self.acceptProved(before: open.written, reached: open.written, on: open)
        case .proves(let count):
            self.acceptProved(before: open.base + count, reached: max(open.left, open.base + count), on: open)
        case .names(let index):
            let named = open.base + index
            self.attemptEnds.insertSorted(max(open.left, named + 1))
            self.accept(before: named)
            self.replace(open)
            self.reject(named, status ?? .unknown, now: now, jitter: jitter)
        case .unknownIdentifier: self.handleUnknownIdentifier(status ?? .unknown, on: open, now: now, jitter: jitter)
        case .silence where status != nil:
            // Whoever tells of a shutdown has let the provider in.
            self.hasAnswered = true
            self.giveUp(open, now: now, jitter: jitter)
        case .silence: self.handleSilentEnd(open, now: now, jitter: jitter)
        }
    }

    private mutating func acceptProved(before end: UInt64, reached: UInt64, on open: Open) {
        self.attemptEnds.insertSorted(reached)
        self.accept(before: end)
        self.replace(open)
        self.recordProgress()
    }

    /// The notification is the first unsettled one; the gateway named it.
    mutating func reject(_ number: UInt64, _ status: ErrorResponse.Status, now: Duration, jitter: Double) {
        if status == .processingError {
            let count = self.retry.number == number ? self.retry.count + 1 : 1
            self.retry = (number, count)
            if count <= self.limits.processingErrorRetryCountMax {
                self.connectNotBefore = now + self.limits.backoff.delay(failures: count, jitter: jitter)
                return
            }
        }
        self.settle(before: number + 1, .rejected(.binary(status)))
        self.recordProgress()
        self.countInvalidToken(status)
    }

    /// The answer names nothing that was written, so one of all those written spoiled the connection.
    private mutating func handleUnknownIdentifier(
        _ status: ErrorResponse.Status,
        on open: Open,
        now: Duration,
        jitter: Double
    ) {
        let count = open.written - self.settled
        guard open.left > self.settled, count == 1 || self.limits.policy == .atLeastOnce else {
            return self.handleSilentEnd(open, now: now, jitter: jitter)
        }
        self.attemptEnds.insertSorted(open.left)
        guard count > 1 else {
            self.replace(open)
            self.settle(before: self.settled + 1, .rejected(.binary(status)))
            self.recordProgress()
            // Whatever the status, many in a row mean that it is not the notifications.
            self.countInvalidToken(.invalidToken)
            return
        }
        self.doubtful = max(self.doubtful, open.left)
        self.suspects = Suspects(end: open.left, part: max(1, (open.left - self.settled) / 2))
        self.replace(open)
    }

    /// The connection is given up while it is still alive, so that what is in this process may still leave it.
    private mutating func giveUp(_ open: Open, now: Duration, jitter: Double) {
        var open = open
        open.left = open.written
        self.handleSilentEnd(open, now: now, jitter: jitter)
    }

    /// The connection ended without a word that can be used.
    private mutating func handleSilentEnd(_ open: Open, now: Duration, jitter: Double) {
        let count = open.left - self.settled
        let wasIdle = open.written == self.settled && now - open.openedAt >= ProviderSession.quickCloseMax
        if count > 0 { self.attemptEnds.insertSorted(open.left) }
        self.replace(open)
        let settledBefore = self.settled
        if count > 0 {
            switch self.limits.policy {
            case .atMostOnce: self.settle(before: open.left, .indeterminate(self.lossReason))
            case .atLeastOnce: self.resend(before: open.left)
            }
        }
        guard !wasIdle else { return }
        self.silentCount += 1
        if self.limits.hasNoIdentifiers && count > 0 && self.limits.policy == .atLeastOnce {
            // This is how the gateway rejects, so to close in on the one that it does not want leads somewhere.
            guard count == 1 else { return }
            guard self.settled == settledBefore else { return self.countGivenUp() }
            return self.countFruitless(now: now, jitter: jitter)
        }
        self.countFruitless(now: now, jitter: jitter)
        if self.limits.life == .batch, !self.hasProof, !self.hasAnswered,
            self.silentCount >= self.limits.refusedConnectionCountMax
        {
            self.stop(.refused)
        }
    }

    /// A notification was given up that the gateway closed on each time: another failed connection is not held
    /// against it, but many in a row mean that it is not the notifications.
    private mutating func countGivenUp() {
        self.failures.succeeded()
        guard self.limits.life == .batch else { return }
        self.givenUpRunCount += 1
        if !self.hasProof, !self.hasAnswered, self.givenUpRunCount >= self.limits.refusedConnectionCountMax {
            return self.stop(.refused)
        }
        if self.givenUpRunCount >= ProviderSession.givenUpRunCountMax { self.stop(.unavailable) }
    }

    /// Sends all before `end` again as possible duplicates, in smaller parts if that has happened before.
    private mutating func resend(before end: UInt64) {
        let count = end - self.settled
        self.doubtful = max(self.doubtful, end)
        if count == 1 {
            let deaths = self.singleLoss.number == self.settled ? self.singleLoss.count + 1 : 1
            self.singleLoss = (self.settled, deaths)
            self.suspects = Suspects(end: max(end, self.suspects?.end ?? 0), part: 1)
            guard deaths >= self.limits.silentAttemptCountMax else { return }
            self.settle(before: end, .indeterminate(self.lossReason))
            self.narrowSuspects()
        } else if self.limits.hasNoIdentifiers {
            self.suspects = Suspects(end: end, part: max(1, count / 2))
        } else if self.silentCount >= 1 {
            self.suspects = Suspects(end: end, part: max(1, count / ProviderSession.silentDivisor))
        }
    }

    /// After something was settled: the suspects are fewer, or none.
    private mutating func narrowSuspects() {
        guard let suspects = self.suspects else { return }
        guard suspects.end > self.settled else {
            self.suspects = nil
            return
        }
        self.suspects?.part = max(1, (suspects.end - self.settled) / 2)
    }

    /// The gateway said something that could be placed: the service works.
    private mutating func recordProgress() {
        self.hasProof = true
        self.failures.succeeded()
        self.lastFailure = nil
        self.heldSince = nil
        self.silentCount = 0
        self.givenUpRunCount = 0
        self.narrowSuspects()
    }

    private mutating func countFruitless(now: Duration, jitter: Double) {
        guard let delay = self.failures.failed(jitter: jitter) else { return self.stop(.unavailable) }
        self.connectNotBefore = now + delay
    }

    private mutating func countInvalidToken(_ status: ErrorResponse.Status) {
        guard status == .invalidToken else { return }
        self.invalidTokenRunCount += 1
        let limit = self.limits.invalidTokenRunCountMax
        guard limit > 0, self.invalidTokenRunCount >= limit else { return }
        switch self.limits.life {
        case .batch: self.stop(.tooManyInvalidTokens)
        case .service: self.isCautious = true
        }
    }
}

// MARK: - What is settled, and which connection is used

extension ProviderSession {
    mutating func accept(before end: UInt64) {
        guard end > self.settled else { return }
        self.invalidTokenRunCount = 0
        self.isCautious = false
        self.settle(before: end, .accepted)
    }

    /// Gives all unsettled notifications before a number their outcome.
    mutating func settle(before end: UInt64, _ outcome: DeliveryOutcome) {
        while self.settled < end {
            let start = self.settled
            var next = end
            if self.doubtful > start { next = min(next, self.doubtful) }
            self.attemptEnds.removeFirst { $0 <= start }
            if let attemptEnd = self.attemptEnds.first { next = min(next, attemptEnd) }
            self.settled = next
            self.settlements.append(
                Settlement(
                    numbers: start..<next,
                    report: DeliveryReport(
                        outcome,
                        attempts: self.attemptEnds.count,
                        possibleDuplicate: start < self.doubtful
                    )
                )
            )
        }
        self.rebase()
    }

    /// A connection that nothing was written to begins where the settled numbers end, also when they end later.
    private mutating func rebase() {
        guard case .open(let open) = self.link, open.written == open.base, open.base < self.settled else { return }
        self.use(open.number, openedAt: open.openedAt)
    }

    /// Gives the connection up and takes the standby in its place.
    private mutating func replace(_ open: Open) {
        if self.live.contains(open.number) { self.closesDue.append(open.number) }
        switch self.standby {
        case .none, .failed: self.link = .none
        case .connecting(let number): self.link = .connecting(number)
        case .ready(let number, let since): self.use(number, openedAt: since)
        }
        self.standby = .none
    }

    /// Writes to this connection from now on, beginning with what is not settled.
    private mutating func use(_ number: ConnectionNumber, openedAt: Duration) {
        self.link = .open(
            Open(
                number: number,
                base: self.settled,
                written: self.settled,
                left: self.settled,
                openedAt: openedAt,
                firstWriteAt: openedAt,
                probeDeadline: nil
            )
        )
    }

    private mutating func dropStandby(_ number: ConnectionNumber, isClosed: Bool) {
        switch self.standby {
        case .connecting(number), .ready(number, since: _):
            self.standby = .failed
            if !isClosed { self.closesDue.append(number) }
        case .none, .connecting, .ready, .failed: break
        }
    }

    /// No connection can be opened any more: what the present one has written is proved, then the session stops.
    private mutating func stopConnecting() {
        if case .open(let open) = self.link, open.written > self.settled {
            self.isForbidden = true
        } else {
            self.stop(.notPermitted)
        }
    }

    /// What a service says of notifications whose connection ended without a word.
    private var lossReason: DeliveryOutcome.Reason? {
        guard self.limits.life == .service else { return nil }
        return self.lastFailure.map { .connectionLost($0) } ?? .deadline
    }

    /// What a service says of notifications without an outcome when it ends.
    private func reason(for ending: ProviderEnding) -> DeliveryOutcome.Reason? {
        guard self.limits.life == .service else { return nil }
        return switch (ending, self.lastFailure) {
        case (.notPermitted, let failure?): .notPermitted(failure)
        case (.unavailable, let failure?), (.refused, let failure?): .unavailable(failure)
        case (.abandoned, _), (.completed, _), (.tooManyInvalidTokens, _), (_, nil): .stopped
        }
    }

    /// Settles what is left and closes everything.
    mutating func stop(_ ending: ProviderEnding) {
        guard self.ending == nil else { return }
        self.ending = ending
        self.leftCount = self.taken - self.settled
        let reason = self.reason(for: ending)
        if case .open(let open) = self.link, open.written > self.settled {
            self.attemptEnds.insertSorted(open.written)
            self.settle(before: open.written, .indeterminate(reason))
        }
        self.settle(before: max(self.settled, min(self.doubtful, self.taken)), .indeterminate(reason))
        self.settle(before: self.taken, .unsent(reason))
        self.link = .none
        self.standby = .none
        self.closesDue = self.live.sorted()
    }
}

// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// The provider's state machine: it decides what to write to which connection, and determines the verified outcome of
/// every notification.
///
/// It does no I/O and has no clock: the caller reports events with the time, and calls ``step(now:)`` and performs the
/// steps until one is to wait. Outcomes are collected until ``takeSettlements()``.
///
/// Notifications have sequence numbers from 0 in the order in which they were received from the caller, and keep that
/// order on the wire, also when they are sent again. Only one connection is written to at a time, and its notifications
/// are settled before those of the next: so the settled ones are always a prefix, and a connection has always written
/// one contiguous range that begins after the settled ones. Identifier `i` of a connection is number `base + i - 1`.
///
/// ```
///   settled            sent           written       nextNumber
///      |  in the kernel  |  in process   |   to write     |   new ones
/// ```
///
/// - SeeAlso: Binary Provider API, "error-response packet"; docs/accounting.md.
public struct ProviderSession: Sendable {
    /// The limits of the session.
    public let limits: BinaryLimits

    /// The first number without an outcome; all before it are settled.
    public private(set) var settled: UInt64 = 0

    /// The first number that was not yet taken from the supply.
    public private(set) var nextNumber: UInt64 = 0

    /// Whether the memory for unsettled notifications is full; no more are then requested, and a checkpoint is made to
    /// free memory.
    public var isStoreFull = false

    /// The unsettled numbers before this one may have been processed on an earlier connection.
    private var doubtful: UInt64 = 0

    /// The ends of the ranges that earlier connections wrote, ascending, as far as they are not settled.
    private var attemptEnds: [UInt64] = []

    private(set) var supply = ProviderSupply.available
    private(set) var link = Link.none
    private(set) var standby = StandbyConnection.none
    private(set) var ending: ProviderEnding?
    private var settlements: [Settlement] = []

    private var connectionCount: UInt64 = 0
    private var live: Set<ConnectionNumber> = []
    private var closesDue: [ConnectionNumber] = []

    private(set) var suspects: Suspects?
    private(set) var retry: (number: UInt64, count: Int) = (0, 0)
    private(set) var singleLoss: (number: UInt64, count: Int) = (0, 0)
    package private(set) var failures: ConnectFailureCounter
    private var silentCount = 0
    private var givenUpRunCount = 0
    private var hasVerified = false
    /// Whether the gateway has announced a shutdown.
    private var hasAnswered = false
    /// Whether no connection can be opened any more, so that only the current one remains.
    private var hasStoppedConnecting = false
    private var invalidTokenRunCount = 0
    private var unsettledCount: UInt64 = 0
    package private(set) var connectNotBefore = Duration.zero
    private var checkpoints: CheckpointSchedule
    /// Whether to make a checkpoint as soon as there is nothing more to write.
    private var isCheckpointAskedFor = false
    /// Since when a service has unsettled notifications and no connection.
    private var heldSince: Duration?
    /// Why the most recent connection without verified outcomes ended.
    private var lastFailure: ConnectionFailure?
    /// Whether a service writes one notification per checkpoint, since too many consecutive tokens were invalid.
    public private(set) var isCautious = false

    /// A connection without outstanding notifications that closes sooner than this was not closed for being idle.
    private static let quickCloseMax = Duration.seconds(5)

    /// The factor by which less is written after a second consecutive connection ended without an answer.
    private static let silentDivisor: UInt64 = 16

    /// The maximum number of consecutive notifications that are given up, each after connections failed because of it
    /// alone, before the session stops.
    private static let givenUpRunCountMax = 50

    /// Creates a session without notifications.
    ///
    /// - Parameter limits: the limits of the session.
    public init(limits: BinaryLimits = BinaryLimits()) {
        precondition((1...(1 << 31)).contains(limits.windowCount), "The window is 1 to 2^31 notifications.")
        self.limits = limits
        self.checkpoints = CheckpointSchedule(limits)
        self.failures = ConnectFailureCounter(
            backoff: limits.backoff,
            countMax: limits.life == .batch ? limits.fruitlessConnectionCountMax : nil,
            isFirstFree: true
        )
    }
}

// MARK: - State for the caller

extension ProviderSession {
    /// Removes and returns the outcomes since the last call, in the order of their numbers.
    ///
    /// - Returns: consecutive outcomes without a gap.
    public mutating func takeSettlements() -> [Settlement] {
        defer { self.settlements.removeAll(keepingCapacity: true) }
        return self.settlements
    }

    /// Whether there are outcomes to take.
    public var hasSettlements: Bool { !self.settlements.isEmpty }

    /// Whether there is neither a connection nor a need for one, unless new notifications arrive.
    public var isAtRest: Bool {
        guard case .none = self.link else { return false }
        return self.settled == self.nextNumber && self.ending == nil
    }

    /// How the session ends, once it is decided.
    public var knownEnding: ProviderEnding? { self.ending }

    /// Whether unsettled notifications remained when the session stopped, and became indeterminate or unsent.
    public var hasUnsettled: Bool { self.unsettledCount > 0 }

    /// Whether the gateway closed at least so many connections as settle one notification, and never answered.
    package var isUnanswered: Bool {
        !self.hasVerified && !self.hasAnswered && self.silentCount >= self.limits.silentAttemptCountMax
    }

    /// Updates whether more notifications are available.
    ///
    /// After ``ProviderSupply/ended``, later updates are ignored.
    ///
    /// - Parameter supply: the availability of notifications.
    public mutating func supply(_ supply: ProviderSupply) {
        guard self.supply != .ended else { return }
        self.supply = supply
    }

    /// Stops immediately: what may have been processed becomes indeterminate, the rest unsent.
    public mutating func abandon() {
        self.stop(.abandoned)
    }

    /// Makes a checkpoint as soon as there is nothing more to write, without the delays of ``BinaryLimits``.
    public mutating func checkpoint() { self.isCheckpointAskedFor = true }

    /// Why it is unverified that the service works; `nil` if it works as far as is known.
    public var outage: ConnectionFailure? { self.failures.count > 0 ? self.lastFailure : nil }
}

// MARK: - Steps

extension ProviderSession {
    /// Returns the next step.
    ///
    /// - Parameter now: the time since any fixed point, never less than in an earlier call.
    /// - Returns: a step; call this again after performing it, unless it is to wait.
    public mutating func step(now: Duration) -> ProviderStep {
        if self.ending == nil, self.supply == .ended, self.settled == self.nextNumber { self.stop(.completed) }
        if let number = self.closesDue.popLast() { return .close(number) }
        if let ending = self.ending { return self.live.isEmpty ? .finish(ending) : .wait(until: nil) }
        if case .open(let open) = self.link { return self.step(with: open, now: now) }
        let deadline = self.outageDeadline(now: now)
        if let deadline, now >= deadline { self.settleHeld() }
        let step = self.stepWithoutConnection(now: now)
        guard case .wait(let until) = step, let deadline, self.settled < self.nextNumber else { return step }
        return .wait(until: until.map { min($0, deadline) } ?? deadline)
    }

    /// When a service settles notifications without a connection.
    private mutating func outageDeadline(now: Duration) -> Duration? {
        guard self.limits.life == .service, self.settled < self.nextNumber else {
            self.heldSince = nil
            return nil
        }
        let since = self.heldSince ?? now
        self.heldSince = since
        return since + self.limits.outageTimeout
    }

    /// Settles all notifications that were taken.
    private mutating func settleHeld() {
        let reason = self.lastFailure.map { DeliveryOutcome.Reason.unavailable($0) } ?? .deadline
        self.settle(before: max(self.settled, min(self.doubtful, self.nextNumber)), .indeterminate(reason))
        self.settle(before: self.nextNumber, .unsent(reason))
        self.suspects = nil
        self.heldSince = nil
    }

    private mutating func stepWithoutConnection(now: Duration) -> ProviderStep {
        if case .connecting = self.link { return .wait(until: nil) }
        guard !self.hasStoppedConnecting else {
            self.stop(.notPermitted)
            return self.step(now: now)
        }
        guard self.settled < self.nextNumber || self.supply == .available else { return .wait(until: nil) }
        guard now >= self.connectNotBefore else { return .wait(until: self.connectNotBefore) }
        let number = self.newConnection()
        self.link = .connecting(number)
        return .connect(number)
    }

    private mutating func step(with open: Open, now: Duration) -> ProviderStep {
        if let deadline = open.probeDeadline {
            guard now >= deadline else { return .wait(until: deadline) }
            self.giveUp(open, now: now, jitter: 1)
            return self.step(now: now)
        }
        if self.hasStoppedConnecting { return self.checkpoint(open, isFull: true, now: now) }
        // A replacement connection that is already open does not bypass the backoff.
        if open.written == open.base, now < self.connectNotBefore { return .wait(until: self.connectNotBefore) }
        let limit = self.writeLimit
        let hasMore = open.written < self.nextNumber || self.supply == .available
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

    /// The end of the numbers that may be written to the current connection.
    private var writeLimit: UInt64 {
        let part = self.isCautious ? 1 : self.suspects?.part ?? .max
        let window = self.settled + min(self.limits.windowCount, part)
        return self.isStoreFull ? min(window, self.nextNumber) : window
    }

    /// Whether it is time to open the next connection: half of a full window is written, or, for a service, anything.
    private func wantsReplacement(_ open: Open) -> Bool {
        guard self.standby == .none, self.suspects == nil, open.written > self.settled else { return false }
        return self.limits.life == .service || open.written - self.settled >= self.limits.windowCount / 2
    }

    /// Whether a service makes a checkpoint although there is more to write: it does not wait for a pause of its
    /// callers.
    private func interrupts(_ open: Open, now: Duration) -> Bool {
        guard self.limits.life == .service, open.written > self.settled else { return false }
        switch self.standby {
        case .none, .connecting: return false
        case .ready, .failed: return now >= self.checkpoints.due(for: .delay(since: open.firstWriteAt))
        }
    }

    private mutating func checkpoint(_ open: Open, isFull: Bool, now: Duration) -> ProviderStep {
        var reason = CheckpointSchedule.Reason.demand
        if !self.isCheckpointAskedFor {
            if self.isCautious {
                reason = .caution
            } else if !isFull && self.supply != .ended {
                reason = self.checkpoints.first(.delay(since: open.firstWriteAt), .pause(since: open.lastWriteAt))
            }
        }
        let due = self.checkpoints.due(for: reason)
        guard now >= due else { return .wait(until: due) }
        let isLast = self.supply == .ended && open.written == self.nextNumber
        switch self.standby {
        case .none where !isLast: return self.openStandby()
        case .connecting: return .wait(until: nil)
        case .none, .ready, .failed: break
        }
        self.checkpoints.made(for: reason, now: now)
        self.isCheckpointAskedFor = false
        var probed = open
        probed.probeDeadline = now + self.limits.responseTimeout
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
    /// A connection is open: its handshake is complete.
    ///
    /// - Parameters:
    ///   - number: the connection.
    ///   - now: the time.
    public mutating func connected(_ number: ConnectionNumber, now: Duration) {
        switch (self.link, self.standby) {
        case (.connecting(number), _): self.use(number, openedAt: now)
        case (_, .connecting(number)): self.standby = .ready(number, since: now)
        default: break
        }
    }

    /// Notifications of a ``ProviderStep/write(_:numbers:firstIdentifier:)`` were passed to the connection: first those
    /// already taken, then new ones.
    ///
    /// - Parameters:
    ///   - count: the number of notifications.
    ///   - now: the time.
    public mutating func wrote(_ count: UInt64, now: Duration) {
        guard case .open(var open) = self.link, open.probeDeadline == nil else {
            preconditionFailure("Only the connection of the last write step is written to.")
        }
        if open.written == open.base, count > 0 { open.firstWriteAt = now }
        if count > 0 { open.lastWriteAt = now }
        open.written += count
        precondition(open.written <= self.writeLimit, "No more is written than the write step allows.")
        self.nextNumber = max(self.nextNumber, open.written)
        self.link = .open(open)
    }

    /// The kernel accepted all bytes of all notifications before a number, so the gateway may have them; it does not
    /// have all bytes of the others.
    ///
    /// - Parameters:
    ///   - number: the connection.
    ///   - end: the first number whose bytes are not all accepted.
    public mutating func sent(_ number: ConnectionNumber, before end: UInt64) {
        guard case .open(var open) = self.link, open.number == number else { return }
        open.sent = min(max(open.sent, end), open.written)
        self.link = .open(open)
    }

    /// The gateway answered.
    ///
    /// Nothing more is written to the connection.
    ///
    /// - Parameters:
    ///   - response: the answer.
    ///   - number: the connection that it arrived on.
    ///   - now: the time.
    ///   - jitter: a random number from 0 to 1 for the delay of the next connection, if there is one.
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
        let result = VerificationResult(response, count: count, isProbed: open.probeDeadline != nil)
        self.handleEnd(result, response.status, on: open, now: now, jitter: jitter)
    }

    /// A connection ended: it could not be opened, was read to its end, failed, or was closed on request.
    ///
    /// - Parameters:
    ///   - number: the connection.
    ///   - failure: why, if it is known.
    ///   - permanently: whether another attempt would fail the same way, for example with an expired certificate; the
    ///     session then stops.
    ///   - isUnprocessed: whether certainly nothing of this connection was processed, because the gateway refused the
    ///     handshake or spoke another protocol. After any other permanent end it may have processed everything.
    ///   - end: the number of the first notification that cannot have left this system, although it may have been
    ///     written; `nil` if that is not known.
    ///   - now: the time.
    ///   - jitter: a random number from 0 to 1 for the delay of the next connection, if there is one.
    public mutating func closed(
        _ number: ConnectionNumber,
        failure: ConnectionFailure? = nil,
        permanently: Bool = false,
        isUnprocessed: Bool = false,
        sentBefore end: UInt64? = nil,
        now: Duration,
        jitter: Double
    ) {
        self.live.remove(number)
        self.closesDue.removeAll { $0 == number }
        if let failure { self.lastFailure = failure }
        if case .open(var open) = self.link, open.number == number {
            if let end { open.sent = min(open.sent, max(end, self.settled)) }
            if isUnprocessed { open.sent = self.settled }
            self.handleEnd(.unknown, nil, on: open, now: now, jitter: jitter)
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
    /// Handles the end of a connection, with or without an answer.
    private mutating func handleEnd(
        _ result: VerificationResult,
        _ status: ErrorResponse.Status?,
        on open: Open,
        now: Duration,
        jitter: Double
    ) {
        switch result {
        case .allAccepted: self.acceptVerified(before: open.written, reached: open.written, on: open)
        case .accepted(let count):
            self.acceptVerified(before: open.base + count, reached: max(open.sent, open.base + count), on: open)
        case .rejected(let index):
            let named = open.base + index
            self.attemptEnds.insertSorted(max(open.sent, named + 1))
            self.accept(before: named)
            self.replace(open)
            self.reject(named, status ?? .unknown, now: now, jitter: jitter)
        case .unidentifiedRejection:
            self.handleUnknownIdentifier(status ?? .unknown, on: open, now: now, jitter: jitter)
        case .unknown where status != nil:
            // A gateway that announces a shutdown has accepted the provider.
            self.hasAnswered = true
            self.giveUp(open, now: now, jitter: jitter)
        case .unknown: self.handleSilentEnd(open, now: now, jitter: jitter)
        }
    }

    private mutating func acceptVerified(before end: UInt64, reached: UInt64, on open: Open) {
        self.attemptEnds.insertSorted(reached)
        self.accept(before: end)
        self.replace(open)
        self.recordProgress()
    }

    /// Rejects the first unsettled notification, which the gateway identified.
    private mutating func reject(_ number: UInt64, _ status: ErrorResponse.Status, now: Duration, jitter: Double) {
        if status == .processingError {
            self.retry = (number, self.retry.number == number ? self.retry.count + 1 : 1)
            if self.retry.count <= self.limits.processingErrorRetryCountMax {
                self.connectNotBefore = now + self.limits.backoff.delay(failures: self.retry.count, jitter: jitter)
                return
            }
        }
        self.settle(before: number + 1, .rejected(.binary(status)))
        // A gateway whose service is unreachable answers each connection with status 1 for the first notification.
        if status != .processingError { self.recordProgress() }
        self.countInvalidToken(status)
    }

    /// Handles an answer without a known identifier: one of all those written made the connection fail.
    private mutating func handleUnknownIdentifier(
        _ status: ErrorResponse.Status,
        on open: Open,
        now: Duration,
        jitter: Double
    ) {
        let count = open.written - self.settled
        guard open.sent > self.settled, count == 1 || self.limits.policy == .atLeastOnce else {
            return self.handleSilentEnd(open, now: now, jitter: jitter)
        }
        self.attemptEnds.insertSorted(open.sent)
        guard count > 1 else {
            self.replace(open)
            self.settle(before: self.settled + 1, .rejected(.binary(status)))
            self.recordProgress()
            // Whatever the status, many consecutive ones mean that the notifications are not at fault.
            self.countInvalidToken(.invalidToken)
            return
        }
        self.doubtful = max(self.doubtful, open.sent)
        self.suspects = Suspects(end: open.sent, part: max(1, (open.sent - self.settled) / 2))
        self.replace(open)
    }

    /// Gives up a connection that is still alive, so data in this process may still be sent.
    private mutating func giveUp(_ open: Open, now: Duration, jitter: Double) {
        var open = open
        open.sent = open.written
        self.handleSilentEnd(open, now: now, jitter: jitter)
    }

    /// Handles the end of a connection without a usable answer.
    private mutating func handleSilentEnd(_ open: Open, now: Duration, jitter: Double) {
        let count = open.sent - self.settled
        let wasIdle = open.written == self.settled && now - open.openedAt >= ProviderSession.quickCloseMax
        if count > 0 { self.attemptEnds.insertSorted(open.sent) }
        self.replace(open)
        let settledBefore = self.settled
        if count > 0 {
            switch self.limits.policy {
            case .atMostOnce: self.settle(before: open.sent, .indeterminate(self.lossReason))
            case .atLeastOnce: self.resend(before: open.sent)
            }
        }
        guard !wasIdle else { return }
        self.silentCount += 1
        if self.limits.hasNoIdentifiers && count > 0 && self.limits.policy == .atLeastOnce {
            // This is how the gateway rejects with command 0, so narrowing down the rejected one makes progress.
            guard count == 1 else { return }
            guard self.settled == settledBefore else { return self.countGivenUp() }
            return self.countFruitless(now: now, jitter: jitter)
        }
        self.countFruitless(now: now, jitter: jitter)
        if self.limits.life == .batch, !self.hasVerified, !self.hasAnswered,
            self.silentCount >= self.limits.refusedConnectionCountMax
        {
            self.stop(.refused)
        }
    }

    /// Counts a notification that was given up because the gateway closed each connection with it.
    ///
    /// The last connection does not count as a failure of the service, but many consecutive ones mean that the
    /// notifications are not at fault.
    private mutating func countGivenUp() {
        self.failures.succeeded()
        guard self.limits.life == .batch else { return }
        self.givenUpRunCount += 1
        if !self.hasVerified, !self.hasAnswered, self.givenUpRunCount >= self.limits.refusedConnectionCountMax {
            return self.stop(.refused)
        }
        if self.givenUpRunCount >= ProviderSession.givenUpRunCountMax { self.stop(.unavailable) }
    }

    /// Sends all before `end` again as possible duplicates, in smaller parts if this has happened before.
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

    /// Updates the suspects after notifications were settled.
    private mutating func narrowSuspects() {
        guard let suspects = self.suspects else { return }
        guard suspects.end > self.settled else {
            self.suspects = nil
            return
        }
        self.suspects?.part = max(1, (suspects.end - self.settled) / 2)
    }

    /// Records an answer that identifies a notification: the service works.
    private mutating func recordProgress() {
        self.hasVerified = true
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

// MARK: - Settling and selecting a connection

extension ProviderSession {
    private mutating func accept(before end: UInt64) {
        guard end > self.settled else { return }
        self.invalidTokenRunCount = 0
        self.isCautious = false
        self.settle(before: end, .accepted)
    }

    /// Settles all notifications before a number.
    private mutating func settle(before end: UInt64, _ outcome: DeliveryOutcome) {
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
                        isPossibleDuplicate: start < self.doubtful
                    )
                )
            )
        }
        self.rebase()
    }

    /// Updates the base of a connection without written notifications to the end of the settled numbers.
    private mutating func rebase() {
        guard case .open(let open) = self.link, open.written == open.base, open.base < self.settled else { return }
        self.use(open.number, openedAt: open.openedAt)
    }

    /// Gives up the connection and uses the standby instead.
    private mutating func replace(_ open: Open) {
        if self.live.contains(open.number) { self.closesDue.append(open.number) }
        switch self.standby {
        case .none, .failed: self.link = .none
        case .connecting(let number): self.link = .connecting(number)
        case .ready(let number, let since): self.use(number, openedAt: since)
        }
        self.standby = .none
    }

    /// Selects this connection for writing, beginning with the unsettled notifications.
    private mutating func use(_ number: ConnectionNumber, openedAt: Duration) {
        self.link = .open(
            Open(
                number: number,
                base: self.settled,
                written: self.settled,
                sent: self.settled,
                openedAt: openedAt,
                firstWriteAt: openedAt,
                lastWriteAt: openedAt,
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

    /// Stops opening connections: a checkpoint verifies what the current one has written, then the session stops.
    private mutating func stopConnecting() {
        if case .open(let open) = self.link, open.written > self.settled {
            self.hasStoppedConnecting = true
        } else {
            self.stop(.notPermitted)
        }
    }

    /// The reason for notifications of a service whose connection ended without an answer.
    private var lossReason: DeliveryOutcome.Reason? {
        guard self.limits.life == .service else { return nil }
        return self.lastFailure.map { .connectionLost($0) } ?? .deadline
    }

    /// The reason for notifications of a service without an outcome when it ends.
    private func reason(for ending: ProviderEnding) -> DeliveryOutcome.Reason? {
        guard self.limits.life == .service else { return nil }
        return switch (ending, self.lastFailure) {
        case (.notPermitted, let failure?): .notPermitted(failure)
        case (.unavailable, let failure?), (.refused, let failure?): .unavailable(failure)
        case (.abandoned, _), (.completed, _), (.tooManyInvalidTokens, _), (_, nil): .stopped
        }
    }

    /// Settles all remaining notifications and closes all connections.
    private mutating func stop(_ ending: ProviderEnding) {
        guard self.ending == nil else { return }
        self.ending = ending
        self.unsettledCount = self.nextNumber - self.settled
        let reason = self.reason(for: ending)
        if case .open(let open) = self.link, open.written > self.settled {
            self.attemptEnds.insertSorted(open.written)
            self.settle(before: open.written, .indeterminate(reason))
        }
        self.settle(before: max(self.settled, min(self.doubtful, self.nextNumber)), .indeterminate(reason))
        self.settle(before: self.nextNumber, .unsent(reason))
        self.link = .none
        self.standby = .none
        self.closesDue = self.live.sorted()
    }
}

// MARK: - The state of the connections

extension ProviderSession {
    enum Link: Sendable {
        case none
        case connecting(ConnectionNumber)
        case open(Open)
    }

    enum StandbyConnection: Equatable, Sendable {
        case none
        case connecting(ConnectionNumber)
        case ready(ConnectionNumber, since: Duration)
        case failed
    }

    struct Open: Sendable {
        var number: ConnectionNumber
        var base: UInt64
        var written: UInt64
        var sent: UInt64
        var openedAt: Duration
        /// When the first notification of this connection was written.
        var firstWriteAt: Duration
        /// When the last one was written.
        var lastWriteAt: Duration
        var probeDeadline: Duration?
    }

    /// Numbers of which an unidentified one makes its connection fail; they are sent in small parts.
    struct Suspects: Sendable {
        var end: UInt64
        var part: UInt64
    }
}

/// What an answer shows about the notifications that were written to its connection.
///
/// docs/accounting.md describes rules that look right but are wrong.
enum VerificationResult: Equatable, Sendable {
    /// All of them were accepted.
    case allAccepted
    /// The first `count` were accepted, the others discarded.
    case accepted(count: UInt64)
    /// The one with this index from 0 was rejected, all before it were accepted, all after it discarded.
    case rejected(index: UInt64)
    /// One of them was rejected, but it is unknown which.
    case unidentifiedRejection
    /// Nothing, as an end without an answer.
    case unknown

    /// Interprets an answer on a connection to which `count` notifications were written with the identifiers 1 to
    /// `count`, followed by a probe if `isProbed` is set.
    init(_ response: ErrorResponse, count: UInt64, isProbed: Bool) {
        let identifier = UInt64(response.identifier)
        let isNamed = identifier >= 1 && identifier <= count
        self =
            if response.status == .shutdown {
                isNamed ? .accepted(count: identifier) : .unknown
            } else if isNamed {
                .rejected(index: identifier - 1)
            } else if isProbed, identifier == count + 1 {
                .allAccepted
            } else if isProbed, identifier == 0, response.status == .missingDeviceToken {
                .allAccepted
            } else {
                .unidentifiedRejection
            }
    }
}

/// Determines when a session may make a checkpoint to verify what it has written.
///
/// Each checkpoint costs a connection. Checkpoints because of ``BinaryLimits/verificationDelay`` keep a minimum
/// interval on average, except for a burst after an idle time. Required checkpoints, because the window is full or the
/// caller requests one, keep only ``BinaryLimits/checkpointIntervalMin``.
struct CheckpointSchedule: Sendable {
    /// The reason for a checkpoint.
    enum Reason {
        /// Nothing more can be written before it, or the caller requested it.
        case demand
        /// What was written at this time must be verified in time.
        case delay(since: Duration)
        /// Nothing more was written since this time.
        case pause(since: Duration)
        /// One notification is written per checkpoint.
        case caution
    }

    private let limits: BinaryLimits
    private var last: Duration?
    /// When all checkpoints due to a delay would have been made if each had kept its interval.
    private var scheduledUntil: Duration?
    /// The same for those due to a pause.
    private var pausesScheduledUntil: Duration?

    init(_ limits: BinaryLimits) { self.limits = limits }

    /// The time when a checkpoint is due.
    func due(for reason: Reason) -> Duration {
        let earliest = self.last.map { $0 + self.limits.checkpointIntervalMin } ?? .zero
        return switch reason {
        case .demand: earliest
        case .delay(let since): max(earliest, self.paced, since + self.limits.verificationDelay)
        case .pause(let since):
            max(earliest, self.pausesPaced, since + (self.limits.verificationPause ?? self.limits.verificationDelay))
        case .caution: max(earliest, self.paced)
        }
    }

    /// The reason of the two whose checkpoint is due first; a pause is none if the limits have no time for it.
    func first(_ delay: Reason, _ pause: Reason) -> Reason {
        guard self.limits.verificationPause != nil, self.due(for: pause) < self.due(for: delay) else { return delay }
        return pause
    }

    private var paced: Duration { self.begin(self.scheduledUntil, self.limits.verificationIntervalMin) }

    private var pausesPaced: Duration {
        self.begin(self.pausesScheduledUntil, self.limits.verificationPauseIntervalMin)
    }

    /// When the next checkpoint may begin after those that are scheduled, with a burst.
    private func begin(_ scheduledUntil: Duration?, _ intervalMin: Duration) -> Duration {
        scheduledUntil.map { $0 - intervalMin * (self.limits.verificationBurstCount - 1) } ?? .zero
    }

    /// Records a checkpoint.
    mutating func made(for reason: Reason, now: Duration) {
        self.last = now
        switch reason {
        case .demand: break
        case .delay, .caution:
            self.scheduledUntil = max(self.scheduledUntil ?? now, now) + self.limits.verificationIntervalMin
        case .pause:
            let interval = self.limits.verificationPauseIntervalMin
            self.pausesScheduledUntil = max(self.pausesScheduledUntil ?? now, now) + interval
        }
    }
}

extension [UInt64] {
    /// Inserts a number into an ascending array; usually at the end.
    fileprivate mutating func insertSorted(_ number: UInt64) {
        var index = self.endIndex
        while index > self.startIndex, self[index - 1] > number { index -= 1 }
        self.insert(number, at: index)
    }

    /// Removes elements from the front while the condition holds.
    fileprivate mutating func removeFirst(while condition: (UInt64) -> Bool) {
        let count = self.prefix(while: condition).count
        if count > 0 { self.removeFirst(count) }
    }
}

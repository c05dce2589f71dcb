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
    public internal(set) var settled: UInt64 = 0

    /// The first number that was not yet taken from the supply.
    public internal(set) var taken: UInt64 = 0

    /// Whether no more notifications fit the memory in which the untaken ones are kept; they are then not asked for,
    /// and a checkpoint is made to make room.
    public var storeIsFull = false

    /// All numbers before this one that have no outcome may have been processed on a connection that is gone.
    var doubtful: UInt64 = 0

    /// Where the numbers ended that each earlier connection wrote, ascending, as far as they are not settled.
    var attemptEnds: [UInt64] = []

    let rules: PlacementRules
    var supply = ProviderSupply.available
    var link = Link.none
    var standby = StandbyConnection.none
    var ending: ProviderEnding?
    var settlements: [Settlement] = []

    var connectionCount: UInt64 = 0
    var live: Set<ConnectionNumber> = []
    var closesDue: [ConnectionNumber] = []

    var suspicion: Suspicion?
    var retry: (number: UInt64, count: Int) = (0, 0)
    var loneDeath: (number: UInt64, count: Int) = (0, 0)
    var fruitlessCount = 0
    var silentCount = 0
    var givenUpRunCount = 0
    var hasProof = false
    /// Whether the gateway has told of a shutdown.
    var hasAnswered = false
    /// Whether no connection can be opened any more, so that what the present one has written is all that is left.
    var isForbidden = false
    var invalidTokenRunCount = 0
    var leftCount: UInt64 = 0
    var connectNotBefore = Duration.zero
    var lastCheckpoint: Duration?
    var lastIdleCheckpoint: Duration?

    /// A connection that closes this soon with nothing outstanding was not closed for being idle.
    static let quickCloseMax = Duration.seconds(5)

    /// By how much fewer are written after a connection died without a word for the second time in a row.
    static let silentDivisor: UInt64 = 16

    /// How many notifications in a row may be given up, each after connections died of it alone, before the session
    /// stops.
    static let givenUpRunCountMax = 50

    /// Begins a session with nothing taken.
    ///
    /// - Parameter limits: the numbers by which it decides.
    public init(limits: ProviderLimits = ProviderLimits()) {
        self.init(limits: limits, rules: .proved)
    }

    init(limits: ProviderLimits, rules: PlacementRules) {
        precondition((1...(1 << 31)).contains(limits.windowCount), "The window is 1 to 2^31 notifications.")
        self.limits = limits
        self.rules = rules
    }

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
        var left: UInt64
        var openedAt: Duration
        var lastWriteAt: Duration
        var probeDeadline: Duration?
    }

    /// Numbers among which one spoils its connection and could not be named; they are sent in small parts.
    struct Suspicion: Sendable {
        var end: UInt64
        var part: UInt64
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
        switch self.link {
        case .none: return self.stepWithoutConnection(now: now)
        case .connecting: return .wait(until: nil)
        case .open(let open): return self.step(with: open, now: now)
        }
    }

    mutating func stepWithoutConnection(now: Duration) -> ProviderStep {
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
        if open.written < limit, open.written < self.taken || self.supply == .available {
            if self.wantsReplacement(open, limit: limit) { return self.openStandby() }
            let identifier = UInt32(truncatingIfNeeded: open.written - open.base + 1)
            return .write(open.number, numbers: open.written..<limit, firstIdentifier: identifier)
        }
        guard open.written > self.settled else { return .wait(until: nil) }
        return self.checkpoint(open, isFull: open.written >= limit, now: now)
    }

    /// The number before which the present connection may be written to.
    var writeLimit: UInt64 {
        let window = self.settled + min(self.limits.windowCount, self.suspicion?.part ?? .max)
        return self.storeIsFull ? min(window, self.taken) : window
    }

    /// Whether half of a full window is written, so that it is time to open the connection that comes after it.
    func wantsReplacement(_ open: Open, limit: UInt64) -> Bool {
        self.standby == .none && self.suspicion == nil && open.written - self.settled >= self.limits.windowCount / 2
            && open.written > self.settled
    }

    mutating func checkpoint(_ open: Open, isFull: Bool, now: Duration) -> ProviderStep {
        var due = self.lastCheckpoint.map { $0 + self.limits.checkpointIntervalMin } ?? .zero
        let isIdle = !isFull && self.supply == .waiting
        if isIdle {
            due = max(due, open.lastWriteAt + self.limits.idleCheckpointDelay)
            if let last = self.lastIdleCheckpoint { due = max(due, last + self.limits.idleCheckpointIntervalMin) }
        }
        guard now >= due else { return .wait(until: due) }
        let isLast = self.supply == .ended && open.written == self.taken
        switch self.standby {
        case .none where !isLast: return self.openStandby()
        case .connecting: return .wait(until: nil)
        case .none, .ready, .failed: break
        }
        self.lastCheckpoint = now
        if isIdle { self.lastIdleCheckpoint = now }
        var probed = open
        probed.probeDeadline = now + self.limits.answerDelayMax
        self.link = .open(probed)
        return .probe(open.number, identifier: UInt32(truncatingIfNeeded: open.written - open.base + 1))
    }

    mutating func openStandby() -> ProviderStep {
        let number = self.newConnection()
        self.standby = .connecting(number)
        return .connect(number)
    }

    mutating func newConnection() -> ConnectionNumber {
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

    /// A connection could not be opened.
    ///
    /// - Parameters:
    ///   - number: which one.
    ///   - permanently: whether another try cannot mend it, such as with an expired certificate.
    ///   - now: the time.
    ///   - jitter: a random number, 0 to 1, by which the next try is spread.
    public mutating func connectFailed(
        _ number: ConnectionNumber,
        permanently: Bool = false,
        now: Duration,
        jitter: Double
    ) {
        self.live.remove(number)
        self.closesDue.removeAll { $0 == number }
        if case .connecting(number) = self.link {
            self.link = .none
            self.countFruitless(now: now, jitter: jitter)
        } else {
            self.dropStandby(number, isClosed: true)
        }
        if permanently { self.forbid() }
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
        open.written += count
        open.lastWriteAt = now
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
        let placement = self.rules.place(response, count, open.probeDeadline != nil)
        self.judge(placement, response.status, on: open, now: now, jitter: jitter)
    }

    /// A connection has ended: it was read to its end, or failed, or was closed as told.
    ///
    /// - Parameters:
    ///   - number: which one.
    ///   - permanently: whether it ended in a way that another try cannot mend; the session then stops.
    ///   - isUnprocessed: whether it is proved that the gateway has processed nothing of this connection, because it
    ///     refused the handshake. A gateway that ends a connection for good otherwise may have processed all.
    ///   - now: the time.
    ///   - jitter: a random number, 0 to 1, by which the next connection is delayed where that is due.
    public mutating func closed(
        _ number: ConnectionNumber,
        permanently: Bool = false,
        isUnprocessed: Bool = false,
        now: Duration,
        jitter: Double
    ) {
        self.live.remove(number)
        self.closesDue.removeAll { $0 == number }
        if case .open(var open) = self.link, open.number == number {
            if isUnprocessed { open.left = self.settled }
            self.judge(isUnprocessed ? .silence : self.rules.end, nil, on: open, now: now, jitter: jitter)
        } else if case .connecting(number) = self.link {
            self.link = .none
            self.countFruitless(now: now, jitter: jitter)
        } else {
            self.dropStandby(number, isClosed: true)
        }
        if permanently { self.forbid() }
    }
}

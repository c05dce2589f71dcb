// SPDX-License-Identifier: Apache-2.0

import APNSSession

/// What outlives the connections of one provider, and reloads of its configuration.
struct BridgeState {
    var ledger: DeliveryLedger
    var gate = IdentityGate()
    /// Whether providers that come back do so elsewhere, where nothing is known of what is under way here.
    var isLeaving = false
    /// How many notifications are under way.
    private(set) var inFlightCount = 0
    private var inboxes: [UInt64: VerdictInbox] = [:]
    private var idleWaiters: [@Sendable () -> Void] = []

    init(_ configuration: BridgeConfiguration) {
        self.ledger = DeliveryLedger(
            swallowSet: SwallowSet(
                countMax: configuration.rememberedCountMax,
                duration: configuration.rememberedDuration
            )
        )
    }

    /// Takes another version of the configuration.
    mutating func take(_ configuration: BridgeConfiguration) {
        self.isLeaving = false
        self.ledger.bound(
            rememberedCountMax: configuration.rememberedCountMax,
            duration: configuration.rememberedDuration
        )
    }

    mutating func take(
        _ key: ResendKey,
        from origin: FlightOrigin,
        _ inbox: VerdictInbox,
        now: Duration
    ) -> DeliveryLedger.OnTake {
        if origin.number == 1 { self.inboxes[origin.connection] = inbox }
        let action = self.ledger.take(key, from: origin, now: now)
        if case .send = action { self.inFlightCount += 1 }
        return action
    }

    /// - Returns: where the verdict goes, `nil` for nowhere.
    mutating func end(
        _ flight: FlightNumber,
        from origin: FlightOrigin,
        _ ending: FlightEnding,
        now: Duration,
        jitter: Double
    ) -> (inbox: VerdictInbox, number: UInt64)? {
        self.inFlightCount -= 1
        switch ending.cause {
        case .accepted, .dead: self.gate.success()
        case .misconfigured, .credentialFault, .budgetSpent: self.gate.fault(now: now, jitter: jitter)
        case .rejected, .throttled, .unknown, .gatewayFault, .swallowed: break
        }
        guard let target = self.ledger.end(flight, from: origin, ending.verdict),
            let inbox = self.inboxes[target.connection]
        else { return nil }
        return (inbox, target.number)
    }

    mutating func end(_ connection: UInt64, at number: UInt64, now: Duration) {
        self.ledger.end(connection, at: number, now: now)
        self.inboxes[connection] = nil
    }

    mutating func close(_ connection: UInt64) {
        self.ledger.close(connection)
        self.inboxes[connection] = nil
    }

    /// Whether anything is under way, or may come of a connection that has sent something.
    var isBusy: Bool { self.inFlightCount > 0 || !self.inboxes.isEmpty }

    /// Whether another try may deliver it twice: its provider was told to send it again, and does so elsewhere.
    func isAbandoned(_ flight: FlightNumber) -> Bool { self.isLeaving && self.ledger.isToldAsNotTaken(flight) }

    /// Notes who waits until nothing is under way.
    ///
    /// - Returns: whether anything is; else there is nothing to wait for.
    mutating func wait(_ waiter: @escaping @Sendable () -> Void) -> Bool {
        guard self.inFlightCount > 0 else { return false }
        self.idleWaiters.append(waiter)
        return true
    }

    /// - Returns: those to be called now.
    mutating func takeIdleWaiters() -> [@Sendable () -> Void] {
        guard self.inFlightCount == 0, !self.idleWaiters.isEmpty else { return [] }
        defer { self.idleWaiters = [] }
        return self.idleWaiters
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSSession

/// What outlives the connections of one provider, and reloads of its configuration.
struct BridgeState {
    /// What to do with a notification that a provider sent.
    enum OnTake {
        /// Send it to the service.
        case send(FlightNumber)
        /// It was delivered before: forget that on the disk, then say that it is delivered.
        case forget(FlightNumber, ResendKey)
    }

    /// Carries out the end of a connection; `true` where what it leaves behind is remembered, so that the provider may
    /// be told.
    typealias EndCompletion = @Sendable (_ isRemembered: Bool) -> Void

    /// Who has to learn of an ending.
    enum OnEnding {
        case settle(VerdictInbox, UInt64)
        case drop
        case finish(InFlightTracker.ConnectionEnd, EndCompletion?)
    }

    let rules: BridgeRules
    private var tracker: InFlightTracker
    private(set) var deduplicator: ResendDeduplicator
    var cooldown = ProviderCooldown()
    /// How many notifications are under way.
    private(set) var inFlightCount = 0
    private var inboxes: [UInt64: VerdictInbox] = [:]
    /// Connections whose end waits for notifications.
    private var endCompletions: [UInt64: EndCompletion] = [:]
    private var idleWaiters: [@Sendable () -> Void] = []

    init(_ configuration: BridgeConfiguration, rules: BridgeRules = .exact) {
        self.rules = rules
        self.tracker = InFlightTracker(rules: rules)
        self.deduplicator = ResendDeduplicator(
            countMax: configuration.rememberedCountMax,
            duration: configuration.rememberedDuration
        )
    }

    /// Takes another version of the configuration.
    mutating func take(_ configuration: BridgeConfiguration) {
        self.deduplicator.bound(
            countMax: configuration.rememberedCountMax,
            duration: configuration.rememberedDuration
        )
    }

    mutating func take(
        _ content: ResendContent,
        identifier: UInt32?,
        from origin: FlightOrigin,
        _ inbox: VerdictInbox,
        now: Duration
    ) -> OnTake {
        if origin.number == 1 { self.inboxes[origin.connection] = inbox }
        let flight = self.tracker.take(content, identifier: identifier, from: origin)
        self.inFlightCount += 1
        // The digest is made only while there is something to compare it with.
        if !self.deduplicator.isEmpty, let identifier {
            let key = self.rules.key(content, identifier)
            if self.deduplicator.remove(key, now: now) { return .forget(flight, key) }
        }
        return .send(flight)
    }

    /// Takes it that the way of a notification to the service is over.
    mutating func end(
        _ flight: FlightNumber,
        from origin: FlightOrigin,
        _ ending: FlightEnding,
        of key: ProviderCooldown.Key,
        now: Duration,
        jitter: Double
    ) -> OnEnding {
        self.inFlightCount -= 1
        switch ending.cause {
        case .accepted, .dead: self.cooldown.success(of: key)
        case .misconfigured, .credentialFault, .budgetSpent: self.cooldown.fault(of: key, now: now, jitter: jitter)
        case .rejected, .throttled, .unknown, .gatewayFault, .ignored, .resent: break
        }
        switch self.tracker.end(flight, from: origin, self.rules.tracked(ending.verdict)) {
        case .settle: return self.inboxes[origin.connection].map { .settle($0, origin.number) } ?? .drop
        case .drop: return .drop
        case .finish(let end): return self.finish(end)
        }
    }

    private mutating func finish(_ end: InFlightTracker.ConnectionEnd) -> OnEnding {
        .finish(end, self.endCompletions.removeValue(forKey: end.connection))
    }

    /// What to do about the wish to try a notification again.
    enum OnRetry {
        case retry
        /// Its provider will send it again.
        case abandon(OnEnding)
    }

    mutating func wait(_ flight: FlightNumber, from origin: FlightOrigin, mayBeTaken: Bool) -> OnRetry {
        switch self.tracker.wait(flight, from: origin, mayBeTaken: mayBeTaken) {
        case .retry: return .retry
        case .abandon(let end):
            self.inFlightCount -= 1
            return .abandon(end.map { self.finish($0) } ?? .drop)
        }
    }

    /// Takes it that the pause before another attempt is over.
    ///
    /// - Returns: whether it is to be made.
    mutating func resume(_ flight: FlightNumber, from origin: FlightOrigin) -> Bool {
        self.tracker.resume(flight, from: origin)
    }

    /// Takes it that a connection ends, and what its provider is to be told.
    ///
    /// - Parameters:
    ///   - connection: which one.
    ///   - number: the first message that was not taken.
    ///   - identifier: what the provider is told.
    ///   - body: is called where the end has to wait.
    /// - Returns: how many notifications were given up, and the end, `nil` where it has to wait.
    mutating func end(
        _ connection: UInt64,
        at number: UInt64,
        told identifier: UInt32,
        then body: @escaping EndCompletion
    ) -> InFlightTracker.OnEnd {
        let action = self.tracker.end(connection, at: number, told: identifier)
        self.inFlightCount -= action.abandonedCount
        self.inboxes[connection] = nil
        if action.finish == nil { self.endCompletions[connection] = body }
        return action
    }

    /// Remembers what will be sent again, all or nothing.
    ///
    /// - Returns: whether there is room for it.
    mutating func remember(_ keys: [ResendKey], now: Duration) -> Bool {
        self.deduplicator.insert(keys, now: now)
    }

    mutating func close(_ connection: UInt64) {
        self.tracker.close(connection)
        self.inboxes[connection] = nil
        self.endCompletions[connection] = nil
    }

    /// Whether anything is under way, or may come of a connection that has sent something.
    var isBusy: Bool { self.inFlightCount > 0 || !self.inboxes.isEmpty || !self.endCompletions.isEmpty }

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

extension Verdict {
    /// What the service has done with a notification of this verdict.
    var trackedEnding: InFlightTracker.Ending {
        switch self {
        case .accepted, .dead, .acceptedAsLast: .delivered
        case .ignored: .ignored
        case .rejected, .serviceFault, .notPermitted: .notDelivered
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSession
import APNSWire

/// What outlives the connections of one provider, and reloads of its configuration.
struct BridgeState {
    /// What to do with a notification that a provider sent.
    enum OnTake {
        /// Send it to the service.
        case send(DeliveryNumber)
        /// It was delivered before: forget that on the disk, then say that it is delivered.
        case forget(DeliveryNumber, ResendKey)
    }

    /// Carries out the end of a connection; `true` where what it leaves behind is remembered, so that the provider may
    /// be told.
    typealias EndCompletion = @Sendable (_ isRemembered: Bool) -> Void

    /// Who has to learn of an ending.
    enum OnEnding {
        case settle(OutcomeQueue, UInt64)
        case drop
        case finish(InFlightTracker.ConnectionEnd)
    }

    /// What is known when what a provider will send again is on the disk.
    enum OnRemembered {
        /// Tell the provider; so many notifications are left to their resend.
        case tell(EndCompletion, abandonedCount: Int)
        /// There is no room for it: forget it on the disk, and tell the provider nothing.
        case refuse(EndCompletion)
        /// The connection is gone, and nobody is told: forget it on the disk.
        case forget
    }

    let rules: BridgeRules
    private var tracker: InFlightTracker
    private(set) var deduplicator: ResendDeduplicator
    var cooldown = ProviderCooldown()
    private var rememberedDuration: Duration
    /// How many notifications are under way.
    private(set) var inFlightCount = 0
    /// How many were, and have come to their end.
    private(set) var settledCount: UInt64 = 0
    private var outcomeQueues: [UInt64: OutcomeQueue] = [:]
    /// Connections whose end waits for notifications.
    private var endCompletions: [UInt64: EndCompletion] = [:]
    private var idleWaiters: [@Sendable () -> Void] = []

    init(_ configuration: BridgeConfiguration, rules: BridgeRules = .exact) {
        self.rules = rules
        self.rememberedDuration = configuration.rememberedDuration
        self.tracker = InFlightTracker(rules: rules)
        self.deduplicator = ResendDeduplicator(
            countMax: configuration.rememberedCountMax,
            duration: configuration.rememberedDuration
        )
    }

    /// Takes another version of the configuration.
    mutating func take(_ configuration: BridgeConfiguration) {
        self.rememberedDuration = configuration.rememberedDuration
        self.deduplicator.bound(
            countMax: configuration.rememberedCountMax,
            duration: configuration.rememberedDuration
        )
    }

    mutating func take(
        _ content: ResendContent,
        identifier: UInt32?,
        from origin: DeliveryOrigin,
        _ outcomes: OutcomeQueue,
        now: Duration
    ) -> OnTake {
        if origin.number == 1 { self.outcomeQueues[origin.connection] = outcomes }
        let delivery = self.tracker.take(content, identifier: identifier, from: origin)
        self.inFlightCount += 1
        // The digest is made only while there is something to compare it with.
        if !self.deduplicator.isEmpty, let identifier {
            let key = self.rules.key(content, identifier)
            if self.deduplicator.remove(key, now: now) { return .forget(delivery, key) }
        }
        return .send(delivery)
    }

    /// Records that a notification has its outcome.
    mutating func end(
        _ delivery: DeliveryNumber,
        from origin: DeliveryOrigin,
        _ outcome: DeliveryOutcome,
        _ cause: DeliveryCause,
        of key: ProviderCooldown.Key,
        now: Duration,
        jitter: Double
    ) -> OnEnding {
        self.inFlightCount -= 1
        self.settledCount += 1
        switch cause {
        case .accepted, .dead: self.cooldown.success(of: key)
        case .misconfigured, .credentialFault, .budgetSpent:
            let delayMax = self.rememberedDuration / 2
            self.cooldown.fault(of: key, now: now, delayMax: delayMax, jitter: jitter)
        case .rejected, .throttled, .unknown, .gatewayFault, .ignored, .resent, .leftToResend: break
        }
        switch self.tracker.end(delivery, from: origin, self.rules.tracked(outcome, cause)) {
        case .settle: return self.outcomeQueues[origin.connection].map { .settle($0, origin.number) } ?? .drop
        case .drop: return .drop
        case .finish(let end): return .finish(end)
        }
    }

    /// Records that a notification waits for another attempt.
    ///
    /// - Returns: the end of its connection, where that waited for this alone.
    mutating func wait(
        _ delivery: DeliveryNumber,
        from origin: DeliveryOrigin,
        mayBeTaken: Bool
    ) -> InFlightTracker.ConnectionEnd? {
        self.tracker.wait(delivery, from: origin, mayBeTaken: mayBeTaken)
    }

    /// Records that the pause before another attempt is over.
    mutating func resume(_ delivery: DeliveryNumber, from origin: DeliveryOrigin) -> InFlightTracker.OnResume {
        self.tracker.resume(delivery, from: origin)
    }

    /// Records that a connection ends, and what its provider is to be told.
    ///
    /// - Parameters:
    ///   - connection: which one.
    ///   - number: the first message that was not taken.
    ///   - identifier: what the provider is told.
    ///   - body: carries out the end.
    /// - Returns: the end, `nil` where it has to wait.
    mutating func end(
        _ connection: UInt64,
        at number: UInt64,
        told identifier: UInt32,
        then body: @escaping EndCompletion
    ) -> InFlightTracker.ConnectionEnd? {
        self.outcomeQueues[connection] = nil
        self.endCompletions[connection] = body
        return self.tracker.end(connection, at: number, told: identifier)
    }

    /// Whether there is room to remember so many more.
    mutating func hasRoom(for count: Int, now: Duration) -> Bool { self.deduplicator.hasRoom(for: count, now: now) }

    /// Records that what a provider will send again is on the disk.
    ///
    /// It is remembered from now on, not from when it was handed to the disk, since the provider learns of it now.
    mutating func remembered(_ keys: [ResendKey], of connection: UInt64, now: Duration) -> OnRemembered {
        guard let body = self.endCompletions.removeValue(forKey: connection) else { return .forget }
        guard self.deduplicator.insert(keys, now: now) else {
            self.tracker.close(connection)
            return .refuse(body)
        }
        let abandonedCount = self.tracker.tell(connection)
        self.inFlightCount -= abandonedCount
        self.settledCount += UInt64(abandonedCount)
        return .tell(body, abandonedCount: abandonedCount)
    }

    /// Records that a connection whose provider was to be told is closed without a word.
    ///
    /// - Returns: what carries that out; `nil` where it is gone.
    mutating func refuse(_ connection: UInt64) -> EndCompletion? {
        self.tracker.close(connection)
        return self.endCompletions.removeValue(forKey: connection)
    }

    /// Takes what another process was about to get sent again.
    mutating func expect(_ keys: [ResendKey], now: Duration) { _ = self.deduplicator.insert(keys, now: now) }

    mutating func close(_ connection: UInt64) {
        self.tracker.close(connection)
        self.outcomeQueues[connection] = nil
        self.endCompletions[connection] = nil
    }

    /// Whether anything is under way, may come of a connection that has sent something, or is expected again.
    var isBusy: Bool {
        self.inFlightCount > 0 || !self.outcomeQueues.isEmpty || !self.endCompletions.isEmpty
            || !self.deduplicator.isEmpty
    }

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

extension InFlightTracker.Ending {
    /// What the service has done with a notification of an outcome.
    init(_ outcome: DeliveryOutcome, _ cause: DeliveryCause) {
        switch outcome {
        case _ where cause == .ignored: self = .ignored
        case .accepted, .suppressed: self = .delivered
        case .rejected(let rejection): self = rejection.errorResponseStatus == nil ? .delivered : .notDelivered
        case .indeterminate: self = .inDoubt
        case .unsent, .invalid: self = .notDelivered
        }
    }
}

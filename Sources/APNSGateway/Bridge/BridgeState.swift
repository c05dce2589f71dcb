// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSession
import APNSWire

/// The state that outlives the connections of a provider and reloads of its configuration.
struct BridgeState {
    /// What to do with a new notification.
    enum OnTake {
        /// Send it to the service.
        case send(DeliveryNumber)
        /// It was already delivered: remove the expected resend from the disk, then report the notification as
        /// delivered.
        case forget(DeliveryNumber, ResendKey)
    }

    /// Called at the end of a connection; `true` if the expected resends are stored, so that the error response may be
    /// sent.
    typealias EndCompletion = @Sendable (_ isRemembered: Bool) -> Void

    /// Where an outcome is reported.
    enum OnEnding {
        case settle(OutcomeQueue, UInt64)
        case drop
        case finish(InFlightTracker.ConnectionEnd)
    }

    /// What to do once the expected resends are on the disk.
    enum OnRemembered {
        /// Send the error response; this many notifications are left to be resent.
        case tell(EndCompletion, abandonedCount: Int)
        /// There is no room: remove them from the disk and send no error response.
        case refuse(EndCompletion)
        /// The connection has closed without an error response: remove them from the disk.
        case forget
    }

    let rules: BridgeRules
    private var tracker: InFlightTracker
    private(set) var deduplicator: ResendDeduplicator
    var cooldown = ProviderCooldown()
    private var rememberedDuration: Duration
    /// The number of notifications in flight.
    private(set) var inFlightCount = 0
    /// The number of completed notifications.
    private(set) var settledCount: UInt64 = 0
    /// The number of notifications that ended without being accepted, and that no provider was told of.
    private(set) var unreportedCount: UInt64 = 0
    private var outcomeQueues: [UInt64: OutcomeQueue] = [:]
    /// Connections whose end waits for outcomes.
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

    /// Applies another version of the configuration.
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
        // The digest is computed only if there is something to compare it with.
        if !self.deduplicator.isEmpty, let identifier {
            let key = self.rules.key(content, identifier)
            if self.deduplicator.remove(key, now: now) { return .forget(delivery, key) }
        }
        return .send(delivery)
    }

    /// Records the outcome of a notification.
    ///
    /// - Parameter isReported: whether the provider learns that it was not accepted.
    mutating func end(
        _ delivery: DeliveryNumber,
        from origin: DeliveryOrigin,
        _ outcome: DeliveryOutcome,
        _ cause: DeliveryCause,
        of key: ProviderCooldown.Key,
        now: Duration,
        jitter: Double,
        isReported: Bool
    ) -> OnEnding {
        self.inFlightCount -= 1
        self.settledCount += 1
        let action = self.action(delivery, from: origin, outcome, cause)
        switch (outcome, action) {
        case (.indeterminate, _), (.unsent, .drop): self.unreportedCount += 1
        case (.unsent, .settle) where !isReported: self.unreportedCount += 1
        case (.accepted, _), (.suppressed, _), (.rejected, _), (.invalid, _), (.unsent, _): break
        }
        switch cause {
        case .accepted, .dead: self.cooldown.success(of: key)
        case .misconfigured, .credentialFault, .budgetSpent:
            let delayMax = self.rememberedDuration / 2
            self.cooldown.fault(of: key, now: now, delayMax: delayMax, jitter: jitter)
        case .rejected, .throttled, .unknown, .gatewayFault, .ignored, .resent, .leftToResend: break
        }
        return action
    }

    private mutating func action(
        _ delivery: DeliveryNumber,
        from origin: DeliveryOrigin,
        _ outcome: DeliveryOutcome,
        _ cause: DeliveryCause
    ) -> OnEnding {
        switch self.tracker.end(delivery, from: origin, self.rules.tracked(outcome, cause)) {
        case .settle: return self.outcomeQueues[origin.connection].map { .settle($0, origin.number) } ?? .drop
        case .drop: return .drop
        case .finish(let end): return .finish(end)
        }
    }

    /// Records that a notification waits for a retry.
    ///
    /// - Returns: the end of its connection, if it waited only for this notification.
    mutating func wait(
        _ delivery: DeliveryNumber,
        from origin: DeliveryOrigin,
        mayBeTaken: Bool
    ) -> InFlightTracker.ConnectionEnd? {
        self.tracker.wait(delivery, from: origin, mayBeTaken: mayBeTaken)
    }

    /// Records that the pause before a retry is over.
    mutating func resume(_ delivery: DeliveryNumber, from origin: DeliveryOrigin) -> InFlightTracker.OnResume {
        self.tracker.resume(delivery, from: origin)
    }

    /// Records that a connection ends with an error response.
    ///
    /// - Parameters:
    ///   - connection: the connection.
    ///   - number: the first message that was not accepted.
    ///   - identifier: the identifier of the notification at fault, if one is.
    ///   - body: completes the end.
    /// - Returns: the end, or `nil` if it has to wait.
    mutating func end(
        _ connection: UInt64,
        at number: UInt64,
        fault identifier: UInt32?,
        then body: @escaping EndCompletion
    ) -> InFlightTracker.ConnectionEnd? {
        self.outcomeQueues[connection] = nil
        self.endCompletions[connection] = body
        return self.tracker.end(connection, at: number, fault: identifier)
    }

    /// Whether there is room for this many more expected resends.
    mutating func hasRoom(for count: Int, now: Duration) -> Bool { self.deduplicator.hasRoom(for: count, now: now) }

    /// Records that the expected resends are on the disk.
    ///
    /// Their time starts now, since the provider receives the error response now.
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

    /// Records that a connection closes without the planned error response.
    ///
    /// - Returns: the completion; `nil` if the connection has closed.
    mutating func refuse(_ connection: UInt64) -> EndCompletion? {
        self.tracker.close(connection)
        return self.endCompletions.removeValue(forKey: connection)
    }

    /// Loads the resends that a previous process expected.
    mutating func expect(_ keys: [ResendKey], now: Duration) { _ = self.deduplicator.insert(keys, now: now) }

    mutating func close(_ connection: UInt64) {
        self.tracker.close(connection)
        self.outcomeQueues[connection] = nil
        self.endCompletions[connection] = nil
    }

    /// Whether anything is in flight, may arrive on a connection that has sent something, or is expected to be resent.
    var isBusy: Bool {
        self.inFlightCount > 0 || !self.outcomeQueues.isEmpty || !self.endCompletions.isEmpty
            || !self.deduplicator.isEmpty
    }

    /// Registers a callback for when nothing is in flight.
    ///
    /// - Returns: whether anything is in flight; otherwise nothing is registered.
    mutating func wait(_ waiter: @escaping @Sendable () -> Void) -> Bool {
        guard self.inFlightCount > 0 else { return false }
        self.idleWaiters.append(waiter)
        return true
    }

    /// - Returns: the callbacks to call now.
    mutating func takeIdleWaiters() -> [@Sendable () -> Void] {
        guard self.inFlightCount == 0, !self.idleWaiters.isEmpty else { return [] }
        defer { self.idleWaiters = [] }
        return self.idleWaiters
    }
}

extension InFlightTracker.Ending {
    /// Classifies an outcome by what the service did with the notification.
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

// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSession
import APNSWire

/// The rules for what a bridge remembers of the notifications that it delivered after a rejected one.
///
/// They are values, so that tests can replace them with wrong ones and verify that this is detected. None is used for a
/// notification while no resend is expected. The other wrong rules of the tests change what a bridge receives: the
/// answers of the service, the ends of connections, and the completions of its store.
struct BridgeRules: Sendable {
    /// The key that identifies a resend, from the content and the identifier of a notification.
    var key: @Sendable (ResendContent, UInt32?) -> ResendKey = { content, _ in content.key }

    /// The notifications to remember among those delivered after the message at fault.
    var remembered: @Sendable ([ExpectedResend]) -> [ExpectedResend] = { $0 }

    /// The rules for resends whose provider computed another expiry.
    var runs = ResendRunRules()

    static let exact = BridgeRules()
}

/// The state that outlives the connections of a provider and reloads of its configuration.
struct BridgeState {
    /// What to do with a new notification.
    enum OnReceive {
        /// Send it to the service.
        case send(DeliveryNumber)
        /// It was already delivered: remove the expected resend from the disk, then report the notification as
        /// delivered.
        case forget(DeliveryNumber, ExpectedResend, DeliveryCause)
        /// Call ``BridgeState/hold(_:then:)``, since it is not certain yet whether it was delivered. With the first
        /// one, start the timer for ``BridgeState/endRun(of:)``.
        case hold(DeliveryNumber, isFirst: Bool)
    }

    /// Called for a held notification: with the expected resend if it was already delivered, with `nil` to send it.
    typealias HoldCompletion = @Sendable (_ resend: ExpectedResend?) -> Void

    /// A notification that waits until it is certain whether it is a resend.
    private enum Held {
        /// It is about to be passed to ``BridgeState/hold(_:then:)``.
        case announced
        case waiting(HoldCompletion)
        /// The decision was made first, on another thread.
        case decided(ExpectedResend?)
    }

    /// What follows for held notifications, and what to log.
    struct Resolution {
        var completions: [(body: HoldCompletion, resend: ExpectedResend?)] = []
        var report: ResendCounts?
    }

    /// Called at the end of a connection; `true` if the expected resends are stored, so that the error response may be
    /// sent.
    typealias EndCompletion = @Sendable (_ isRemembered: Bool) -> Void

    /// Where an outcome is reported.
    enum OnOutcome {
        case settle(OutcomeQueue, UInt64)
        case drop
        case finish(InFlightTracker.ConnectionEnd)
    }

    /// What to do once the expected resends are on the disk.
    enum OnRemembered {
        /// Send the error response; these notifications, which waited for a retry, are left to be resent.
        case respond(EndCompletion, abandoned: [DeliveryNumber])
        /// There is no room: remove them from the disk and send no error response.
        case refuse(EndCompletion)
        /// The connection has closed without an error response: remove them from the disk.
        case forget
    }

    let rules: BridgeRules
    private var tracker = InFlightTracker()
    private(set) var deduplicator: ResendDeduplicator
    var cooldown = ProviderCooldown()
    private var rememberedDuration: Duration
    /// The number of notifications in flight.
    private(set) var inFlightCount = 0
    /// The number of completed notifications.
    private(set) var settledCount: UInt64 = 0
    /// The number of notifications that ended without being accepted, and that were not reported to a provider.
    private(set) var unreportedCount: UInt64 = 0
    private var outcomeQueues: [UInt64: OutcomeQueue] = [:]
    /// Connections whose end waits for outcomes.
    private var endCompletions: [UInt64: EndCompletion] = [:]
    private var idleWaiters: [@Sendable () -> Void] = []
    private var held: [DeliveryNumber: Held] = [:]

    init(_ configuration: BridgeConfiguration, rules: BridgeRules = .exact) {
        self.rules = rules
        self.rememberedDuration = configuration.rememberedDuration
        self.deduplicator = ResendDeduplicator(
            countMax: configuration.rememberedCountMax,
            duration: configuration.rememberedDuration,
            rules: rules.runs
        )
    }

    /// Applies another version of the configuration.
    mutating func apply(_ configuration: BridgeConfiguration) {
        self.rememberedDuration = configuration.rememberedDuration
        self.deduplicator.bound(
            countMax: configuration.rememberedCountMax,
            duration: configuration.rememberedDuration
        )
    }

    mutating func receive(
        _ content: ResendContent,
        identifier: UInt32?,
        from origin: DeliveryOrigin,
        _ outcomes: OutcomeQueue,
        now: Duration,
        milliseconds: Int64
    ) -> (action: OnReceive, resolution: Resolution) {
        if origin.number == 1 { self.outcomeQueues[origin.connection] = outcomes }
        let delivery = self.tracker.add(content, identifier: identifier, from: origin, arrivedAt: milliseconds)
        self.inFlightCount += 1
        // The digests are computed only if there is something to compare them with.
        guard self.deduplicator.concerns(origin.connection) else { return (.send(delivery), Resolution()) }
        let message = ResendDeduplicator.Message(
            key: self.rules.key(content, identifier),
            lifetime: content.lifetime(arrivedAt: milliseconds),
            delivery: delivery,
            origin: origin
        )
        let (match, resolution) = self.deduplicator.classify(message, now: now)
        let action: OnReceive =
            switch match {
            case .new, .possible: .send(delivery)
            case .resend(let resend, let hasNewExpiry):
                .forget(delivery, resend, hasNewExpiry ? .resentWithNewExpiry : .resent)
            case .held(let isFirst): .hold(delivery, isFirst: isFirst)
            }
        if case .hold = action { self.held[delivery] = .announced }
        return (action, self.resolution(resolution))
    }

    /// Holds a notification until the run of its connection is certain, or ended.
    ///
    /// Returns the completion, if that was the case before this call.
    mutating func hold(_ delivery: DeliveryNumber, then body: @escaping HoldCompletion) -> Resolution {
        guard case .decided(let resend)? = self.held[delivery] else {
            self.held[delivery] = .waiting(body)
            return Resolution()
        }
        self.held[delivery] = nil
        return Resolution(completions: [(body, resend)])
    }

    /// Records that a connection was opened; the numbers of connections increase.
    mutating func open(_ connection: UInt64) { self.deduplicator.open(connection) }

    /// Ends the run of a connection unless it is certain: what it holds is sent.
    mutating func endRun(of connection: UInt64) -> Resolution {
        self.resolution(self.deduplicator.endRun(of: connection))
    }

    private mutating func resolution(_ found: ResendDeduplicator.Resolution) -> Resolution {
        var resolution = Resolution(report: found.report)
        for (delivery, resend) in found.resent { self.decide(delivery, resend, &resolution) }
        for delivery in found.released { self.decide(delivery, nil, &resolution) }
        return resolution
    }

    private mutating func decide(_ delivery: DeliveryNumber, _ resend: ExpectedResend?, _ resolution: inout Resolution)
    {
        switch self.held.removeValue(forKey: delivery) {
        case .waiting(let body): resolution.completions.append((body, resend))
        case .announced: self.held[delivery] = .decided(resend)
        case .decided, nil: break
        }
    }

    /// Records the outcome of a notification, and whether the provider learns that it was not accepted.
    mutating func end(
        _ delivery: DeliveryNumber,
        from origin: DeliveryOrigin,
        _ outcome: DeliveryOutcome,
        _ cause: DeliveryCause,
        of key: ProviderCooldown.Key,
        now: Duration,
        jitter: Double,
        isReported: Bool
    ) -> OnOutcome {
        self.inFlightCount -= 1
        self.settledCount += 1
        let action = self.action(delivery, from: origin, outcome, cause)
        switch (outcome, action) {
        case (.indeterminate, _): self.unreportedCount += 1
        // The end of a connection with an error response waits for it, and asks for it again.
        case (.unsent, .drop) where self.endCompletions[origin.connection] == nil: self.unreportedCount += 1
        case (.unsent, .settle) where !isReported: self.unreportedCount += 1
        case (.accepted, _), (.suppressed, _), (.rejected, _), (.invalid, _), (.unsent, _): break
        }
        switch (cause, outcome) {
        case (.accepted, _), (.dead, _): self.cooldown.success(of: key)
        case (.misconfigured, _), (.credentialFault, _), (.budgetSpent, _), (.unknown, .unsent):
            let delayMax = self.rememberedDuration / 2
            self.cooldown.fault(of: key, now: now, delayMax: delayMax, jitter: jitter)
        case (.rejected, _), (.throttled, _), (.unknown, _), (.gatewayFault, _), (.ignored, _), (.resent, _),
            (.resentWithNewExpiry, _), (.leftToResend, _), (.expired, _), (.damaged, _):
            break
        }
        return action
    }

    private mutating func action(
        _ delivery: DeliveryNumber,
        from origin: DeliveryOrigin,
        _ outcome: DeliveryOutcome,
        _ cause: DeliveryCause
    ) -> OnOutcome {
        switch self.tracker.end(delivery, from: origin, InFlightTracker.Outcome(outcome, cause)) {
        case .settle: return self.outcomeQueues[origin.connection].map { .settle($0, origin.number) } ?? .drop
        case .drop: return .drop
        case .finish(let end): return .finish(end)
        }
    }

    /// Records that a notification waits for a retry.
    ///
    /// Returns the end of its connection, if it waited only for this notification.
    mutating func wait(
        _ delivery: DeliveryNumber,
        from origin: DeliveryOrigin,
        mayBeAccepted: Bool
    ) -> InFlightTracker.ConnectionEnd? {
        self.tracker.wait(delivery, from: origin, mayBeAccepted: mayBeAccepted)
    }

    /// Records that the pause before a retry is over.
    mutating func resume(_ delivery: DeliveryNumber, from origin: DeliveryOrigin) -> InFlightTracker.OnResume {
        self.tracker.resume(delivery, from: origin)
    }

    /// Records that a connection ends with an error response.
    ///
    /// Returns the end, or `nil` if it has to wait.
    mutating func end(
        _ connection: UInt64,
        at number: UInt64,
        fault identifier: UInt32?,
        namesFirst: Bool,
        then body: @escaping EndCompletion
    ) -> InFlightTracker.ConnectionEnd? {
        self.outcomeQueues[connection] = nil
        self.endCompletions[connection] = body
        return self.tracker.end(connection, at: number, fault: identifier, namesFirst: namesFirst)
    }

    /// Assigns a number to an error response.
    mutating func numberResponse() -> Int64 { self.deduplicator.numberResponse() }

    /// The number of the last expected resend.
    var lastResend: Int { self.deduplicator.lastSerial }

    /// Takes over the expected resends of a store that several gateways share, which was asked after the one with this
    /// number was added.
    mutating func merge(_ resends: [ExpectedResend], since number: Int, now: Duration) {
        self.deduplicator.merge(resends, since: number, now: now)
    }

    /// Whether there is room for this many more expected resends.
    mutating func hasRoom(for count: Int, now: Duration) -> Bool { self.deduplicator.hasRoom(for: count, now: now) }

    /// Records that the expected resends are on the disk.
    ///
    /// Their time starts now, since the provider receives the error response now.
    mutating func remembered(
        _ resends: [ExpectedResend],
        of end: InFlightTracker.ConnectionEnd,
        now: Duration
    ) -> OnRemembered {
        let connection = end.connection
        guard let body = self.endCompletions.removeValue(forKey: connection) else { return .forget }
        guard self.deduplicator.insert(resends, of: connection, namesFirst: end.namesFirst, now: now) else {
            self.tracker.close(connection)
            return .refuse(body)
        }
        let abandoned = self.tracker.errorResponseSent(connection)
        self.inFlightCount -= abandoned.count
        self.settledCount += UInt64(abandoned.count)
        return .respond(body, abandoned: abandoned)
    }

    /// Records that a connection closes without the planned error response.
    ///
    /// Returns the completion; `nil` if the connection has closed.
    mutating func refuse(_ connection: UInt64) -> EndCompletion? {
        self.tracker.close(connection)
        return self.endCompletions.removeValue(forKey: connection)
    }

    /// Loads the resends that a previous process expected.
    mutating func expect(_ resends: some Collection<ExpectedResend>, now: Duration) {
        _ = self.deduplicator.insert(resends, of: nil, now: now)
    }

    /// Records that a connection ends without an error response.
    mutating func close(_ connection: UInt64) {
        self.tracker.close(connection)
        self.outcomeQueues[connection] = nil
        self.endCompletions[connection] = nil
    }

    /// Records that a connection has closed.
    mutating func closed(_ connection: UInt64, now: Duration) -> Resolution {
        self.close(connection)
        return self.resolution(self.deduplicator.close(connection, now: now))
    }

    /// Whether anything is in flight, may arrive on a connection that has sent something, or is expected to be resent.
    var isBusy: Bool {
        self.inFlightCount > 0 || !self.outcomeQueues.isEmpty || !self.endCompletions.isEmpty
            || self.deduplicator.count > 0
    }

    /// Registers a callback for when nothing is in flight.
    ///
    /// Returns whether anything is in flight; otherwise nothing is registered.
    mutating func wait(_ waiter: @escaping @Sendable () -> Void) -> Bool {
        guard self.inFlightCount > 0 else { return false }
        self.idleWaiters.append(waiter)
        return true
    }

    /// Returns the callbacks to call now.
    mutating func takeIdleWaiters() -> [@Sendable () -> Void] {
        guard self.inFlightCount == 0, !self.idleWaiters.isEmpty else { return [] }
        defer { self.idleWaiters = [] }
        return self.idleWaiters
    }
}

extension InFlightTracker.Outcome {
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

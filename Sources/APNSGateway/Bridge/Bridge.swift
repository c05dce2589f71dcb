// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSServer
import APNSSession
import APNSWire
import Logging
import NIOConcurrencyHelpers
import NIOCore
import Glibc
import Metrics

/// Delivers the notifications of one provider to the service, under one version of its configuration.
final class Bridge: Sendable {
    let configuration: BridgeConfiguration
    let state: NIOLockedValueBox<BridgeState>
    let clock: BridgeClock
    private let rules: BridgeRules
    let recorder: any FeedbackRecorder
    private let resends: any ResendStore
    /// The same, if other gateways share it.
    private let shared: (any SharedGatewayStore)?
    /// Records outcomes for readers outside of the gateway; `nil` if there are none.
    let outcomes: (any OutcomeRecorder)?
    /// The deliveries that wait for a retry; only those of which the outcome is recorded.
    private let waiting = NIOLockedValueBox<[DeliveryNumber: Delivery]>([:])
    let observer: BridgeObserver
    private let group: any EventLoopGroup
    let logger: Logger

    /// The sender of a connection's notifications.
    final class Sender: Sendable {
        let connection: UInt64
        let rules: RequestRules
        let list: TokenScope
        let cooldownKey: ProviderCooldown.Key

        init(connection: UInt64, rules: RequestRules, list: TokenScope, cooldownKey: ProviderCooldown.Key) {
            self.connection = connection
            self.rules = rules
            self.list = list
            self.cooldownKey = cooldownKey
        }
    }

    /// A notification in flight.
    private struct Delivery: Sendable {
        var number: DeliveryNumber
        var origin: DeliveryOrigin
        var identifier: UInt32?
        var retries = RetryState()
        var startedAt: Duration
        var request: PushRequest
        var sender: Sender
    }

    /// `state` is shared with the previous version of the configuration, so that a reload loses nothing.
    init(
        _ configuration: BridgeConfiguration,
        state: NIOLockedValueBox<BridgeState>,
        recorder: any FeedbackRecorder,
        resends: any ResendStore,
        outcomes: (any OutcomeRecorder)? = nil,
        group: any EventLoopGroup,
        clock: BridgeClock,
        logger: Logger
    ) {
        self.outcomes = outcomes
        self.configuration = configuration
        self.state = state
        self.clock = clock
        self.rules = state.withLockedValue(\.rules)
        self.recorder = recorder
        self.resends = resends
        self.shared = resends as? any SharedGatewayStore
        self.observer = BridgeObserver(provider: configuration.name)
        self.group = group
        var logger = logger
        logger[metadataKey: LogKey.provider] = "\(configuration.name)"
        self.logger = logger
        configuration.spool?.deliver(to: self)
    }

    // MARK: Notifications

    /// Accepts a notification; called on the event loop of its connection.
    func deliver(_ message: borrowing InboundNotification, of sender: Sender) -> (
        outcome: DeliveryOutcome?, isFull: Bool
    ) {
        let content = ResendContent(
            token: message.token,
            payload: message.payload,
            expiry: message.expiry,
            priority: message.priority
        )
        let origin = DeliveryOrigin(connection: sender.connection, number: message.number)
        let (outcomes, identifier) = (message.ticket.outcomes, message.identifier)
        let milliseconds = self.clock.milliseconds()
        let ((action, resolution), inFlightCount) = self.state.withLockedValue { state in
            let received = state.receive(
                content,
                identifier: identifier,
                from: origin,
                outcomes,
                now: self.clock.now(),
                milliseconds: milliseconds
            )
            return (received, state.inFlightCount)
        }
        self.carryOut(resolution, sender)
        let number: DeliveryNumber
        var isHeldFirst: Bool?
        var known: (resend: ExpectedResend, cause: DeliveryCause)?
        switch action {
        case .forget(let delivery, let resend, let cause): (number, known) = (delivery, (resend, cause))
        case .send(let delivery): number = delivery
        case .hold(let delivery, let isFirst): (number, isHeldFirst) = (delivery, isFirst)
        }
        let isLong = content.payload.readableBytes > self.configuration.payloadByteCountMax
        guard isHeldFirst != nil || known != nil || !isLong else {
            return (self.refuseLongPayload(number, origin, identifier, content.token, sender), false)
        }
        self.observer.inFlight(inFlightCount)
        if let spool = self.configuration.spool, isHeldFirst == nil, known == nil {
            self.store(content, number, origin, identifier, sender, in: spool)
            return (nil, inFlightCount >= self.configuration.inFlightCountMax || spool.isFull)
        }
        let request = sender.rules.request(
            token: content.token,
            payload: content.payload,
            expiry: content.expiry,
            priority: message.priority,
            now: self.clock.date()
        )
        let now = self.clock.now()
        let delivery = Delivery(
            number: number,
            origin: origin,
            identifier: identifier,
            startedAt: now,
            request: request,
            sender: sender
        )
        if let known {
            self.forget(known.resend, delivery, known.cause)
        } else if let isHeldFirst {
            self.hold(delivery, isFirst: isHeldFirst)
        } else {
            self.send(delivery)
        }
        let isFull = inFlightCount >= self.configuration.inFlightCountMax || !self.configuration.upstream.hasRoom
        return (nil, isFull)
    }

    /// Stores a notification; as soon as it is on the disk, it counts as accepted.
    private func store(
        _ content: ResendContent,
        _ number: DeliveryNumber,
        _ origin: DeliveryOrigin,
        _ identifier: UInt32?,
        _ sender: Sender,
        in spool: NotificationSpool
    ) {
        let notification = SpooledNotification(
            token: content.token,
            // A copy: a slice would keep the memory of a whole read.
            payload: ByteBuffer(bytes: content.payload.readableBytesView),
            expiry: content.expiry,
            priority: content.priority,
            identifier: identifier,
            topic: sender.list.topic,
            apnsID: PushIdentifier(),
            arrivedAt: Int64(self.clock.date())
        )
        spool.append(notification, SpoolReceipt(number: number, origin: origin, sender: sender))
    }

    /// Settles notifications that are on the disk now.
    func stored(_ receipts: [SpoolReceipt]) {
        let (actions, after) = self.state.withLockedValue { state in
            let actions = receipts.map { receipt in
                state.end(
                    receipt.number,
                    from: receipt.origin,
                    .accepted,
                    .accepted,
                    of: receipt.sender.cooldownKey,
                    now: .zero,
                    jitter: 0,
                    isReported: false
                )
            }
            return (actions, Self.after(&state))
        }
        for action in actions { self.carryOut(action, .accepted, (after.inFlightCount, [])) }
        for waiter in after.waiters { waiter() }
    }

    /// Handles a resend of a notification that was already delivered.
    ///
    /// It completes after the resend's entry is removed from the disk, so that after a restart no later notification is
    /// mistaken for the resend. Of several gateways, only one can claim it.
    private func forget(_ resend: ExpectedResend, _ delivery: Delivery, _ cause: DeliveryCause) {
        guard let shared else {
            return self.resends.remove(resend, of: self.configuration.name) {
                self.settle(delivery, .suppressed, cause)
            }
        }
        shared.claim(resend, of: self.configuration.name) { claim in
            switch claim {
            case .claimed: self.settle(delivery, .suppressed, cause)
            case .absent: self.release(delivery)
            case .unknown:
                // Neither another delivery nor none is right, and the provider is told neither.
                var metadata = self.metadata(delivery, .indeterminate(nil), .unknown)
                metadata[LogKey.refusalReason] = "it may be a resend, and the shared database does not answer"
                self.logger.error("not delivered", metadata: metadata)
                self.settle(delivery, .indeterminate(nil), .unknown)
            }
        }
    }

    /// Holds a notification that may be a resend with another expiry, until the next ones show whether it is.
    private func hold(_ delivery: Delivery, isFirst: Bool) {
        let resolution = self.state.withLockedValue { state in
            state.hold(delivery.number) { resend in
                guard let resend else { return self.release(delivery) }
                self.forget(resend, delivery, .resentWithNewExpiry)
            }
        }
        self.carryOut(resolution, delivery.sender)
        guard isFirst else { return }
        self.group.any().scheduleTask(in: TimeAmount(self.rules.runs.holdDuration)) {
            self.endRun(delivery.sender)
        }
    }

    /// Delivers a notification that turned out to be no resend.
    private func release(_ delivery: Delivery) {
        guard delivery.request.payload.readableBytes > self.configuration.payloadByteCountMax else {
            return self.send(delivery)
        }
        let (outcome, cause) = self.longPayload(delivery.origin, delivery.sender)
        self.settle(delivery, outcome, cause)
    }

    /// Delivers what a connection holds, unless the run is certain.
    private func endRun(_ sender: Sender) {
        self.carryOut(self.state.withLockedValue { $0.endRun(of: sender.connection) }, sender)
    }

    /// Records that a connection has closed.
    func closed(_ sender: Sender) {
        let now = self.clock.now()
        self.carryOut(self.state.withLockedValue { $0.closed(sender.connection, now: now) }, sender)
    }

    private func carryOut(_ resolution: BridgeState.Resolution, _ sender: Sender) {
        for (body, resend) in resolution.completions { body(resend) }
        guard let counts = resolution.report else { return }
        var metadata: Logger.Metadata = [
            LogKey.bridgeConnection: "\(sender.connection)", LogKey.topic: "\(sender.list.topic)",
        ]
        if counts.possible > 0 {
            metadata[LogKey.possibleResends] = "\(counts.possible)"
            self.logger.notice("possible resends delivered", metadata: metadata)
            metadata[LogKey.possibleResends] = nil
        }
        guard counts.resent > 0 else { return }
        metadata[LogKey.resent] = "\(counts.resent)"
        if counts.resentWithNewExpiry > 0 { metadata[LogKey.resentWithNewExpiry] = "\(counts.resentWithNewExpiry)" }
        self.logger.info("resends not delivered again", metadata: metadata)
    }

    /// Logs a payload over the limit, and returns how its notification ends.
    private func longPayload(_ origin: DeliveryOrigin, _ sender: Sender) -> (DeliveryOutcome, DeliveryCause) {
        let (outcome, cause) = self.counted(.rejected(.binary(.invalidPayloadSize)), .rejected)
        self.logger.info(
            "not delivered",
            metadata: [
                LogKey.bridgeConnection: "\(origin.connection)", LogKey.message: "\(origin.number)",
                LogKey.topic: "\(sender.list.topic)", LogKey.cause: "\(cause.rawValue)",
                LogKey.refusalReason: "the payload is longer than \(self.configuration.payloadByteCountMax) bytes",
            ]
        )
        return (outcome, cause)
    }

    private func refuseLongPayload(
        _ number: DeliveryNumber,
        _ origin: DeliveryOrigin,
        _ identifier: UInt32?,
        _ token: DeviceToken,
        _ sender: Sender
    ) -> DeliveryOutcome {
        let (outcome, cause) = self.longPayload(origin, sender)
        if let outcomes, outcomes.records(cause) {
            // The session receives the outcome now, so nothing waits for the disk.
            let recorded = self.recorded(token, identifier, apnsID: nil, outcome, cause, sender)
            outcomes.record(recorded) {}
        }
        // The session receives this outcome as the return value.
        self.carryOut(.drop, outcome, self.end(number, origin, sender.cooldownKey, outcome, cause).after)
        return outcome
    }

    private func send(_ delivery: Delivery) {
        self.configuration.upstream.send(delivery.request) { answer, latency in
            if let latency { self.observer.answered(after: latency) }
            self.receive(answer, delivery)
        }
    }

    private func receive(_ answer: DeliveryOutcome, _ before: Delivery) {
        if case .accepted = answer {
            // The fast path of nearly all responses: it needs no copy of the request and no random number.
            self.end(before, .accepted, .accepted, answer)
            return
        }
        var delivery = before
        let responseClass = ResponseClass(answer, topic: delivery.request.topic, now: self.clock.date())
        let action = delivery.retries.receive(
            responseClass,
            self.configuration.retries,
            isKept: delivery.request.expiry != .immediately,
            elapsed: self.clock.now() - delivery.startedAt,
            jitter: self.clock.jitter()
        )
        switch action {
        case .end(let responseClass):
            let (found, foundCause) = responseClass.outcome(
                isUnknown: delivery.retries.isUnknown,
                isRepeatable: self.asksAgainIfUnknown
            )
            let (outcome, cause) = self.counted(found, foundCause)
            if cause == .ignored {
                self.ignore(delivery, outcome, foundCause, answer)
            } else {
                self.end(delivery, outcome, cause, answer)
            }
        case .sendAgain(let pause, let header):
            switch header {
            case .priority: delivery.request.priority = nil
            case .pushType: delivery.request.pushType = nil
            case nil: break
            }
            self.wait(pause, delivery, answer)
        }
    }

    private func wait(_ pause: Duration, _ delivery: Delivery, _ answer: DeliveryOutcome) {
        self.observer.sentAgain()
        self.logger.debug("retrying", metadata: self.metadata(delivery, answer))
        var next = delivery
        // The payload may be a slice of a whole read, whose memory would be kept for long.
        next.request.payload = ByteBuffer(bytes: next.request.payload.readableBytesView)
        // First, since an error response of another thread may leave it to be resent as soon as it waits.
        if self.outcomes != nil { self.waiting.withLockedValue { [next] in $0[next.number] = next } }
        let end = self.state.withLockedValue { state in
            state.wait(delivery.number, from: delivery.origin, mayBeAccepted: delivery.retries.isUnknown)
        }
        self.resume(next, after: pause)
        if let end { self.remember(end) }
    }

    private func resume(_ delivery: Delivery, after pause: Duration) {
        self.group.any().scheduleTask(in: TimeAmount(pause)) {
            let action = self.state.withLockedValue { $0.resume(delivery.number, from: delivery.origin) }
            if action != .wait, self.outcomes != nil { self.waiting.withLockedValue { $0[delivery.number] = nil } }
            switch action {
            case .send: self.send(delivery)
            case .wait: self.resume(delivery, after: max(pause, self.configuration.retries.backoff.first))
            case .drop: break
            }
        }
    }

    /// Whether a provider is asked to send a notification again although the service may have accepted it.
    private var asksAgainIfUnknown: Bool {
        self.configuration.rejections == .report && !self.configuration.retries.givesUpUnknownUnkept
    }

    /// Returns how an ending counts: if the provider never reads error responses, the session ignores a rejection.
    private func counted(_ outcome: DeliveryOutcome, _ cause: DeliveryCause) -> (DeliveryOutcome, DeliveryCause) {
        guard self.configuration.rejections == .ignore else { return (outcome, cause) }
        switch cause {
        case .rejected, .gatewayFault: return (outcome, .ignored)
        case .accepted, .dead, .throttled, .unknown, .misconfigured, .credentialFault, .budgetSpent, .expired, .damaged,
            .ignored, .resent, .resentWithNewExpiry, .leftToResend:
            return (outcome, cause)
        }
    }

    private func end(
        _ delivery: Delivery,
        _ outcome: DeliveryOutcome,
        _ cause: DeliveryCause,
        _ answer: DeliveryOutcome
    ) {
        switch cause {
        case .accepted:
            // The metadata is built only if the level is enabled.
            self.logger.debug("delivered", metadata: self.metadata(delivery, answer))
            self.recorder.forget(delivery.request.token, in: delivery.sender.list)
            self.settle(delivery, outcome, cause, answer)
        case .dead:
            self.logger.debug("token dead", metadata: self.metadata(delivery, answer))
            let tuple = FeedbackTuple(token: delivery.request.token, failedAt: self.deathDate(outcome))
            self.recorder.record(tuple, in: delivery.sender.list) { self.settle(delivery, outcome, cause, answer) }
        case .misconfigured, .credentialFault, .gatewayFault, .budgetSpent, .throttled, .unknown:
            var metadata = self.metadata(delivery, answer, cause)
            if delivery.retries.isUnknown, outcome.kind != .indeterminate {
                let reason = "the service may have accepted it; if the provider sends it again, it can arrive twice"
                metadata[LogKey.refusalReason] = "\(reason)"
            }
            self.logger.error("not delivered", metadata: metadata)
            self.settle(delivery, outcome, cause, answer)
        case .rejected:
            self.logger.info("not delivered", metadata: self.metadata(delivery, answer, cause))
            self.settle(delivery, outcome, cause, answer)
        case .ignored, .resent, .resentWithNewExpiry, .leftToResend, .expired, .damaged:
            self.settle(delivery, outcome, cause, answer)
        }
    }

    /// Handles a rejection that is not reported to the provider.
    private func ignore(
        _ delivery: Delivery,
        _ outcome: DeliveryOutcome,
        _ cause: DeliveryCause,
        _ answer: DeliveryOutcome
    ) {
        let level: Logger.Level = cause == .gatewayFault ? .error : .info
        let metadata = self.metadata(delivery, answer, cause)
        self.logger.log(level: level, "not delivered, no error response sent", metadata: metadata)
        guard self.configuration.listsRejectedTokens, outcome == .rejected(.binary(.invalidToken)) else {
            self.settle(delivery, outcome, .ignored, answer)
            return
        }
        let tuple = FeedbackTuple(token: delivery.request.token, failedAt: self.clock.date())
        self.recorder.record(tuple, in: delivery.sender.list) { self.settle(delivery, outcome, .ignored, answer) }
    }

    /// The time for the feedback service since which the token has been dead.
    private func deathDate(_ outcome: DeliveryOutcome) -> UInt32 { Self.deathDate(outcome, now: self.clock.date()) }

    static func deathDate(_ outcome: DeliveryOutcome, now: UInt32) -> UInt32 {
        guard case .rejected(let rejection) = outcome, case .dead(let since) = rejection.tokenFault(now: now) else {
            return now
        }
        return since
    }

    /// Settles a notification, after its outcome is recorded.
    private func settle(
        _ delivery: Delivery,
        _ outcome: DeliveryOutcome,
        _ cause: DeliveryCause,
        _ answer: DeliveryOutcome? = nil
    ) {
        guard let outcomes, outcomes.records(cause) else {
            return self.settle(delivery.number, delivery.origin, delivery.sender.cooldownKey, outcome, cause)
        }
        outcomes.record(self.recorded(delivery, outcome, cause, answer)) {
            self.settle(delivery.number, delivery.origin, delivery.sender.cooldownKey, outcome, cause)
        }
    }

    private func recorded(
        _ delivery: Delivery,
        _ outcome: DeliveryOutcome,
        _ cause: DeliveryCause,
        _ answer: DeliveryOutcome? = nil
    ) -> RecordedOutcome {
        var recorded = self.recorded(
            delivery.request.token,
            delivery.identifier,
            apnsID: delivery.request.apnsID,
            outcome.explained(by: answer),
            cause,
            delivery.sender
        )
        recorded.isPossibleDuplicate = delivery.retries.isUnknown && outcome.kind != .indeterminate
        return recorded
    }

    private func recorded(
        _ token: DeviceToken,
        _ identifier: UInt32?,
        apnsID: PushIdentifier?,
        _ outcome: DeliveryOutcome,
        _ cause: DeliveryCause,
        _ sender: Sender
    ) -> RecordedOutcome {
        RecordedOutcome(
            provider: self.configuration.name,
            list: sender.list,
            identifier: identifier,
            token: token,
            apnsID: apnsID,
            outcome: outcome,
            cause: cause,
            milliseconds: self.clock.milliseconds()
        )
    }

    /// Records the notifications that the error response leaves to be resent.
    private func record(leftToResend numbers: [DeliveryNumber]) {
        guard let outcomes else { return }
        let deliveries = self.waiting.withLockedValue { waiting in
            numbers.compactMap { waiting.removeValue(forKey: $0) }
        }
        guard outcomes.records(.leftToResend) else { return }
        for delivery in deliveries { outcomes.record(self.recorded(delivery, .unsent(nil), .leftToResend)) {} }
    }

    private func settle(
        _ number: DeliveryNumber,
        _ origin: DeliveryOrigin,
        _ key: ProviderCooldown.Key,
        _ outcome: DeliveryOutcome,
        _ cause: DeliveryCause
    ) {
        let (action, after) = self.end(number, origin, key, outcome, cause)
        self.carryOut(action, outcome, after)
    }

    /// Records and counts an outcome.
    private func end(
        _ number: DeliveryNumber,
        _ origin: DeliveryOrigin,
        _ key: ProviderCooldown.Key,
        _ outcome: DeliveryOutcome,
        _ cause: DeliveryCause
    ) -> (action: BridgeState.OnOutcome, after: After) {
        self.observer.ended(cause)
        // Each random number costs a system call.
        let jitter = outcome.kind == .accepted || outcome.kind == .suppressed ? 0 : self.clock.jitter()
        return self.state.withLockedValue { state in
            let action = state.end(
                number,
                from: origin,
                outcome,
                cause,
                of: key,
                now: self.clock.now(),
                jitter: jitter,
                isReported: self.configuration.rejections == .report
            )
            return (action, Self.after(&state))
        }
    }

    /// The follow-up work after a notification has left the flight.
    private typealias After = (inFlightCount: Int, waiters: [@Sendable () -> Void])

    private static func after(_ state: inout BridgeState) -> After { (state.inFlightCount, state.takeIdleWaiters()) }

    private func carryOut(_ action: BridgeState.OnOutcome, _ outcome: DeliveryOutcome, _ after: After) {
        self.observer.inFlight(after.inFlightCount)
        switch action {
        case .settle(let outcomes, let number): outcomes.enqueue(number, outcome)
        case .drop: break
        case .finish(let end): self.remember(end)
        }
        for waiter in after.waiters { waiter() }
    }

    // MARK: The end of a connection

    /// Ends a connection whose provider is about to receive an error response.
    func end(
        of sender: Sender,
        _ ending: GatewayEnding,
        _ response: ErrorResponse,
        then body: @escaping BridgeState.EndCompletion
    ) {
        let (end, resolution) = self.state.withLockedValue { state in
            let fault = ending.status == nil ? nil : response.identifier
            // Status 1 without a fault names the first message to resend, which many providers then count as failed.
            let namesFirst = ending.status == nil && response.status == .processingError
            let end = state.end(
                sender.connection,
                at: ending.number,
                fault: fault,
                namesFirst: namesFirst,
                then: body
            )
            // No message follows that could show whether the held ones are resends.
            return (end, state.endRun(of: sender.connection))
        }
        self.carryOut(resolution, sender)
        if let end { self.remember(end) }
    }

    /// Stores the resends to expect, then lets the error response be sent.
    private func remember(_ end: InFlightTracker.ConnectionEnd) {
        guard !end.isContradicted else {
            return self.refuse(end, "for some notifications it is unknown whether the service accepted them")
        }
        let resends = self.rules.remembered(self.expected(end))
        guard !resends.isEmpty else { return self.remembered([], end) }
        guard self.state.withLockedValue({ $0.hasRoom(for: resends.count, now: self.clock.now()) }) else {
            return self.refuse(end, "no room for expected resends (limits.remembered)")
        }
        let (name, duration) = (self.configuration.name, self.configuration.rememberedDuration)
        self.resends.insert(resends, of: name, for: duration) { isKept in
            if isKept {
                self.remembered(resends, end)
            } else {
                self.refuse(end, "too many writes to the database are pending, or it does not answer")
            }
        }
    }

    /// The resends to expect after the error response of a connection.
    private func expected(_ end: InFlightTracker.ConnectionEnd) -> [ExpectedResend] {
        guard !end.delivered.isEmpty else { return [] }
        let response = self.numberResponse()
        return end.delivered.map { resend in
            ExpectedResend(
                key: self.rules.key(resend.content, resend.identifier),
                place: ExpectedResend.Place(response: response, index: resend.index),
                lifetime: resend.content.lifetime(arrivedAt: resend.arrivedAt)
            )
        }
    }

    /// Assigns a number to an error response; of several gateways, each has its own numbers.
    private func numberResponse() -> Int64 {
        guard self.shared != nil else { return self.state.withLockedValue { $0.numberResponse() } }
        let random = Int64(self.clock.jitter() * Double(1 << Self.randomBitCount - 1))
        return self.clock.milliseconds() << Self.randomBitCount | random
    }

    /// The number of random bits in the number of an error response, beside 41 of the time.
    private static let randomBitCount: Int64 = 22

    /// Takes over the expected resends that other gateways stored, before a connection is read.
    func merge(_ resends: [ExpectedResend], since number: Int) {
        self.state.withLockedValue { $0.merge(resends, since: number, now: self.clock.now()) }
    }

    private func remembered(_ resends: [ExpectedResend], _ end: InFlightTracker.ConnectionEnd) {
        let (action, after) = self.state.withLockedValue { state in
            let action = state.remembered(resends, of: end, now: self.clock.now())
            return (action, Self.after(&state))
        }
        self.carryOut(.drop, .accepted, after)
        switch action {
        case .respond(let body, let abandoned):
            let abandonedCount = abandoned.count
            self.record(leftToResend: abandoned)
            self.observer.ended(.leftToResend, count: abandonedCount)
            if abandonedCount > 0 {
                self.logger.info(
                    "notifications left to be resent",
                    metadata: [
                        LogKey.bridgeConnection: "\(end.connection)", LogKey.count: "\(abandonedCount)",
                    ]
                )
            }
            body(true)
        case .refuse(let body):
            self.forget(resends)
            self.logInDoubt(end, "no room for expected resends (limits.remembered)")
            body(false)
        case .forget: self.forget(resends)
        }
    }

    private func forget(_ resends: [ExpectedResend]) {
        for resend in resends { self.resends.remove(resend, of: self.configuration.name) {} }
    }

    /// Closes a connection without an error response, since resends could cause duplicates.
    private func refuse(_ end: InFlightTracker.ConnectionEnd, _ reason: String) {
        guard let body = self.state.withLockedValue({ $0.refuse(end.connection) }) else { return }
        self.logInDoubt(end, reason)
        body(false)
    }

    private func logInDoubt(_ end: InFlightTracker.ConnectionEnd, _ reason: String) {
        self.observer.closedInDoubt()
        self.logger.error(
            "connection closed without an error response",
            metadata: [
                LogKey.bridgeConnection: "\(end.connection)", LogKey.count: "\(end.delivered.count)",
                LogKey.refusalReason: "\(reason)",
            ]
        )
    }

    /// Calls `body` once nothing is in flight, possibly immediately, from any thread.
    func whenIdle(_ body: @escaping @Sendable () -> Void) {
        if !self.state.withLockedValue({ $0.wait(body) }) { body() }
    }

    private func metadata(
        _ delivery: Delivery,
        _ answer: DeliveryOutcome,
        _ cause: DeliveryCause? = nil
    ) -> Logger.Metadata {
        var metadata: Logger.Metadata = [
            LogKey.bridgeConnection: "\(delivery.origin.connection)", LogKey.message: "\(delivery.origin.number)",
            LogKey.topic: "\(delivery.sender.list.topic)", LogKey.request: "\(delivery.request.apnsID)",
        ]
        metadata[LogKey.answer] = "\(Self.text(answer))"
        if let cause { metadata[LogKey.cause] = "\(cause.rawValue)" }
        return metadata
    }

    static func text(_ answer: DeliveryOutcome) -> String {
        switch answer {
        case .accepted, .suppressed: "200 "
        case .rejected(let rejection): "\(rejection.statusCode) \(rejection.reason?.text ?? "")"
        case .invalid(let reason): "\(reason.rejection.status) \(reason.rejection.reason.text)"
        case .unsent(.notPermitted(let failure)): "not permitted: \(failure)"
        case .unsent: "not processed"
        case .indeterminate(.acceptanceIncomplete): "success, but no complete 200"
        case .indeterminate: "none"
        }
    }
}

extension DeliveryOutcome {
    /// The outcome with the status and reason of the service, in place of those for the provider.
    func explained(by answer: DeliveryOutcome?) -> DeliveryOutcome {
        switch (self, answer) {
        case (.rejected, .rejected?): answer ?? self
        case (.unsent, .rejected(.http2(let rejection))?): .unsent(.serviceResponse(rejection))
        case (.unsent, .unsent(let reason?)?), (.unsent, .indeterminate(let reason?)?): .unsent(reason)
        case (.indeterminate, .indeterminate(let reason?)?): .indeterminate(reason)
        default: self
        }
    }
}

/// The source of time and random numbers of a bridge.
struct BridgeClock: Sendable {
    /// The time since any fixed point.
    var now: @Sendable () -> Duration
    /// The time in seconds since 1970 (UTC).
    var date: @Sendable () -> UInt32
    /// The time in milliseconds since 1970 (UTC).
    var milliseconds: @Sendable () -> Int64
    /// A random number, 0 to 1.
    var jitter: @Sendable () -> Double

    /// The system's clocks.
    static let system = BridgeClock(
        now: { .nanoseconds(Int64(clamping: NIODeadline.now().uptimeNanoseconds)) },
        date: { UInt32(clamping: time(nil)) },
        milliseconds: {
            var time = timespec()
            unsafe clock_gettime(CLOCK_REALTIME, &time)
            return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
        },
        jitter: { .random(in: 0...1) }
    )
}

/// The metrics of a bridge.
struct BridgeObserver: Sendable {
    private let counters: [DeliveryCause: Counter]
    /// The counter for nearly all notifications, without a look-up.
    private let accepted: Counter?
    private let deliveries: Gauge
    private let latency: Timer
    private let again: Counter
    private let doubts: Counter

    init(provider: String) {
        let dimensions = [("provider", provider)]
        var counters: [DeliveryCause: Counter] = [:]
        for cause in DeliveryCause.allCases {
            counters[cause] = Counter(
                label: "apns.legacy.notifications.settled",
                // `verdict` is the earlier name of `cause`, for one version.
                dimensions: dimensions + [("cause", cause.rawValue), ("verdict", cause.rawValue)]
            )
        }
        self.counters = counters
        self.accepted = counters[.accepted]
        self.deliveries = Gauge(label: "apns.legacy.notifications.in.flight", dimensions: dimensions)
        self.latency = Timer(label: "apns.legacy.upstream.request.duration", dimensions: dimensions)
        self.again = Counter(label: "apns.legacy.upstream.retries", dimensions: dimensions)
        self.doubts = Counter(label: "apns.legacy.connections.closed.in.doubt", dimensions: dimensions)
    }

    func ended(_ cause: DeliveryCause) {
        let counter = cause == .accepted ? self.accepted : self.counters[cause]
        counter?.increment()
    }

    func ended(_ cause: DeliveryCause, count: Int) {
        if count > 0 { self.counters[cause]?.increment(by: count) }
    }

    func inFlight(_ count: Int) { self.deliveries.record(count) }

    func answered(after duration: Duration) { self.latency.recordNanoseconds(TimeAmount(duration).nanoseconds) }

    func sentAgain() { self.again.increment() }

    /// Records that a connection was closed without an error response because expected resends could not be stored.
    func closedInDoubt() { self.doubts.increment() }
}

/// Why the delivery of a notification ended, as named in logs and metrics.
///
/// Several causes have the same outcome.
package enum DeliveryCause: String, CaseIterable, Sendable {
    case accepted, dead, rejected
    /// Too much was sent to its token, until the retry budget was spent or the notification expired.
    case throttled
    /// Given up without knowing whether the service accepted it.
    case unknown
    case misconfigured
    case gatewayFault = "gateway-fault"
    case credentialFault = "credential-fault"
    case budgetSpent = "budget-spent"
    /// Dropped from a spool, because its expiry or the longest age had passed.
    case expired
    /// Dropped from a spool, because what was read does not match its checksum.
    case damaged
    /// Rejected without an error response, as configured.
    case ignored
    /// Not retried, because an error response asks its provider to resend it.
    case leftToResend = "left-to-resend"
    /// Not delivered again, because it was delivered before its provider was asked to resend it.
    case resent
    /// The same, with another expiry than before.
    case resentWithNewExpiry = "resent-new-expiry"
}

extension ResponseClass {
    /// Returns the final outcome of a notification for its provider, and the cause.
    func outcome(isUnknown: Bool, isRepeatable: Bool) -> (outcome: DeliveryOutcome, cause: DeliveryCause) {
        switch self {
        case .accepted: (.accepted, .accepted)
        case .dead(let time): (.rejected(.unregistered(at: Timestamp(secondsSince1970: Int64(time)))), .dead)
        case .rejected(let status): (.rejected(.binary(status)), .rejected)
        case .misconfigured(let status): (.rejected(.binary(status)), .misconfigured)
        // The notification is as good as any other, but the protocol has no status for a gateway fault.
        case .requestFault: (.rejected(.binary(.processingError)), .gatewayFault)
        case .credentialFault:
            (
                .unsent(.notPermitted(ConnectionFailure(.identity, "the service does not accept the credentials"))),
                .credentialFault
            )
        case .unconfirmed: (.indeterminate(nil), .unknown)
        // The protocol cannot express uncertainty: "accepted" could hide a loss, "not accepted" a duplicate. Where the
        // gateway itself repeats requests, the provider's resend is one more attempt, and the log has the duplicate.
        case .transient where isUnknown: (isRepeatable ? .unsent(.deadline) : .indeterminate(nil), .unknown)
        // The service did not accept it, so the provider must not believe that it did. Expiry makes no difference: the
        // provider would resend it at once, and the service itself drops what has expired.
        case .transient(.throttled): (.unsent(.deadline), .throttled)
        case .transient: (.unsent(.deadline), .budgetSpent)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSHTTP2
import APNSSession
import APNSWire
import Logging
import NIOConcurrencyHelpers
import NIOCore

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// Brings the notifications of one provider to the service, under one version of its configuration.
final class Bridge: Sendable {
    let configuration: BridgeConfiguration
    let state: NIOLockedValueBox<BridgeState>
    private let recorder: any FeedbackRecorder
    private let observer: BridgeObserver
    private let group: any EventLoopGroup
    private let logger: Logger

    /// One notification under way.
    private struct Airborne: Sendable {
        var number: FlightNumber
        var origin: FlightOrigin
        var flight: Flight
        var request: PushRequest
        var list: FeedbackListName
    }

    /// `state` is that of the version before, so that nothing is forgotten when the configuration is read anew.
    init(
        _ configuration: BridgeConfiguration,
        state: NIOLockedValueBox<BridgeState>?,
        recorder: any FeedbackRecorder,
        group: any EventLoopGroup,
        logger: Logger
    ) {
        self.configuration = configuration
        self.state = state ?? NIOLockedValueBox(BridgeState(configuration))
        self.recorder = recorder
        self.observer = BridgeObserver(provider: configuration.name)
        self.group = group
        var logger = logger
        logger[metadataKey: LogKey.provider] = "\(configuration.name)"
        self.logger = logger
    }

    /// The time since any fixed point.
    static var now: Duration { .nanoseconds(Int64(NIODeadline.now().uptimeNanoseconds)) }

    /// The time in seconds since 1970 (UTC).
    static var date: UInt32 { UInt32(clamping: time(nil)) }

    /// Takes a notification; called on the event loop of its connection.
    func deliver(
        _ message: borrowing InboundNotification,
        connection: UInt64,
        rules: RequestRules,
        list: FeedbackListName
    ) -> (verdict: Verdict?, isFull: Bool) {
        let token = message.token
        let (expiry, priority) = (message.expiry, message.priority)
        let key = message.withUnsafePayload {
            ResendKey(token: token, payload: $0, expiry: expiry, priority: priority)
        }
        let origin = FlightOrigin(connection: connection, number: message.number)
        let inbox = message.ticket.inbox
        let (action, inFlightCount) = self.state.withLockedValue { state in
            (state.take(key, from: origin, inbox, now: Self.now), state.inFlightCount)
        }
        let number: FlightNumber
        switch action {
        case .settle(let verdict):
            self.observer.ended(.swallowed)
            return (verdict, false)
        case .wait:
            self.observer.ended(.swallowed)
            return (nil, false)
        case .send(let flight): number = flight
        }
        let request = rules.request(
            token: token,
            payload: message.payload,
            expiry: expiry,
            priority: priority,
            now: Self.date
        )
        let flight = Flight(rules: self.configuration.retries, now: Self.now)
        self.observer.inFlight(inFlightCount)
        self.send(Airborne(number: number, origin: origin, flight: flight, request: request, list: list))
        let isFull = inFlightCount >= self.configuration.inFlightCountMax || !self.configuration.upstream.hasRoom
        return (nil, isFull)
    }

    private func send(_ airborne: Airborne) {
        self.configuration.upstream.send(airborne.request) { answer, latency in
            if let latency { self.observer.answered(after: latency) }
            self.receive(answer, airborne)
        }
    }

    private func receive(_ answer: UpstreamAnswer, _ before: Airborne) {
        if answer.isAcceptance {
            // Nearly every answer: a copy that could be sent again, and random numbers, would cost more than the rest.
            self.end(before, .accepted, answer)
            return
        }
        var airborne = before
        let action = airborne.flight.receive(
            answer,
            to: &airborne.request,
            now: Self.now,
            date: Self.date,
            jitter: .random(in: 0...1)
        )
        switch action {
        case .end(let ending): self.end(airborne, ending, answer)
        case .sendAgain(let wait):
            self.observer.sentAgain()
            self.logger.debug("sent again", metadata: self.metadata(airborne, answer))
            // The payload may lie in the memory of a whole read, which should not be kept for long.
            airborne.request.payload = ByteBuffer(bytes: airborne.request.payload.readableBytesView)
            let next = airborne
            self.group.any().scheduleTask(in: TimeAmount(wait)) { self.sendAgain(next, answer) }
        }
    }

    private func sendAgain(_ airborne: Airborne, _ answer: UpstreamAnswer) {
        // What the service may have already cannot be taken back, and is tried on.
        if !airborne.flight.isUnknown, self.state.withLockedValue({ $0.isAbandoned(airborne.number) }) {
            self.end(airborne, FlightEnding(.serviceFault, .budgetSpent), answer)
        } else {
            self.send(airborne)
        }
    }

    private func end(_ airborne: Airborne, _ ending: FlightEnding, _ answer: UpstreamAnswer) {
        switch ending.cause {
        case .accepted:
            // The metadata is made only where that level is on.
            self.logger.debug("delivered", metadata: self.metadata(airborne, answer))
            self.recorder.forget(airborne.request.token, in: airborne.list)
            self.settle(airborne, ending)
        case .dead:
            self.logger.debug("token dead", metadata: self.metadata(airborne, answer))
            let tuple = FeedbackTuple(failedAt: ending.deadSince ?? Self.date, token: airborne.request.token)
            self.recorder.record(tuple, in: airborne.list) { self.settle(airborne, ending) }
        case .misconfigured, .credentialFault, .gatewayFault, .budgetSpent:
            self.logger.error("not delivered", metadata: self.metadata(airborne, answer, ending))
            self.settle(airborne, ending)
        case .rejected, .throttled, .unknown:
            self.logger.info("not delivered", metadata: self.metadata(airborne, answer, ending))
            self.settle(airborne, ending)
        case .swallowed: self.settle(airborne, ending)
        }
    }

    private func settle(_ airborne: Airborne, _ ending: FlightEnding) {
        self.observer.ended(ending.cause)
        // Each random number costs a system call.
        let jitter = ending.verdict == .accepted ? 0 : Double.random(in: 0...1)
        let (target, inFlightCount, waiters) = self.state.withLockedValue { state in
            let target = state.end(airborne.number, from: airborne.origin, ending, now: Self.now, jitter: jitter)
            return (target, state.inFlightCount, state.takeIdleWaiters())
        }
        self.observer.inFlight(inFlightCount)
        if let target { target.inbox.put(target.number, ending.verdict) }
        for waiter in waiters { waiter() }
    }

    /// Calls as soon as nothing is under way, which may be at once, and from any thread.
    func whenIdle(_ body: @escaping @Sendable () -> Void) {
        if !self.state.withLockedValue({ $0.wait(body) }) { body() }
    }

    private func metadata(
        _ airborne: Airborne,
        _ answer: UpstreamAnswer,
        _ ending: FlightEnding? = nil
    ) -> Logger.Metadata {
        var metadata: Logger.Metadata = [
            LogKey.bridgeConnection: "\(airborne.origin.connection)", LogKey.message: "\(airborne.origin.number)",
            LogKey.topic: "\(airborne.list.topic)", LogKey.request: "\(airborne.request.identifier)",
        ]
        switch answer {
        case .answered(let status, let reason, _):
            metadata[LogKey.answer] = "\(status) \(reason ?? "")"
        case .unprocessed: metadata[LogKey.answer] = "not processed"
        case .lost: metadata[LogKey.answer] = "none"
        case .notPermitted(let detail): metadata[LogKey.answer] = "not permitted: \(detail)"
        }
        if let ending { metadata[LogKey.cause] = "\(ending.cause.rawValue)" }
        return metadata
    }
}

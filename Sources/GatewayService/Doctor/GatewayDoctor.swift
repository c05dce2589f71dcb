// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSPayload
import APNSServer
import APNSSession
import APNSWire
package import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import OpenSSLTLS

/// Listens in the place of a gateway, delivers nothing, and observes how a provider reacts.
package final class GatewayDoctor: Sendable {
    /// The most connections and the most notifications of each that are recorded.
    private static let (connectionCountMax, messageCountMax) = (1000, 10_000)
    static let invalidCountMax = 16
    /// How long what follows the first notification may take to arrive, before the trial takes effect: about as long as
    /// a service takes, and less than scripts wait for an answer.
    package static let gatheringTimeDefault = Duration.milliseconds(200)
    /// The same for a rejection that comes late: longer than scripts wait for an answer.
    package static let lateTimeDefault = Duration.seconds(2)
    /// After how long without an answer a connection ends, or one on which everything is accepted.
    package static let silenceDefault = Duration.seconds(10)
    /// How long a connection stays open after an error response, so that a provider that reads it closes first.
    package static let responseTimeDefault = Duration.seconds(3)

    private struct State {
        var connections: [ObservedConnection] = []
        /// The places in `connections` by their numbers.
        var places: [UInt64: Int] = [:]
        /// The open connections by their numbers.
        var channels: [UInt64: any Channel] = [:]
        /// How many connections have had a trial.
        var trialCount = 0
        /// How many connections with a trial have closed.
        var completeCount = 0
        var feedbackCount = 0
        var handshakeFailures: [String] = []
        var isStopping = false
    }

    private let state = NIOLockedValueBox(State())
    private let configuration: ResolvedConfiguration
    private let gatheringTime: Duration
    private let lateTime: Duration
    private let silence: Duration
    private let responseTime: Duration
    private let start = ContinuousClock.now
    private let logger: Logger
    private let onConnection: @Sendable (ObservedConnection) -> Void

    /// Creates a doctor for the provider of a configuration, whose addresses and certificate it uses.
    ///
    /// `onConnection` is called when a connection has closed.
    package init(
        _ configuration: ResolvedConfiguration,
        gatheringTime: Duration = GatewayDoctor.gatheringTimeDefault,
        lateTime: Duration = GatewayDoctor.lateTimeDefault,
        silence: Duration = GatewayDoctor.silenceDefault,
        responseTime: Duration = GatewayDoctor.responseTimeDefault,
        logger: Logger,
        onConnection: @escaping @Sendable (ObservedConnection) -> Void
    ) {
        self.configuration = configuration
        self.gatheringTime = gatheringTime
        self.lateTime = lateTime
        self.silence = silence
        self.responseTime = responseTime
        self.logger = logger
        self.onConnection = onConnection
    }

    /// What was observed so far.
    package var habits: ProviderHabits {
        self.state.withLockedValue {
            ProviderHabits($0.connections, feedbackCount: $0.feedbackCount, handshakeFailures: $0.handshakeFailures)
        }
    }

    /// Whether each trial has been met by enough connections, and the reactions were seen.
    package var isComplete: Bool { self.state.withLockedValue { $0.completeCount >= ProviderTrial.totalCount } }

    /// Listens while `body` runs, which gets the ports of notifications and feedback.
    ///
    /// - Throws: the error of `body`, or `ServerError` if an address cannot be listened on.
    package func withRunning(_ body: (_ port: Int, _ feedbackPort: Int) async throws -> Void) async throws {
        var listener = Gateway.listener(self.configuration, Self.connectionCountMax * 2, self.logger)
        // It is to find out what the provider needs.
        listener.listener.versionMin = .tls1_0
        (listener.drainTimeout, listener.drainIdleTimeout) = (self.responseTime, self.responseTime)
        listener.listener.connectionObserver = Observer(doctor: self)
        var feedback = Gateway.feedbackListener(self.configuration)
        feedback.listener.versionMin = .tls1_0
        try await Listener(listener, backend: Backend(doctor: self), logger: self.logger).withRunning { listener in
            try await Listener(feedback, store: Feedback(doctor: self), logger: self.logger).withRunning { feedback in
                defer {
                    self.state.withLockedValue { $0.isStopping = true }
                    listener.stop()
                    feedback.stop()
                }
                try await body(try await listener.boundAddress.port, try await feedback.boundAddress.port)
            }
        }
    }

    fileprivate var now: Duration { .now - self.start }

    /// Changes the record of a connection.
    fileprivate func change(_ number: UInt64, _ body: (inout ObservedConnection) -> Void) {
        self.state.withLockedValue { state in
            if let place = state.places[number] { body(&state.connections[place]) }
        }
    }

    /// Chooses the trial of a connection that sends its first notification, and when it takes effect.
    fileprivate func beginTrial(_ number: UInt64) -> (trial: ProviderTrial, time: Duration) {
        self.state.withLockedValue { state in
            let trial = ProviderTrial.at(state.trialCount)
            let isLate = ProviderTrial.isLate(state.trialCount)
            state.trialCount += 1
            if let place = state.places[number] {
                state.connections[place].trial = trial
                state.connections[place].isLate = isLate
            }
            return (trial, isLate ? self.lateTime : self.gatheringTime)
        }
    }

    /// Closes a connection on which everything was accepted, so that a provider that keeps its connections meets the
    /// next trial.
    fileprivate func close(_ number: UInt64) {
        let now = self.now
        let channel = self.state.withLockedValue { state -> (any Channel)? in
            guard let channel = state.channels[number], let place = state.places[number] else { return nil }
            state.connections[place].effectAt = now
            return channel
        }
        // Without waiting for the close_notify of a provider that does not read.
        channel?.close(mode: .output).whenComplete { _ in
            channel?.triggerUserOutboundEvent(RawCloseHandler.Cut(), promise: nil)
        }
    }

    fileprivate func opened(_ connection: EstablishedConnection) {
        let now = self.now
        self.state.withLockedValue { state in
            guard state.connections.count < Self.connectionCountMax else { return }
            var observed = ObservedConnection(number: connection.number)
            observed.identity = connection.identity
            observed.tlsVersion = connection.tlsVersion
            observed.cipherName = connection.cipherName
            observed.serverName = connection.serverName
            observed.openedAt = now
            state.channels[connection.number] = connection.channel
            state.places[connection.number] = state.connections.count
            state.connections.append(observed)
        }
    }

    fileprivate func closed(_ number: UInt64) {
        let now = self.now
        let connection = self.state.withLockedValue { state -> ObservedConnection? in
            state.channels[number] = nil
            guard let place = state.places[number] else { return nil }
            if state.connections[place].closedAt == nil { state.connections[place].closedAt = now }
            // The trial misses it: that is known before its time has come.
            if state.connections[place].trial != .acceptance, state.connections[place].effectAt == nil {
                state.connections[place].effectAt = now + .nanoseconds(1)
            }
            if !state.connections[place].messages.isEmpty { state.completeCount += 1 }
            return state.connections[place]
        }
        if let connection { self.onConnection(connection) }
    }

    fileprivate func inputClosed(_ number: UInt64) {
        let now = self.now
        self.change(number) { connection in
            if connection.closedAt == nil { connection.closedAt = now }
        }
    }

    fileprivate func handshakeFailed(_ reason: String) {
        self.state.withLockedValue { state in
            guard !state.isStopping else { return }
            // The last ones, since what scans ports may come before the provider.
            if state.handshakeFailures.count >= Self.invalidCountMax { state.handshakeFailures.removeFirst() }
            state.handshakeFailures.append(reason)
        }
    }

    /// Why the gateway would not admit a provider; `nil` if it would.
    fileprivate func refusal(of provider: ProviderConnection) -> String? {
        guard let certificate = provider.certificate else { return "it has no certificate" }
        let rules = self.configuration.providers.map(\.admission)
        let reasons = rules.map {
            $0.refusal(of: certificate, intermediates: provider.intermediates, now: Timestamp.now.secondsSince1970)
        }
        return reasons.contains { $0 == nil } ? nil : reasons.first ?? "the configuration has no provider"
    }

    fileprivate func messageWasRead(_ message: borrowing InboundNotification, on number: UInt64) {
        var hasher = Hasher()
        hasher.combine(message.token)
        hasher.combine(message.payload)
        let observed = ObservedConnection.Message(
            content: hasher.finalize(),
            command: message.command,
            identifier: message.identifier,
            expiry: message.expiry,
            priority: message.priorityByte,
            tokenByteCount: message.token.byteCount,
            payloadByteCount: message.payloadByteCount,
            payloadProblem: Self.problem(of: message.payload),
            at: self.now
        )
        self.change(number) { connection in
            guard connection.messages.count < Self.messageCountMax else { return connection.omittedCount += 1 }
            connection.messages.append(observed)
        }
    }

    /// Why a payload is not a JSON object.
    ///
    /// Keys and their values are what the service checks.
    private static func problem(of payload: ByteBuffer) -> PayloadProblem.Kind? {
        unsafe payload.withUnsafeReadableBytes { bytes in
            do throws(PayloadProblem) {
                unsafe try Payload.check(bytes, rules: PayloadRules(byteCountMax: .max))
                return nil
            } catch {
                switch error.kind {
                case .syntax, .notAnObject, .objectMissing: return error.kind
                default: return nil
                }
            }
        }
    }

    fileprivate func feedbackWasAskedFor() { self.state.withLockedValue { $0.feedbackCount += 1 } }

    // MARK: Listeners

    private struct Observer: ConnectionObserver {
        let doctor: GatewayDoctor

        func opened(_ connection: EstablishedConnection) { self.doctor.opened(connection) }

        func closed(number: UInt64) { self.doctor.closed(number) }

        func inputClosed(number: UInt64) { self.doctor.inputClosed(number) }

        func handshakeFailed(_ reason: String) { self.doctor.handshakeFailed(reason) }
    }

    private struct Backend: DeliveryBackend {
        let doctor: GatewayDoctor

        func admit(_ provider: ProviderConnection) -> Admission {
            let refusal = self.doctor.refusal(of: provider)
            self.doctor.change(provider.number) { connection in
                connection.refusal = refusal
                connection.intermediateCount = provider.intermediates.count
            }
            return .admitted(TrialConnection(provider.number, self.doctor))
        }
    }

    private struct Feedback: FeedbackStore {
        let doctor: GatewayDoctor

        func open(_ provider: ProviderConnection) -> (any FeedbackList)? {
            // Some providers keep the connection, so that they never confirm the list.
            self.doctor.feedbackWasAskedFor()
            return EmptyList()
        }
    }

    private final class EmptyList: FeedbackList {
        func next(_ countMax: Int) -> [FeedbackTuple] { [] }

        func acknowledge() {}
    }

    /// A connection with its trial, which takes effect some time after its first notification.
    private final class TrialConnection: DeliveryConnection {
        private let number: UInt64
        private let doctor: GatewayDoctor
        private var trial: ProviderTrial?
        private var firstIdentifier: UInt32?

        init(_ number: UInt64, _ doctor: GatewayDoctor) {
            self.number = number
            self.doctor = doctor
        }

        func deliver(_ message: borrowing InboundNotification) -> DeliveryOutcome? {
            self.doctor.messageWasRead(message, on: self.number)
            if self.trial == nil {
                let (trial, time) = self.doctor.beginTrial(self.number)
                self.trial = trial
                self.firstIdentifier = message.identifier
                self.schedule(trial, after: time, message.ticket)
            }
            return self.trial == .acceptance ? .accepted : nil
        }

        private func schedule(_ trial: ProviderTrial, after time: Duration, _ ticket: DeliveryTicket) {
            let (doctor, number) = (self.doctor, self.number)
            @Sendable func after(_ duration: Duration, _ body: @escaping @Sendable () -> Void) {
                MultiThreadedEventLoopGroup.singleton.any().scheduleTask(in: TimeAmount(duration), body)
            }
            guard trial != .acceptance else { return after(doctor.silence) { doctor.close(number) } }
            after(time) {
                doctor.change(number) { connection in
                    if connection.effectAt == nil { connection.effectAt = doctor.now }
                }
                switch trial {
                case .rejection: ticket.settle(.rejected(.binary(.invalidToken)))
                case .shutdown: ticket.settle(.accepted, isLast: true)
                case .reset: ticket.settle(.indeterminate(nil))
                case .silence: after(doctor.silence) { ticket.settle(.indeterminate(nil)) }
                case .acceptance: break
                }
            }
        }

        func close(for ending: GatewayEnding, _ carryOut: @escaping @Sendable (GatewayEnding) -> Void) {
            switch self.trial {
            case .reset, .silence: carryOut(ending.inDoubt)
            case .shutdown:
                // Where no response is clear, the gateway resets the connection; nothing would read on behind one.
                guard ending.closing != .reset else { return carryOut(ending) }
                // Otherwise, those that followed would have their own.
                var ending = ending
                ending.response = self.firstIdentifier.map { ErrorResponse(status: .shutdown, identifier: $0) }
                carryOut(ending)
            case .acceptance, .rejection, nil: carryOut(ending)
            }
        }

        var observesRefusals: Bool { true }

        func refused(_ message: RefusedMessage) {
            self.doctor.change(self.number) { connection in
                if connection.invalid.count < GatewayDoctor.invalidCountMax {
                    connection.invalid.append(message.reason)
                }
            }
        }
    }
}

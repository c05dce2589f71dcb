// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSession
import APNSTransport
import APNSWire
import NIOCore

/// A provider's connection to the simulator.
final class SimulatorConnection: DeliveryConnection {
    private let provider: ProviderConnection
    private let backend: SimulatorBackend
    /// `nil` if the connection closed before it was admitted.
    private let reportHandler: FaultReportHandler?
    /// The fault that ended the connection.
    private var fault: Fault?
    /// Exclusivity checks are disabled: the calls are never reentrant, and the checks would cost a tenth of the time.
    @exclusivity(unchecked) private var collector: MessageCollector

    init(_ provider: ProviderConnection, backend: SimulatorBackend, reportHandler: FaultReportHandler?) {
        self.provider = provider
        self.backend = backend
        self.reportHandler = reportHandler
        unsafe self.collector = MessageCollector(provider, backend)
    }

    func deliver(_ message: borrowing InboundNotification) -> DeliveryOutcome? {
        if unsafe self.collector.collect(message) { return .accepted }
        // Collected messages are recorded before this one.
        unsafe self.collector.flush()
        let fault = self.backend.schedule.fault(
            at: .binary,
            token: message.token,
            connection: self.provider.number,
            number: message.number,
            overall: self.backend.devices.countMessage(),
            content: FaultContent(topic: self.provider.identity.topic, payload: message.payload)
        )
        switch fault?.effect {
        case .reject(let rejection):
            self.fault = fault
            return self.reject(message, rejection, Fault.rejectionDetail)
        case .closeBefore:
            self.fault = fault
            // Only the end counts, since the status is not sent.
            return .rejected(.binary(.processingError))
        case .ignore: return nil
        case .delay(let duration):
            guard let handler = self.reportHandler else { break }
            let (message, timestamp) = (copy message, self.backend.devices.now)
            handler.schedule(in: duration) { message.ticket.settle(self.process(message, timestamp: timestamp)) }
            return nil
        default: break
        }
        let outcome = self.process(message)
        switch fault?.effect {
        case .shutDown, .closeAfter:
            guard self.isAccepted(outcome) else { return outcome }
            self.fault = fault
            message.ticket.settle(.accepted, isLast: true)
            return nil
        default: return outcome
        }
    }

    /// Whether the gateway accepts a notification with this outcome, as it does for a dead device.
    private func isAccepted(_ outcome: DeliveryOutcome) -> Bool {
        switch outcome {
        case .rejected(.binary): false
        default: true
        }
    }

    private func process(_ message: borrowing InboundNotification, timestamp: Timestamp = .unset) -> DeliveryOutcome {
        let topic = self.provider.identity.topic
        let isDead: Bool
        let status = self.backend.devices.status(of: message.token, topic: topic)
        switch status {
        case .alive: isDead = false
        case .dead, .replaced: isDead = true
        case .otherTopic, .otherEnvironment, .unknown:
            return self.reject(message, .binary(.invalidToken), status.description, timestamp: timestamp)
        }
        self.record(self.backend.devices.accept(self.received(message, timestamp: timestamp)))
        return isDead ? .rejected(.unregistered(at: nil)) : .accepted
    }

    /// Reports a recorded notification to the fault schedule.
    private func record(_ recorded: ReceivedNotification) { self.backend.schedule.recorded(recorded) }

    private func received(_ message: borrowing InboundNotification, timestamp: Timestamp) -> ReceivedNotification {
        var received = ReceivedNotification(
            token: message.token,
            frame: Array(message.frame.readableBytesView),
            payloadRange: message.payloadOffset..<message.payloadOffset + message.payloadByteCount,
            connectionNumber: self.provider.number,
            notificationNumber: message.number
        )
        received.topic = self.provider.identity.topic
        received.expiry = PushExpiry(wireValue: message.expiry)
        received.priority = message.priority
        received.identifier = message.identifier
        received.timestamp = timestamp
        received.duration = .nanoseconds((NIODeadline.now() - message.receivedAt).nanoseconds)
        return received
    }

    private func reject(
        _ message: borrowing InboundNotification,
        _ rejection: Rejection,
        _ detail: String,
        timestamp: Timestamp = .unset
    ) -> DeliveryOutcome {
        var received = self.received(message, timestamp: timestamp)
        received.rejection = rejection
        received.reasonDetail = detail
        self.record(self.backend.devices.refuse(received))
        return .rejected(rejection)
    }

    func deliverComplete() { unsafe self.collector.flush() }

    var observesRefusals: Bool { true }

    func refused(_ message: RefusedMessage) {
        unsafe self.collector.flush()
        // Without token and payload it is a probe, with which a provider confirms that all earlier messages were
        // accepted.
        guard message.token != nil || message.payload?.readableBytes ?? 0 > 0 || message.status != .missingDeviceToken
        else {
            return
        }
        var received = ReceivedNotification(
            listener: .binary,
            token: message.token,
            payload: message.payload.map { Array($0.readableBytesView) } ?? [],
            connectionNumber: self.provider.number,
            notificationNumber: message.number
        )
        received.payloadByteCount = message.payloadByteCount ?? 0
        received.frame = Array(message.bytes.readableBytesView)
        received.topic = self.provider.identity.topic
        received.identifier = message.identifier
        // Bytes that are not a command end the connection without a response.
        received.rejection = message.status.map { .binary($0) }
        received.isUnanswered = message.status == nil
        received.reasonDetail = message.reason
        received.duration = .nanoseconds((NIODeadline.now() - message.receivedAt).nanoseconds)
        self.backend.devices.refuse(received)
    }

    func close(for ending: GatewayEnding, _ carryOut: @escaping @Sendable (GatewayEnding) -> Void) {
        let report: FaultReport
        var response = ending.response
        if let fault = self.fault {
            report = fault.report
            if [.closeBefore, .closeAfter].contains(fault.effect) { response = nil }
        } else {
            let schedule = self.backend.schedule
            let fault = schedule.fault(.errorResponse, at: .binary, connection: self.provider.number)
            report = fault?.report ?? FaultReport()
        }
        var sent = report.response(response)
        if sent != nil, self.backend.policy.consumeZeroIdentifier() { sent?.identifier = 0 }
        var ending = ending
        ending.response = sent
        let status = sent?.status.rawValue ?? 0
        self.backend.devices.change { $0.endings[status, default: 0] += 1 }
        guard let handler = self.reportHandler else { return carryOut(ending) }
        handler.begin(report) { [ending] in carryOut(ending) }
    }

    func isAdmitted(_ provider: ProviderConnection) -> Bool { self.backend.policy.isTrusted(provider) }

    func discarded(messageCount: Int) {
        self.backend.devices.change { $0.discardedCount += messageCount }
    }
}

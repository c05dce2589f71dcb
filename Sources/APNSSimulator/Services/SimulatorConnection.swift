// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSSession
import APNSTransport
import APNSWire

/// One provider's connection to the simulator.
final class SimulatorConnection: DeliveryConnection {
    private let provider: ProviderConnection
    private let backend: SimulatorBackend
    /// The fault that ended the connection.
    private let reportHandler: FaultReportHandler?
    private var fault: Fault?

    init(_ provider: ProviderConnection, backend: SimulatorBackend, reportHandler: FaultReportHandler?) {
        self.provider = provider
        self.backend = backend
        self.reportHandler = reportHandler
    }

    func deliver(_ message: borrowing InboundNotification) -> DeliveryOutcome? {
        let overall = self.backend.devices.countMessage()
        let token = message.token
        let fault = self.backend.schedule.fault(token: token, message: message.number, overall: overall)
        if case .reject(let status) = fault?.effect {
            self.fault = fault
            return self.reject(ErrorResponse.Status(rawValue: status))
        }
        let topic = self.provider.identity.topic
        let environment = self.backend.environment
        let isDead: Bool
        switch self.backend.devices.standing(of: token, topic: topic, environment: environment) {
        case .alive: isDead = false
        case .dead: isDead = true
        case .foreign, .unknown: return self.reject(.invalidToken)
        }
        let delivered = DeliveredNotification(
            notification: message.notification,
            topic: topic,
            identifier: message.identifier,
            connectionNumber: self.provider.number,
            messageNumber: message.number,
            isDead: isDead
        )
        self.backend.devices.deliver(delivered, environment: environment)
        self.backend.onDelivery?(delivered)
        switch fault?.effect {
        case .shutDown, .cut:
            self.fault = fault
            message.ticket.settle(.accepted, isLast: true)
            return nil
        case .reject, .refuse, .slow, nil:
            return isDead ? .rejected(.unregistered(at: nil)) : .accepted
        }
    }

    private func reject(_ status: ErrorResponse.Status) -> DeliveryOutcome {
        self.backend.devices.change { $0.rejectedCount += 1 }
        return .rejected(.binary(status))
    }

    func close(for ending: GatewayEnding, _ carryOut: @escaping @Sendable (ErrorResponse?) -> Void) {
        var response = ending.response
        if case .cut = self.fault?.effect { response = nil }
        let report = self.fault?.report ?? self.backend.report
        let told = report.response(response)
        self.backend.devices.change { $0.endings[told?.status.rawValue ?? 0, default: 0] += 1 }
        guard let handler = self.reportHandler else { return carryOut(told) }
        handler.begin(report) { carryOut(told) }
    }

    func discarded(messageCount: Int) {
        self.backend.devices.change { $0.discardedCount += messageCount }
    }

    func closed() {
        self.backend.devices.change { $0.closedConnectionCount += 1 }
    }
}

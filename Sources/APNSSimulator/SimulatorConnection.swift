// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSSession
import APNSWire

/// One provider's connection to the simulator.
final class SimulatorConnection: DeliveryConnection {
    let readingPace: ReadingPace?

    private let provider: ProviderConnection
    private let backend: SimulatorBackend
    /// The fault that ended the connection.
    private var fault: Fault?

    init(_ provider: ProviderConnection, backend: SimulatorBackend, readingPace: ReadingPace?) {
        self.provider = provider
        self.backend = backend
        self.readingPace = readingPace
    }

    func deliver(_ message: borrowing InboundNotification) -> DeliveryOutcome? {
        let overall = self.backend.ledger.countMessage()
        let token = message.token
        let fault = self.backend.schedule.fault(token: token, message: message.number, overall: overall)
        if case .reject(let status) = fault?.effect {
            self.fault = fault
            return self.reject(ErrorResponse.Status(rawValue: status))
        }
        let topic = self.provider.identity.topic
        let environment = self.backend.environment
        guard
            let isDead = self.backend.ledger.isDead(token, topic: topic, environment: environment)
        else { return self.reject(.invalidToken) }
        let delivered = DeliveredNotification(
            notification: message.notification,
            topic: topic,
            identifier: message.identifier,
            connectionNumber: self.provider.number,
            messageNumber: message.number,
            isDead: isDead
        )
        self.backend.ledger.deliver(delivered, environment: environment)
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
        self.backend.ledger.change { $0.rejectedCount += 1 }
        return .rejected(.binary(status))
    }

    func close(for ending: GatewayEnding, _ carryOut: @escaping @Sendable (CloseStrategy) -> Void) {
        var response = ending.response
        if case .cut = self.fault?.effect { response = nil }
        let manner = (self.fault?.report ?? self.backend.schedule.report).manner(of: response)
        self.backend.ledger.change { $0.endings[manner.response?.status.rawValue ?? 0, default: 0] += 1 }
        carryOut(manner)
    }

    func discarded(messageCount: Int) {
        self.backend.ledger.change { $0.discardedCount += messageCount }
    }

    func closed() {
        self.backend.ledger.change { $0.closedConnectionCount += 1 }
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSWire

/// The simulator's devices behind the HTTP/2 listener.
struct SimulatorPushService: PushService {
    let devices: DeviceRegistry
    let schedule: FaultSchedule<PushFault>
    let environment: Environment
    let onDelivery: (@Sendable (DeliveredNotification) -> Void)?

    func take(_ request: borrowing InboundPush) -> PushReply? {
        if let effect = self.fault(request) { return effect.carryOut(request.ticket) }
        if let rejection = self.rejection(request) { return .rejected(rejection) }
        self.deliver(request)
        return .accepted
    }

    private func fault(_ request: borrowing InboundPush) -> PushFault.Effect? {
        let overall = self.devices.countMessage()
        let fault = self.schedule.fault(token: request.token, message: request.number, overall: overall)
        let effect = fault?.effect
        if case .reply(.rejected) = effect { self.countRejection() }
        // What is processed on the way out was delivered.
        if case .reply(.lastAccepted) = effect { self.deliver(request) }
        return effect
    }

    private func rejection(_ request: borrowing InboundPush) -> PushRejection? {
        switch self.devices.standing(of: request.token, topic: request.topic, environment: self.environment) {
        case .alive: return nil
        case .dead(let since):
            self.countRejection()
            self.devices.change { $0.deadCount += 1 }
            return PushRejection(status: 410, reason: .unregistered, timestamp: UInt64(since) * 1000)
        case .foreign:
            self.countRejection()
            return PushRejection(status: 400, reason: .deviceTokenNotForTopic)
        case .unknown:
            self.countRejection()
            return PushRejection(status: 400, reason: .badDeviceToken)
        }
    }

    private func countRejection() { self.devices.change { $0.rejectedCount += 1 } }

    private func deliver(_ request: borrowing InboundPush) {
        let delivered = DeliveredNotification(
            notification: PushNotification(
                token: request.token,
                payload: request.payload,
                expiry: request.expiration,
                priority: request.priority
            ),
            topic: request.topic,
            requestIdentifier: request.identifier,
            pushType: request.pushType,
            connectionNumber: request.connectionNumber,
            messageNumber: request.number,
            isDead: false
        )
        self.devices.deliver(delivered, environment: self.environment)
        self.onDelivery?(delivered)
    }
}

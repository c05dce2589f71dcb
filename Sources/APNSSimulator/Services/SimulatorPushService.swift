// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSWire
import NIOCore

/// The simulator's devices behind the HTTP/2 listener.
struct SimulatorPushService: PushService {
    let devices: DeviceRegistry
    let schedule: FaultSchedule

    func take(_ request: borrowing InboundPush) -> PushReply? {
        let fault = self.schedule.fault(
            at: .http2,
            token: request.token,
            connection: request.connectionNumber,
            number: request.number,
            overall: self.devices.countMessage()
        )
        guard let fault else { return self.answer(request) }
        switch fault.effect {
        case .reject: self.countRejection()
        case .delay(let duration):
            let request = copy request
            request.ticket.channel.eventLoop.scheduleTask(in: TimeAmount(duration)) {
                request.ticket.reply(self.answer(request))
            }
            return nil
        case .limitStreams:
            _ = fault.carryOut(request.ticket)
            return self.answer(request)
        case .shutDown, .closeAfter:
            if case .rejected(let rejection) = self.answer(request) { return .rejected(rejection) }
        default: break
        }
        return fault.carryOut(request.ticket)
    }

    /// Takes a request, or refuses it.
    private func answer(_ request: borrowing InboundPush) -> PushReply {
        if let rejection = self.rejection(request) { return .rejected(rejection) }
        self.deliver(request)
        return .accepted
    }

    private func rejection(_ request: borrowing InboundPush) -> PushRejection? {
        switch self.devices.standing(of: request.token, topic: request.topic) {
        case .alive: return nil
        case .dead(let since):
            self.countRejection()
            self.devices.change { $0.deadCount += 1 }
            return PushRejection(status: 410, reason: .unregistered, timestamp: since)
        case .replaced(let since):
            self.countRejection()
            self.devices.change { $0.deadCount += 1 }
            return PushRejection(status: 410, reason: .expiredToken, timestamp: since)
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
        self.devices.take(
            ReceivedNotification(
                listener: .http2,
                token: request.token,
                payload: Array(request.payload.readableBytesView),
                topic: request.topic,
                pushType: request.pushType,
                expiry: PushExpiry(wireValue: request.expiration),
                priority: request.priority,
                collapseIdentifier: request.collapseIdentifier,
                requestIdentifier: request.identifier,
                connectionNumber: request.connectionNumber,
                notificationNumber: request.number
            )
        )
    }
}

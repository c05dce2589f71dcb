// SPDX-License-Identifier: Apache-2.0

import APNSServer
import APNSWire
import NIOCore

/// Serves the simulator's devices at the HTTP/2 listener.
extension SimulatorBackend: PushService {
    func handle(_ request: borrowing InboundPush) -> PushReply? {
        let (topic, payload, headers) = (request.topic, request.payload, request.headers)
        let fault = self.schedule.fault(
            at: .http2,
            token: request.token,
            connection: request.connectionNumber,
            number: request.number,
            overall: self.devices.countMessage(),
            content: FaultContent(topic: topic, payload: payload, header: { headers[$0] })
        )
        guard let fault else { return self.answer(request) }
        switch fault.effect {
        case .reject: break
        case .delay(let duration):
            let (request, timestamp) = (copy request, self.devices.now)
            request.ticket.channel.eventLoop.scheduleTask(in: TimeAmount(duration)) {
                // A client that has received GOAWAY for it meanwhile may resend it.
                guard request.ticket.isAwaited else { return }
                request.ticket.reply(self.answer(request, timestamp: timestamp))
            }
            return nil
        case .limitStreams:
            _ = fault.carryOut(request.ticket)
            return self.answer(request)
        case .shutDown, .closeAfter:
            let answer = self.answer(request)
            guard answer == .accepted else { return answer }
        default: break
        }
        return fault.carryOut(request.ticket)
    }

    /// Accepts or rejects a request.
    private func answer(_ request: borrowing InboundPush, timestamp: Timestamp = .unset) -> PushReply {
        if let (rejection, detail) = self.rejection(request) { return .explained(rejection, detail: detail) }
        self.deliver(request, timestamp: timestamp)
        return .accepted
    }

    private func rejection(_ request: borrowing InboundPush) -> (PushRejection, detail: String)? {
        let status = self.devices.status(of: request.token, topic: request.topic)
        let rejection: PushRejection
        switch status {
        case .alive:
            guard !self.policy.admitRequest(for: request.token) else { return nil }
            return (
                PushRejection(status: 429, reason: .tooManyRequests), "more requests to the device than its limit"
            )
        case .dead(let since): rejection = PushRejection(status: 410, reason: .unregistered, timestamp: since)
        case .replaced(let since): rejection = PushRejection(status: 410, reason: .expiredToken, timestamp: since)
        case .otherTopic: rejection = PushRejection(status: 400, reason: .deviceTokenNotForTopic)
        case .unknown, .otherEnvironment: rejection = PushRejection(status: 400, reason: .badDeviceToken)
        }
        return (rejection, status.description)
    }

    private func deliver(_ request: borrowing InboundPush, timestamp: Timestamp) {
        var received = ReceivedNotification(
            listener: .http2,
            token: request.token,
            payload: Array(request.payload.readableBytesView),
            connectionNumber: request.connectionNumber,
            notificationNumber: request.number
        )
        received.topic = request.topic
        received.pushType = request.pushType
        received.expiry = PushExpiry(wireValue: request.expiration)
        received.priority = request.priority
        received.collapseID = request.collapseID
        received.apnsID = request.apnsID
        received.apnsUniqueID = request.apnsUniqueID
        received.tokenSignature = request.tokenSignature
        received.headers = request.headers.map { ReceivedNotification.Header(name: $0.name, value: $0.value) }
        received.timestamp = timestamp
        received.duration = .nanoseconds((NIODeadline.now() - request.receivedAt).nanoseconds)
        self.schedule.recorded(self.devices.accept(received))
    }

    /// Records a broadcast, which has no device token.
    func accepted(_ broadcast: InboundBroadcast) {
        _ = self.devices.countMessage()
        var received = ReceivedNotification(
            listener: .http2,
            token: nil,
            payload: Array(broadcast.payload.readableBytesView),
            connectionNumber: broadcast.connectionNumber,
            notificationNumber: broadcast.number
        )
        received.topic = broadcast.bundleID
        received.pushType = .liveActivity
        received.expiry = PushExpiry(wireValue: broadcast.expiration)
        received.priority = broadcast.priority
        received.apnsID = broadcast.apnsRequestID
        received.apnsUniqueID = broadcast.apnsUniqueID
        received.tokenSignature = broadcast.tokenSignature
        received.headers = broadcast.headers.map { ReceivedNotification.Header(name: $0.name, value: $0.value) }
        received.duration = .nanoseconds((NIODeadline.now() - broadcast.receivedAt).nanoseconds)
        self.schedule.recorded(self.devices.accept(received))
    }

    var observesRefusals: Bool { true }

    func refused(_ request: RefusedPush) {
        var received = ReceivedNotification(
            listener: .http2,
            token: try? DeviceToken(request.tokenText),
            payload: Array(request.payload.readableBytesView),
            connectionNumber: request.connectionNumber,
            notificationNumber: request.number
        )
        received.payloadByteCount = request.payloadByteCount
        received.topic = request.topic
        received.apnsID = request.apnsID.flatMap { PushIdentifier($0) }
        received.pushType = request.headers["apns-push-type"].map { PushType(rawValue: $0) }
        received.priority = request.headers["apns-priority"].flatMap { UInt8($0) }
        let expiration = request.headers["apns-expiration"].flatMap { UInt64($0) }
        received.expiry = PushExpiry(wireValue: expiration.map { UInt32(clamping: $0) })
        received.collapseID = request.headers["apns-collapse-id"]
        received.headers = request.headers.map { ReceivedNotification.Header(name: $0.name, value: $0.value) }
        received.rejection = .http2(request.rejection)
        received.reasonDetail = request.detail
        received.tokenSignature = request.tokenSignature
        let waited = NIODeadline.now() - request.receivedAt
        received.duration = .nanoseconds(waited.nanoseconds)
        // A fault may delay the response.
        let now = self.devices.now.millisecondsSince1970
        received.timestamp = Timestamp(millisecondsSince1970: now - waited.nanoseconds / 1_000_000)
        self.schedule.recorded(self.devices.refuse(received))
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSWire
import Logging
import NIOConcurrencyHelpers

/// One provider's connection to a bridge; on the event loop of the connection.
final class BridgeConnection: DeliveryConnection {
    private let bridge: Bridge
    private let backend: HTTP2Backend
    private let number: UInt64
    private let rules: RequestRules
    private let list: FeedbackListName
    private let logger: Logger
    private(set) var isFull = false

    init(_ bridge: Bridge, _ backend: HTTP2Backend, number: UInt64, topic: String, logger: Logger) {
        self.bridge = bridge
        self.backend = backend
        self.number = number
        var rules = bridge.configuration.requests
        rules.topic = topic
        self.rules = rules
        self.list = FeedbackListName(topic: topic, environment: bridge.configuration.environment)
        self.logger = logger
    }

    func deliver(_ message: borrowing InboundNotification) -> Verdict? {
        guard message.payloadOctetCount <= self.bridge.configuration.payloadOctetCountMax else {
            return .rejected(.invalidPayloadSize)
        }
        let (verdict, isFull) = self.bridge.deliver(
            message,
            connection: self.number,
            rules: self.rules,
            list: self.list
        )
        self.isFull = isFull
        return verdict
    }

    func isAdmitted(_ provider: ProviderConnection) -> Bool {
        let isAdmitted = self.backend.admits(provider, to: self.bridge.configuration.name, self.list)
        if !isAdmitted { self.logger.notice("provider no longer let in as before") }
        return isAdmitted
    }

    func manner(of ending: GatewayEnding) -> ClosingManner {
        self.bridge.state.withLockedValue { $0.end(self.number, at: ending.number, now: Bridge.now) }
        if let response = ending.response {
            self.logger.info(
                "provider told",
                metadata: [
                    LogKey.status: "\(response.status.rawValue)", LogKey.identifier: "\(response.identifier)",
                    LogKey.message: "\(ending.number)",
                ]
            )
        }
        return .orderly(ending.response)
    }

    func closed() {
        self.bridge.state.withLockedValue { $0.close(self.number) }
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSProviderHTTP2
import APNSServer
import APNSSession
import APNSWire
import Logging
import NIOConcurrencyHelpers

/// A provider's connection to a bridge.
///
/// It is confined to the connection's event loop.
final class BridgeConnection: DeliveryConnection {
    private let bridge: Bridge
    private let backend: HTTP2Backend
    private let sender: Bridge.Sender
    private let certificate: AdmittedCertificates.Key
    private let logger: Logger
    private(set) var isFull = false

    init(
        _ bridge: Bridge,
        _ backend: HTTP2Backend,
        number: UInt64,
        key: ProviderCooldown.Key,
        certificate: AdmittedCertificates.Key,
        logger: Logger
    ) {
        self.certificate = certificate
        self.bridge = bridge
        self.backend = backend
        var rules = bridge.configuration.requests
        rules.topic = key.topic
        self.sender = Bridge.Sender(
            connection: number,
            rules: rules,
            list: TokenScope(topic: key.topic, environment: bridge.configuration.environment),
            cooldownKey: key
        )
        self.logger = logger
    }

    var providerName: String? { self.bridge.configuration.name }

    var rejectionPolicy: RejectionPolicy { self.bridge.configuration.rejections }

    var readingDelay: Duration? {
        if let delay = self.resumingDelay { return delay }
        return self.bridge.state.withLockedValue {
            $0.cooldown.delay(of: self.sender.cooldownKey, now: self.bridge.clock.now())
        }
    }

    var resumingDelay: Duration? { self.bridge.configuration.spool?.readingDelay }

    var receiveBufferByteCount: Int? {
        self.bridge.configuration.spool == nil ? nil : NotificationSpool.receiveBufferByteCount
    }

    func deliver(_ message: borrowing InboundNotification) -> DeliveryOutcome? {
        let (outcome, isFull) = self.bridge.deliver(message, of: self.sender)
        self.isFull = isFull
        return outcome
    }

    func isAdmitted(_ provider: ProviderConnection) -> Bool {
        let isAdmitted = self.backend.admits(provider, to: self.bridge.configuration.name, self.sender.list)
        if !isAdmitted { self.logger.notice("provider no longer admitted") }
        return isAdmitted
    }

    func close(for ending: GatewayEnding, _ carryOut: @escaping @Sendable (GatewayEnding) -> Void) {
        guard let response = ending.response else {
            // A provider that receives no error response resends nothing.
            self.bridge.state.withLockedValue { $0.close(self.sender.connection) }
            if let status = ending.status {
                self.logger.info(
                    "connection closed without an error response",
                    metadata: [LogKey.errorStatus: "\(status)", LogKey.message: "\(ending.number)"]
                )
            }
            return carryOut(ending)
        }
        self.bridge.end(of: self.sender, ending, response) { isRemembered in
            carryOut(isRemembered ? ending : ending.inDoubt)
        }
    }

    func closed() {
        self.backend.closed(self.certificate, self.rejectionPolicy)
        self.bridge.closed(self.sender)
    }
}

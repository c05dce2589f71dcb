// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSTransport
import Logging
import NIOCore
import OpenSSLTLS

/// The transport for the legacy binary protocol.
struct BinaryTransport: ProviderTransport {
    let configuration: ProviderConfiguration
    let opener: ConnectionOpener
    let observer: DeliveryObserver
    let logger: Logger

    init(_ configuration: ProviderConfiguration, observer: DeliveryObserver, logger: Logger) throws(ProviderError) {
        try BinaryTransport.check(configuration)
        self.configuration = configuration
        do {
            self.opener = try ConnectionOpener(
                endpoint: configuration.endpoint,
                role: .gateway,
                serverName: configuration.serverName,
                proxy: configuration.proxy,
                tls: configuration.tls,
                connectDurationMax: configuration.connectDurationMax,
                keepaliveDelay: configuration.keepaliveDelay
            )
        } catch {
            throw .tls(error, TLSErrorNames(remote: RemoteRole.gateway.name(configuration.endpoint), configuration.tls))
        }
        self.observer = observer
        self.logger = logger
    }

    var workerCount: Int { self.configuration.connectionCount }

    func begin(_ source: any NotificationSource) -> WorkerFactory {
        { eventLoop, finished in BinaryConnectionWorker(self, source, eventLoop: eventLoop, finished: finished) }
    }

    func failure(of endings: [WorkerEnding]) -> ProviderError? {
        // A worker that could not connect does not matter if the others have sent everything.
        if endings.contains(where: { $0.ending == .completed }), !endings.contains(where: \.hasLeftSomething) {
            return self.silence(of: endings)
        }
        let worst =
            endings.first { $0.ending != .completed && $0.ending != .abandoned }
            ?? endings.first { $0.ending == .abandoned }
        return worst?.failure
    }

    /// The failure of a batch whose every connection was closed without an answer.
    ///
    /// A few notifications are given up before as many connections are closed as make a session stop.
    private func silence(of endings: [WorkerEnding]) -> ProviderError? {
        let answers = endings.compactMap(\.isAnswered)
        guard self.configuration.limits.life == .batch, !answers.isEmpty, !answers.contains(true) else { return nil }
        return ProviderError(.refused, lastFailure: nil, self.opener.names)
    }

    private static func check(_ configuration: ProviderConfiguration) throws(ProviderError) {
        guard (1...ProviderConfiguration.connectionCountMax).contains(configuration.connectionCount) else {
            let limit = ProviderConfiguration.connectionCountMax
            throw .configuration(
                "invalid connection count \(configuration.connectionCount), expected 1 to \(limit)"
            )
        }
        guard (1...65535).contains(configuration.endpoint.port) else {
            throw .configuration("invalid port \(configuration.endpoint.port), expected 1 to 65535")
        }
        guard (1...(1 << 31)).contains(configuration.limits.windowCount) else {
            throw .configuration("invalid window \(configuration.limits.windowCount), expected 1 to 2147483648")
        }
        guard (1...NotificationBatch.payloadByteCountMax).contains(configuration.payloadByteCountMax) else {
            let (count, limit) = (configuration.payloadByteCountMax, NotificationBatch.payloadByteCountMax)
            throw .configuration("invalid payload limit of \(count) bytes, expected 1 to \(limit)")
        }
    }
}

// SPDX-License-Identifier: Apache-2.0

import APNSSession
import APNSTransport
import Logging
import NIOCore
import OpenSSLTLS

/// The transport for the legacy binary protocol.
struct BinaryTransport: ProviderTransport {
    let configuration: BinaryConfiguration
    let opener: ConnectionOpener
    let observer: DeliveryObserver
    let logger: Logger

    init(_ configuration: BinaryConfiguration, observer: DeliveryObserver, logger: Logger) throws(ProviderError) {
        try ProviderError.check([
            ("connection count", configuration.connectionCount, 1...BinaryConfiguration.connectionCountMax),
            ("port", configuration.endpoint.port, 1...65535),
            ("window", Int(clamping: configuration.limits.windowCount), 1...(1 << 31)),
            ("payload limit", configuration.payloadByteCountMax, 1...NotificationBatch.payloadByteCountMax),
        ])
        self.configuration = configuration
        do {
            self.opener = try ConnectionOpener(
                endpoint: configuration.endpoint,
                role: .gateway,
                serverName: configuration.serverName,
                proxy: configuration.proxy,
                tls: configuration.tls,
                connectTimeout: configuration.connectTimeout,
                keepaliveDelay: configuration.keepaliveDelay,
                addresses: configuration.addresses ?? ServiceAddresses()
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
        if endings.contains(where: { $0.ending == .completed }), !endings.contains(where: \.hasUnsettled) {
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
}

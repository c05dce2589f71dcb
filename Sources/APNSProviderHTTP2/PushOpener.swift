// SPDX-License-Identifier: Apache-2.0

import APNSTransport
import NIOCore
import OpenSSLTLS

/// Opens connections to the service.
struct PushOpener: Sendable {
    private let opener: ConnectionOpener

    /// After how long without traffic TCP asks whether the service is there; HTTP/2 asks by itself, as configured.
    private static let keepaliveDelay = Duration.seconds(7200)

    init(_ configuration: PushConfiguration) throws(PushError) {
        var tls = configuration.tls
        if tls.applicationProtocols.isEmpty { tls.applicationProtocols = [PushConfiguration.applicationProtocol] }
        do {
            self.opener = try ConnectionOpener(
                endpoint: Endpoint(host: configuration.endpoint.host, port: configuration.endpoint.port),
                proxy: configuration.proxy,
                tls: tls,
                connectDurationMax: configuration.connectDurationMax,
                keepaliveDelay: Self.keepaliveDelay
            )
        } catch {
            throw .tls(error)
        }
    }

    /// Opens a connection; the handshake goes on after that.
    func open(_ connection: PushConnection, on eventLoop: any EventLoop) -> EventLoopFuture<Void> {
        let bound = NIOLoopBound(connection, eventLoop: eventLoop)
        return self.opener.open(on: eventLoop, adopt: { _ in }) { channel, tls in
            bound.value.tls = tls
            try channel.pipeline.syncOperations.addHandlers(tls, bound.value)
        }
    }
}

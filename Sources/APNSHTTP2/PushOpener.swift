// SPDX-License-Identifier: Apache-2.0

import Glibc
import NIOCore
import NIOPosix
import OpenSSLTLS

/// Opens connections to the service.
struct PushOpener: Sendable {
    private let configuration: PushConfiguration
    private let context: TLSContext

    /// The channel asks for more when less than this waits in it, and takes no more when this does, in octets.
    private static let waterMark = ChannelOptions.Types.WriteBufferWaterMark(low: 65_536, high: 262_144)

    /// What the service may send on all streams together before it is told that it was read, in octets.
    static let windowOctetCount = 1 << 20

    init(_ configuration: PushConfiguration) throws(PushError) {
        self.configuration = configuration
        var tls = configuration.tls
        if tls.applicationProtocols.isEmpty { tls.applicationProtocols = [PushConfiguration.applicationProtocol] }
        tls.shutdownTimeout = min(tls.shutdownTimeout, .seconds(1))
        do { self.context = try TLSContext(tls) } catch { throw .tls(error) }
    }

    /// Opens a connection; the handshake goes on after that.
    func open(_ connection: PushConnection, on eventLoop: any EventLoop) -> EventLoopFuture<Void> {
        let bound = NIOLoopBound(connection, eventLoop: eventLoop)
        let endpoint = self.configuration.endpoint
        return ClientBootstrap(group: eventLoop)
            .connectTimeout(TimeAmount(self.configuration.connectDurationMax))
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelOption(.socketOption(.so_keepalive), value: 1)
            .channelOption(.writeBufferWaterMark, value: Self.waterMark)
            .channelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: 65_536))
            .connect(host: endpoint.host, port: endpoint.port)
            // Not earlier: several addresses may be tried at a time, each with a channel of its own.
            .flatMapThrowing { channel in
                do {
                    let tls = try TLSHandler(context: self.context, serverName: endpoint.host)
                    bound.value.tls = tls
                    try channel.pipeline.syncOperations.addHandlers(tls, bound.value)
                } catch {
                    channel.close(promise: nil)
                    throw error
                }
            }
    }
}

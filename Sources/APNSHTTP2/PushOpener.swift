// SPDX-License-Identifier: Apache-2.0

import Glibc
import NIOCore
import NIOHTTP2
import NIOPosix
import OpenSSLTLS

/// Opens connections to the service.
struct PushOpener: Sendable {
    private let configuration: PushConfiguration
    private let context: TLSContext

    /// The channel asks for more when less than this waits in it, and takes no more when this does, in octets.
    private static let waterMark = ChannelOptions.Types.WriteBufferWaterMark(low: 65_536, high: 262_144)

    /// How many control frames, or resets of streams, the service may send in a window before that counts as an attack.
    ///
    /// It changes its settings with each rejection, and may refuse all streams of a busy connection.
    private static let frameCountMax = 100_000

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
                    try channel.pipeline.syncOperations.addHandlers(tls, Self.frameHandler(), bound.value)
                } catch {
                    channel.close(promise: nil)
                    throw error
                }
            }
    }

    /// Frames straight from the connection: a channel for each stream would cost several times what the rest does.
    private static func frameHandler() -> NIOHTTP2Handler {
        var connection = NIOHTTP2Handler.ConnectionConfiguration()
        connection.initialSettings = [
            HTTP2Setting(parameter: .enablePush, value: 0),
            HTTP2Setting(parameter: .maxHeaderListSize, value: 16_384),
        ]
        connection.controlFrameRateLimit.maximumCount = Self.frameCountMax
        var stream = NIOHTTP2Handler.StreamConfiguration()
        stream.streamResetFrameRateLimit.maximumCount = Self.frameCountMax
        stream.streamErrorRateLimit.maximumCount = Self.frameCountMax
        return NIOHTTP2Handler(mode: .client, connectionConfiguration: connection, streamConfiguration: stream)
    }
}

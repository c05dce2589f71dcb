// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Glibc
package import NIOCore
import NIOPosix
package import OpenSSLTLS

/// Opens TCP connections to a service, through a proxy where there is one, and puts TLS on them.
package struct ConnectionOpener: Sendable {
    private let endpoint: Endpoint
    private let role: RemoteRole
    /// The names that the texts of failures contain.
    package let names: TLSErrorNames
    private let serverName: String
    private let proxy: Proxy?
    private let connectDurationMax: Duration
    private let keepaliveDelay: Duration?
    private let context: TLSContext

    /// The channel asks for more when less than this waits in it, and takes no more when this does, in bytes.
    private static let waterMark = ChannelOptions.Types.WriteBufferWaterMark(low: 65_536, high: 131_072)

    /// What is read at a time, in bytes.
    private static let readByteCountMax = 65_536

    // NIO has no names of its own for these two.
    private static let keepaliveDelay = NIOBSDSocket.Option(rawValue: TCP_KEEPIDLE)
    private static let keepaliveInterval = NIOBSDSocket.Option(rawValue: TCP_KEEPINTVL)

    /// Makes an opener.
    ///
    /// - Parameters:
    ///   - endpoint: where connections lead.
    ///   - role: what the endpoint is, for the texts of failures.
    ///   - serverName: the name that the service's certificate must bear; `nil` for the endpoint's host.
    ///   - proxy: what they go through; `nil` for nothing.
    ///   - tls: identity, trust and versions of TLS.
    ///   - connectDurationMax: how long opening a TCP connection may take, proxy included.
    ///   - keepaliveDelay: after how long without traffic TCP asks whether the other end is there; `nil` for never.
    /// - Throws: `TLSError` for certificates and keys that cannot be used.
    package init(
        endpoint: Endpoint,
        role: RemoteRole,
        serverName: String? = nil,
        proxy: Proxy?,
        tls: TLSConfiguration,
        connectDurationMax: Duration,
        keepaliveDelay: Duration?
    ) throws(TLSError) {
        self.endpoint = endpoint
        self.role = role
        self.names = TLSErrorNames(remote: role.name(endpoint), tls)
        self.serverName = serverName ?? endpoint.host
        self.proxy = proxy
        self.connectDurationMax = connectDurationMax
        self.keepaliveDelay = keepaliveDelay
        var tls = tls
        // What the other end says after this end has closed does not matter, so it is not waited for long.
        tls.shutdownTimeout = min(tls.shutdownTimeout, .seconds(1))
        self.context = try TLSContext(tls)
    }

    /// Opens a connection; the handshake goes on after that.
    ///
    /// - Parameters:
    ///   - eventLoop: where the connection and both closures live.
    ///   - adopt: is given the channel before it is connected; throwing closes it.
    ///   - finish: is given the channel, which has no handlers, and the TLS for it.
    /// - Returns: succeeds when `finish` has returned.
    package func open(
        on eventLoop: any EventLoop,
        adopt: @escaping @Sendable (any Channel) throws -> Void,
        finish: @escaping @Sendable (any Channel, TLSHandler) throws -> Void
    ) -> EventLoopFuture<Void> {
        let target = self.proxy?.endpoint ?? self.endpoint
        let deadline = NIODeadline.now() + TimeAmount(self.connectDurationMax)
        let bootstrap = self.bootstrap(eventLoop)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try adopt(channel) }
            }
        return bootstrap.connect(host: target.host, port: target.port)
            .flatMap { channel in
                let isOpen =
                    self.proxy?.open(channel, to: self.endpoint, deadline: deadline)
                    ?? channel.eventLoop.makeSucceededVoidFuture()
                return isOpen.flatMapThrowing {
                    try finish(channel, TLSHandler(context: self.context, serverName: self.serverName))
                }
                .flatMapErrorThrowing { error in
                    channel.close(promise: nil)
                    throw error
                }
            }
            .flatMapErrorThrowing { error in
                throw ConnectionFailure(error, connectingTo: target, self.proxy == nil ? self.role : .proxy) ?? error
            }
    }

    private func bootstrap(_ eventLoop: any EventLoop) -> ClientBootstrap {
        let bootstrap = ClientBootstrap(group: eventLoop)
            .connectTimeout(TimeAmount(self.connectDurationMax))
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelOption(.writeBufferWaterMark, value: ConnectionOpener.waterMark)
            .channelOption(
                .recvAllocator,
                value: FixedSizeRecvByteBufferAllocator(capacity: ConnectionOpener.readByteCountMax)
            )
        guard let delay = self.keepaliveDelay else { return bootstrap }
        let seconds = ChannelOptions.Types.SocketOption.Value(clamping: max(1, delay.components.seconds))
        return
            bootstrap
            .channelOption(.socketOption(.so_keepalive), value: 1)
            .channelOption(.tcpOption(ConnectionOpener.keepaliveDelay), value: seconds)
            .channelOption(.tcpOption(ConnectionOpener.keepaliveInterval), value: max(1, seconds / 4))
    }
}

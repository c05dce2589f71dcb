// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Glibc
package import NIOCore
import NIOPosix
package import OpenSSLTLS

/// Opens TCP connections to a service, through a proxy if one is configured, and sets up TLS.
///
/// If the host has several addresses, the connections are spread over them: see ``AddressOrder``. Behind a proxy, the
/// proxy resolves the name.
package struct ConnectionOpener: Sendable {
    private let endpoint: Endpoint
    private let role: RemoteRole
    /// The names in the messages of failures.
    package let names: TLSErrorNames
    private let serverName: String
    private let proxy: Proxy?
    private let connectTimeout: Duration
    private let keepaliveDelay: Duration?
    private let receiveBufferByteCount: Int?
    private let context: TLSContext
    private let addresses: ServiceAddresses

    /// The channel becomes unwritable above the high mark and writable again below the low mark, in bytes.
    private static let waterMark = ChannelOptions.Types.WriteBufferWaterMark(low: 65_536, high: 131_072)

    /// The maximum number of bytes that are read at a time.
    private static let readByteCountMax = 65_536

    /// The number of bytes that the system accepts for a connection beyond what it can send now.
    ///
    /// After a reset, what it had not sent is unsent. Where that cannot be found out, as when a service stops reading,
    /// everything that the system accepted is in doubt, so that it should not be much.
    private static let unsentByteCountMax = 131_072

    // NIO does not define these options.
    private static let unsentLowWaterMark = NIOBSDSocket.Option(rawValue: TCP_NOTSENT_LOWAT)
    private static let keepaliveDelay = NIOBSDSocket.Option(rawValue: TCP_KEEPIDLE)
    private static let keepaliveInterval = NIOBSDSocket.Option(rawValue: TCP_KEEPINTVL)

    /// Creates an opener.
    ///
    /// - Throws: `TLSError` for unusable certificates and keys.
    package init(
        endpoint: Endpoint,
        role: RemoteRole,
        serverName: String? = nil,
        proxy: Proxy?,
        tls: TLSConfiguration,
        connectTimeout: Duration,
        keepaliveDelay: Duration?,
        receiveBufferByteCount: Int? = nil,
        addresses: ServiceAddresses = ServiceAddresses()
    ) throws(TLSError) {
        self.addresses = addresses
        self.endpoint = endpoint
        self.role = role
        self.names = TLSErrorNames(remote: role.name(endpoint), tls)
        self.serverName = serverName ?? endpoint.host
        self.proxy = proxy
        self.connectTimeout = connectTimeout
        self.keepaliveDelay = keepaliveDelay
        self.receiveBufferByteCount = receiveBufferByteCount
        var tls = tls
        // Data that the other side sends after this side has closed is not needed, so the wait for it is short.
        tls.shutdownTimeout = min(tls.shutdownTimeout, .seconds(1))
        self.context = try TLSContext(tls)
    }

    /// Opens a connection; the TLS handshake follows.
    ///
    /// - Parameters:
    ///   - eventLoop: the event loop of the connection and of both closures.
    ///   - adopt: called with the channel before it is connected; an error closes it.
    ///   - finish: called with the connected channel, which has no handlers, and its TLS handler.
    /// - Returns: a future that succeeds after `finish` has returned.
    package func open(
        on eventLoop: any EventLoop,
        adopt: @escaping @Sendable (any Channel) throws -> Void,
        finish: @escaping @Sendable (any Channel, TLSHandler) throws -> Void
    ) -> EventLoopFuture<Void> {
        let target = self.proxy?.endpoint ?? self.endpoint
        let deadline = NIODeadline.now() + TimeAmount(self.connectTimeout)
        let resolver = self.addresses.resolver(eventLoop)
        let bootstrap = self.bootstrap(eventLoop)
            .resolver(resolver)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try adopt(channel) }
            }
        return bootstrap.connect(host: target.host, port: target.port)
            .flatMap { channel in
                if let address = channel.remoteAddress { resolver.opened(address) }
                let isOpen =
                    self.proxy?.open(channel, to: self.endpoint, deadline: deadline)
                    ?? channel.eventLoop.makeSucceededVoidFuture()
                return isOpen.flatMapThrowing {
                    let tls = try TLSHandler.client(self.context, serverName: self.serverName)
                    try finish(channel, tls)
                    self.observe(channel, tls)
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

    /// Records whether the service at the address of a connection completes a handshake.
    private func observe(_ channel: any Channel, _ tls: TLSHandler) {
        guard let address = channel.remoteAddress else { return }
        let (addresses, bound) = (self.addresses, NIOLoopBound(tls, eventLoop: channel.eventLoop))
        channel.closeFuture.whenComplete { _ in addresses.record(address, works: bound.value.negotiatedVersion != nil) }
    }

    private func bootstrap(_ eventLoop: any EventLoop) -> ClientBootstrap {
        var bootstrap = ClientBootstrap(group: eventLoop)
            .connectTimeout(TimeAmount(self.connectTimeout))
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelOption(
                .tcpOption(ConnectionOpener.unsentLowWaterMark),
                value: ChannelOptions.Types.SocketOption.Value(ConnectionOpener.unsentByteCountMax)
            )
            .channelOption(.writeBufferWaterMark, value: ConnectionOpener.waterMark)
            .channelOption(
                .recvAllocator,
                value: FixedSizeRecvByteBufferAllocator(capacity: ConnectionOpener.readByteCountMax)
            )
        if let count = self.receiveBufferByteCount {
            bootstrap = bootstrap.channelOption(.socketOption(.so_rcvbuf), value: count)
        }
        guard let delay = self.keepaliveDelay else { return bootstrap }
        let seconds = ChannelOptions.Types.SocketOption.Value(clamping: max(1, delay.components.seconds))
        return
            bootstrap
            .channelOption(.socketOption(.so_keepalive), value: 1)
            .channelOption(.tcpOption(ConnectionOpener.keepaliveDelay), value: seconds)
            .channelOption(.tcpOption(ConnectionOpener.keepaliveInterval), value: max(1, seconds / 4))
    }
}

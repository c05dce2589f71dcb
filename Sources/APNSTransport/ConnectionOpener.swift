// SPDX-License-Identifier: Apache-2.0

import APNSWire
import Glibc
package import NIOCore
import NIOExtras
import NIOHTTP1
import NIOPosix
import NIOSOCKS
package import OpenSSLTLS

/// Opens TCP connections to a service, through a proxy where there is one, and puts TLS on them.
package struct ConnectionOpener: Sendable {
    private let endpoint: Endpoint
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
    ///   - proxy: what they go through; `nil` for nothing.
    ///   - tls: identity, trust and versions of TLS.
    ///   - connectDurationMax: how long opening a TCP connection may take, proxy included.
    ///   - keepaliveDelay: after how long without traffic TCP asks whether the other end is there; `nil` for never.
    /// - Throws: `TLSError` for certificates and keys that cannot be used.
    package init(
        endpoint: Endpoint,
        proxy: Proxy?,
        tls: TLSConfiguration,
        connectDurationMax: Duration,
        keepaliveDelay: Duration?
    ) throws(TLSError) {
        self.endpoint = endpoint
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
                self.connectThroughProxy(channel, deadline: deadline).flatMapThrowing {
                    try finish(channel, TLSHandler(context: self.context, serverName: self.endpoint.host))
                }
                .flatMapErrorThrowing { error in
                    channel.close(promise: nil)
                    throw error
                }
            }
            .flatMapErrorThrowing { throw ConnectionFailure($0, connectingTo: target) ?? $0 }
    }

    private func bootstrap(_ eventLoop: any EventLoop) -> ClientBootstrap {
        let bootstrap = ClientBootstrap(group: eventLoop)
            .connectTimeout(TimeAmount(self.connectDurationMax))
            .channelOption(.socketOption(.tcp_nodelay), value: 1)
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

    /// Asks the proxy for a way to the service, where there is a proxy.
    private func connectThroughProxy(_ channel: any Channel, deadline: NIODeadline) -> EventLoopFuture<Void> {
        guard let proxy = self.proxy else { return channel.eventLoop.makeSucceededVoidFuture() }
        switch proxy.kind {
        case .http: return self.connectThroughHTTP(channel, proxy, deadline: deadline)
        case .socks5: return self.connectThroughSOCKS(channel, deadline: deadline)
        }
    }

    private func connectThroughHTTP(
        _ channel: any Channel,
        _ proxy: Proxy,
        deadline: NIODeadline
    ) -> EventLoopFuture<Void> {
        let target = self.endpoint
        // In a URI, an IPv6 address stands in brackets (RFC 3986, 3.2.2).
        let host = target.host.contains(":") ? "[\(target.host)]" : target.host
        var headers = HTTPHeaders([("Host", "\(host):\(target.port)")])
        if let credentials = proxy.credentials {
            let plain = "\(credentials.user):\(credentials.password)".utf8
            headers.add(name: "Proxy-Authorization", value: "Basic \(Base64.text(plain))")
        }
        let opened = channel.eventLoop.makePromise(of: Void.self)
        let loop = channel.eventLoop
        do {
            let sync = channel.pipeline.syncOperations
            let encoder = HTTPRequestEncoder()
            let decoder = ByteToMessageHandler(HTTPResponseDecoder(leftOverBytesStrategy: .dropBytes))
            let proxyHandler = NIOHTTP1ProxyConnectHandler(
                targetHost: host,
                targetPort: target.port,
                headers: headers,
                deadline: deadline,
                promise: opened
            )
            try sync.addHandlers(encoder, decoder, proxyHandler)
            let bound = NIOLoopBound((encoder, decoder), eventLoop: loop)
            return opened.futureResult
                .flatMap {
                    channel.pipeline.syncOperations.removeHandler(bound.value.0)
                        .and(channel.pipeline.syncOperations.removeHandler(bound.value.1)).map { _ in }
                }
                .flatMapErrorThrowing { error in
                    guard error as? NIOHTTP1ProxyConnectHandler.Error == .proxyAuthenticationRequired() else {
                        throw ProxyError.refused("\(error)")
                    }
                    throw ProxyError.authenticationRequired
                }
        } catch {
            opened.fail(error)
            return opened.futureResult
        }
    }

    private func connectThroughSOCKS(_ channel: any Channel, deadline: NIODeadline) -> EventLoopFuture<Void> {
        let target = self.endpoint
        let opened = channel.eventLoop.makePromise(of: Void.self)
        do {
            let address = try? SocketAddress(ipAddress: target.host, port: target.port)
            let handler = SOCKSClientHandler(
                targetAddress: address.map(SOCKSAddress.address) ?? .domain(target.host, port: target.port)
            )
            let waiter = SOCKSHandshakeHandler(opened: opened, deadline: deadline)
            try channel.pipeline.syncOperations.addHandlers(handler, waiter)
            let bound = NIOLoopBound(waiter, eventLoop: channel.eventLoop)
            return opened.futureResult
                .flatMap { channel.pipeline.syncOperations.removeHandler(bound.value) }
                .flatMapErrorThrowing { throw ProxyError.refused("\($0)") }
        } catch {
            opened.fail(error)
            return opened.futureResult
        }
    }
}

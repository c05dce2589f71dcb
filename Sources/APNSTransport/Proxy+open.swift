// SPDX-License-Identifier: Apache-2.0

#if Proxy
import APNSWire
import NIOCore
import NIOExtras
import NIOHTTP1
import NIOSOCKS

extension Proxy {
    /// Asks the proxy for a way to a service.
    ///
    /// - Parameters:
    ///   - channel: a connection to the proxy; it has no handlers when the way is open.
    ///   - target: the service.
    ///   - deadline: until when the way must be open.
    /// - Returns: succeeds when it is open.
    func open(_ channel: any Channel, to target: Endpoint, deadline: NIODeadline) -> EventLoopFuture<Void> {
        switch self.kind {
        case .http: self.openThroughHTTP(channel, to: target, deadline: deadline)
        case .socks5: self.openThroughSOCKS(channel, to: target, deadline: deadline)
        }
    }

    private func openThroughHTTP(
        _ channel: any Channel,
        to target: Endpoint,
        deadline: NIODeadline
    ) -> EventLoopFuture<Void> {
        // In a URI, an IPv6 address stands in brackets (RFC 3986, 3.2.2).
        let host = target.host.contains(":") ? "[\(target.host)]" : target.host
        var headers = HTTPHeaders([("Host", "\(host):\(target.port)")])
        if let credentials = self.credentials {
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
                        throw ConnectionFailure.proxy("\(error)")
                    }
                    throw ConnectionFailure.proxyAuthentication
                }
        } catch {
            opened.fail(error)
            return opened.futureResult
        }
    }

    private func openThroughSOCKS(
        _ channel: any Channel,
        to target: Endpoint,
        deadline: NIODeadline
    ) -> EventLoopFuture<Void> {
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
                .flatMapErrorThrowing { throw ConnectionFailure.proxy("\($0)") }
        } catch {
            opened.fail(error)
            return opened.futureResult
        }
    }
}
#else
import APNSWire
import NIOCore

extension Proxy {
    /// Fails: without the trait there is nothing that could speak to a proxy, nor a way to name one.
    func open(_ channel: any Channel, to target: Endpoint, deadline: NIODeadline) -> EventLoopFuture<Void> {
        channel.eventLoop.makeFailedFuture(ConnectionFailure.proxy("built without the trait Proxy"))
    }
}
#endif

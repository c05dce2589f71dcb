// SPDX-License-Identifier: Apache-2.0

#if Proxy
import APNSWire
import NIOCore
import NIOExtras
import NIOHTTP1
import NIOSOCKS
import OpenSSLTLS

extension Proxy {
    /// Opens a connection to a service through the proxy.
    ///
    /// - Parameters:
    ///   - channel: a connection to the proxy; its handlers are removed when the tunnel is open.
    ///   - target: the service.
    ///   - deadline: the latest time for opening the tunnel.
    /// - Returns: a future that succeeds when the tunnel is open.
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
        // In a URI, an IPv6 address is in brackets (RFC 3986, 3.2.2).
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
                    throw self.failure(error, to: target)
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
                .flatMapErrorThrowing { throw self.failure($0, to: target) }
        } catch {
            opened.fail(error)
            return opened.futureResult
        }
    }

    /// Describes why a proxy did not open the connection.
    private func failure(_ error: any Error, to target: Endpoint) -> ConnectionFailure {
        typealias HTTPError = NIOHTTP1ProxyConnectHandler.Error
        let question = "is \(self.endpoint) \(self.kind == .http ? "an HTTP" : "a SOCKS 5") proxy?"
        func failure(_ reason: String, advice: String? = question) -> ConnectionFailure {
            .proxy(self.endpoint, to: target, reason, advice: advice)
        }
        switch error {
        case let error as HTTPError where error == .proxyAuthenticationRequired():
            return .proxyAuthentication(self.endpoint)
        case let error as HTTPError where error == .httpProxyHandshakeTimeout(): return failure("no answer in time")
        case let error as HTTPError where error == .invalidProxyResponseHead(Self.anyHead):
            return failure("it answered \(Self.status(in: "\(error)"))", advice: "see its log")
        case let error as SOCKSError.ConnectionFailed:
            return failure("it answered \(error.reply.value)", advice: "see its log")
        case ChannelError.connectTimeout: return failure("no answer in time")
        case is HTTPError, ChannelError.eof, ChannelError.ioOnClosedChannel, ChannelError.inputClosed:
            return failure("it closed the connection")
        case is IOError: return failure(IOError.reason(error))
        default: return failure("its answer is not \(self.kind == .http ? "HTTP" : "SOCKS 5")")
        }
    }

    /// Makes errors with any head compare as equal.
    private static let anyHead = HTTPResponseHead(version: .http1_1, status: .ok)

    /// The status, such as "502 Bad Gateway", which the error shows only in its description.
    private static func status(in description: String) -> String {
        let statusByteCountMax = 60
        guard let range = description.firstRange(of: "status: ") else { return "with another status than 200" }
        let text = description[range.upperBound...].prefix { $0 != "," }.prefix(statusByteCountMax)
        return String(text.filter { $0.isASCII && !$0.isNewline })
    }
}

/// Waits until the SOCKS proxy has opened the tunnel, or the time limit has passed.
final class SOCKSHandshakeHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer

    private let opened: EventLoopPromise<Void>
    private let deadline: NIODeadline
    private var timer: Scheduled<Void>?

    init(opened: EventLoopPromise<Void>, deadline: NIODeadline) {
        self.opened = opened
        self.deadline = deadline
    }

    func handlerAdded(context: ChannelHandlerContext) {
        let opened = self.opened
        self.timer = context.eventLoop.scheduleTask(deadline: self.deadline) {
            opened.fail(ChannelError.connectTimeout(.zero))
        }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.timer?.cancel()
        self.opened.fail(ChannelError.ioOnClosedChannel)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event is SOCKSProxyEstablishedEvent {
            self.timer?.cancel()
            self.opened.succeed(())
        } else {
            context.fireUserInboundEventTriggered(event)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.opened.fail(error)
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.opened.fail(ChannelError.eof)
        context.fireChannelInactive()
    }
}
#else
import APNSWire
import NIOCore

extension Proxy {
    /// Always fails: without the trait, no proxy can be configured.
    func open(_ channel: any Channel, to target: Endpoint, deadline: NIODeadline) -> EventLoopFuture<Void> {
        channel.eventLoop.makeFailedFuture(
            ConnectionFailure.proxy(self.endpoint, to: target, "built without the trait Proxy", advice: nil)
        )
    }
}
#endif

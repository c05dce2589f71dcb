// SPDX-License-Identifier: Apache-2.0

import APNSServer
import Glibc
import HTTPTypes
import HummingbirdCore
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOHTTPTypes
import NIOPosix
import ServiceLifecycle

/// Answers `/healthz`, `/readyz` and `/metrics`, for operators on the same machine.
struct AdminListener: Sendable {
    /// The maximum number of connections.
    ///
    /// For one more, the oldest connection that has sent no request is closed.
    static let connectionCountMax = 64

    /// The names of the listener, besides its addresses; without ports.
    var names: [String] = []
    /// Returns why the gateway is unhealthy; `nil` if it is healthy.
    var problem: @Sendable () -> String?
    /// Returns what is unreachable and since when, one line each; empty if everything is reachable.
    var unreachable: @Sendable () -> [String]
    /// Returns the metrics in Prometheus' text format.
    var metrics: @Sendable () -> String

    /// Listens until the task is cancelled.
    ///
    /// - Parameters:
    ///   - host: the address to listen on.
    ///   - port: the port to listen on; 0 for any free port.
    ///   - logger: receives failures.
    ///   - onListening: called once with the address; not called if listening fails.
    /// - Throws: if the address cannot be listened on.
    func run(
        host: String,
        port: Int,
        logger: Logger,
        onListening: @escaping @Sendable (SocketAddress?) -> Void
    ) async throws {
        let hosts = HostNames(host: host, names: self.names + Self.ownNames(host: host, port: port))
        let connections = NIOLockedValueBox<[AdminConnectionHandler.Connection]>([])
        // A connection serves one request and is closed after the response.
        let configuration = HTTP1Channel.Configuration(
            additionalChannelHandlers: [AdminConnectionHandler(connections, countMax: Self.connectionCountMax)]
        )
        let server = try HTTPServerBuilder.http1(configuration: configuration).buildServer(
            configuration: ServerConfiguration(address: .hostname(host, port: port)),
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: Self.quiet(logger),
            responder: { request, writer, _ in try await self.answer(request.head, hosts, writer) },
            onServerRunning: { channel in
                try? await AcceptPauseHandler.add(to: channel, logger).get()
                onListening(channel.localAddress)
            }
        )
        try await server.run()
    }

    /// Drops the server's own messages: the gateway logs the address, and the server reports a normal end as an error.
    private static func quiet(_ logger: Logger) -> Logger {
        var logger = logger
        logger.logLevel = .critical
        return logger
    }

    /// The address of a host name, and the name of this machine.
    private static func ownNames(host: String, port: Int) -> [String] {
        var names: [String] = []
        if let address = (try? SocketAddress.makeAddressResolvingHost(host, port: port))?.ipAddress {
            names.append(address)
        }
        var name = [CChar](repeating: 0, count: Int(HOST_NAME_MAX) + 1)
        if unsafe gethostname(&name, name.count - 1) == 0 {
            names.append(String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self))
        }
        return names
    }

    @concurrent
    private func answer(
        _ request: HTTPRequest,
        _ hosts: HostNames,
        _ writer: consuming ResponseWriter
    ) async throws {
        let (status, text) = self.answer(request, hosts)
        let fields: HTTPFields = [
            .contentType: "text/plain; version=0.0.4; charset=utf-8", .contentLength: "\(text.utf8.count)",
            .connection: "close",
        ]
        try await writer.write(
            response: HTTPResponse(status: status, headerFields: fields),
            body: request.method == .head ? ResponseBody() : ResponseBody(byteBuffer: ByteBuffer(string: text))
        )
    }

    private func answer(_ request: HTTPRequest, _ hosts: HostNames) -> (HTTPResponse.Status, String) {
        // A browser always sends a host name, and a health check over HTTP/1.0 may send none.
        guard request.authority.map({ $0.isEmpty || hosts.contains($0) }) ?? true else {
            let names = hosts.names.sorted().joined(separator: ", ")
            return (
                .misdirectedRequest,
                "unknown host name in the header Host; valid names: \(names); to add a name, use admin.names\n"
            )
        }
        if request.headerFields[.transferEncoding] != nil || request.headerFields[.contentLength] ?? "0" != "0" {
            return (.contentTooLarge, "a request with a body is not accepted\n")
        }
        guard request.method == .get || request.method == .head else { return (.methodNotAllowed, "only GET\n") }
        switch request.path {
        case "/healthz": return self.problem().map { (.serviceUnavailable, $0 + "\n") } ?? (.ok, "ok\n")
        case "/readyz":
            let problems = [self.problem()].compactMap(\.self) + self.unreachable()
            guard !problems.isEmpty else { return (.ok, "ready\n") }
            return (.serviceUnavailable, problems.map { $0 + "\n" }.joined())
        case "/metrics": return (.ok, self.metrics())
        default: return (.notFound, "not found; valid paths: /healthz, /readyz, /metrics\n")
        }
    }
}

/// Bounds an operator's connection: it has one request without a body, and is closed after the response.
///
/// If there are too many connections, an older one is closed.
final class AdminConnectionHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    struct Connection: Sendable {
        var channel: any Channel
        var hasRequested = false
    }

    /// The time limit for reading the request, and for sending the response.
    private static let requestDurationMax = TimeAmount.seconds(5)
    private static let connectionDurationMax = TimeAmount.seconds(10)

    /// In order of arrival.
    private let connections: NIOLockedValueBox<[Connection]>
    private let countMax: Int
    private var hasRequested = false

    init(_ connections: NIOLockedValueBox<[Connection]>, countMax: Int) {
        self.connections = connections
        self.countMax = countMax
    }

    func handlerAdded(context: ChannelHandlerContext) {
        let (channel, connections) = (context.channel, self.connections)
        let oldest = connections.withLockedValue { open -> Connection? in
            open.append(Connection(channel: channel))
            guard open.count > self.countMax else { return nil }
            return open.remove(at: open.firstIndex { !$0.hasRequested } ?? 0)
        }
        oldest?.channel.close(promise: nil)
        let loop = context.eventLoop.assumeIsolated()
        let request = loop.scheduleTask(in: Self.requestDurationMax) { [weak self] in
            if self?.hasRequested == false { channel.close(promise: nil) }
        }
        let whole = loop.scheduleTask(in: Self.connectionDurationMax) { channel.close(promise: nil) }
        channel.closeFuture.whenComplete { _ in
            request.cancel()
            whole.cancel()
            connections.withLockedValue { $0.removeAll { $0.channel === channel } }
        }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // Bytes after the head are ignored.
        guard !self.hasRequested, case .head = self.unwrapInboundIn(data) else { return }
        self.hasRequested = true
        self.connections.withLockedValue { open in
            guard let index = open.firstIndex(where: { $0.channel === context.channel }) else { return }
            open[index].hasRequested = true
        }
        try? context.channel.syncOptions?.setOption(.autoRead, value: false)
        context.fireChannelRead(data)
        context.fireChannelRead(self.wrapInboundOut(.end(nil)))
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard case .end = self.unwrapOutboundIn(data) else { return context.write(data, promise: promise) }
        let channel = context.channel
        context.writeAndFlush(data).whenComplete { _ in channel.close(promise: promise) }
    }
}

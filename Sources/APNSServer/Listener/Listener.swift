// SPDX-License-Identifier: Apache-2.0

import APNSWire
public import APNSTransport
import Logging
import NIOConcurrencyHelpers
package import NIOCore
import NIOPosix
public import OpenSSLTLS

#if ServiceLifecycleSupport
public import ServiceLifecycle

extension Listener: Service {}
#endif

/// Accepts connections of providers over TLS.
///
/// A listener serves one of three protocols:
/// - ``init(_:backend:eventLoopGroup:logger:)`` creates a listener of the binary protocol,
/// - ``init(_:store:eventLoopGroup:logger:)`` one of the feedback service,
/// - ``init(_:service:eventLoopGroup:logger:)`` one of the HTTP/2 provider API.
///
/// It listens while ``run()`` runs. On graceful shutdown it accepts no more connections, lets open ones end in order,
/// and cuts the rest after ``ListenerConfiguration/shutdownTimeout``. On cancellation it cuts all connections
/// immediately.
public final class Listener: Sendable {
    /// An accepted connection, from which its handlers are created.
    struct Connection {
        /// The number of the connection, from 1.
        var number: UInt64
        var eventLoop: any EventLoop
        var tls: any TLSFacts
        var admission: ConnectionAdmission
        /// A logger with the number of the connection.
        var logger: Logger
        /// The local port.
        var localPort: Int?
    }

    /// The protocol-specific parts of a listener.
    struct Parts: Sendable {
        /// The event that asks a connection to end in order; sent from the tail of its pipeline.
        var farewell: any Sendable
        /// Whether a connection stays open after its provider has closed its side.
        var allowsHalfClosure = true
        var configureTLS: @Sendable (inout TLSConfiguration) -> Void = { _ in }
        /// Creates the handlers above TLS.
        var handlers: @Sendable (Connection) -> [any ChannelHandler]
    }

    private let configuration: ListenerConfiguration
    private let parts: Parts
    private let group: any EventLoopGroup
    private let logger: Logger
    private let registry: ConnectionRegistry
    private let admission: ConnectionAdmission
    /// The TLS context of future connections.
    private let tls = NIOLockedValueBox<TLSContext?>(nil)
    private let bound: EventLoopPromise<SocketAddress>
    private let stopped: EventLoopPromise<Void>
    private let hasRun = NIOLockedValueBox(false)

    init(
        _ configuration: ListenerConfiguration,
        _ parts: Parts,
        eventLoopGroup group: any EventLoopGroup,
        logger: Logger
    ) {
        self.configuration = configuration
        self.parts = parts
        self.group = group
        self.logger = logger
        self.registry = ConnectionRegistry(
            countMax: configuration.connectionCountMax,
            unauthenticatedCountMax: configuration.unauthenticatedCountMax
        )
        self.admission = ConnectionAdmission(self.registry, logger: logger)
        self.admission.setCertificate(configuration.identity.certificate)
        self.bound = group.any().makePromise()
        self.stopped = group.any().makePromise()
    }

    deinit {
        self.bound.fail(ServerError.notListening)
        self.stopped.succeed(())
    }

    /// The address of the listener, once it listens: an IP address, and the port that it has.
    ///
    /// - Throws: ``ServerError`` if it fails to listen.
    public var boundAddress: Endpoint {
        get async throws {
            let address = try await self.socketAddress
            return Endpoint(host: address.ipAddress ?? self.configuration.host, port: address.port ?? 0)
        }
    }

    /// The same for SwiftNIO.
    package var socketAddress: SocketAddress {
        get async throws { try await self.bound.futureResult.get() }
    }

    /// The number of open connections, including those in their handshake.
    public var connectionCount: Int { self.registry.count }

    /// Replaces the certificate and authorities for future connections.
    ///
    /// - Parameters:
    ///   - identity: the certificate and key.
    ///   - clientTrust: the authorities of providers' certificates.
    /// - Throws: ``ServerError/tls(_:)``; then nothing changes.
    public func reload(identity: TLSIdentity, clientTrust: TLSTrust) throws(ServerError) {
        var configuration = self.configuration
        configuration.identity = identity
        configuration.clientTrust = clientTrust
        let tls = try configuration.tlsContext(self.parts.configureTLS)
        self.tls.withLockedValue { $0 = tls }
        self.admission.setCertificate(identity.certificate)
    }

    /// Ends ``run()`` like a graceful shutdown.
    public func stop() { self.stopped.succeed(()) }

    /// Listens until graceful shutdown, ``stop()`` or cancellation.
    ///
    /// - Throws: ``ServerError``.
    public func run() async throws {
        try self.begin()
        try await self.runOnce()
    }

    /// Only the first run can listen.
    private func begin() throws(ServerError) {
        let isFirst = self.hasRun.withLockedValue { hasRun in
            defer { hasRun = true }
            return !hasRun
        }
        guard isFirst else { throw .ranAlready }
    }

    private func runOnce() async throws {
        let listener: any Channel
        do {
            listener = try await self.listen()
        } catch {
            self.bound.fail(error)
            throw error
        }
        await withTaskCancellationHandler {
            await withShutdownHandler {
                try? await self.stopped.futureResult.get()
            } onGracefulShutdown: {
                self.stop()
            }
        } onCancel: {
            self.stop()
        }
        try? await listener.close()
        await self.endConnections(within: Task.isCancelled ? .zero : self.configuration.shutdownTimeout)
    }

    /// Runs while `body` runs, and ends before this method returns or throws.
    ///
    /// - Parameter body: called when the listener listens, in the task and on the actor of the caller.
    /// - Returns: what `body` returns.
    /// - Throws: the error of `body`, or ``ServerError`` if it cannot listen.
    public func withRunning<Value>(_ body: (Listener) async throws -> Value) async throws -> Value {
        try self.begin()
        return try await APNSTransport.withRunning(
            self.runOnce,
            logger: self.logger,
            ready: { _ = try await self.boundAddress },
            end: self.stop,
            operation: { try await body(self) }
        )
    }

    /// Sends an event to each connection, from the tail of its pipeline.
    ///
    /// Returns completes when each connection has handled it or is closed.
    func send(_ event: any Sendable) -> EventLoopFuture<Void> { self.registry.send(event, on: self.group.any()) }

    private func listen() async throws -> any Channel {
        let first = try self.configuration.tlsContext(self.parts.configureTLS)
        self.tls.withLockedValue { $0 = $0 ?? first }
        let (host, port, logger) = (self.configuration.host, self.configuration.port, self.logger)
        let listener: any Channel
        do {
            listener = try await self.bootstrap(first).bind(host: host, port: port).get()
            try await AcceptPauseHandler.add(to: listener, logger).get()
        } catch {
            throw ServerError.listen(host: host, port: port, detail: "\(ListenError(error))")
        }
        guard let address = listener.localAddress else { throw ServerError.notListening }
        self.bound.succeed(address)
        return listener
    }

    private func bootstrap(_ first: TLSContext) -> ServerBootstrap {
        var bootstrap = ServerBootstrap(group: self.group)
        if let byteCount = self.configuration.receiveBufferByteCount {
            // Accepted sockets inherit it, before the window of TCP is announced.
            bootstrap = bootstrap.serverChannelOption(.socketOption(.so_rcvbuf), value: byteCount)
        }
        return
            bootstrap
            .serverChannelOption(.backlog, value: 256)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.allowRemoteHalfClosure, value: self.parts.allowsHalfClosure)
            .childChannelOption(.socketOption(.so_keepalive), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: 65_536))
            .childChannelInitializer { [configuration, parts, admission, logger, tls = self.tls] channel in
                channel.eventLoop.makeCompletedFuture {
                    let number = try admission.enter(channel)
                    let tls = try TLSHandler.server(tls.withLockedValue { $0 ?? first })
                    var logger = logger
                    logger[metadataKey: LogKey.connection] = "\(number)"
                    let connection = Connection(
                        number: number,
                        eventLoop: channel.eventLoop,
                        tls: tls,
                        admission: admission,
                        logger: logger,
                        localPort: channel.localAddress?.port
                    )
                    try channel.pipeline.syncOperations.addHandlers(
                        [RawCloseHandler(resetsOnExit: parts.allowsHalfClosure), tls] + parts.handlers(connection)
                    )
                    try configuration.configurePipeline?(channel, number)
                    guard let observer = configuration.connectionObserver else { return }
                    // Directly after TLS, so that no other handler intercepts events.
                    let handler = ConnectionObserverHandler(number, tls, observer)
                    try channel.pipeline.syncOperations.addHandler(handler, position: .after(tls))
                }
            }
    }

    private func endConnections(within duration: Duration) async {
        let eventLoop = self.group.any()
        let emptied = eventLoop.makePromise(of: Void.self)
        self.registry.close(emptied)
        if duration > .zero { self.registry.send(self.parts.farewell) }
        // Also cuts connections that arrived during the shutdown.
        let cut = eventLoop.scheduleTask(in: TimeAmount(duration)) { [registry] in
            // The end of the stream would tell a provider that everything was accepted.
            registry.send(RawCloseHandler.Cut(isReset: true))
        }
        await withTaskCancellationHandler {
            try? await emptied.futureResult.get()
        } onCancel: {
            self.registry.send(RawCloseHandler.Cut(isReset: true))
        }
        cut.cancel()
    }
}

extension Listener: CustomStringConvertible, CustomReflectable {
    /// The configured address, in one line.
    public var description: String { "listener on \(self.configuration)" }

    /// Only ``description``, so that `dump` prints one line.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
